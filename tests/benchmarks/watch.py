"""Measures the cost of `autograder.watch()` in time and memory, compared with the plain training step.

    python -m tests.benchmarks.watch [--seconds 8]

Plain and watched steps alternate in one process on one thread, so that the ratios are valid on a busy machine. Times
are medians of processor time. The memory is the size of the watch's tables after the steps, and per step. The exit code
is 1 if a step of more than MARK milliseconds costs more than AIM times the plain step under `check="versions"`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median

import torch
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table
from torch import nn
from torch.nn import functional

from autograder import watch
from autograder.tape.watch import watch_session
from tests.benchmarks.networks import gpt, resnet

AIM, MARK = 1.3, 1.0
PROGRAMS = ("perceptron", "gpt 2 32 2", "gpt 4 128 8", "gpt 6 384 8", "resnet 16", "resnet 64")
TURN = 2  # steps in a turn


def step_of(program: str) -> Callable[[], None]:
    """Return a training step of `perceptron`, `gpt LAYERS WIDTH BATCH` (64 tokens) or `resnet WIDTH` (two images)."""
    kind, *sizes = program.split()
    if kind == "gpt":
        layers, width, batch = map(int, sizes)
        model = gpt(layers, width)
        inputs, labels = torch.randint(0, 256, (batch, 64)), torch.randint(0, 256, (batch * 64,))
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    else:
        model = (
            resnet(int(sizes[0]))
            if kind == "resnet"
            else nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))
        )
        inputs, labels = (torch.randn(2, 3, 32, 32) if kind == "resnet" else torch.randn(2, 16)), torch.tensor([3, 7])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def tables() -> int:
    """Return the bytes that the open watch's tables hold."""
    (session,) = watch_session._open
    columns = [session.writes.storages, session.writes.versions, session.writes.sites]
    for listener in session.listeners.values():
        columns += [listener.nodes.ends, listener.nodes.sites, listener.nodes.clocks]
    return sum(column.itemsize * len(column) for column in columns)


def measure(program: str, seconds: float) -> tuple[dict[str, list[float]], float]:
    """Return the processor seconds of a step by kind of watch, and the bytes that the tables of "versions" grow by in a step."""
    step = step_of(program)
    contexts = {"plain": nullcontext(), "versions": watch("versions"), "bytes": watch("bytes")}
    taken: dict[str, list[float]] = {kind: [] for kind in contexts}
    grown, ends = 0.0, time.monotonic() + seconds
    while time.monotonic() < ends or len(taken["plain"]) < 4:
        for kind, context in contexts.items():
            with context:
                step()
                began = time.process_time()
                for _ in range(TURN):
                    step()
                taken[kind].append((time.process_time() - began) / TURN)
                grown = tables() / (TURN + 1) if kind == "versions" else grown
    return {kind: times[1:] for kind, times in taken.items()}, grown


def main() -> int:
    """Print the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=8, help="for each program")
    seconds = parser.parse_args().seconds
    torch.set_num_threads(1)
    names = ("program", "plain ms", "x versions", "x bytes", "bytes a step")
    table, good = Table(*(Column(name, justify="right") for name in names), box=SIMPLE), True
    for program in PROGRAMS:
        torch.manual_seed(0)
        taken, grown = measure(program, seconds)
        plain = 1000 * median(taken["plain"])
        versions, bytes_ = (1000 * median(taken[kind]) / plain for kind in ("versions", "bytes"))
        table.add_row(program, f"{plain:,.2f}", f"{versions:.2f}", f"{bytes_:.2f}", f"{grown:,.0f}")
        good = good and (plain < MARK or versions <= AIM)
    print(f"torch {torch.__version__}")
    Console(width=100).print(table)
    verdict = "held" if good else "MISSED"
    print(f"Aim: a step of more than {MARK:g} ms costs at most {AIM} times the plain one under versions: {verdict}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
