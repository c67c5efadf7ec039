"""The author's cells next to each exercise: answers that must pass, and answers that must be rejected with a given phrase."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from autograder.errors import InputError

if TYPE_CHECKING:
    from nbformat import NotebookNode

ANSWER_TAGS = ("answer", "right", "wrong")
EXPLANATION = "explanation"
"""The tag of a Markdown cell that explains the questions and programs which its other tags name, after they are answered."""
AUTHOR_TAGS = (*ANSWER_TAGS, EXPLANATION)
PROGRAM = "program"
"""The tag of a locked cell above an answer's cell that defines the program of a question and does not run it."""
ASKS = ("predicted", "predicted_value", "culprit")
"""The functions that compare a student's variable with the behavior of a program."""


@dataclass(frozen=True)
class Answer:
    """One author's cell: its kind, its name from the first line, and the phrase that its message must contain ("" if it is right)."""

    kind: str
    name: str
    phrase: str
    source: str


@dataclass(frozen=True)
class AuthorExercise:
    """One exercise of a source notebook: the student's stub, the check cell below its programs, and the author's answers."""

    id: str
    stub: str
    check: str
    answers: tuple[Answer, ...]

    def of_kind(self, *kinds: str) -> list[Answer]:
        """Return the answers of these kinds: "answer", "right", "wrong"."""
        return [answer for answer in self.answers if answer.kind in kinds]


@dataclass(frozen=True)
class Question:
    """One question of a check: the function that asks it, the student's variable, and the source of the program."""

    asks: str
    name: str
    program: str


class Explanation(msgspec.Struct, frozen=True, array_like=True):
    """A Markdown cell tagged `explanation`: the text that a check prints after an answer."""

    id: str  # the cell's id
    about: tuple[str, ...]  # the ids of the questions, and names of demonstrations; the last one is above it
    text: str  # the text, in Markdown
    varies: bool = False  # whether a text that differs between students' variants may occur in it


class AuthorError(InputError):
    """A source notebook breaks a rule of the author's cells; the message names the cell."""


def is_authors(metadata: Mapping[str, Any]) -> bool:
    """Return whether a cell with these metadata is one of the author's, which are not released."""
    return bool(set(AUTHOR_TAGS) & set(metadata.get("tags", [])))


def exercises(path: Path) -> list[AuthorExercise]:
    """Return the exercises of a source notebook in order; predictions are exercises without author's cells.

    Raises:
        AuthorError: an author's cell is not followed by a check, or its first line does not have the form that its tag
            requires.
    """
    from autograder.course.canonical import read  # here, as it loads nbformat, which `exercises_of` does not need

    try:
        return exercises_of(read(path))
    except AuthorError as error:
        raise AuthorError(f"{path}: {error}") from None


def exercises_of(notebook: NotebookNode) -> list[AuthorExercise]:
    """Return the exercises of a notebook that has been read; see `exercises`."""
    exercises: list[AuthorExercise] = []
    stub, programs, answers = "", [], []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        kind = next((tag for tag in ANSWER_TAGS if tag in tags), None)
        if kind:
            answers.append(_answer(kind, cell))
        elif "stub" in tags:
            stub = cell.source
        elif PROGRAM in tags:
            programs.append(cell.source)
        # other cells are graded manually
        elif cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            check = "\n\n\n".join([*programs, cell.source])
            exercises.append(AuthorExercise(cell.metadata.nbgrader.grade_id, stub, check, tuple(answers)))
            stub, programs, answers = "", [], []
    if answers:
        raise AuthorError(f"the answer {answers[0].name!r} is not followed by a check cell")
    return exercises


def setup_of(notebook: NotebookNode) -> str:
    """Return the code before the first exercise of a notebook: the imports that every answer may use."""
    sources = []
    for cell in notebook.cells:
        if {"stub", PROGRAM} & set(cell.metadata.get("tags", [])):
            break
        if cell.cell_type == "code":
            sources.append(cell.source)
    return "\n".join(sources)


def explanations_of(notebook: NotebookNode) -> list[Explanation]:
    """Return the explanations of a source notebook."""
    tagged = [(cell, cell.metadata.get("tags", [])) for cell in notebook.cells]
    return [
        Explanation(cell.id, tuple(tag for tag in tags if tag.isidentifier() and tag != EXPLANATION), cell.source)
        for cell, tags in tagged
        if EXPLANATION in tags
    ]


def questions_of(check: str) -> Iterator[Question]:
    """Yield the questions of a check, which are decorators of programs, or calls with the name of a program."""
    body = ast.parse(check).body
    programs = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        asking = node.decorator_list if isinstance(node, ast.FunctionDef) else [getattr(node, "value", None)]
        for call in asking:
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ASKS:
                program = programs[ast.unparse(call.args[1])] if len(call.args) > 1 else node
                name = ast.literal_eval(call.args[0])
                yield Question(
                    call.func.id, name, "\n".join(check.split("\n")[program.lineno - 1 : program.end_lineno])
                )


def _answer(kind: str, cell: NotebookNode) -> Answer:
    first = cell.source.partition("\n")[0]
    label, _, description = first.removeprefix("# ").partition(": ")
    name, _, phrase = description.partition(" -> ")
    if label != kind or not name or bool(phrase) != (kind == "wrong"):
        form = "# wrong: what it does -> phrase" if kind == "wrong" else f"# {kind}: what it does"
        raise AuthorError(
            f"the cell {cell.id!r} is tagged {kind!r}, so its first line must read `{form}`; it reads `{first}`"
        )
    return Answer(kind, name, phrase, cell.source)


WORDS_A_MINUTE, PREDICTION_MINUTES, EXERCISE_MINUTES = 150, 2.5, 6.0


def section_minutes(notebook: NotebookNode) -> dict[str, float]:
    """Return the estimated minutes for each section of a released lesson: 150 words, 2.5 for a question, 6 for another answer.

    The text above the first section has the heading "".
    """
    minutes, heading = {"": 0.0}, ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if cell.source.startswith("## "):
                heading = cell.source.partition("\n")[0].removeprefix("## ")
            minutes[heading] = minutes.get(heading, 0.0) + len(cell.source.split()) / WORDS_A_MINUTE
        if cell.metadata.get("nbgrader", {}).get("grade"):
            questions = len(re.findall(rf"^(?:{'|'.join(ASKS)})\(", cell.source, re.MULTILINE))
            minutes[heading] += questions * PREDICTION_MINUTES or EXERCISE_MINUTES
    return minutes


def lesson_minutes(notebook: NotebookNode) -> int:
    """Return the estimated minutes of a released lesson without its optional sections, rounded to a multiple of five."""
    sections = section_minutes(notebook).items()
    return 5 * round(sum(minutes for heading, minutes in sections if not re.search("Optional|Appendix", heading)) / 5)
