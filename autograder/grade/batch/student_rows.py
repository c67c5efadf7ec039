"""The result of a batch: a row for each student as data, as a table, and as JSON."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from autograder.errors import printable
from autograder.grade.batch.gradebook import GradeOrigin, Score
from autograder.grade.batch.student_submission import StudentSubmission
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.validation.validate import progress_on_stderr, text_table
from autograder.locale.stored_messages import StoredMessage


class StudentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One student's row of the report."""

    student: str
    points: float
    max_points: float
    cells: dict[str, dict[str, CellGrade]]  # the grade of each graded cell, by notebook and id of the cell
    ended: tuple[str, ...] = ()  # reasons why programs ended before their last cell
    messages: tuple[StoredMessage, ...] = ()  # the messages among the reasons
    notes: tuple[str, ...] = ()  # other notes for the teacher
    problems: tuple[str, ...] = ()  # problems that the teacher must look at, one line each: place and reason
    score: float | None = None  # in the gradebook, with manual points, after the late penalty; None without an entry
    late_penalty: float = 0.0
    waiting: int = 0  # number of cells that a person still has to grade
    in_gradebook: bool = True  # False if the folder's name cannot be a student's id
    unchanged: bool = False  # whether this is an earlier grade that is still valid
    excused: bool = False  # whether the course's policy.toml excuses the student
    seconds: float = 0.0  # duration of grading
    name: str = ""  # in the gradebook
    former_penalty: float | None = None  # the late penalty before this run, if another one applies to an earlier grade
    is_untimed: bool = False  # whether the platform reports it as late without a time


class MovedGrade(msgspec.Struct, frozen=True):
    """A student whose points would change, after the late penalty; `before` is None without a grade."""

    student: str
    before: float | None
    after: float
    reasons: tuple[str, ...]


def row_of(work: StudentSubmission, course_notes: list[str], problem: str | None) -> StudentRow:
    """Return the row of a graded student, with notes on the course's files, and the reason why the folder could not be written."""
    notebooks = work.grades.values()
    return StudentRow(
        student=work.student if work.has_id else printable(work.student),
        in_gradebook=work.has_id,
        points=sum(graded.points for graded in notebooks),
        max_points=sum(cell.max_points for notebook in notebooks for cell in notebook.cells.values()),
        cells={name: graded.cells for name, graded in work.grades.items()},
        ended=tuple(graded.ended for graded in notebooks if graded.ended),
        messages=tuple(message for graded in notebooks for message in graded.messages),
        notes=(*work.notes, *(note for graded in notebooks for note in graded.notes), *course_notes),
        problems=(*_problems(work.grades), *([problem] if problem else [])),
        seconds=sum(graded.seconds for graded in notebooks),
    )


def _problems(grades: dict[str, NotebookGrade]) -> Iterator[str]:
    for notebook, graded in grades.items():
        if graded.ended:
            yield f"{notebook}: {graded.ended}"
        for cell, grade in graded.cells.items():
            if grade.status == "timed out":
                yield f"{notebook}, cell {cell}: {grade.reason}"


def with_score(row: StudentRow, score: Score | None, *, excused: bool, former_penalty: float) -> StudentRow:
    """Return the row with the gradebook's score, the penalty before this run, and whether the student is excused."""
    about: dict[str, Any] = {"excused": excused}
    if score is not None and row.in_gradebook:
        about |= {"score": score.total, "late_penalty": score.late_penalty, "waiting": score.waiting}
    if row.unchanged and former_penalty != about.get("late_penalty", row.late_penalty):
        about |= {"former_penalty": former_penalty}
    return msgspec.structs.replace(row, **about)


def with_names(rows: list[StudentRow], names: Mapping[str, str], untimed: Collection[str]) -> list[StudentRow]:
    """Return the rows with the students' names, and a mark on those who were late at an unknown time."""
    return [
        msgspec.structs.replace(row, name=names.get(row.student, ""), is_untimed=row.student in untimed) for row in rows
    ]


def with_problem(row: StudentRow, problem: str | None) -> StudentRow:
    """Return the row with one more problem, if `problem` is not None."""
    return msgspec.structs.replace(row, problems=(*row.problems, problem)) if problem else row


def stored_row(origin: GradeOrigin) -> StudentRow:
    """Return the row that was stored as JSON with a grade."""
    return msgspec.json.decode(origin.cells, type=StudentRow)


def as_json(**rows: list[StudentRow] | list[MovedGrade]) -> str:
    """Return a JSON object in ASCII with `version`, and `students` or, of a dry run, `moved`."""
    return json.dumps({"version": 1} | msgspec.to_builtins(rows), indent=2)


def as_table(rows: list[StudentRow]) -> Table:
    """Return a table with a line for each student: the score, and remarks for the teacher."""
    named = any(row.name for row in rows)
    lines = []
    for row in rows:
        score = row.points if row.score is None else row.score
        cells = (f"{score:g}", f"{row.max_points:g}", "; ".join(_remarks(row)))
        lines.append((row.student, *([row.name] if named else []), *cells))
    return text_table(("student", *(["name"] if named else []), "score", "of", "remarks"), lines)


def look_here(rows: list[StudentRow]) -> list[str]:
    """Return a line for each problem that the teacher must look at: student, notebook or cell, and reason."""
    return [f"{printable(row.student)}, {printable(problem)}" for row in rows for problem in row.problems]


def print_report(rows: list[StudentRow], *, everyone: bool = False) -> None:
    """Write a table of the changed and remarkable rows, or of all rows, the summary, and the problems to standard output."""
    console = Console()
    if shown := [row for row in rows if everyone or _is_remarkable(row)]:
        console.print(as_table(shown), highlight=False)
    console.print(Text(summary(rows)), soft_wrap=True)
    if lines := look_here(rows):
        console.print(Text("\nLook here:"))
        for line in lines:
            console.print(Text(f"  {line}"), soft_wrap=True)


def _is_remarkable(row: StudentRow) -> bool:
    return not row.unchanged or bool(row.problems) or row.former_penalty is not None or row.is_untimed


def summary(rows: list[StudentRow]) -> str:
    """Return the numbers of a run in one line: graded, unchanged, the mean score, and the submissions that need attention."""
    scores = [row.score for row in rows if row.score is not None and not row.excused]
    most = max((row.max_points for row in rows), default=0.0)
    done = {"graded": sum(not row.unchanged for row in rows), "unchanged": sum(row.unchanged for row in rows)}
    remarkable = {
        "with another late penalty": sum(row.former_penalty is not None for row in rows),
        "late without a time": sum(row.is_untimed for row in rows),
        "with a problem": sum(bool(row.problems) for row in rows),
        "to be graded by a person": sum(bool(row.waiting) and not row.excused for row in rows),
    }
    mean = [f"mean {sum(scores) / len(scores):.1f} of {most:g}"] if scores else []
    first, last = ([f"{count} {words}" for words, count in counts.items() if count] for counts in (done, remarkable))
    return ", ".join([*first, *mean, *last])


def print_moved(moved: list[MovedGrade]) -> None:
    """Print the students whose points a run would change."""
    console = Console()
    if not moved:
        console.print(Text("No grade would change. Nothing was written."))
        return
    rows = [
        (move.student, "-" if move.before is None else f"{move.before:g}", f"{move.after:g}", "; ".join(move.reasons))
        for move in moved
    ]
    console.print(text_table(("student", "now", "then", "why"), rows), highlight=False)
    grades = "grade" if len(moved) == 1 else "grades"
    console.print(
        Text(f"\n{len(moved)} {grades} would change. Nothing was written; run without --dry-run to write them.")
    )


def _remarks(row: StudentRow) -> list[str]:
    """Return the remarks on a student's score: why it differs from the sum of the tests, and notes."""
    by_hand = 0.0 if row.score is None else row.score + row.late_penalty - row.points
    return [
        *([f"{row.points:g} by the tests and {by_hand:+g} by a person"] if by_hand else []),
        *([f"{-row.late_penalty:g} because it was late"] if row.late_penalty else []),
        *([f"{row.waiting} to be graded by a person"] if row.waiting else []),
        *([f"the penalty was {row.former_penalty:g}"] if row.former_penalty is not None else []),
        *(["late by the platform, without a time, so without a penalty"] if row.is_untimed else []),
        *(["excused"] if row.excused else []),
        *row.notes,
        *(["unchanged"] if row.unchanged and row.former_penalty is None else []),
    ]


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """Yield a function that draws the number of graded students and the total on standard error, if that is a terminal."""
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with progress_on_stderr(*columns) as update:
        yield lambda done, total: update(completed=done, total=total)
