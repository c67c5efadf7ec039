"""One student's line of the report on a class, and what a teacher has to look at in it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from autograder.grade.batch.course.hand_in import HandIn
from autograder.grade.batch.records.scores import Score
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.printable import printable


class StudentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One student's line of the report.

    Attributes:
        cells: the grade of each graded cell, by notebook and the cell's id.
        ended: why programs ended before their last cell.
        notes: what else a teacher should know.
        problems: what a teacher has to look at, one line each: where, and why.
        score: what the gradebook says: with marks that a person entered, without the late penalty; None if it has no entry.
        late_penalty: the points taken off because the work was late.
        waiting: how many cells a person has still to grade.
        in_gradebook: whether the grade is there; it is not if the folder's name cannot be a student's id.
        unchanged: whether this is an earlier grade that still holds.
        excused: whether the course's policy.toml says that the assignment does not count.
        seconds: how long grading took.
    """

    student: str
    points: float
    max_points: float
    cells: dict[str, dict[str, CellGrade]]
    ended: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    score: float | None = None
    late_penalty: float = 0.0
    waiting: int = 0
    in_gradebook: bool = True
    unchanged: bool = False
    excused: bool = False
    seconds: float = 0.0


def row_of(work: HandIn, course_notes: list[str], problem: str) -> StudentRow:
    """Returns the row of a student whose notebooks all have their grades.

    Args:
        work: what was handed in.
        course_notes: what a teacher should know of the course's own files.
        problem: why the autograded folder could not be written; "" if it was.
    """
    notebooks = work.grades.values()
    return StudentRow(
        student=work.student if work.has_id else printable(work.student),
        in_gradebook=work.has_id,
        points=sum(graded.points for graded in notebooks),
        max_points=sum(cell.max_points for notebook in notebooks for cell in notebook.cells.values()),
        cells={name: graded.cells for name, graded in work.grades.items()},
        ended=tuple(graded.ended for graded in notebooks if graded.ended),
        notes=tuple([*work.notes, *(note for graded in notebooks for note in graded.notes), *course_notes]),
        problems=tuple([*_problems(work.grades), *([problem] if problem else [])]),
        seconds=sum(graded.seconds for graded in notebooks),
    )


def _problems(grades: dict[str, NotebookGrade]) -> Iterator[str]:
    for notebook, graded in grades.items():
        if graded.ended:
            yield f"{notebook}: {graded.ended}"
        for cell, grade in graded.cells.items():
            if grade.status == "timed out":
                yield f"{notebook}, cell {cell}: {grade.reason}"


def with_score(row: StudentRow, score: Score | None, excused: bool) -> StudentRow:
    """Returns the row with what the gradebook and the course's policy say."""
    row = msgspec.structs.replace(row, excused=excused)
    if score is None or not row.in_gradebook:
        return row
    return msgspec.structs.replace(row, score=score.total, late_penalty=score.late_penalty, waiting=score.waiting)


def with_problems(row: StudentRow, lines: list[str]) -> StudentRow:
    """Returns the row with those problems of its feedback that begin with the student's name."""
    own = [line.removeprefix(f"{row.student}: ") for line in lines if line.startswith(f"{row.student}: ")]
    return msgspec.structs.replace(row, problems=(*row.problems, *own))


def unchanged_row(student: str, cells: str) -> StudentRow:
    """Returns the row that was stored as JSON with an earlier grade."""
    return msgspec.structs.replace(msgspec.json.decode(cells, type=StudentRow), student=student, unchanged=True)
