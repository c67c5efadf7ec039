"""The `report` command: write the page to a file, or return the data as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import msgspec

from autograder.classroom.class_grades import NotGradedError
from autograder.classroom.report.class_report import ClassReport, class_report
from autograder.classroom.report.course_report import (
    AssignmentChange,
    CourseLine,
    change_since,
    course_lines,
    graded_assignments,
)
from autograder.classroom.report.report_page import report_html
from autograder.course.file_replacement import replace_file
from autograder.errors import InputError
from autograder.grade.batch.classroom import Classroom, course_folder, open_class
from autograder.grade.batch.course_config import read_course
from autograder.locale.translations import translated
from autograder.printable import printable

ALL = "all"


class ReportError(InputError):
    """The page cannot be written."""


class WholeReport(NamedTuple):
    """The report on an assignment, the change since the previous one, and with `all` a line for each student."""

    report: ClassReport
    change: AssignmentChange | None
    course: list[CourseLine]


def whole_report(assignment: str, course: Path) -> WholeReport:
    """Return the report on an assignment; for "all", on the last one, with the whole course.

    Args:
        assignment: its name, or an unambiguous beginning of it.
        course: the course's folder.

    Raises:
        ClassError: the assignment does not exist.
        NotGradedError: the assignment has not been graded yet.
    """
    name = _full_name(assignment, course)
    classroom = _last(course) if assignment == ALL else open_class(course, name, before_hand_in=True)
    report = class_report(classroom)
    return WholeReport(report, change_since(classroom, report), course_lines(classroom) if assignment == ALL else [])


def write_report(assignment: str, course: Path, out: Path | None, *, as_json: bool) -> str:
    """Write the page, and return the text to print: the JSON object, or the location of the page.

    Raises:
        ReportError: the page cannot be written.
    """
    whole = whole_report(assignment, course)
    target = out if out or as_json else Path(f"report-{whole.report.assignment}.html")
    if target is not None:
        try:
            replace_file(target, report_html(*whole).encode())
        except OSError as error:
            raise ReportError(f"the page cannot be written to {printable(str(target))} ({error.strerror})") from None
    if as_json:
        return json.dumps({"version": 1} | msgspec.to_builtins(whole._asdict()), indent=2)
    return translated("{count} students; the page is {file}", count=len(whole.report.scores), file=target)


def _full_name(beginning: str, course: Path) -> str:
    found = [name for name in _assignments(course) if beginning and name.startswith(beginning)]
    return found[0] if len(found) == 1 else beginning


def _assignments(course: Path) -> list[str]:
    """Return the assignments that have a source, by name."""
    places = read_course(course_folder(course)).source_folders
    return sorted({path.parent.name for place in places for path in place.glob("*/*.ipynb")})


def _last(course: Path) -> Classroom:
    sources = _assignments(course)
    for name in sources[:1]:
        known = [one for one in graded_assignments(open_class(course, name, before_hand_in=True)) if one in sources]
        if known:
            return open_class(course, known[-1], before_hand_in=True)
    raise NotGradedError(
        f"no assignment in {printable(str(course))} has grades yet. Run `autograder grade ASSIGNMENT` first"
    )
