"""Measures the cost of recording a transformer's training step, compared with the plain step and torchlens' trace.

    python -m tests.benchmarks.tape

Each row is measured in a separate process on one thread: medians of warm calls, in processor time. The plain run and the
recording (which runs it several times) do the whole step; torchlens traces only the forward pass. The exit code is 1 if
recording costs more than AIM times the trace, and 2 if torchlens is missing.
"""

from __future__ import annotations

import functools
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from statistics import median

import torch
from torch.nn import functional

from autograder import tape
from autograder.course.paths import ROOT
from tests.benchmarks.networks import gpt

PROGRAMS = ("2 32 2", "4 128 8")  # layers, width, sequences of 64 tokens
CALLS, WARM = 6, 2
AIM = 2


def call_of(tool: str, layers: int, width: int, batch: int) -> Callable[[], object]:
    """Return the measured call of "plain", "autograder" or "torchlens"."""
    model = gpt(layers, width)
    inputs, labels = torch.randint(0, 256, (batch, 64)), torch.randint(0, 256, (batch * 64,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        optimizer.zero_grad()

    if tool == "torchlens":
        return functools.partial(importlib.import_module(tool).trace, model, inputs)
    return step if tool == "plain" else functools.partial(tape.record, step)


def measure(tool: str, program: str) -> float:
    """Return the processor seconds of a call, measured in this process."""
    call, taken = call_of(tool, *map(int, program.split())), []
    for _ in range(WARM + CALLS):
        began = time.process_time()
        call()
        taken.append(time.process_time() - began)
    return median(taken[WARM:])


def apart(tool: str, program: str) -> float:
    """Return the measurement of a separate process."""
    command = [sys.executable, "-m", "tests.benchmarks.tape", tool, program]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return float(subprocess.run(command, cwd=ROOT, env=environment, stdout=-1, text=True, check=True).stdout)


def main(words: list[str]) -> int:
    """Print a line for each program, and return the exit code."""
    if words:
        print(measure(*words))
        return 0
    has_torchlens, good = find_spec("torchlens") is not None, True
    for program in PROGRAMS:
        plain, recorded = apart("plain", program), apart("autograder", program)
        line = (
            f"gpt {program}: plain {1000 * plain:.1f} ms, recorded {1000 * recorded:.1f} ms ({recorded / plain:.1f} x)"
        )
        if has_torchlens:
            ratio = recorded / apart("torchlens", program)
            line, good = f"{line}, {ratio:.2f} x torchlens' trace (aim {AIM})", good and ratio <= AIM
        print(line)
    if not has_torchlens:
        print("Missing: `pip install --no-deps torchlens graphviz safetensors tqdm`, in a copy of the environment.")
    return 1 if not good else 0 if has_torchlens else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
