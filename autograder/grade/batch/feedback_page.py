"""One feedback page: a summary, each exercise with its answer and the results of its tests, and the whole notebook, folded."""

from __future__ import annotations

import datetime
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from html import escape
from pathlib import Path
from typing import Any, Literal

import jinja2
import nh3
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert.filters import ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbgrader import utils
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from autograder.grade.clean.harmless_cells import ProcessorBudget, harmless_picture_size
from autograder.grade.clean.harmless_html import FORMATS, harmless_page, raster_base64
from autograder.grade.clean.harmless_text import JOINER, harmless_text
from autograder.grade.submission.cell_analysis import failed_definition
from autograder.locale.languages import language, language_of, use_language
from autograder.locale.line_breaks import split_rows
from autograder.locale.stored_messages import read_stored
from autograder.locale.translations import localized, translatable, translated, translated_templates
from autograder.tape.run.time_limit import TimeUp

VERDICTS = {"Incorrect", "NotAnOutcome", "NotAttempted", "Missing", "Unreachable", "Ended", "HiddenTest"}
"""Errors of this package whose message is sufficient without a traceback."""

FAILED_LINE = re.compile(r"^-+> ?\d+ (.*)$", re.MULTILINE)
UNDEFINED = re.compile(r"^(?:name ')?(\w+)(?:'|:)")
TOO_LONG = re.compile(r"CellTimeoutError: stopped after ([\d.]+) seconds")
# A frame of this package is not relevant to the student's code.
OUR_FRAME = re.compile(r"(\x1b\[[0-9;]*m)*File (\x1b\[[0-9;]*m)*(…/)?autograder/")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def code_styles() -> dict[str, Markup]:
    """Return the styles of highlighted code for light and dark pages, by the names of the templates."""
    styles = {"code_light": "friendly", "code_dark": "github-dark"}
    return {name: Markup(HtmlFormatter(style=style).get_style_defs(".code")) for name, style in styles.items()}


@lru_cache(maxsize=2048)  # most cells are the same for all students
def code_html(source: str) -> str:
    """Return Python code as HTML with syntax highlighting, by classes of pygments."""
    return highlight(source, PythonLexer(stripnl=False), HtmlFormatter(cssclass="code"))


def markdown_html(text: str, attachments: dict[str, Any] | None = None, folder: str = "") -> str:
    """Return Markdown as harmless HTML, with formulas in MathML, and with pictures from `folder` embedded."""
    if attachments or "![" in text or "<img" in text:
        return _rendered(text, attachments, folder)
    return _without_pictures(text)


def _rendered(text: str, attachments: dict[str, Any] | None = None, folder: str = "") -> str:
    renderer = _Renderer(attachments, folder)
    html = harmless_page(MarkdownWithMath(renderer=renderer).render(text))
    return re.sub(rf"{renderer.mark}-\d+-", lambda mark: renderer.formulas.get(mark[0], ""), html)


_without_pictures = lru_cache(maxsize=2048)(_rendered)


class _Renderer(IPythonRenderer):
    """nbconvert's renderer, with a placeholder for each formula: MathML is inserted after everything else was cleaned."""

    def __init__(self, attachments: dict[str, Any] | None, folder: str) -> None:
        super().__init__(
            escape=False, embed_images=bool(folder), path=folder, attachments=attachments, exclude_anchor_links=True
        )
        self.formulas: dict[str, str] = {}
        self.mark = secrets.token_hex(8)

    def inline_math(self, body: str) -> str:
        return self._marked(as_mathml(body))

    def block_math(self, body: str) -> str:
        return self._marked(as_mathml(body, block=True))

    def latex_environment(self, name: str, body: str) -> str:
        return self._marked(as_mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", block=True))

    def block_mermaidjs(self, code: str) -> str:
        """Render a mermaid diagram as code, because only a script could draw it."""
        return self.block_code(code)

    def _embed_image_or_attachment(self, src: str) -> str:
        # A missing attachment would stop the rendering of the page (nbconvert 7.17, `InvalidNotebook`).
        name = src.removeprefix("attachment:")
        return "" if name != src and name not in self.attachments else super()._embed_image_or_attachment(src)

    def _marked(self, formula: str) -> str:
        mark = f"{self.mark}-{len(self.formulas)}-"
        self.formulas[mark] = formula
        return mark


def outputs_html(outputs: list[NotebookNode]) -> str:
    """Return the HTML of outputs, with text before pictures.

    The message of a check, which its error repeats, is left out of the text; an explanation after it follows the error.
    """
    said = [f"{output.evalue}\n" for output in outputs if output.output_type == "error"]
    ordered: list[tuple[bool, bool, str]] = []
    for output in outputs:
        message = next(filter(output.get("text", "").startswith, said), "")
        shown = NotebookNode(output, text=output.text.removeprefix(message)) if message else output
        ordered.append((output.output_type == "display_data", bool(message), output_html(shown)))
    return "".join(html for *_, html in sorted(ordered, key=lambda part: part[:2]))


def output_html(output: NotebookNode) -> str:
    """Return the HTML of one output."""
    if output.output_type == "stream":
        kind = "warning" if output.name == "stderr" else "printed"
        return f'<pre class="{kind}">{_terminal(output.text)}</pre>' if output.text else ""
    if output.output_type == "error":
        return error_html(output)
    data = output.get("data", {})
    kind = next((kind for kind in SHOWN if kind in data), "")
    return SHOWN[kind](data[kind], output.get("metadata", {}).get(kind, {})) if kind else ""


def error_html(output: NotebookNode) -> str:
    """Return the HTML of an error: its message, and the folded traceback of an error that this package did not raise."""
    said = f"{output.ename}: {output.evalue}" if output.evalue else output.ename
    said = re.sub("^(LearnerError|StudentError): ", "", said)  # their messages are sufficient
    if stopped := TOO_LONG.search(said):
        sentence = translated("Your code took too long: it was stopped after {seconds} seconds.", seconds=stopped[1])
        return _message(sentence)
    if output.ename in VERDICTS:
        verdict, *rows = split_rows(output.evalue)
        shown = "".join(f'<span class="row">{_terminal(row)}</span>' for row in rows)
        return f'<pre class="message">{_terminal(verdict)}{shown}</pre>' if rows else _message(output.evalue)
    traceback = "\n".join(part for part in map(harmless_text, output.traceback) if not OUR_FRAME.match(part))
    if output.ename in ("SyntaxError", "IndentationError", "TabError"):
        return _message(traceback)  # shows only the position
    lines = FAILED_LINE.findall(COLOURS.sub("", traceback))
    failed = f"\n    {lines[0].strip()}" if lines and not output.evalue else ""
    title = translated("Traceback")
    folded = f"<details><summary>{title}</summary><pre>{_terminal(traceback)}</pre></details>" if lines else ""
    return _message(said + failed) + folded


def _message(text: str) -> str:
    return f'<pre class="message">{_terminal(text)}</pre>'


def _terminal(text: str) -> str:
    return ansi2html(harmless_text(text))


def _picture(kind: str, text: str, metadata: dict[str, Any]) -> str:
    data, alt = raster_base64(kind, text), translated("a picture that the cell shows")
    size = "".join(f' {side}="{pixels}"' for side, pixels in harmless_picture_size(metadata).items())
    return f'<img alt="{alt}" src="data:{kind};base64,{data}"{size}>' if data else ""


SHOWN: dict[str, Callable[[str, dict[str, Any]], str]] = {
    "text/html": lambda text, _: f'<div class="shown">{harmless_page(text)}</div>',
    **{kind: partial(_picture, kind) for kind in FORMATS},
    "text/markdown": lambda text, _: markdown_html(text),
    "text/latex": lambda text, _: markdown_html(text),
    "text/plain": lambda text, _: f"<pre>{escape(harmless_text(text))}</pre>",
}
"""The MIME types that a page shows, in order of preference."""


# fmt: off
TAGS = {
    "math", "mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "mtable", "mtr", "mtd", "mtext", "mspace",
    "mover", "munder", "munderover", "mstyle", "mpadded", "mphantom", "mmultiscripts", "mprescripts", "none",
}
ATTRIBUTES = {
    "math": {"display"}, "mo": {"stretchy", "fence", "minsize", "maxsize"}, "mi": {"mathvariant"},
    "mtable": {"columnalign"}, "mfrac": {"linethickness"}, "mspace": {"width"},
}
# fmt: on
LONGEST = 5_000
# latex2mathml 3.81 supports only the starred forms of these.
SAME_AS = dict.fromkeys(("aligned", "align", "eqnarray", "gathered"), "align*") | {"equation": "", "equation*": ""}


def as_mathml(latex: str, *, block: bool = False) -> str:
    """Return a formula as MathML; a formula that cannot be converted is returned as code."""
    latex = latex.replace(JOINER, "")
    try:
        if len(latex) > LONGEST:
            raise ValueError
        mathml = convert(_known_environments(latex), display="block" if block else "inline")
    except Exception:  # latex2mathml raises errors of many kinds for formulas that it cannot read
        return f"<code>{escape(latex)}</code>"
    # latex2mathml copies the text of a formula into its elements unchanged, and creates attributes for some commands.
    return nh3.clean(mathml, tags=TAGS, attributes=ATTRIBUTES, clean_content_tags={"script", "style"})


def _known_environments(latex: str) -> str:
    def replace(match: re.Match[str]) -> str:
        name = SAME_AS.get(match[2], match[2])
        return f"\\{match[1]}{{{name}}}" if name else ""

    return re.sub(r"\\(begin|end)\{([a-z]+\*?)\}", replace, latex)


Status = Literal["correct", "completed", "partly", "incorrect", "not attempted", "not run", "waiting"]
NO_ANSWER = translatable("No response.")
"""nbgrader's comment on an answer that the student has not changed (0.9.6, preprocessors/saveautogrades.py)."""
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
SECONDS = 20.0  # processor time for one page; the pages of a lesson take a fraction of a second
SECONDS_OF_A_PART = 2.0
TOO_LONG_TO_SHOW = translatable("(what this cell showed takes too long to display)")
RANDOM_ID = re.compile(r"cell-[0-9a-f]{12,}")
TEMPLATES = Path(__file__).parent / "template"
SIGNS = {
    "correct": ("✓", translatable("correct")),
    "completed": ("✓", translatable("counted, as any prediction")),
    "partly": ("◐", translatable("partly correct")),
    "incorrect": ("○", translatable("not correct yet")),
    "not attempted": ("–", translatable("not attempted")),
    "not run": ("–", translatable("not run")),
    "waiting": ("…", translatable("a person will grade this")),
}
"""The sign and the words for each result."""

KINDS = {
    "declarative": translatable("compared with expected data"),
    "plain data": translatable("run in a separate process"),
    "in process": translatable("run in the process of your answers"),
}


def page_html(
    notebook: NotebookNode, grades: dict[str, Any], folder: str = "", zone: datetime.tzinfo = datetime.UTC
) -> str:
    """Return the page of a graded notebook whose cells have nbgrader's scores and comments in their metadata.

    `grades` contains nbgrader's "notebook", "score" after the penalty, "max_score" and "late_penalty", and for a late
    submission, the times "due" and "submitted" in UTC. The folder contains the pictures in the teacher's texts, and the
    zone is that of the times on the page.
    """
    about, budget = notebook.metadata.get("autograder", {}), ProcessorBudget(SECONDS)
    with use_language(language_of(notebook.metadata)):
        exercises = list_exercises(notebook)
        localize_messages(notebook)
        return _template().render(
            language=language(),
            title=title_of(notebook, exercises, str(grades["notebook"])),
            grades=grades,
            due=_local(grades.get("due"), zone),
            submitted=_local(grades.get("submitted"), zone),
            zone=str(zone),
            ended=about.get("ended", ""),
            unreadable=about.get("unreadable", False),
            level=about.get("level", ""),
            exercises=[_shown(number, exercise, notebook, budget) for number, exercise in enumerate(exercises, 1)],
            cells=[_cell(cell, budget, folder) for cell in notebook.cells],
            **code_styles(),
        )


def localize_messages(notebook: NotebookNode) -> None:
    """Replace the grader's messages in a graded notebook with texts in the reader's language."""
    about = notebook.metadata.get("autograder", {})
    stored_messages = read_stored(about.get("messages", []))
    places = [(cell.metadata.get("autograder", {}), "reason") for cell in notebook.cells]
    places += [(output, "evalue") for cell in notebook.cells for output in cell.get("outputs", [])]
    for holder, key in [(about, "ended"), *places] if stored_messages else ():
        if key in holder:
            holder[key] = localized(holder[key], stored_messages)


def _local(time: datetime.datetime | None, zone: datetime.tzinfo) -> str:
    """Return a time in UTC as it is written in a zone; "" if it is unknown."""
    return f"{time.replace(tzinfo=datetime.UTC).astimezone(zone):%Y-%m-%d %H:%M}" if time else ""


@cache
def _template() -> jinja2.Template:
    environment = translated_templates(TEMPLATES)
    environment.filters["points"] = lambda number: f"{round(float(number or 0), 2):g}"
    return environment.get_template("page.html.j2")


def _missing(cell: NotebookNode, notebook: NotebookNode) -> str:
    """Return why a name that a test did not find is missing; "" if no cell before it that ended with an error defines it."""
    said = [output.evalue for output in cell.get("outputs", []) if output.get("ename") in ("NameError", "Missing")]
    match = UNDEFINED.search(said[0]) if said else None
    test = cell.metadata.nbgrader.grade_id
    if not match or not (failed := failed_definition(match[1], notebook.cells, test)):
        return ""
    return translated("The cell that defines {name} ended with an error: {error}", name=failed[0], error=failed[1])


def _shown(number: int, exercise: GradedExercise, notebook: NotebookNode, budget: ProcessorBudget) -> dict[str, Any]:
    sign, words = SIGNS[exercise.status]
    unsaid = [text for text in exercise.comments if (text, exercise.status) != (NO_ANSWER, "not attempted")]
    return {
        "anchor": f"exercise-{number}",
        "name": exercise.name,
        "status": exercise.status.replace(" ", "-"),
        "sign": sign,
        "words": translated(words),
        "points": exercise.points,
        "max_points": exercise.max_points,
        "comments": [translated(text) if text == NO_ANSWER else text for text in unsaid],
        "answers": [(_source(cell, budget), _outputs(cell, budget), _put_back(cell)) for cell in exercise.answers],
        "tests": [_test(cell, notebook, budget) for cell in exercise.tests],
    }


def _as_sentence(reason: str, cell: NotebookNode) -> str:
    """Return a reason that begins with a capital, unless it begins with a name of the test."""
    first = re.split(r"\W", reason, maxsplit=1)[0]
    return reason if first in re.findall(r"\w+", cell.source) else reason[:1].upper() + reason[1:]


def _test(cell: NotebookNode, notebook: NotebookNode, budget: ProcessorBudget) -> dict[str, Any]:
    grading, about = cell.metadata.nbgrader, cell.metadata.get("autograder", {})
    return {
        "source": _source(cell, budget),
        "outputs": _outputs(cell, budget),
        "kind": translated(KINDS[about["kind"]]) if about.get("kind") in KINDS else "",
        "reason": _as_sentence(about.get("reason", ""), cell) or _missing(cell, notebook),
        "points": grading.get("score") or 0.0,
        "max_points": grading.get("points") or 0.0,
        "manual": grading.get("manual", False),
        "waiting": grading.get("waiting", False),
        "put_back": _put_back(cell),
    }


def _put_back(cell: NotebookNode) -> bool:
    return cell.metadata.get("autograder", {}).get("put_back", False)


def _cell(cell: NotebookNode, budget: ProcessorBudget, folder: str) -> dict[str, Any]:
    return {
        "source": _source(cell, budget, folder),
        "outputs": _outputs(cell, budget),
        "folded": cell.cell_type == "code" and not (utils.is_solution(cell) or utils.is_grade(cell)),
    }


def _source(cell: NotebookNode, budget: ProcessorBudget, folder: str = "") -> Markup:
    if cell.cell_type == "code":
        return _rendered_in_time(budget, cell.source, code_html, cell.source)
    return _rendered_in_time(budget, cell.source, markdown_html, cell.source, cell.get("attachments"), folder)


def _outputs(cell: NotebookNode, budget: ProcessorBudget) -> Markup:
    return _rendered_in_time(budget, translated(TOO_LONG_TO_SHOW), outputs_html, cell.get("outputs", []))


def _rendered_in_time(budget: ProcessorBudget, otherwise: str, render: Callable[..., str], *arguments: Any) -> Markup:
    """Return the HTML, or the other text if it takes too long: pygments, mistune and latex2mathml are slow for some texts."""
    try:
        with budget.limit(SECONDS_OF_A_PART):
            return Markup(render(*arguments))
    except (TimeUp, RecursionError):
        return Markup(f"<pre>{escape(otherwise)}</pre>")


def _gives_points(cell: NotebookNode) -> bool:
    return utils.is_grade(cell) or utils.is_task(cell)


@dataclass(frozen=True)
class GradedExercise:
    """The answers and tests below one heading of a graded notebook."""

    name: str  # the heading above it, or else the words in the name of its first graded cell
    answers: list[NotebookNode]  # the student's cells, including those that a person grades
    tests: list[NotebookNode]

    @property
    def graded(self) -> list[NotebookNode]:
        """The cells that give points."""
        return list(filter(_gives_points, [*self.answers, *self.tests]))

    @property
    def points(self) -> float:
        """The current points; cells that a person still has to grade count as 0."""
        return sum(cell.metadata.nbgrader.get("score") or 0.0 for cell in self.graded)

    @property
    def max_points(self) -> float:
        """The maximum points."""
        return sum(float(cell.metadata.nbgrader.get("points") or 0.0) for cell in self.graded)

    @property
    def comments(self) -> list[str]:
        """The comments of a person, and nbgrader's comment on an empty answer."""
        metadata = [cell.metadata.nbgrader for cell in [*self.answers, *self.tests]]
        return [about.comment for about in metadata if about.get("comment")]

    @property
    def status(self) -> Status:
        """The result."""
        if any(cell.metadata.nbgrader.get("waiting") for cell in self.graded):
            return "waiting"
        if self.points == 0 and NO_ANSWER in self.comments:  # the answer may be a cell without points
            return "not attempted"
        statuses = {cell.metadata.get("autograder", {}).get("status") for cell in self.graded}
        if self.points >= self.max_points:
            return "completed" if "completed" in statuses else "correct"
        if self.points > 0:
            return "partly"
        return next((status for status in ("not attempted", "not run") if statuses == {status}), "incorrect")


def title_of(notebook: NotebookNode, exercises: list[GradedExercise], otherwise: str) -> str:
    """Return the notebook's first heading, unless that is the heading of one of several exercises."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    first = next((_plain(heading[1]) for text in texts if (heading := HEADING.search(text))), otherwise)
    return otherwise if len(exercises) > 1 and first in [exercise.name for exercise in exercises] else first


def list_exercises(notebook: NotebookNode) -> list[GradedExercise]:
    """Return the exercises in order. Tests belong to the answers before them, up to the tests of the previous exercise."""
    exercises: list[GradedExercise] = []
    heading, answers, tests = "", [], []  # type: ignore[var-annotated]

    def close() -> None:
        nonlocal answers, tests
        if any(map(_gives_points, [*answers, *tests])):
            name = heading or _words(answers, tests) or translated("Exercise")
            exercises.append(GradedExercise(name, answers, tests))
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
    names = [exercise.name for exercise in exercises]
    for index, exercise in enumerate(exercises):
        if names.count(exercise.name) > 1:  # add the name of the graded cell, or a number
            words = _words(exercise.answers, exercise.tests)
            # a heading of all exercises is the notebook's title
            above = "" if words and len(set(names)) == 1 else f"{exercise.name} · "
            exercises[index] = replace(exercise, name=f"{above}{words or names[: index + 1].count(exercise.name)}")
    return exercises


def _words(answers: list[NotebookNode], tests: list[NotebookNode]) -> str:
    """Return the words in the name of the first graded cell; "" for a name that nbgrader made."""
    name = next(filter(_gives_points, [*tests, *answers])).metadata.nbgrader.grade_id
    words = re.sub(r"[-_]+", " ", re.sub(r"^(test|cell|grade|prediction)[-_]", "", name)).strip() or name
    return "" if RANDOM_ID.fullmatch(name) else words


def _plain(heading: str) -> str:
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]|</?\w+>", "", heading)).strip()
