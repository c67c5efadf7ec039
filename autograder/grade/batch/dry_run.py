"""`grade --dry-run`: reports whose points would change, by how much and why. The class is graded into a copy of the gradebook."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
from nbgrader.api import Base
from sqlalchemy import MetaData, Table, create_engine, inspect

from autograder.grade.backends.grading_job import OpenBackend
from autograder.grade.batch.assignment import Options, ProgressCallbacks, grade_submissions
from autograder.grade.batch.course_folders import AssignmentFolders, open_class, opened_gradebook
from autograder.grade.batch.gradebook import RECORDS, GradeOrigin, GradingRecords, Score
from autograder.grade.batch.student_rows import MovedGrade, StudentRow, stored_row

_Records = tuple[dict[str, Score], dict[str, GradeOrigin]]
"""A gradebook's records of a class, by student."""


def dry_run(
    assignment: str, course: Path, options: Options, shown: ProgressCallbacks, open_backend: OpenBackend
) -> list[MovedGrade]:
    """Return the students whose points a run of `grade` with these arguments would change. Nothing is written to the course."""
    folders = open_class(course, assignment)
    with tempfile.TemporaryDirectory(prefix="autograder-dry-run-") as folder:
        trial = _copy(folders, Path(folder))
        before = _records(trial)
        options = msgspec.structs.replace(options, feedback="off", may_move=False)
        notes = {row.student: row.notes for row in grade_submissions(trial, options, shown, open_backend)}
        return list(_moved(before, _records(trial), notes))


def _copy(folders: AssignmentFolders, folder: Path) -> AssignmentFolders:
    """Return the class with a copy of its gradebook, and with other folders for the files that grading writes."""
    gradebook = folder / "gradebook.db"
    if folders.has_gradebook:
        with opened_gradebook(folders):  # reports a problem with the gradebook in one sentence
            _copy_tables(folders.gradebook, f"sqlite:///{gradebook}")
    steps = folders.steps | {"autograded": folder / "autograded", "feedback": folder / "feedback"}
    trial = replace(folders, gradebook=f"sqlite:///{gradebook}", steps=steps)
    for student in folders.students():
        if folders.autograded(student).is_dir():  # a student whose folder is missing is graded again
            trial.autograded(student).mkdir(parents=True)
    return trial


def _copy_tables(address: str, copy: str) -> None:
    """Copy the tables of nbgrader and of this package from a gradebook to a new one, given by their URLs."""
    there, here = create_engine(address), create_engine(copy)
    with contextlib.closing(there.connect()) as source, here.begin() as target:
        names = set(inspect(source).get_table_names())
        # With this table, nbgrader recognizes that the other tables exist.
        version = [Table("alembic_version", MetaData(), autoload_with=source)] if "alembic_version" in names else []
        for table in (*Base.metadata.sorted_tables, *RECORDS.sorted_tables, *version):
            table.create(target)
            if table.name in names and (rows := [dict(row) for row in source.execute(table.select()).mappings()]):
                target.execute(table.insert(), rows)
    there.dispose()
    here.dispose()


def _records(folders: AssignmentFolders) -> _Records:
    if not folders.has_gradebook:
        return {}, {}
    with GradingRecords(folders.gradebook, folders.assignment, folders.settings()) as records:
        return records.scores(), records.origins()


def _moved(before: _Records, after: _Records, notes: dict[str, tuple[str, ...]]) -> Iterator[MovedGrade]:
    (old_scores, old_origins), (scores, origins) = before, after
    for student, score in sorted(scores.items()):
        old, was, now = old_scores.get(student), old_origins.get(student), origins.get(student)
        if old is None:
            yield MovedGrade(student, None, score.total, ("was not graded yet",))
        elif old.total != score.total:
            old_notes = stored_row(was).notes if was else ()
            new = [note for note in notes.get(student, ()) if note not in old_notes]
            yield MovedGrade(student, old.total, score.total, (*_reasons(old, was, score, now), *new))


def _reasons(old: Score, was: GradeOrigin | None, new: Score, now: GradeOrigin | None) -> Iterator[str]:
    if (was and was.submission) != (now and now.submission):
        yield "submitted other files"
    if was and now:
        yield from _changed_cells(stored_row(was), stored_row(now))
    if old.late_penalty != new.late_penalty:
        yield f"late penalty {old.late_penalty:g}, then {new.late_penalty:g}"


def _changed_cells(before: StudentRow, after: StudentRow) -> Iterator[str]:
    for notebook, cells in after.cells.items():
        old_grades = before.cells.get(notebook, {})
        for name, grade in cells.items():
            points, old = f"{grade.points or 0:g} of {grade.max_points:g}", old_grades.get(name)
            if old is None:
                yield f"{name}: new, {points}"
            elif (old.points, old.max_points) != (grade.points, grade.max_points):
                reason = grade.reason.partition("\n")[0]
                yield f"{name}: {old.points or 0:g}, then {points}" + (f" ({reason})" if reason else "")
        yield from (f"{name}: taken out" for name in sorted(old_grades.keys() - cells.keys()))
