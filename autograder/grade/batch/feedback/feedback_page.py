"""One feedback page: a summary, each exercise with its answer beside what was found, and the whole notebook, folded."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Literal

import jinja2
from markupsafe import Markup
from nbformat import NotebookNode
from nbgrader import utils
from pygments.formatters import HtmlFormatter

from autograder.grade.batch.feedback.cell_html import code_html, markdown_html, outputs_html
from autograder.locale.languages import language, language_of, speaking
from autograder.locale.translated_templates import translated_templates
from autograder.locale.translations import retold, translatable, translated
from autograder.tape.run.time_limit import TimeUp, time_limit

Status = Literal["correct", "partly", "incorrect", "not attempted", "not run", "waiting"]
NO_ANSWER = translatable("No response.")
"""nbgrader's comment on an answer that is as it was handed out (0.9.6, preprocessors/saveautogrades.py)."""
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
SECONDS = 20.0  # of processor time, for one page; those of a lesson take a fraction of one
SECONDS_OF_A_PART = 2.0
TOO_LONG_TO_SHOW = translatable("(what this cell showed takes too long to display)")
TEMPLATES = Path(__file__).parent / "template"
SIGNS = {"correct": "✓", "partly": "◐", "incorrect": "○", "not attempted": "–", "not run": "–", "waiting": "…"}
WORDS = {
    "correct": translatable("correct"),
    "partly": translatable("partly correct"),
    "incorrect": translatable("not correct yet"),
    "not attempted": translatable("not attempted"),
    "not run": translatable("not run"),
    "waiting": translatable("a person will grade this"),
}


KINDS = {
    "declarative": translatable("compared with expected data"),
    "plain data": translatable("run in a separate process"),
    "in process": translatable("run in the process of your answers"),
}


def page_html(notebook: NotebookNode, grades: dict[str, Any], folder: str = "") -> str:
    """Return the page of a graded notebook whose cells have nbgrader's scores and comments in their metadata.

    `grades` has nbgrader's "notebook", "score" after the penalty, "max_score" and "late_penalty"; `folder` has the pictures in
    the teacher's texts.
    """
    about, budget = notebook.metadata.get("autograder", {}), RenderBudget()
    exercises = list_exercises(notebook)
    with speaking(language_of(notebook.metadata)):
        return _template().render(
            language=language(),
            title=title_of(notebook, exercises, str(grades["notebook"])),
            grades=grades,
            ended=retold(about.get("ended", "")),
            unreadable=about.get("unreadable", False),
            exercises=[_shown(number, exercise, budget) for number, exercise in enumerate(exercises, 1)],
            cells=[_cell(cell, budget, folder) for cell in notebook.cells],
            code_light=Markup(HtmlFormatter(style="friendly").get_style_defs(".code")),
            code_dark=Markup(HtmlFormatter(style="github-dark").get_style_defs(".code")),
        )


@cache
def _template() -> jinja2.Template:
    environment = translated_templates(TEMPLATES)
    environment.filters["points"] = lambda number: f"{round(float(number or 0), 2):g}"
    return environment.get_template("page.html.j2")


def _shown(number: int, exercise: GradedExercise, budget: RenderBudget) -> dict[str, Any]:
    return {
        "anchor": f"exercise-{number}",
        "name": exercise.name,
        "status": exercise.status.replace(" ", "-"),
        "sign": SIGNS[exercise.status],
        "words": translated(WORDS[exercise.status]),
        "points": exercise.points,
        "max_points": exercise.max_points,
        "comments": [translated(text) if text == NO_ANSWER else text for text in exercise.comments],
        "answers": [(_source(cell, budget), _outputs(cell, budget), _put_back(cell)) for cell in exercise.answers],
        "tests": [_test(cell, budget) for cell in exercise.tests],
    }


def _test(cell: NotebookNode, budget: RenderBudget) -> dict[str, Any]:
    known, about = cell.metadata.nbgrader, cell.metadata.get("autograder", {})
    return {
        "source": _source(cell, budget),
        "outputs": _outputs(cell, budget),
        "kind": translated(KINDS[about["kind"]]) if about.get("kind") in KINDS else "",
        "reason": retold(about.get("reason", "")),
        "points": known.get("score") or 0.0,
        "max_points": known.get("points") or 0.0,
        "put_back": _put_back(cell),
    }


def _put_back(cell: NotebookNode) -> bool:
    """Return whether the submission did not have the cell."""
    return cell.metadata.get("autograder", {}).get("put_back", False)


def _cell(cell: NotebookNode, budget: RenderBudget, folder: str) -> dict[str, Any]:
    return {
        "source": _source(cell, budget, folder),
        "outputs": _outputs(cell, budget),
        "folded": cell.cell_type == "code" and not (utils.is_solution(cell) or utils.is_grade(cell)),
    }


def _source(cell: NotebookNode, budget: RenderBudget, folder: str = "") -> Markup:
    def html() -> str:
        is_code = cell.cell_type == "code"
        return code_html(cell.source) if is_code else markdown_html(cell.source, cell.get("attachments"), folder)

    return Markup(budget.html(html, cell.source))


def _outputs(cell: NotebookNode, budget: RenderBudget) -> Markup:
    return Markup(budget.html(lambda: outputs_html(cell.get("outputs", [])), translated(TOO_LONG_TO_SHOW)))


class RenderBudget:
    """The time that is left for one page: pygments, mistune and latex2mathml are slow with some texts."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def html(self, make: Callable[[], str], text: str) -> str:
        """Return what `make` returns, or the text as it is if that would take too long."""
        start = time.process_time()
        try:
            if self._left <= 0:
                raise TimeUp
            with time_limit(min(self._left, SECONDS_OF_A_PART), clock=time.process_time):
                return make()
        except (TimeUp, RecursionError):
            return f"<pre>{escape(text)}</pre>"
        finally:
            self._left -= time.process_time() - start


def _gives_points(cell: NotebookNode) -> bool:
    return utils.is_grade(cell) or utils.is_task(cell)


@dataclass(frozen=True)
class GradedExercise:
    """One exercise."""

    name: str  # the heading above it, or else the name of its first graded cell in words
    answers: list[NotebookNode]  # the student's cells, also those that a person grades
    tests: list[NotebookNode]

    @property
    def graded(self) -> list[NotebookNode]:
        """The cells that give points."""
        return list(filter(_gives_points, [*self.answers, *self.tests]))

    @property
    def points(self) -> float:
        """The points so far; cells that wait for a person count 0."""
        return sum(cell.metadata.nbgrader.get("score") or 0.0 for cell in self.graded)

    @property
    def max_points(self) -> float:
        """The maximum."""
        return sum(float(cell.metadata.nbgrader.get("points") or 0.0) for cell in self.graded)

    @property
    def comments(self) -> list[str]:
        """A person's comments, and nbgrader's own about an empty answer."""
        known = [cell.metadata.nbgrader for cell in [*self.answers, *self.tests]]
        return [about.comment for about in known if about.get("comment")]

    @property
    def status(self) -> Status:
        """The result in a word."""
        if any(cell.metadata.nbgrader.get("waiting") for cell in self.graded):
            return "waiting"
        if self.points == 0 and NO_ANSWER in self.comments:  # it may be one that gives no points
            return "not attempted"
        if self.points >= self.max_points:
            return "correct"
        if self.points > 0:
            return "partly"
        found = {cell.metadata.get("autograder", {}).get("status") for cell in self.graded}
        return next((one for one in ("not attempted", "not run") if found == {one}), "incorrect")


def title_of(notebook: NotebookNode, exercises: list[GradedExercise], otherwise: str) -> str:
    """Return the notebook's first heading, unless that is the heading of one of several exercises."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    first = next((_plain(found[1]) for text in texts if (found := HEADING.search(text))), otherwise)
    return otherwise if len(exercises) > 1 and first in [exercise.name for exercise in exercises] else first


def list_exercises(notebook: NotebookNode) -> list[GradedExercise]:
    """Return the exercises in order. Tests belong to the answers before them, up to the tests of the exercise before."""
    found: list[GradedExercise] = []
    heading, answers, tests = "", [], []  # type: ignore[var-annotated]

    def close() -> None:
        nonlocal answers, tests
        if any(map(_gives_points, [*answers, *tests])):
            found.append(GradedExercise(heading or _words(answers, tests), answers, tests))
            answers, tests = [], []

    for cell in notebook.cells:
        headings = HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
        if headings and not utils.is_solution(cell):
            close()
            heading = _plain(headings[-1])
        if utils.is_solution(cell) or utils.is_task(cell):
            if tests or any(map(_gives_points, answers)):
                close()
            answers.append(cell)
        elif utils.is_grade(cell):
            tests.append(cell)
    close()
    names = [exercise.name for exercise in found]
    return [  # of several below one heading, each has the name of its graded cell, too
        replace(one, name=f"{one.name}: {_words(one.answers, one.tests)}") if names.count(one.name) > 1 else one
        for one in found
    ]


def _words(answers: list[NotebookNode], tests: list[NotebookNode]) -> str:
    """Return the name of the first graded cell in words."""
    name = next(filter(_gives_points, [*tests, *answers])).metadata.nbgrader.grade_id
    return re.sub(r"[-_]+", " ", re.sub(r"^(test|cell|grade|prediction)[-_]", "", name)).strip() or name


def _plain(heading: str) -> str:
    """Return a heading without Markdown's marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]|</?\w+>", "", heading)).strip()
