"""A made-up class of 42 with everything that is awkward in names, and the course that they take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import nbformat

from autograder.course.new_course import ASSIGNMENT, make_course

NOTEBOOK = f"{ASSIGNMENT}.ipynb"


class MadeStudent(NamedTuple):
    """One student: numbers as platforms give them, names as people have them."""

    number: int
    last: str
    first: str

    @property
    def login(self) -> str:
        """The name at the university."""
        return f"u{self.number:05}"

    @property
    def email(self) -> str:
        """The address."""
        return f"{self.login}@example.edu"

    @property
    def canvas(self) -> str:
        """Canvas' id."""
        return str(4000 + self.number)

    @property
    def sortable(self) -> str:
        """As Canvas lists it."""
        return f"{self.last}, {self.first}"

    @property
    def full(self) -> str:
        """As Moodle lists it."""
        return f"{self.first} {self.last}"


AWKWARD = [
    ("O'Brien", "Seán"), ("Núñez de la Peña", "María José"), ("李", "小龙"), ("Müller", "Jörg"), ("Müller", "Jörg"),
    ("Smith, Jr.", "Bob"), ("van der Berg", "Anne-Marie"), ("=SUM(A1)", "Eve"), ('Quo"te', "Al"), ("Łukasiewicz", "Żaneta"),
    ("Nguyễn", "Thị Minh Khai"), ("Иванова", "Анна"), ("Al-Sayed", "Noor"), ("D", "X Æ A-12"), ("Late", "Lenny"),
]  # fmt: skip
STUDENTS = [
    MadeStudent(number, last, first)
    for number, (last, first) in enumerate([*AWKWARD, *((f"Plain{n:02}", f"Pat{n:02}") for n in range(27))], 1)
]
ABSENT = STUDENTS[40:]
LATE = STUDENTS[14:18]
ANSWERED = {student.login: f"def warm_days(temperatures, limit):\n    return {student.number}" for student in STUDENTS}


def course(folder: Path) -> Path:
    """Create a course with one assignment and without submissions, and return its folder."""
    made = folder / "course"
    make_course(made)
    for path in sorted((made / "submitted").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    return made


def notebook(student: MadeStudent, text: str = "", source: str = "first") -> bytes:
    """Return a student's submission: the notebook with an individual answer."""
    cells = [nbformat.v4.new_code_cell(text or ANSWERED[student.login], metadata=_known("warm_days"))]
    cells += [
        nbformat.v4.new_code_cell("assert True", metadata=_known(name))
        for name in ("setup", "test_warm_days", "summary")
    ]
    if source != "first":
        cells = [nbformat.v4.new_code_cell("1", metadata=_known(f"{source}_{number}")) for number in range(4)]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"  # nbformat's own are drawn by chance
    return nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()


def _known(name: str) -> dict[str, object]:
    plain = {"grade": False, "solution": True, "locked": False, "task": False, "schema_version": 3}
    return {"nbgrader": {"grade_id": name} | plain}


def answer_of(path: Path) -> str:
    """Return the first cell of a notebook, from which it is seen whose it is."""
    cell = json.loads(path.read_text("utf-8"))["cells"][0]["source"]
    return cell if isinstance(cell, str) else "".join(cell)


def whose(course: Path) -> dict[str, str]:
    """Return for each folder in submitted/ the login of the student whose answer lies there."""
    of = {answer: login for login, answer in ANSWERED.items()}
    folders = [folder for folder in (course / "submitted").iterdir() if (folder / ASSIGNMENT).is_dir()]
    return {folder.name: of.get(answer_of(folder / ASSIGNMENT / NOTEBOOK), "?") for folder in folders}
