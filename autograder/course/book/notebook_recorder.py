"""The recording of a released notebook as blocks: its cells run from top to bottom, and each question gets every answer.

The verdict on an answer is the message of the lesson's own check, so this module does not contain answers.
"""

from __future__ import annotations

import ast
import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Literal

import msgspec
import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbformat import NotebookNode
from traitlets.config import Config

from autograder.check.message import NotAttempted, Unsolved
from autograder.check.playground.arrangement import Arrangement, PlayProgram, answer_text, arrangements, run
from autograder.check.playground.play_program import Unplayable, program_from_function
from autograder.check.subject.inputs import use_seed
from autograder.course import canonical
from autograder.course.author_cells import PROGRAM, AuthorExercise, Question, questions_of
from autograder.course.book.lesson_blocks import (
    Block,
    Choice,
    CodeBlock,
    ExerciseBlock,
    PlayTable,
    ProseBlock,
    QuestionBlock,
    TriedArrangement,
)
from autograder.course.catalogue import explanations
from autograder.course.glossary_links import lesson_in_language
from autograder.course.learner.exercise_programs import commented_lines, program_of
from autograder.errors import AutograderError, UnfinishedError
from autograder.locale.languages import language
from autograder.tape.recording.schema import storable
from autograder.tape.recording.verdict_types import OUTCOMES
from autograder.view.notebook import RECORDING_TYPE, ShownRecording
from autograder.view.text.headline import headline

SEED = 0


class CellResult(msgspec.Struct, frozen=True):
    """The output of one cell: its text, its displays as MIME type → text, the recordings that it showed, and its error."""

    printed: str
    displays: tuple[dict[str, str], ...]
    recordings: tuple[ShownRecording, ...]
    error: BaseException | None


class BookShell(InteractiveShell):
    """The shell of a process; there is at most one, which `get_ipython()` returns."""

    kernel = None  # libraries test `hasattr(get_ipython(), "kernel")` to find out whether displays are shown
    takes_recordings = True  # makes `autograder.view` send recordings in place of pictures

    def enable_gui(self, gui: str | None = None) -> None:
        """Start no event loop; `%matplotlib inline` requests one."""

    def showtraceback(self, *_: Any, **__: Any) -> None:
        """Print nothing, because the caller shows a cell's error."""

    def run(self, text: str) -> CellResult:
        """Run a cell. Checks draw the same numbers each time, so that the book is reproducible."""
        with use_seed(SEED), capture_output() as captured:
            # IPython 9 searches its history, which is disabled here, for the semicolon that hides a value.
            result = self.run_cell(text, store_history=False, silent=text.rstrip().endswith(";"))
        shown = [output.data for output in captured.outputs]
        recordings = [
            msgspec.json.decode(data[RECORDING_TYPE], type=ShownRecording) for data in shown if RECORDING_TYPE in data
        ]
        return CellResult(
            printed=captured.stdout + captured.stderr,
            displays=tuple(_texts(data) for data in shown if RECORDING_TYPE not in data),
            recordings=tuple(recordings),
            error=result.error_before_exec or result.error_in_exec,
        )


def start_shell() -> BookShell:
    """Return this process's shell, without a history and with matplotlib's figures as PNG."""
    shell = BookShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.run_line_magic("matplotlib", "inline")
    return shell


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return {
        kind: base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
        for kind, value in data.items()
    }


MOST = 60
"""The maximum number of arrangements of one program, because each has its own recording and a table is loaded as a whole."""

MOST_ORDERS = 300  # the maximum number of orders of one exercise, the shortest first, which limits the size of a table
ENOUGH = 10_000  # a number larger than the number of orders of any exercise
SECONDS = 20.0  # the time limit of one run, in seconds; it is long so that a busy machine does not change the book


def try_arrangements(name: str, source: str, space: Mapping[str, Any]) -> PlayTable | None:
    """Return the results of all arrangements of a function's body; None if its lines can be neither moved nor switched.

    The source has no decorators; its global names are those of a namespace, such as a notebook's.
    """
    try:
        program = program_from_function(name, source)
    except Unplayable:
        return None
    offered = arrangements(program, MOST)
    if len(offered) < 2:
        return None
    words = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    names = {
        word: space[word] for word in words & set(space) if isinstance(space[word], ModuleType | type | FunctionType)
    }
    tried = [recorded for arrangement in offered if (recorded := _try(program, arrangement, names))]
    return PlayTable(program, tuple(tried)) if len(tried) > 1 and tried[0].key == offered[0].key else None


def _try(program: PlayProgram, arrangement: Arrangement, names: dict[str, Any]) -> TriedArrangement | None:
    """Return the result of an arrangement; None if it cannot be run, in which case it is not offered."""
    try:
        recording = run(program, arrangement, names, SECONDS)
    except AutograderError:
        return None
    return TriedArrangement(arrangement.key, headline(recording.verdict), storable(recording))


def try_orders(shell: BookShell, exercise: str, check: str, stub: str) -> PlayTable | None:
    """Return the results of the orders of an exercise's lines, which its stub has as comments; None without such lines.

    The lesson's cells have run in the shell.

    Raises:
        UnfinishedError: no order passes, so the lesson has to be corrected.
    """
    if not commented_lines(stub):
        return None
    program = program_of(AuthorExercise(exercise, stub, check, ()))
    orders = [order for order in arrangements(program, ENOUGH) if order.key != program.as_given.key]
    orders.sort(key=lambda order: len(order.lines))
    tried = [recorded for order in orders[:MOST_ORDERS] if (recorded := _try_order(shell, program, order, check))]
    shell.run(stub)
    if not any(order.passes for order in tried):
        raise UnfinishedError(
            f"{exercise}: its check failed for every order of its lines that was tried (at most {MOST_ORDERS}). Correct the lesson."
        )
    return PlayTable(program, tuple(tried))


def _try_order(shell: BookShell, program: PlayProgram, order: Arrangement, check: str) -> TriedArrangement | None:
    """Return the result of an order, which the check judges if it is correct; None if it cannot be run."""
    tried = _try(program, order, {})
    if tried is None or tried.recording.verdict.outcome != "correct":
        return tried
    shell.run(answer_text(program, order))
    error = shell.run(check).error
    said = "" if error is None else str(error).removeprefix(f"{program.name}: ")
    return msgspec.structs.replace(tried, passes=error is None, said=said)


KINDS: dict[str, Literal["outcome", "line", "value"]] = {
    "predicted": "outcome",
    "culprit": "line",
    "predicted_value": "value",
}

LIVE_ONLY = re.compile(r"(from autograder\.course import .*\n+)?(can_now|find_error|play|progress)\(.*\)|#.*")
"""A cell that a book omits: a student types into it, or it shows progress, or lines that the book shows at their exercise."""

NOTEBOOK_ONLY = re.compile(
    r"\b(run|runs) (it|its|the)( \w+){0,2} cells?\b|\b(answer's|check's|new|next) cell\b|\bcell below\b|between the quotes"
    r"|Shift\+Enter|`(hint|reset|model_answer)\(|\bcell of a check\b|\bany notebook\b",
    re.IGNORECASE,
)
"""A paragraph that a book omits: it tells the student how to work in a notebook. Lessons keep such text in paragraphs of its own."""

FOREIGN_FRAME = re.compile(r'^ +File "(?!<ipython-input)[^"]*", line .*\n(?: {4,}.*\n)*', re.M)
"""The lines of a traceback about this machine's own files rather than a cell."""


def record_notebook(path: Path) -> list[Block]:
    """Return a notebook's blocks in order, in the current language.

    The cells run in this process; progress is not recorded.

    Raises:
        NotebookError: the file is not a notebook.
        UnfinishedError: a cell raises without the tag for it, or no answer to a question passes.
    """
    os.environ["NBGRADER_EXECUTION"] = "book"  # do not record progress
    shell = start_shell()
    blocks: list[Block] = []
    stub, programs = "", []
    notebook = _without_instructions(_with_explanations(canonical.read(path), path.stem))
    for english, cell in zip(notebook.cells, lesson_in_language(notebook, language()).cells, strict=True):
        about = cell.metadata.get("nbgrader", {})
        if about.get("solution") and cell.cell_type == "markdown":
            continue  # the cell of a manually graded answer, which the page omits
        if about.get("solution"):
            stub = cell.source
            shell.run(stub)
        elif PROGRAM in cell.metadata.get("tags", []):
            programs.append(cell.source)
            shell.run(cell.source)
        elif cell.cell_type == "markdown":
            blocks.append(ProseBlock(cell.id, cell.source, "*Predict*" in english.source))
        elif about.get("grade"):
            blocks += _record_check(shell, about["grade_id"], cell.source, stub, programs)
            programs = []
        elif not LIVE_ONLY.fullmatch(cell.source):
            blocks.append(_record_code(shell, cell, path.stem))
    return blocks


def _with_explanations(notebook: NotebookNode, lesson: str) -> NotebookNode:
    """Return a released notebook with the explanation of each question below it, where the page shows it after an answer."""
    below = {explanation.about[-1]: explanation for explanation in explanations(lesson)}
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        shown = re.search(r"^@observed.*\ndef (\w+)", cell.source, re.M) if cell.cell_type == "code" else None
        explanation = below.get(shown[1] if shown else cell.metadata.get("nbgrader", {}).get("grade_id", ""))
        if explanation:
            cells.append(nbformat.v4.new_markdown_cell(explanation.text, id=explanation.id))
    notebook.cells = cells
    return notebook


def _without_instructions(notebook: NotebookNode) -> NotebookNode:
    """Return an English notebook without the text about notebooks, nor cells that begin with it or would keep only a heading."""
    cells = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and NOTEBOOK_ONLY.search(cell.source):
            parts = cell.source.split("\n\n")
            kept = [part for part in parts if not NOTEBOOK_ONLY.search(part)]
            if kept[:1] != parts[:1] or (len(kept) == 1 and kept[0].startswith("#")):
                continue
            cell.source = "\n\n".join(kept)
        cells.append(cell)
    notebook.cells = cells
    return notebook


def _record_check(shell: BookShell, exercise: str, check: str, stub: str, programs: list[str]) -> list[Block]:
    """Return a question for each program whose outcome, line or value the check asks for; otherwise, the exercise."""
    asked = questions_of("\n\n\n".join([*programs, check]))
    return [_record_question(shell, question, stub.partition("#")[2].strip()) for question in asked] or [
        ExerciseBlock(exercise, stub, try_orders(shell, exercise, check, stub))
    ]


def _record_question(shell: BookShell, question: Question, hint: str) -> QuestionBlock:
    """Return a question of a check, after trying every answer to it."""
    decorator, name, source = question.asks, question.name, question.program
    answers = _answers_to(shell, decorator, source)
    shell.run(source)  # in a cell of its own, because a picture shows the whole cell of a program
    check = f'{decorator}("{name}", {ast.parse(source).body[0].name})'  # type: ignore[attr-defined]
    choices, shown = zip(*(_answer(shell, name, answer, check) for answer in answers), strict=True)
    right = [result for choice, result in zip(choices, shown, strict=True) if choice.is_right]
    if not right or not right[0].recordings:
        raise UnfinishedError(f"{name}: no answer passes its check, so there is nothing to show. Fix the lesson.")
    return QuestionBlock(
        id=name,
        kind=KINDS[decorator],
        source=source,
        choices=choices,
        recording=right[0].recordings[-1].recording,
        table=try_arrangements(name, source, shell.user_ns) if decorator != "predicted_value" else None,
        value=answers[0] if decorator == "predicted_value" else None,
        hint=hint,
    )


def _answers_to(shell: BookShell, decorator: str, source: str) -> tuple[Any, ...]:
    """Return the answers to try: the four outcomes, the program's lines, or its return value."""
    if decorator == "predicted":
        return OUTCOMES
    if decorator == "culprit":
        return tuple(_statements(source))
    shell.run(f"{source}\n\n\nreturned = {ast.parse(source).body[0].name}()")  # type: ignore[attr-defined]
    return (msgspec.to_builtins(shell.user_ns["returned"]),)


def _answer(shell: BookShell, name: str, answer: Any, check: str) -> tuple[Choice, CellResult]:
    """Return a choice with the check's message, and the check's output."""
    shell.run(f"{name} = {answer!r}")
    result = shell.run(check)
    if result.error is not None and not isinstance(result.error, Unsolved):
        raise UnfinishedError(
            f"{name}: its check ends in {type(result.error).__name__}: {result.error}. Fix the lesson."
        )
    said = result.printed if result.error is None or getattr(result.error, "printed", False) else str(result.error)
    return Choice(str(answer), said.strip().removeprefix(f"{name}: "), result.error is None), result


def _statements(source: str) -> Iterator[str]:
    """Yield the statements of a function's body, by their first lines, without duplicates."""
    function = ast.parse(source).body[0]
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function]
    lines = source.splitlines()
    numbers = sorted({node.lineno for node in nodes if not isinstance(node, ast.Return)})
    yield from dict.fromkeys(lines[number - 1].strip() for number in numbers)


def _record_code(shell: BookShell, cell: Any, lesson: str) -> CodeBlock:
    parts = [cell.source]
    # A picture shows the whole cell of its program, so that the decorator is called in another one.
    if decorated := re.fullmatch(r"((?s:.*?))^@(.+)\n(def (\w+)(?s:.*))", cell.source, re.M):
        parts = [decorated[1], decorated[3], f"{decorated[4]} = {decorated[2]}({decorated[4]})"]
    for part in parts:
        result = shell.run(part)
        if result.error is not None:
            break
    source = "".join(parts[:2])
    printed = result.printed
    if result.error is not None:
        if "raises-exception" not in cell.metadata.get("tags", []) and not isinstance(result.error, NotAttempted):
            raise UnfinishedError(
                f"{lesson}, cell {cell.id}: {type(result.error).__name__}: {result.error}. Fix the lesson."
            )
        printed += f"{type(result.error).__name__}: {result.error}"
    printed = FOREIGN_FRAME.sub("", printed)
    return CodeBlock(cell.id, source, printed, result.displays, result.recordings, _is_setup(source))


def _is_setup(source: str) -> bool:
    try:
        return all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(source).body)
    except SyntaxError:  # the source contains a magic
        return False
