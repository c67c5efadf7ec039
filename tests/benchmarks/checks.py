"""Measures how long a student waits in a kernel, and prints each figure with its target: `python -m tests.benchmarks.checks`.

A new kernel runs cells of lesson 02. Each is timed from the request until the kernel is idle again. The processor time
of the kernel, in parentheses, depends less on other load. Then each lesson, with right answers, is validated as *Validate*
does. The exit code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from textwrap import indent
from typing import NamedTuple

import nbformat
from jupyter_client.manager import start_new_kernel
from nbgrader.validator import Validator

from autograder.course.author_cells import exercises, setup_of
from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from tests.lessons.solving import answered, right_answers

LESSON = SOLUTIONS / "02_mutating_a_saved_tensor" / "02_mutating_a_saved_tensor.ipynb"
EXERCISE = "clear_after_use"
CLOCK = {"cpu": "__import__('time').process_time()"}
TARGETS = {
    "imports of the lesson": 2.5,
    "first right answer": 1.0,
    "later right answer": 0.3,
    "wrong answer": 0.3,
    "first model answer": 1.0,
}


def row(what: str, seen: float, unit: str, target: float) -> bool:
    """Print one figure with its target, and return whether it meets the target."""
    good = seen <= target
    print(f"{what:<58} {seen:>10,.1f} {unit:<5} target {target:>9,.0f}   {'ok' if good else 'MISSED'}")
    return good


VALIDATE, VALIDATE_MOST = 6.0, 10.0
"""Targets of *Validate* in seconds: of lesson 02, and of each lesson."""


class Timed(NamedTuple):
    """The time of a cell, in seconds: on the wall, and of the kernel's processor."""

    wall: float
    cpu: float


class Kernel:
    """A kernel that runs one cell after another, as a notebook does."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3", stderr=subprocess.DEVNULL)
        self.cpu = 0.0
        self.run("")

    def run(self, cell: str) -> Timed:
        """Run a cell that must not raise."""
        began = time.perf_counter()
        reply = self.client.execute_interactive(cell, user_expressions=CLOCK, output_hook=lambda _: None, timeout=120)
        wall, before = time.perf_counter() - began, self.cpu
        self.cpu = float(reply["content"]["user_expressions"]["cpu"]["data"]["text/plain"])
        return Timed(wall, self.cpu - before)

    def stop(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def one_kernel() -> dict[str, Timed]:
    """Return the times of a session in a new kernel."""
    known = next(one for one in exercises(LESSON) if one.id == EXERCISE)
    refused = f"try:\n{indent(known.check, '    ')}\nexcept AssertionError:\n    pass"
    kernel = Kernel()
    try:
        found = {"imports of the lesson": kernel.run(setup_of(read(LESSON)))}
        kernel.run(known.of_kind("answer")[0].source)
        found["first right answer"] = kernel.run(known.check)
        found["later right answer"] = kernel.run(known.check)
        kernel.run(known.of_kind("wrong")[0].source)
        found["wrong answer"] = kernel.run(refused)
        found["first model answer"] = kernel.run(f"model_answer({EXERCISE!r})")
        return found
    finally:
        kernel.stop()


def validation(lesson: Path) -> Timed:
    """Return the times in which nbgrader validates a lesson with right answers; they must pass."""
    with contextlib.redirect_stdout(io.StringIO()):
        answers = right_answers(lesson)
    released = NOTEBOOKS / lesson.parent.name / lesson.name
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, lesson.name)
        nbformat.write(answered(read(released), answers), path)
        began, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN).ru_utime
        found = Validator().validate(str(path))
        timed = Timed(time.perf_counter() - began, getrusage(RUSAGE_CHILDREN).ru_utime - before)
    if found:
        raise RuntimeError(f"{lesson.name} does not pass: {found}")
    return timed


def main() -> int:
    """Measure, and return the exit code."""
    parser = argparse.ArgumentParser(description="Measure how long a student waits for a check.")
    parser.add_argument("--kernels", type=int, default=3, help="Start so many kernels, and print medians.")
    runs = [one_kernel() for _ in range(parser.parse_args().kernels)]
    good = []
    for what, target in TARGETS.items():
        wall, cpu = (1000 * median(one) for one in zip(*(run[what] for run in runs), strict=True))
        good.append(row(f"{what} ({cpu:,.0f} ms)", wall, "ms", 1000 * target))
    for lesson in filter(exercises, lessons(SOLUTIONS)):
        (wall, cpu), target = validation(lesson), VALIDATE if lesson == LESSON else VALIDATE_MOST
        good.append(row(f"Validate {lesson.parent.name[:2]} ({cpu:.1f} s)", wall, "s", target))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
