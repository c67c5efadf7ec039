"""The report as one page that does not use the network, for screens, paper and notebooks, or as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.classroom.report.class_report import (
    AssignmentChange,
    ClassReport,
    CourseLine,
    change_since,
    class_report,
    course_lines,
    graded_assignments,
)
from autograder.classroom.report.wrong_answers import WrongAnswers
from autograder.course.paths import CLASS, write_results
from autograder.errors import InputError, html_with_code, printable
from autograder.grade.batch.course_folders import AssignmentFolders, course_folder, open_class, read_course
from autograder.grade.batch.feedback_page import code_styles
from autograder.locale.languages import language
from autograder.locale.translations import translated, translated_templates
from autograder.view.text.naming import join_few

TEMPLATES = Path(__file__).parent / "template"
MAX_NAMES = 10  # the maximum number of students in a sentence; the JSON form has all
BARS = 10
MOST_GROUPS = 6  # groups of wrong answers shown for one exercise; the others are counted
LONGEST_CODE = 40  # lines of an example


def report_html(report: ClassReport, change: AssignmentChange | None = None, course: Sequence[CourseLine] = ()) -> str:
    """Return the page; `change` is None for the first assignment, and `course` is empty in a report on one assignment."""
    exercises = {exercise.id: exercise for exercise in report.exercises}
    return _template().render(
        report=report,
        change=change,
        course=course,
        bars=histogram(report.scores, report.max_points),
        questions=[exercises[name] for name in report.questions],
        most_groups=MOST_GROUPS,
        language=language(),
        **code_styles(),
    )


def histogram(scores: Sequence[float], most: float) -> list[dict[str, float]]:
    """Return at most ten bars of a whole number of points from 0 to the maximum; extra credit counts in the last one.

    Each has the number of `students` with a score from `low` to `high`, and a place in a picture of 110 times 30 units.
    """
    points = max(1, math.ceil(most / BARS))
    counts = [0] * max(1, math.ceil(most / points))
    for score in scores:
        counts[min(int(score / points), len(counts) - 1)] += 1
    highest, wide = max(counts) or 1, (BARS * 11) / len(counts)
    return [
        {
            "students": count,
            "low": number * points,
            "high": min((number + 1) * points, most),
            "left": round(5 + wide * number, 2),
            "width": round(wide, 2),
            "height": round(30 * count / highest, 2),
        }
        for number, count in enumerate(counts)
    ]


@cache
def _template() -> jinja2.Template:
    environment = translated_templates(TEMPLATES)
    environment.filters["number"] = lambda number: "–" if number is None else f"{round(float(number), 2):g}"
    environment.filters["percent"] = lambda share: "–" if share is None else f"{round(100 * share)} %"
    environment.filters["few"] = lambda names: join_few(names, MAX_NAMES)
    environment.filters["words"] = lambda name: name.replace("_", " ")
    environment.filters["code"] = lambda text: Markup(html_with_code(str(text)))
    environment.filters["listing"] = _listing
    environment.filters["group_title"] = _group_title
    return environment.get_template("report.html.j2")


def _group_title(group: WrongAnswers) -> str:
    """Return the name of a group; for a group without a name, a one-line answer itself, or the message."""
    lines = group.example.strip().splitlines()
    return group.name or (
        f"`{lines[0]}`" if len(lines) == 1 else translated("{message} (no name yet)", message=group.message)
    )


def _listing(source: str) -> Markup:
    lines = source.strip().splitlines()
    text = "\n".join(lines[:LONGEST_CODE] + (["# …"] if len(lines) > LONGEST_CODE else []))
    return Markup(highlight(text, PythonLexer(), HtmlFormatter(nowrap=True)))


FRAME = '<iframe sandbox srcdoc="{page}" title="{title}" style="width: 100%; height: 85vh; border: 0"></iframe>'


@dataclass(frozen=True, repr=False)
class ReportOnClass:
    """A report that a notebook shows as its page, and a terminal as a few lines."""

    report: ClassReport
    change: AssignmentChange | None  # the change since the previous one; None for the first one
    course: list[CourseLine]  # a line for each student over all assignments; empty in a report on one assignment

    def as_html(self) -> str:
        """Return the page, which does not use the network."""
        return report_html(self.report, self.change, self.course)

    def save(self, path: str | Path) -> None:
        """Write the page."""
        Path(path).write_text(self.as_html(), "utf-8")

    def __repr__(self) -> str:
        about = self.report
        lines = [
            f"{about.assignment}: {len(about.scores)} students, mean {about.mean:.3g} of {about.max_points:g} points"
        ]
        lines += [
            f"  {belief.students:>4}  {belief.belief}" for belief in (about.beliefs or about.named) if belief.students
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        # A frame isolates the styles of the page and the notebook, and prevents scripts in the page.
        return FRAME.format(page=escape(self.as_html()), title=escape(self.report.assignment))


ALL = "all"


def report(assignment: str, course: str | Path | None = None) -> ReportOnClass:
    """Return the report on an assignment, which a notebook shows.

    Args:
        assignment: its name, or an unambiguous beginning of it, such as "02"; "all" for the last one and the whole course.
        course: the course's folder; None means class/ in a clone, and the current folder elsewhere.

    Raises:
        InputError: the course or the assignment does not exist, or the assignment has not been graded yet.
    """
    course = Path(course) if course else CLASS
    names = [name for name in _assignments(course) if assignment and name.startswith(assignment)]
    name = names[0] if len(names) == 1 else assignment
    folders = _last(course) if assignment == ALL else open_class(course, name, without_submissions=True)
    on_assignment = class_report(folders)
    lines = course_lines(folders) if assignment == ALL else []
    return ReportOnClass(on_assignment, change_since(folders), lines)


def write_report(assignment: str, course: Path, out: Path | None, *, as_json: bool) -> str:
    """Write the page, and return the text to print: the JSON object, or the location of the page.

    Raises:
        InputError: the page cannot be written.
    """
    whole = report(assignment, course)
    target = out if out or as_json else Path(f"report-{whole.report.assignment}.html")
    if target is not None:
        write_results(target, {target: whole.as_html().encode()})
    if as_json:
        return json.dumps({"version": 1} | msgspec.to_builtins(whole), indent=2)
    return translated("{count} students; the page is {file}", count=len(whole.report.scores), file=target)


def _assignments(course: Path) -> list[str]:
    """Return the assignments that have a source, by name."""
    places = read_course(course_folder(course)).source_folders
    return sorted({path.parent.name for place in places for path in place.glob("*/*.ipynb")})


def _last(course: Path) -> AssignmentFolders:
    sources = _assignments(course)
    for name in sources[:1]:
        graded = graded_assignments(open_class(course, name, without_submissions=True))
        if gradable := [assignment for assignment in graded if assignment in sources]:
            return open_class(course, gradable[-1], without_submissions=True)
    raise InputError(
        f"no assignment in {printable(str(course))} has grades yet. Run `autograder grade ASSIGNMENT` first"
    )
