"""`grade(source, submission)`: grades one notebook by another, without a class or a gradebook, and writes no files."""

from __future__ import annotations

import secrets
from pathlib import Path

from traitlets.config import Config

from autograder.grade.rehearsal.rehearsal import rehearse
from autograder.grade.sandbox.isolation.levels import STRONGEST, require_level
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.submitted.submitted_files import UnreadableSubmission, attachments, notebook_bytes
from autograder.grade.submission.teacher.autotests import AutotestRunner
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import GraderProcesses
from autograder.grade.wire.limits import Limits


def grade(
    source: Path,
    submission: Path,
    *,
    isolation: str = STRONGEST,
    limits: Limits = Limits(),  # noqa: B008 - it is frozen
) -> dict[str, CellGrade]:
    """Returns points and reason of every graded cell, by the cell's id; the source is rehearsed first.

    Args:
        source: the teacher's notebook, with its hidden tests.
        submission: the student's notebook; other files in its folder are copied to where it runs.
        isolation: a name in `autograder.grade.sandbox.isolation.levels.LEVELS`, such as "bubblewrap".
        limits: what the submission may use.

    Raises:
        NotebookError: the source is not a notebook.
        SourceError: a cell of the source cannot be graded.
        IsolationError: the machine does not reach the isolation level.
        RehearsalError: the source's own answers could not be graded.
    """
    level = require_level(isolation)
    with AutotestRunner(level, limits, Config(), source.parent) as autotests:
        teachers = AssignmentSource.read(source, autotests)
    try:
        data = notebook_bytes(submission, limits)
    except UnreadableSubmission as error:
        return unreadable(teachers, str(error)).cells
    files, _ = attachments(submission.parent, limits)
    terms = GradingTerms({teachers.name: teachers}, level, limits, secrets.randbits(63))
    with ServerPool(level, 1) as servers, GraderProcesses(terms, 1, servers) as processes:
        plan = rehearse(teachers, processes).plan
        [result] = processes.grade([Job(submission.stem, teachers.name, data, files, plan)])
    return (result.grade or unreadable(teachers, result.failure)).cells
