"""Writes the feedback folder of a class with nbgrader's own command, which then shows our page instead of its own."""

from __future__ import annotations

import logging
import multiprocessing
import re

from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.grade.batch.course.classroom import Classroom
from autograder.grade.batch.feedback.feedback_page import FeedbackExporter, GetGradesAndWaiting
from autograder.grade.batch.feedback.hidden_tests import CoverHiddenTests
from autograder.tape.run.time_limit import TimeUp, time_limit

PAGE_SECONDS = 60.0  # for the pages of one student; those of a lesson take a fraction of a second

TOOK_TOO_LONG = "it took more than {:g} seconds"

# The last line of a Python traceback, without the number of a system error; nbgrader's own error only points at the others.
REASON = re.compile(r"^ *(?:[\w.]*Error|[\w.]*Exception): (?:\[Errno \d+\] )?(?!Please see the)(.+)$", re.MULTILINE)


def configure_feedback(config: Config, level: str = "name") -> None:
    """Makes `nbgrader generate_feedback` write such pages; for `nbgrader_config.py`, and for the grader itself.

    Args:
        config: is changed.
        level: what to show of a hidden test that failed: "none", "name" or "message".
    """
    config.GenerateFeedback.preprocessors = [GetGradesAndWaiting, CoverHiddenTests]
    config.GenerateFeedback.exporter_class = FeedbackExporter
    config.CoverHiddenTests.level = level


def write_feedback(classroom: Classroom, students: list[str], level: str, jobs: int) -> list[str]:
    """Writes the pages of these students, `jobs` at once, and returns a line for each that could not be written.

    Each line begins with the student's name and a colon.
    """
    if not students:
        return []
    count = min(jobs, len(students))
    slices = [(classroom, students[start::count], level) for start in range(count)]
    with multiprocessing.get_context("fork").Pool(count) as pool:
        return [line for lines in pool.starmap(_write, slices) for line in lines]


def _write(classroom: Classroom, students: list[str], level: str) -> list[str]:
    config = classroom.settings()
    configure_feedback(config, level)
    api = NbGraderAPI(config=config)
    # nbgrader catches the log for its answer, where it looks for the reason; only the log's own way to the terminal is closed.
    api.log.handlers, api.log.propagate = [], False
    api.log.setLevel(logging.ERROR)
    problems = {student: _write_one(api, classroom, student) for student in students}
    return [f"{student}: there is no feedback page ({problem})" for student, problem in problems.items() if problem]


def _write_one(api: NbGraderAPI, classroom: Classroom, student: str) -> str:
    """Returns why a student's page could not be written; "" if it was."""
    if unfit := _unfit_name(student):
        return unfit
    late: list[BaseException] = []

    def stop() -> BaseException:
        late.append(TimeUp())  # nbgrader catches everything
        return late[0]

    try:
        with time_limit(PAGE_SECONDS, stop):
            result = api.generate_feedback(classroom.assignment, student, force=True)
    except (Exception, TimeUp) as error:  # noqa: BLE001 - the pages of the others are still to be written
        return TOOK_TOO_LONG.format(PAGE_SECONDS) if late else f"{type(error).__name__}: {error}"[:300]
    if late:
        return TOOK_TOO_LONG.format(PAGE_SECONDS)
    if result["success"]:
        return _missing(classroom, student)
    reasons = REASON.findall(f"{result.get('error') or ''}\n{result.get('log') or ''}")
    return reasons[-1][:300] if reasons else "nbgrader gave no reason"


def _unfit_name(student: str) -> str:
    """Returns why nbgrader (0.9.6, converters/base.py) finds no notebook below a folder of this name; "" if it does."""
    if student != student.strip():
        return "nbgrader takes the spaces at the ends of a student's name away: rename the folder"
    return "nbgrader reads no folder whose name has a line break: rename the folder" if "\n" in student else ""


def _missing(classroom: Classroom, student: str) -> str:
    """Returns which page is missing, though nbgrader reported success."""
    notebooks = classroom.autograded(student).glob("*.ipynb")
    pages = [classroom.feedback(student) / f"{notebook.stem}.html" for notebook in notebooks]
    return next((f"{page} was not written" for page in pages if not page.is_file()), "")
