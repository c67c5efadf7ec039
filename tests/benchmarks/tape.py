"""What recording costs beside the plain run, torchlens' trace and torchviz' graph building, and how it grows with the program.

    python -m tests.benchmarks.tape [--strict]

Each row is measured in a process of its own, on one thread: times are medians of warm calls, ratios are of processor time, and the
peak is what the first call adds to the process's largest resident size, after a small program of the same kind. The plain run and
the recording (which runs it several times) do the whole step; torchlens is given the forward pass alone, and torchviz a finished
graph to describe, undrawn. Exit code 1 where recording fails or grows faster than the program; 2 with `--strict`, where a package
is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from statistics import median

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from torch import Tensor, nn
from torch.nn import functional

from autograder import tape
from autograder.course.paths import ROOT

SIZES = (100, 1_000, 10_000)
GROWTH = {"autograder": SIZES, "torchlens": SIZES, "torchviz": (100, 500, 1_000, 2_000, 10_000)}
LIMIT, CALLS, ENOUGH = 60, 6, 20  # seconds of a process; calls in it, fewer where they have taken so many seconds
MOST = 2  # times what an operation of the middle program costs is what one of the largest may cost: a square would cost 10
NEEDED = ("torchlens", "torchviz", "graphviz", "safetensors", "tqdm")  # the first two, and what they need beyond our own


class Formula(nn.Module):
    """A scalar function of an input and a parameter, each of four numbers."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        super().__init__()
        self.w, self.function = nn.Parameter(torch.ones(4)), function

    def forward(self, x: Tensor) -> Tensor:
        """Returns the function's value."""
        return self.function(x, self.w)


def lesson(x: Tensor, w: Tensor) -> Tensor:
    """A handful of operations as in a lesson's snippet, one of them in place."""
    d = x * w
    f = d + x
    f.add_(1)
    g = f.exp()
    return g.sum()


def chain(operations: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Returns a function of so many small operations, each on what the one before returned."""

    def function(h: Tensor, w: Tensor) -> Tensor:
        for _ in range(operations // 2):
            h = h * w
            h = h.tanh()
        return h.sum()

    return function


class Residual(nn.Module):
    """A residual block."""

    def __init__(self, before: int, after: int):
        super().__init__()
        stride = 1 if before == after else 2
        first, second = _convolution(before, after, 3, stride), _convolution(after, after, 3, 1)
        self.layers = nn.Sequential(first, nn.ReLU(inplace=True), second)
        self.shortcut = nn.Identity() if before == after else _convolution(before, after, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Returns the block's output."""
        return functional.relu(self.layers(x) + self.shortcut(x))


def _convolution(before: int, after: int, size: int, stride: int) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, size, stride, size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(after))


def resnet(width: int) -> nn.Sequential:
    """Returns a network with the layers of ResNet-18 (which itself begins 64 channels wide) for small images."""
    widths = [width * factor for factor in (1, 1, 1, 2, 2, 4, 4, 8, 8)]
    stem = [_convolution(3, width, 3, 1), nn.ReLU(inplace=True)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], 10)]
    return nn.Sequential(*stem, *(Residual(before, after) for before, after in pairwise(widths)), *head)


def call_of(tool: str, program: str) -> Callable[[], object]:
    """Returns what is timed; the program is `lesson`, `chain OPERATIONS` or `resnet WIDTH`, the last a training step on two images."""
    kind, _, size = program.partition(" ")
    trains, labels = kind == "resnet", torch.tensor([3, 7])
    model = resnet(int(size)) if trains else Formula(chain(int(size)) if size else lesson)
    inputs = torch.randn(2, 3, 32, 32) if trains else torch.ones(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss() -> Tensor:
        return functional.cross_entropy(model(inputs), labels) if trains else model(inputs)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    def snippet() -> None:
        loss().backward()

    run = step if trains else snippet
    if tool == "torchlens":
        import torchlens

        return lambda: torchlens.trace(model, inputs)
    if tool == "torchviz":
        import torchviz

        graph, named = loss(), dict(model.named_parameters())
        return lambda: torchviz.make_dot(graph, params=named)
    return run if tool == "plain" else lambda: tape.record(run)


def measure(tool: str, program: str) -> dict[str, float]:
    """Returns the seconds, the seconds of the processor, and the bytes of the peak, measured in this process."""
    call_of(tool, "resnet 4" if program.startswith("resnet") else "chain 10")()
    call, peaks, taken = call_of(tool, program), [_peak()], [(0.0, 0.0)]
    while len(taken) <= CALLS and sum(seconds for seconds, _ in taken) < ENOUGH:
        began, busy = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - began, time.process_time() - busy))
        peaks.append(_peak())
    seconds, cpu = (median(column) for column in zip(*(taken[2:] or taken[1:]), strict=True))
    return {"seconds": seconds, "cpu": cpu, "peak": peaks[1] - peaks[0]}


def _peak() -> int:
    # It starts at what the process that started this one held; that one has loaded no more than this one by now.
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def apart(tool: str, program: str) -> dict[str, float] | str:
    """Returns what a process of its own measures, or how it ended."""
    command = [sys.executable, "-m", "tests.benchmarks.tape", "--one", tool, program]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return last.partition(":")[0] if done.returncode else json.loads(done.stdout)


def beside(tools: list[str]) -> tuple[Table, bool]:
    """Returns what each tool takes for a lesson's snippet and for training steps, and whether all were recorded."""
    table, good = _table("program", "tool", "ms", "CPU ms", "x plain", "x ours", "peak MiB"), True
    for program in ("lesson", "resnet 16", "resnet 64"):
        all_found = {tool: apart(tool, program) for tool in ("plain", "autograder", *tools)}
        known = {tool: found["cpu"] for tool, found in all_found.items() if not isinstance(found, str)}
        good = good and {"plain", "autograder"} <= set(known)
        for tool, found in all_found.items():
            ratios = [known[tool] / known[other] for other in ("plain", "autograder") if {tool, other} <= set(known)]
            _row(table, [program, tool], found, 1000, ratios)
        table.add_section()
    return table, good


def growth(tools: list[str]) -> tuple[Table, bool]:
    """Returns what an operation costs in programs of many, and whether recording grows no faster than they do."""
    table, good = _table("tool", "ops", "s", "CPU s", "peak MiB", "CPU us/op", "x", "bytes/op", "x"), True
    return table, good


def _table(*names: str) -> Table:
    return Table(*(Column(name, justify="right") for name in names), box=SIMPLE)
