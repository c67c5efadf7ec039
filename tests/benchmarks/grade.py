"""Compares the speed of `nbgrader autograde` and of this grader on the same submissions, in turn, with isolation.

    python -m tests.benchmarks.grade [--students 60] [--sizes 10 100 1000] [--json FILE]

The class consists of a lesson's model answers, other right answers, wrong answers and untouched notebooks. Each answer
has its own comment, so that a cache of whole submissions cannot help. Both graders start without results each time
(`--force`); the gradebook is created before the measurement. Times are real time of one run. Memory is measured only in
the run with one process, because measuring it slows down the processes, by a sixth of the time with two.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import nbformat
import psutil
from nbgrader.utils import is_solution

from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS
from tests.commands import nbgrader
from tests.fixture_class.submissions import Lesson, submissions

ASSIGNMENT = "02_mutating_a_saved_tensor"
NOTEBOOK = f"{ASSIGNMENT}/{ASSIGNMENT}.ipynb"
# Not in the class: what runs into its time limit, and what stock nbgrader cannot read or grades wrongly.
LEFT_OUT = ("endless", "broken_json", "forged", "noisy", "deleted")


def main() -> None:
    """Print a line for each measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--students", type=int, default=60)
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="speed-") as folder:
        course = enrolled(Path(folder) / "course", chosen.students)
        with _MemoryWatch() as memory:
            found["ours, 1 at once"] = ours(course, 1)
        found["ours, 1 at once"]["MiB of a worker"] = memory.largest / 2**20
        found["ours, 2 at once"] = ours(course, 2)
        found["stock"] = stock(course)
        theirs = grades(course)
        found["ours, 2 at once, again"] = ours(course, 2)
        different = sorted(grades(course) - theirs)
        for size in chosen.sizes:
            found[f"ours, class of {size}"] = ours(enrolled(Path(folder) / f"of{size}", size), 2)
    for name, measured in found.items():
        print(f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in measured.items()))
    pace = {name: measured["submissions a minute"] for name, measured in found.items()}
    best = max(pace["ours, 2 at once"], pace["ours, 2 at once, again"])
    least = min(pace["ours, 2 at once"], pace["ours, 2 at once, again"])
    print(
        f"{least / pace['stock']:.1f} to {best / pace['stock']:.1f} times stock nbgrader; {len(different)} grades differ"
    )
    for student, cell, points in different:
        print(f"    {student}, {cell}: {points:g} here")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1))


def enrolled(folder: Path, students: int) -> Path:
    """Return a course of so many students."""
    lesson = Lesson(SOLUTIONS / NOTEBOOK, NOTEBOOKS / NOTEBOOK)
    kinds = [work for work in submissions(lesson) if not work.student.startswith(LEFT_OUT)]
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "nbgrader_config.py", folder)
    shutil.copytree(SOLUTIONS / ASSIGNMENT, folder / "solutions" / ASSIGNMENT)
    shutil.copytree(SOLUTIONS / ASSIGNMENT, folder / "class" / "source" / ASSIGNMENT)
    for number in range(students):
        work = kinds[number % len(kinds)]
        student = f"{work.student}_{number:04}"
        target = folder / "class" / "submitted" / student / NOTEBOOK
        target.parent.mkdir(parents=True)
        target.write_text(signed(work.text, student), "utf-8")
    nbgrader(folder, "generate_assignment", ASSIGNMENT)
    return folder


def signed(text: str, student: str) -> str:
    """Return a notebook with the student's name in a comment of each answer, so that no two submissions are the same text."""
    notebook = nbformat.reads(text, 4)
    for cell in notebook.cells:
        if cell.cell_type == "code" and is_solution(cell):
            cell.source += f"\n# {student}"
    return nbformat.writes(notebook)


def ours(course: Path, jobs: int) -> dict[str, float]:
    """Return how long this grader takes."""
    start = time.monotonic()
    options = ["--jobs", str(jobs), "--force", "--feedback", "off", "--json"]
    command = [sys.executable, "-m", "autograder", "grade", ASSIGNMENT, "--course", str(course / "class"), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - start
    assert done.returncode in (0, 1), done.stderr[-2000:]  # 1: something to look at, such as a hand-in that was ended
    students = len(json.loads(done.stdout)["students"])
    return _figures(seconds, students)


def stock(course: Path) -> dict[str, float]:
    """Return how long `nbgrader autograde` takes."""
    start = time.monotonic()
    nbgrader(course, "autograde", ASSIGNMENT, "--force")
    return _figures(time.monotonic() - start, len(list((course / "class" / "submitted").iterdir())))


def grades(course: Path) -> set[tuple[str, str, float]]:
    """Return every student's points for every cell."""
    query = """
        SELECT s.student_id, c.name, g.auto_score FROM grade g JOIN base_cell c ON g.cell_id = c.id
        JOIN submitted_notebook n ON g.notebook_id = n.id JOIN submitted_assignment s ON n.assignment_id = s.id"""
    with sqlite3.connect(course / "class" / "gradebook.db") as database:
        return set(database.execute(query))


def _figures(seconds: float, students: int) -> dict[str, float]:
    return {"seconds": seconds, "submissions a minute": 60 * students / seconds}


class _MemoryWatch:
    """Measures the most unshared memory of one worker, or of the server that it is forked from.

    Twice a second, because each measurement slows the processes down by milliseconds.
    """

    def __enter__(self) -> _MemoryWatch:
        self.largest, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(0.5):
            for process in psutil.Process().children(recursive=True):
                try:
                    inside = "autograder.grade.sandbox.host" in " ".join(process.cmdline())
                    self.largest = max(self.largest, process.memory_full_info().uss if inside else 0)
                except psutil.Error:
                    continue


if __name__ == "__main__":
    main()
