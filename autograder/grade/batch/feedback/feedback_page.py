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
"""What nbgrader remarks on an answer that is as it was handed out (0.9.6, preprocessors/saveautogrades.py)."""
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


def page_html(notebook: NotebookNode, grades: dict[str, Any], folder: str = "") -> str:
    """Returns the page of a graded notebook whose cells have nbgrader's scores and comments in their metadata.

    Args:
        notebook: autograded.
        grades: nbgrader's "notebook", "score" after the penalty, "max_score" and "late_penalty".
        folder: where the pictures lie that the teacher's texts show.
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
        "comments": list(map(_comment, exercise.comments)),
        "answers": [(_source(cell, budget), _outputs(cell, budget), _put_back(cell)) for cell in exercise.answers],
        "tests": [_test(cell, budget) for cell in exercise.tests],
    }


def _comment(text: str) -> str:
    """Returns a person's words as they are, and nbgrader's own remark in the reader's language."""
    return translated(NO_ANSWER) if text == NO_ANSWER else text


def _test(cell: NotebookNode, budget: RenderBudget) -> dict[str, Any]:
    known = cell.metadata.nbgrader
    return {
        "source": _source(cell, budget),
        "outputs": _outputs(cell, budget),
        "points": known.get("score") or 0.0,
        "max_points": known.get("points") or 0.0,
        "put_back": _put_back(cell),
    }


def _put_back(cell: NotebookNode) -> bool:
    """Returns whether the hand-in did not have the cell."""
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
    """What is left of the time for one page.

    pygments, mistune and latex2mathml read most texts in proportion to their length; some that a submission can hold take
    the square of that.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def html(self, make: Callable[[], str], text: str) -> str:
        """Returns what `make` returns, or the text as it is if that would take too long."""
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


@dataclass(frozen=True)
class GradedExercise:
    """One exercise.

    Attributes:
        name: the heading above it, or else the name of its first graded cell in words.
        answers: the learner's cells; those that a person grades are among them.
        tests: the cells that test the answers.
        points: reached, and possible; cells that wait for a person count 0.
    """

    name: str
    answers: list[NotebookNode]
    tests: list[NotebookNode]

    @property
    def graded(self) -> list[NotebookNode]:
        """The cells that give points."""
        return [cell for cell in [*self.answers, *self.tests] if utils.is_grade(cell) or utils.is_task(cell)]

    @property
    def points(self) -> float:
        """What the learner has reached so far."""
        return sum(cell.metadata.nbgrader.get("score") or 0.0 for cell in self.graded)

    @property
    def max_points(self) -> float:
        """What could be reached."""
        return sum(float(cell.metadata.nbgrader.get("points") or 0.0) for cell in self.graded)

    @property
    def comments(self) -> list[str]:
        """What a person wrote about it, and nbgrader's own remark about an empty answer."""
        cells = [*self.answers, *self.tests]
        return [cell.metadata.nbgrader.comment for cell in cells if cell.metadata.nbgrader.get("comment")]

    @property
    def status(self) -> Status:
        """How it stands."""
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
    """Returns the notebook's first heading, unless that is the heading of one of several exercises."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    first = next((_plain(found[1]) for text in texts if (found := HEADING.search(text))), otherwise)
    return otherwise if len(exercises) > 1 and first in [exercise.name for exercise in exercises] else first


def list_exercises(notebook: NotebookNode) -> list[GradedExercise]:
    """Returns the exercises in order. Tests belong to the answers before them, up to the tests of the exercise before."""
    found: list[GradedExercise] = []
    heading, answers, tests = "", [], []  # type: ignore[var-annotated]

    def close() -> None:
        nonlocal answers, tests
        if any(utils.is_grade(cell) or utils.is_task(cell) for cell in [*answers, *tests]):
            found.append(GradedExercise(heading or _words(answers, tests), answers, tests))
            answers, tests = [], []

    for cell in notebook.cells:
        headings = HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
        if headings and not utils.is_solution(cell):
            close()
            heading = _plain(headings[-1])
        if utils.is_solution(cell) or utils.is_task(cell):
            if tests or any(utils.is_grade(one) or utils.is_task(one) for one in answers):
                close()
            answers.append(cell)
        elif utils.is_grade(cell):
            tests.append(cell)
    close()
    return _with_different_names(found)


def _with_different_names(found: list[GradedExercise]) -> list[GradedExercise]:
    """Returns the exercises; where several stand below one heading, each has the name of its graded cell too."""
    names = [exercise.name for exercise in found]
    return [
        replace(exercise, name=f"{exercise.name}: {_words(exercise.answers, exercise.tests)}")
        if names.count(exercise.name) > 1
        else exercise
        for exercise in found
    ]


def _words(answers: list[NotebookNode], tests: list[NotebookNode]) -> str:
    """Returns the name of the first graded cell in words."""
    cell = next(cell for cell in [*tests, *answers] if utils.is_grade(cell) or utils.is_task(cell))
    name = re.sub(r"^(test|cell|grade|prediction)[-_]", "", cell.metadata.nbgrader.grade_id)
    return re.sub(r"[-_]+", " ", name).strip() or cell.metadata.nbgrader.grade_id


def _plain(heading: str) -> str:
    """Returns a heading without Markdown's marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]|</?\w+>", "", heading)).strip()
