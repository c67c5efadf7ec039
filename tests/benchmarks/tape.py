"""Measures the cost of recording compared with the plain run, torchlens and torchviz, and how it grows with the program.

    python -m tests.benchmarks.tape [--strict]

Each row is measured in a separate process on one thread. Times are medians of warm calls, ratios are of processor time,
and the peak is the increase of the process's largest resident size by the first call, after a small program of the same
kind. The plain run and the recording (which runs it several times) do the whole step. torchlens traces only the forward
pass, and torchviz describes a finished graph without drawing it. The exit code is 1 if recording fails, costs more than
AIM times the torchlens trace of the same transformer, or grows faster than the program; it is 2 with `--strict` if a
package is missing.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from math import nan
from statistics import median

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from torch import Tensor, nn
from torch.nn import functional

from autograder import tape
from autograder.course.paths import ROOT
from tests.benchmarks.networks import gpt, resnet

MORE = ("chain 500", "chain 2000")  # to see where torchviz ends
PROGRAMS = (
    "lesson",
    "gpt 2 32 2",
    "gpt 4 128 8",
    "resnet 16",
    "resnet 64",
    "chain 100",
    "chain 500",
    "chain 1000",
    "chain 2000",
    "chain 10000",
)
LIMIT, CALLS, ENOUGH = 60, 6, 15  # seconds of a process; calls in it, fewer where they have taken so many seconds
AIM = 2  # times the cost of torchlens' trace that recording a transformer's step may have
MOST = 2  # times the cost of one operation among 1,000 that one among 10,000 may have: a square would make it ten
NEEDED = {"torchlens": ("graphviz", "safetensors", "tqdm"), "torchviz": ("graphviz",)}  # beyond our own packages


class Chain(nn.Module):
    """A number of small operations, every second one in place, and their sum; with six, it resembles a snippet of a lesson."""

    def __init__(self, operations: int):
        super().__init__()
        self.pairs, self.w = operations // 2, nn.Parameter(torch.ones(4))

    def forward(self, h: Tensor) -> Tensor:
        """Return the sum."""
        for _ in range(self.pairs):
            h = h * self.w
            h.sin_()
        return h.sum()


def _case(kind: str, *sizes: str) -> tuple[nn.Module, Tensor, Tensor | None]:
    """Return a network with its inputs, and with labels if it is trained: two images, or 64 tokens for each sequence of a batch."""
    if kind == "gpt":
        layers, width, batch = map(int, sizes)
        return gpt(layers, width), torch.randint(0, 256, (batch, 64)), torch.randint(0, 256, (batch * 64,))
    if kind == "resnet":
        return resnet(int(sizes[0])), torch.randn(2, 3, 32, 32), torch.tensor([3, 7])
    return Chain(int(*sizes or (6,))), torch.ones(4), None


def call_of(tool: str, program: str) -> Callable[[], object]:
    """Return what is timed: `lesson`, `chain OPERATIONS`, or a training step of `gpt LAYERS WIDTH BATCH` or `resnet WIDTH`."""
    model, inputs, labels = _case(*program.split())
    trains = labels is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss() -> Tensor:
        return functional.cross_entropy(model(inputs), labels) if trains else model(inputs)

    def step() -> None:
        loss().backward()
        if trains:
            optimizer.step()
            optimizer.zero_grad()

    if tool == "torchlens":
        return functools.partial(importlib.import_module(tool).trace, model, inputs)
    if tool == "torchviz":
        return functools.partial(importlib.import_module(tool).make_dot, loss(), dict(model.named_parameters()))
    return step if tool == "plain" else functools.partial(tape.record, step)


def measure(tool: str, program: str) -> dict[str, float]:
    """Return the seconds, the seconds of the processor, and the bytes of the peak, measured in this process."""
    small = {"gpt": "gpt 1 8 1", "resnet": "resnet 4"}
    call_of(tool, small.get(program.split()[0], "chain 10"))()
    # A process begins with the peak of the one that started it, which has loaded no more than this one by now.
    call, peaks, taken = call_of(tool, program), [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss], [(0.0, 0.0)]
    while len(taken) <= CALLS and sum(seconds for seconds, _ in taken) < ENOUGH:
        began, busy = time.perf_counter(), time.process_time()
        call()
        taken.append((time.perf_counter() - began, time.process_time() - busy))
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    seconds, cpu = (median(column) for column in zip(*(taken[2:] or taken[1:]), strict=True))
    return {"seconds": seconds, "cpu": cpu, "peak": 1024 * (peaks[1] - peaks[0])}


def apart(tool: str, program: str) -> dict[str, float] | str:
    """Return the measurement of a separate process, or how the process ended."""
    command = [sys.executable, "-m", "tests.benchmarks.tape", "--one", tool, program]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    last = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return last.partition(":")[0] if done.returncode else json.loads(done.stdout)


def compared(tools: list[str]) -> tuple[Table, dict[tuple[str, str], dict[str, float]]]:
    """Return the table of all that was measured, and the figures by tool and program."""
    names = ("program", "tool", "ms", "CPU ms", "x plain", "x ours", "peak MiB", "CPU us/op", "bytes/op")
    table, known = Table(*(Column(name, justify="right") for name in names), box=SIMPLE), {}
    for program in PROGRAMS:
        for tool in tools if program not in MORE else {"torchviz"} & set(tools):
            found = apart(tool, program)
            if isinstance(found, str):
                table.add_row(program, tool, found)
                continue
            known[tool, program] = found
            bases = [known.get((base, program), {"cpu": nan})["cpu"] for base in ("plain", "autograder")]
            figures = [1000 * found["seconds"], 1000 * found["cpu"], *(found["cpu"] / base for base in bases)]
            cells = [f"{figure:,.2f}" for figure in (*figures, found["peak"] / 2**20)]
            operations = int(program.split()[1]) if "chain" in program else nan
            cells += [f"{1e6 * found['cpu'] / operations:,.0f}", f"{found['peak'] / operations:,.0f}"]
            table.add_row(program, tool, *("" if cell == "nan" else cell for cell in cells))
        table.add_section()
    return table, known


def main() -> int:
    """Print the table and how recording grows, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--strict", action="store_true", help="exit with 2 where a package is missing")
    parser.add_argument("--one", nargs=2, metavar=("TOOL", "PROGRAM"), help="measure this alone and here, as JSON")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(*chosen.one)))
        return 0
    missing = sorted({name for tool, more in NEEDED.items() for name in (tool, *more) if find_spec(name) is None})
    others = [tool for tool, more in NEEDED.items() if not {tool, *more} & set(missing)]
    print(", ".join(f"{name} {version(name)}" for name in ("torch", *others)))
    if missing:
        wanted = f"pip install --no-deps {' '.join(missing)}"
        print(f"Missing: {', '.join(missing)}; in a copy of the environment, `{wanted}` brings what is compared with.")
    table, known = compared(["plain", "autograder", *others])
    Console(width=120).print(table)
    good = all(("autograder", program) in known for program in PROGRAMS if program not in MORE)
    for program in PROGRAMS:
        if program.startswith("gpt") and {("autograder", program), ("torchlens", program)} <= known.keys():
            ratio = known["autograder", program]["cpu"] / known["torchlens", program]["cpu"]
            print(f"{program}: recording a step costs {ratio:.2f} times torchlens' trace (aim {AIM})")
            good = good and ratio <= AIM
    for size in (100, 1000) if good else ():
        small, large = (known["autograder", f"chain {many}"] for many in (size, 10 * size))
        more = {what: large[what] / 10 / (small[what] or nan) for what in ("cpu", "peak")}
        costs = f"an operation costs {more['cpu']:.2f} x time, {more['peak']:.2f} x memory"
        print(f"{size:,} -> {10 * size:,}: {costs}{'' if size == 100 else f' (aim: at most {MOST})'}")
        good = size == 100 or max(more.values()) <= MOST  # the smallest program's memory is below what can be told
    return 1 if not good else 2 if missing and chosen.strict else 0


if __name__ == "__main__":
    sys.exit(main())
