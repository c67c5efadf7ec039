"""One feedback page: a summary, each exercise with its answer beside what was found, and the whole notebook, folded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from nbconvert.exporters import Exporter
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import GetGrades
from pygments.formatters import HtmlFormatter
from traitlets import default

from autograder.grade.batch.feedback.cell_html import code_html, markdown_html, outputs_html
from autograder.grade.batch.feedback.exercises import NO_ANSWER, GradedExercise, list_exercises, title_of
from autograder.grade.batch.feedback.patience import Patience
from autograder.locale.languages import language, language_of, speaking
from autograder.locale.translated_templates import translated_templates
from autograder.locale.translations import retold, translatable, translated

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


class GetGradesAndWaiting(GetGrades):
    """nbgrader's grades, and for each graded cell whether it still waits for a person."""

    def _get_score(self, cell: NotebookNode, resources: Any) -> None:
        grade = self.gradebook.find_grade(
            cell.metadata.nbgrader.grade_id, self.notebook_id, self.assignment_id, self.student_id
        )
        waiting = bool(grade.needs_manual_grade and grade.manual_score is None)
        cell.metadata.nbgrader.update(score=grade.score, points=grade.max_score, waiting=waiting)


class FeedbackExporter(Exporter):
    """Exports a graded notebook, whose cells have their scores and comments in the metadata, as a feedback page."""

    output_mimetype = "text/html"

    @default("file_extension")
    def _file_extension_default(self) -> str:
        return ".html"

    def from_notebook_node(self, nb: NotebookNode, resources: Any = None, **options: Any) -> tuple[str, dict[str, Any]]:  # type: ignore[override]
        """Returns the page, and the resources that nbconvert's preprocessors have filled."""
        notebook, resources = super().from_notebook_node(nb, resources, **options)
        folder = str(resources.get("metadata", {}).get("path") or "")
        return page_html(notebook, dict(resources["nbgrader"]), folder), resources


def page_html(notebook: NotebookNode, grades: dict[str, Any], folder: str = "") -> str:
    """Returns the page of a graded notebook whose cells have nbgrader's scores and comments in their metadata.

    Args:
        notebook: autograded.
        grades: nbgrader's "notebook", "score" after the penalty, "max_score" and "late_penalty".
        folder: where the pictures lie that the teacher's texts show.
    """
    about, patience = notebook.metadata.get("autograder", {}), Patience()
    exercises = list_exercises(notebook)
    with speaking(language_of(notebook.metadata)):
        return _template().render(
            language=language(),
            title=title_of(notebook, exercises, str(grades["notebook"])),
            grades=grades,
            ended=retold(about.get("ended", "")),
            unreadable=about.get("unreadable", False),
            exercises=[_shown(number, exercise, patience) for number, exercise in enumerate(exercises, 1)],
            cells=[_cell(cell, patience, folder) for cell in notebook.cells],
            code_light=Markup(HtmlFormatter(style="friendly").get_style_defs(".code")),
            code_dark=Markup(HtmlFormatter(style="github-dark").get_style_defs(".code")),
        )


@cache
def _template() -> jinja2.Template:
    environment = translated_templates(TEMPLATES)
    environment.filters["points"] = lambda number: f"{round(float(number or 0), 2):g}"
    return environment.get_template("page.html.j2")


def _shown(number: int, exercise: GradedExercise, patience: Patience) -> dict[str, Any]:
    return {
        "anchor": f"exercise-{number}",
        "name": exercise.name,
        "status": exercise.status.replace(" ", "-"),
        "sign": SIGNS[exercise.status],
        "words": translated(WORDS[exercise.status]),
        "points": exercise.points,
        "max_points": exercise.max_points,
        "comments": list(map(_comment, exercise.comments)),
        "answers": [(_source(cell, patience), _outputs(cell, patience), _put_back(cell)) for cell in exercise.answers],
        "tests": [_test(cell, patience) for cell in exercise.tests],
    }


def _comment(text: str) -> str:
    """Returns a person's words as they are, and nbgrader's own remark in the reader's language."""
    return translated(NO_ANSWER) if text == NO_ANSWER else text


def _test(cell: NotebookNode, patience: Patience) -> dict[str, Any]:
    known = cell.metadata.nbgrader
    return {
        "source": _source(cell, patience),
        "outputs": _outputs(cell, patience),
        "points": known.get("score") or 0.0,
        "max_points": known.get("points") or 0.0,
        "put_back": _put_back(cell),
    }


def _put_back(cell: NotebookNode) -> bool:
    """Returns whether the hand-in did not have the cell."""
    return cell.metadata.get("autograder", {}).get("put_back", False)


def _cell(cell: NotebookNode, patience: Patience, folder: str) -> dict[str, Any]:
    return {
        "source": _source(cell, patience, folder),
        "outputs": _outputs(cell, patience),
        "folded": cell.cell_type == "code" and not (utils.is_solution(cell) or utils.is_grade(cell)),
    }


def _source(cell: NotebookNode, patience: Patience, folder: str = "") -> Markup:
    def html() -> str:
        is_code = cell.cell_type == "code"
        return code_html(cell.source) if is_code else markdown_html(cell.source, cell.get("attachments"), folder)

    return Markup(patience.html(html, cell.source))


def _outputs(cell: NotebookNode, patience: Patience) -> Markup:
    return Markup(patience.html(lambda: outputs_html(cell.get("outputs", [])), translated(TOO_LONG_TO_SHOW)))
