"""The report as one page that does not use the network, for light and dark screens and for paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.classroom.report.class_report import ClassReport, ExerciseReport
from autograder.classroom.report.course_report import AssignmentChange, CourseLine
from autograder.classroom.report.wrong_answers import WrongAnswers
from autograder.locale.languages import language
from autograder.locale.translated_templates import translated_templates
from autograder.locale.translations import translated
from autograder.printable import html_with_code

TEMPLATES = Path(__file__).parent / "template"
BARS = 10
MOST_GROUPS = 6  # groups of wrong answers shown for one exercise; the others are counted
LONGEST_CODE = 40  # lines of an example


class HistogramBar(NamedTuple):
    """A bar of the histogram of scores.

    Attributes:
        left: left edge, in the picture's units.
        width: width in the picture's units; all bars together are 110 units wide.
        height: height in the picture's units, at most 30.
        low: the lowest score of the bar.
        high: the score at its upper end.
        students: the number of students with a score in between.
    """

    left: float
    width: float
    height: float
    low: float
    high: float
    students: int


def report_html(report: ClassReport, change: AssignmentChange | None = None, course: Sequence[CourseLine] = ()) -> str:
    """Return the page of a report.

    Args:
        report: the report on one assignment.
        change: the change since the previous assignment; None for the first one.
        course: a line for each student over all assignments; empty in a report on one assignment.
    """
    exercises = {one.id: one for one in report.exercises}
    return _template().render(
        report=report,
        change=change,
        course=course,
        bars=histogram(report.scores, report.max_points),
        questions=[_question(exercises[name]) for name in report.questions],
        exercises=[_exercise(one) for one in report.exercises],
        language=language(),
        code_light=Markup(HtmlFormatter(style="friendly").get_style_defs(".code")),
        code_dark=Markup(HtmlFormatter(style="github-dark").get_style_defs(".code")),
    )


def histogram(scores: Sequence[float], most: float) -> list[HistogramBar]:
    """Return at most ten bars of a whole number of points from 0 to the maximum; extra credit counts in the last one."""
    points = max(1, math.ceil(most / BARS))
    counts = [0] * max(1, math.ceil(most / points))
    for score in scores:
        counts[min(int(score / points), len(counts) - 1)] += 1
    highest, wide = max(counts) or 1, (BARS * 11) / len(counts)
    return [
        HistogramBar(
            round(5 + wide * number, 2),
            round(wide, 2),
            round(30 * count / highest, 2),
            number * points,
            min((number + 1) * points, most),
            count,
        )
        for number, count in enumerate(counts)
    ]


@cache
def _template() -> jinja2.Template:
    environment = translated_templates(TEMPLATES)
    environment.filters["number"] = lambda number: "–" if number is None else f"{round(float(number), 2):g}"
    environment.filters["percent"] = lambda share: "–" if share is None else f"{round(100 * share)} %"
    environment.filters["words"] = lambda name: name.replace("_", " ")
    environment.filters["code"] = lambda text: Markup(html_with_code(str(text)))
    return environment.get_template("report.html.j2")


def _question(report: ExerciseReport) -> dict[str, Any]:
    group = report.wrong[0]
    return {"id": report.id, "report": report, "group": group, "code": _code(group.example), "picture": report.picture}


def _exercise(report: ExerciseReport) -> dict[str, Any]:
    shown = report.wrong[:MOST_GROUPS]
    return {
        "report": report,
        "groups": [{"group": group, "title": _title(group), "code": _code(group.example)} for group in shown],
        "more": len(report.wrong) - len(shown),
    }


def _title(group: WrongAnswers) -> str:
    """Return the name of a group; for a group without a name, a one-line answer itself, or the message."""
    lines = group.example.strip().splitlines()
    return group.name or (
        f"`{lines[0]}`" if len(lines) == 1 else translated("{message} (no name yet)", message=group.message)
    )


def _code(source: str) -> Markup:
    lines = source.strip().splitlines()
    text = "\n".join(lines[:LONGEST_CODE] + (["# …"] if len(lines) > LONGEST_CODE else []))
    return Markup(highlight(text, PythonLexer(), HtmlFormatter(nowrap=True)))
