"""`autograder new DIR`: a small working nbgrader course, for trying the commands and as a starting point."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions

from autograder.course.canonical import KERNEL
from autograder.course.paths import write_files
from autograder.errors import InputError, printable

ASSIGNMENT = "first"
DATA = "temperatures.csv"
TEMPERATURES = "day,celsius\nmon,11.5\ntue,14.0\nwed,19.5\nthu,21.0\nfri,17.5\n"
INTRODUCTION = """\
# Warm days

`temperatures.csv` has the temperature of each day. Answer in the cells that say `YOUR CODE HERE`."""
SETUP = """\
import csv

with open("temperatures.csv") as file:
    celsius = [float(row["celsius"]) for row in csv.DictReader(file)]"""
SOLUTION = '''\
def warm_days(temperatures, limit):
    """Return how many temperatures are above the limit."""
    ### BEGIN SOLUTION
    return sum(temperature > limit for temperature in temperatures)
    ### END SOLUTION'''
TEST = """\
assert warm_days(celsius, 15) == 3
assert warm_days([], 15) == 0
### BEGIN HIDDEN TESTS: a limit that is reached
assert warm_days([15.0, 15.1], 15) == 1
### END HIDDEN TESTS"""
QUESTION = "Is the mean or the median the better summary of these temperatures? Say why, in two sentences."
WRONG = "def warm_days(temperatures, limit):\n    return sum(temperature >= limit for temperature in temperatures)"
RIGHT = "def warm_days(temperatures, limit):\n    return len([one for one in temperatures if one > limit])"
# The answers of each student, by the cell's id; other cells are as they were handed out.
STUDENTS = {
    "ann": {"warm_days": RIGHT, "summary": "The median, because one hot day does not move it."},
    "ben": {"warm_days": WRONG, "summary": "The mean."},
    "cleo": {},
}
CONFIG = """\
# nbgrader's settings for this course; nbgrader's commands, run from this folder, and `autograder grade` read them.
from autograder.course.nbgrader_release import configure
from autograder.grade.batch.csv_export import configure_export

c = get_config()
c.CourseDirectory.course_id = {course!r}
configure(c)  # `nbgrader generate_assignment` removes cells tagged answer, right or wrong, and keeps those tagged stub

# Limits of one submission. A run can override them: `autograder grade {assignment} --cell-seconds 60`.
{limits}
configure_export(c)  # `nbgrader export`: names with commas stay in their column, and none becomes a formula
"""
README = """\
An nbgrader course with one assignment, `{assignment}`, and three submissions to try the commands on.

    autograder validate-source {assignment} --course .    shows the points of the model answers, test by test
    autograder grade {assignment} --course .       grades the submissions in submitted/
    nbgrader formgrader, or `nbgrader export`      use the result, in gradebook.db

source/{assignment}/      the teacher's notebook, with solutions and hidden tests, and a data file
submitted/STUDENT/  the submissions; delete ann, ben and cleo when you no longer need them
autograded/         the graded notebooks
feedback/           a page for each student
nbgrader_config.py  nbgrader's settings, and the limits of a submission

`nbgrader generate_assignment {assignment}` makes release/{assignment}/, the notebook to hand out.
"""


@contextlib.contextmanager
def new_folder(folder: Path, kind: str) -> Iterator[None]:
    """Check that a folder is missing or empty, and remove what was written to it if an error occurs.

    `kind` says what is written to it, in a word of the message.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    shown = printable(str(folder))
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{shown} is not an empty folder. Choose another name, such as {shown}-2")
    except OSError as error:
        raise InputError(f"{shown} cannot be read ({error.strerror})") from None
    try:
        yield
    except OSError as error:
        for part in folder.glob("*"):  # undo everything, so that the user can repeat the command
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        # copytree raises a list of errors
        reason = error.args[0][0][2] if isinstance(error, shutil.Error) else error.strerror
        raise InputError(f"the {kind} cannot be written to {shown} ({reason})") from None


def make_course(folder: Path, limits: str = "") -> None:
    """Write a course into a folder, which is created if it is missing; `limits` are lines for nbgrader_config.py.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    with new_folder(folder, "course"):
        write_files(folder, {name: text.encode() for name, text in _files(folder, limits).items()})


def _files(folder: Path, limits: str) -> dict[str, str]:
    """Return the course's files by their relative paths."""
    source = _source()
    place, notebook = f"source/{ASSIGNMENT}", f"{ASSIGNMENT}.ipynb"
    course = re.sub(r"\W+", "_", folder.resolve().name).strip("_") or "course"
    files = {
        "README.txt": README.format(assignment=ASSIGNMENT),
        "nbgrader_config.py": CONFIG.format(course=course, assignment=ASSIGNMENT, limits=limits),
        f"{place}/{notebook}": nbformat.writes(source),
        f"{place}/{DATA}": TEMPERATURES,
    }
    for student, answers in STUDENTS.items():
        files[f"submitted/{student}/{ASSIGNMENT}/{notebook}"] = nbformat.writes(_handed_in(answers))
        files[f"submitted/{student}/{ASSIGNMENT}/{DATA}"] = TEMPERATURES
    return files


def _source() -> NotebookNode:
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    cells = [
        text(INTRODUCTION),
        code(SETUP, metadata=_known("setup", locked=True)),
        code(SOLUTION, metadata=_known("warm_days", solution=True)),
        code(TEST, metadata=_known("test_warm_days", grade=True, locked=True, points=3)),
        text(QUESTION),
        text("Your answer.", metadata=_known("summary", grade=True, solution=True, points=2)),
    ]
    return nbformat.v4.new_notebook(metadata=KERNEL, cells=cells)


def _known(name: str, **shape: Any) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell (nbgrader/preprocessors/checkcellmetadata.py and `nbgrader_schema` 3, 0.9.6)."""
    plain = {"grade_id": name, "grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": plain | shape}


def _handed_in(answers: dict[str, str]) -> NotebookNode:
    notebook = _source()
    for preprocessor in (ClearSolutions(), ClearHiddenTests()):
        notebook, _ = preprocessor.preprocess(notebook, {})
    for cell in notebook.cells:
        cell.source = answers.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return notebook
