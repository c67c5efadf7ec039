"""A small course, and the expected rows of its class."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat

from tests.grade.small_course import answer, graded_cell, teacher

ANSWERS = ("return math.pi * r * r", "return 3 * r * r", "return math.pi * r * r + 1", "return 1 / 0")


def make_class(folder: Path, students: int, answers: dict[str, str] | None = None) -> Path:
    """Write a course of one small notebook and a class, whose answers take turns; `answers` are of single students."""
    notebook = nbformat.v4.new_notebook(
        cells=[
            teacher("import math"),
            answer("a", f"def area(r):\n    {ANSWERS[0]}"),
            graded_cell("t", "assert abs(area(2) - 12.566) < 1e-2", 2),
            graded_cell("u", "assert area(0) == 0", 1),
        ]
    )
    _write(notebook, folder / "source" / "small")
    (folder / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'small'\n")
    for number in range(students):
        student = f"student{number:04}"
        work = copy.deepcopy(notebook)
        body = (answers or {}).get(student, ANSWERS[number % len(ANSWERS)])
        work.cells[1].source = f"def area(r):\n    {body}"
        _write(work, folder / "submitted" / student / "small")
    return folder


def _write(notebook: nbformat.NotebookNode, folder: Path) -> None:
    folder.mkdir(parents=True)
    nbformat.write(notebook, folder / "small.ipynb")


def without_seconds(value):
    """Return rows as `grade --json` prints them, without the times in them."""
    if isinstance(value, dict):
        return {key: without_seconds(inner) for key, inner in value.items() if key != "seconds"}
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value
