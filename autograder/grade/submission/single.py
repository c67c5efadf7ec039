"""`grade(source, submission)`: one notebook by another, without class, gradebook or files written."""

from __future__ import annotations

from pathlib import Path

from autograder.grade.sandbox.walls import Level, require
from autograder.grade.submission.remote import Server
from autograder.grade.submission.result import CellGrade
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_grader import Examiner, unreadable
from autograder.grade.submission.untrusted_notebook import Unreadable, attachments, notebook_bytes
from autograder.grade.wire.limits import Limits


def grade(
    source: Path,
    submission: Path,
    *,
    isolation: Level = "bubblewrap",
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> dict[str, CellGrade]:
    """Returns points and reason of every graded cell, by its id.

    Args:
        source: the teacher's notebook, hidden tests included.
        submission: the student's notebook; other files in its folder come along.
        isolation: the level below which nothing is run.
        limits: what the submission may use.

    Raises:
        NotebookError: the source is no notebook.
        IsolationError: the machine does not reach the level asked for.
    """
    level, teachers = require(isolation), AssignmentSource.read(source)
    try:
        data = notebook_bytes(submission, limits)
    except Unreadable as error:
        return unreadable(teachers, str(error)).cells
    files, _ = attachments(submission.parent, limits)
    with Server(level, limits) as server:
        return Examiner(server, limits).grade(teachers, data, files).cells
