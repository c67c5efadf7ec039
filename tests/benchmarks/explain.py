"""Measures the cost of `explain` compared with the plain run: the first answer, the whole answer, the runs, and the memory.

    python -m tests.benchmarks.explain [--budget SECONDS]

Each row is a separate process on one thread. Seconds are processor time without the start of PyTorch, and the peak is
the largest resident size. The first answer is the answer without repairs. The exit code is 1 if an answer is missing,
takes longer than three times the plain run plus 3 seconds, or needs more than twice the plain run's memory plus 500 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import runpy
import subprocess
import sys
import time
from pathlib import Path

from autograder.course.paths import ROOT

PROGRAMS = Path(__file__).with_name("programs")
ROWS = (
    ("gpt.py", "--steps", "1"),
    ("gpt.py", "--steps", "60"),
    ("gpt.py", "--steps", "800"),
    ("gpt.py", "--steps", "1", "--harmful"),
    ("gpt.py", "--steps", "60", "--harmful"),
)
# Seconds of the first answer and megabytes of both, beside the plain run.
TIMES, MORE, MEMORY_TIMES, MEMORY_MORE = 3, 3, 2, 500
MEGABYTE = 1 << 20


def measure(what: str, budget: float, file: str, words: list[str]) -> dict[str, object]:
    """Return the measurement of a plain run, the first answer or the whole answer in this process."""
    import torch  # noqa: F401 - its start is not measured

    from autograder.tape.explain import explain_program
    from autograder.tape.repair.trial.program_factory import factory_of_file
    from autograder.tape.run.budget import Budget
    from autograder.tape.run.programs.command_line import CommandLine

    began, found = time.process_time(), {}
    if what == "plain":
        sys.argv = [file, *words]
        runpy.run_path(file, run_name="__main__")
    else:
        factory = factory_of_file(file, None, CommandLine(tuple(words)))
        verdict = explain_program(factory, repair=what == "whole", budget=Budget(budget)).verdict
        found = {"outcome": verdict.outcome, "runs": verdict.runs, "fixes": len(verdict.fixes)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MEGABYTE
    return {"seconds": time.process_time() - began, "peak": peak} | found


def apart(what: str, budget: float, words: tuple[str, ...]) -> dict:
    """Return the measurement of a separate process."""
    command = [sys.executable, "-m", "tests.benchmarks.explain", "--budget", str(budget), "--one", what, "--", *words]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}


def main() -> int:
    """Print the table, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--one", choices=("plain", "first", "whole"), help="measure this alone and here, as JSON")
    parser.add_argument("words", nargs="*")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.budget, str(PROGRAMS / chosen.words[0]), chosen.words[1:])))
        return 0
    good = True
    for words in ROWS:
        plain = apart("plain", chosen.budget, words)
        for what in ("first", "whole"):
            found = apart(what, chosen.budget, words)
            if not plain or not found:
                print(f"{' '.join(words)}: no {what} answer")
                good = False
                continue
            ratio = found["seconds"] / plain["seconds"]
            print(
                f"{' '.join(words)}, {what} answer: {found['seconds']:.1f} s, {ratio:.1f} times the plain run; "
                f"{found['peak']:.0f} MB beside {plain['peak']:.0f}; {found['outcome']}, {found['runs']} runs, "
                f"{found['fixes']} repairs",
                flush=True,
            )
            good = good and found["peak"] <= MEMORY_TIMES * plain["peak"] + MEMORY_MORE
            good = good and (what == "whole" or found["seconds"] <= TIMES * plain["seconds"] + MORE)
    print(
        f"Aims: the first answer within {TIMES} times the plain run and {MORE} s, memory within {MEMORY_TIMES} times the plain "
        f"run's and {MEMORY_MORE} MB: {'held' if good else 'MISSED'}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
