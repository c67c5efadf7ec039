"""The report as one page that needs no network: light, dark, and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.desk.report.class_report import ClassReport, ExerciseReport
from autograder.desk.report.course_report import AssignmentChange, CourseLine
from autograder.desk.report.wrong_answers import WrongAnswers
from autograder.locale.languages import language
from autograder.locale.translated_templates import translated_templates
from autograder.locale.translations import translated
from autograder.printable import html_with_code

TEMPLATES = Path(__file__).parent / "template"
BARS = 10
MOST_GROUPS = 6  # of wrong answers that are shown for one exercise; the others are counted
LONGEST_CODE = 40  # lines of an example


class HistogramBar(NamedTuple):
    """A bar of the picture of scores.

    Attributes:
        left: of the bar, in the picture's units; 11 for each bar.
        height: in the picture's units, at most 30.
        low: the score where it begins.
        high: the score where it ends.
        students: how many have a score in between.
    """

    left: float
    height: float
    low: float
    high: float
    students: int


def report_html(report: ClassReport, change: AssignmentChange | None = None, course: Sequence[CourseLine] = ()) -> str:
    """Returns the page of a report.

    Args:
        report: on one assignment.
        change: since the assignment before; None if there is none.
        course: a line for each student over all assignments; none for a report on one.
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
    """Returns ten bars of equal width from 0 to the most that can be reached; extra credit counts in the last."""
    counts = [0] * BARS
    for score in scores:
        counts[min(int(BARS * score / most), BARS - 1) if most else 0] += 1
    highest = max(counts) or 1
    width = most / BARS
    return [
        HistogramBar(5 + 11 * number, round(30 * count / highest, 2), number * width, (number + 1) * width, count)
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
    """Returns the name of a group; where it has none an answer of one line is its own."""
    lines = group.example.strip().splitlines()
    return group.name or (
        f"`{lines[0]}`" if len(lines) == 1 else translated("{message} (no name yet)", message=group.message)
    )


def _code(source: str) -> Markup:
    lines = source.strip().splitlines()
    text = "\n".join(lines[:LONGEST_CODE] + (["# …"] if len(lines) > LONGEST_CODE else []))
    return Markup(highlight(text, PythonLexer(), HtmlFormatter(nowrap=True)))
