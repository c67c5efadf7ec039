"""Writes the feedback folder of a class with nbgrader's own command, which then shows our page instead of its own."""

from __future__ import annotations

import logging
import multiprocessing
import re
from pathlib import Path

from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import capture_log
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


class _FeedbackOfOne(GenerateFeedback):
    """nbgrader's command for one student; of any name, in a course at any path.

    nbgrader (0.9.6, converters/base.py and utils.py) takes both for patterns: it finds nothing below "[red]", copies that
    student's graded notebook, with its hidden tests, beside the page, and fails below "Physics (2026)".
    """

    student = ""
    force = True

    def init_notebooks(self) -> None:
        """Finds the student's graded notebooks."""
        folder = self._format_source("", "")
        self.assignments = {folder: [str(path) for path in Path(folder).glob("*.ipynb")]}
        self.notebooks: list[str] = []

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        """Copies the files beside the notebooks, and none of these."""
        super().init_assignment(assignment_id, student_id)
        for notebook in Path(self._format_dest(assignment_id, student_id)).rglob("*.ipynb"):
            notebook.unlink()

    def _format_source(self, assignment_id: str, student_id: str, escape: bool = False) -> str:
        folder = Path(super()._format_source(self.coursedir.assignment_id, self.student))
        if not escape:
            return str(folder)
        parent, student, assignment = map(re.escape, (str(folder.parent.parent), folder.parent.name, folder.name))
        return f"{parent}/(?P<student_id>{student})/(?P<assignment_id>{assignment})"


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
    config.CourseDirectory.assignment_id = classroom.assignment
    app = _FeedbackOfOne(coursedir=CourseDirectory(config=config), config=config)
    # nbgrader catches the log for its answer, where it looks for the reason; only the log's own way to the terminal is closed.
    app.log.handlers, app.log.propagate = [], False
    app.log.setLevel(logging.ERROR)
    problems = {student: _write_one(app, classroom, student) for student in students}
    return [f"{student}: there is no feedback page ({problem})" for student, problem in problems.items() if problem]


def _write_one(app: _FeedbackOfOne, classroom: Classroom, student: str) -> str:
    """Returns why a student's page could not be written; "" if it was."""
    late: list[BaseException] = []

    def stop() -> BaseException:
        late.append(TimeUp())  # nbgrader catches everything
        return late[0]

    try:
        with time_limit(PAGE_SECONDS, stop):
            app.student = student
            result = capture_log(app)
    except (Exception, TimeUp) as error:  # noqa: BLE001 - the pages of the others are still to be written
        return TOOK_TOO_LONG.format(PAGE_SECONDS) if late else f"{type(error).__name__}: {error}"[:300]
    if late:
        return TOOK_TOO_LONG.format(PAGE_SECONDS)
    if result["success"]:
        return _missing(classroom, student)
    reasons = REASON.findall(f"{result.get('error') or ''}\n{result.get('log') or ''}")
    return reasons[-1][:300] if reasons else "nbgrader gave no reason"


def _missing(classroom: Classroom, student: str) -> str:
    """Returns which page is missing, though nbgrader reported success."""
    notebooks = list(classroom.autograded(student).glob("*.ipynb"))
    if not notebooks:
        return "there is no graded notebook"
    pages = [classroom.feedback(student) / f"{notebook.stem}.html" for notebook in notebooks]
    return next((f"{page} was not written" for page in pages if not page.is_file()), "")
