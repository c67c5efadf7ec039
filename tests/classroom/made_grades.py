"""Gradebooks and feedback as grading leaves them, made without grading."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from nbgrader import api
from nbgrader.api import Gradebook
from sqlalchemy import create_engine, insert

from tests.classroom.made_class import ASSIGNMENT

MAX_POINTS = {"test_warm_days": 3.0, "summary": 2.0}


def open_gradebook(course: Path) -> Gradebook:
    """Return the course's gradebook. The tables are made here; nbgrader would start the program `alembic` for them."""
    address = f"sqlite:///{course / 'gradebook.db'}"
    engine = create_engine(address)
    api.Base.metadata.create_all(engine)
    engine.dispose()
    return Gradebook(address, "course")


def give_grades(
    course: Path,
    points: Mapping[str, Mapping[str, float | None]],
    assignment: str = ASSIGNMENT,
    cells: Mapping[str, float] = MAX_POINTS,
    handed_in: Mapping[str, datetime.datetime] | None = None,
    comments: tuple[str, ...] = (),
) -> None:
    """Write a gradebook with the points of each student's cells (None: waits for a person), and a feedback page for each."""
    with open_gradebook(course) as book:
        book.add_assignment(assignment)
        book.add_notebook(assignment, assignment)
        for name, most in cells.items():
            book.add_grade_cell(name, assignment, assignment, max_score=most, cell_type="code")
        for name in comments:
            book.add_solution_cell(name, assignment, assignment)
        _insert(book, assignment, points, handed_in or {})
    for student in points:
        page = course / "feedback" / student / assignment / f"{assignment}.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f"<p>feedback of {student}</p>", "utf-8")


def _insert(
    book: Gradebook,
    assignment: str,
    points: Mapping[str, Mapping[str, float | None]],
    handed_in: Mapping[str, datetime.datetime],
) -> None:
    notebook = book.find_notebook(assignment, assignment)
    cells = {cell.name: cell.id for cell in notebook.grade_cells}
    work, books = {one: uuid4().hex for one in points}, {one: uuid4().hex for one in points}
    known = {one.id for one in book.students}
    rows = {
        api.Student: [{"id": one, "course_id": "course"} for one in points if one not in known],
        api.SubmittedAssignment: [
            {"id": work[one], "assignment_id": notebook.assignment_id, "student_id": one, "timestamp": handed_in.get(one)}
            for one in points
        ],
        api.SubmittedNotebook: [{"id": books[one], "assignment_id": work[one], "notebook_id": notebook.id} for one in points],
        api.Grade: [
            {"id": uuid4().hex, "cell_id": cells[name], "notebook_id": books[one], "auto_score": score, "needs_manual_grade": score is None}
            for one, earned in points.items()
            for name, score in earned.items()
        ],
        api.Comment: [
            {"id": uuid4().hex, "cell_id": cell.id, "notebook_id": books[one]}
            for one in points
            for cell in notebook.solution_cells
        ],
    }  # fmt: skip
    for table, listed in rows.items():
        if listed:
            book.db.execute(insert(table), listed)
    book.db.commit()
