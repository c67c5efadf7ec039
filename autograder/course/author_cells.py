"""The author's cells next to each exercise: answers that must pass, and answers that must be rejected with a given phrase."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from autograder.errors import InputError

if TYPE_CHECKING:
    from nbformat import NotebookNode

AUTHOR_TAGS = ("answer", "right", "wrong")


class Answer(NamedTuple):
    """One author's cell: its kind, its name from the first line, and the phrase that its message must contain ("" if it is right)."""

    kind: str
    name: str
    phrase: str
    source: str


class AuthorExercise(NamedTuple):
    """One exercise of a source notebook: the student's stub, the check cell, and the author's answers."""

    id: str
    stub: str
    check: str
    answers: tuple[Answer, ...]

    def of_kind(self, *kinds: str) -> list[Answer]:
        """Return the answers of these kinds: "answer", "right", "wrong"."""
        return [answer for answer in self.answers if answer.kind in kinds]


class AuthorError(InputError):
    """A source notebook breaks a rule of the author's cells; the message names the cell."""


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
    found: list[AuthorExercise] = []
    stub, answers = "", []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        kind = next((tag for tag in AUTHOR_TAGS if tag in tags), None)
        if kind:
            answers.append(_answer(kind, cell))
        elif "stub" in tags:
            stub = cell.source
        # other cells are graded manually
        elif cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("grade"):
            found.append(AuthorExercise(cell.metadata.nbgrader.grade_id, stub, cell.source, tuple(answers)))
            stub, answers = "", []
    if answers:
        raise AuthorError(f"the answer {answers[0].name!r} is not followed by a check cell")
    return found


def setup(path: Path) -> str:
    """Return the code before the first exercise: the imports that every answer may use."""
    from autograder.course.canonical import read

    return setup_of(read(path))


def setup_of(notebook: NotebookNode) -> str:
    """Return the code before the first exercise of a notebook that has been read."""
    sources = []
    for cell in notebook.cells:
        if "stub" in cell.metadata.get("tags", []):
            break
        if cell.cell_type == "code":
            sources.append(cell.source)
    return "\n".join(sources)


def _answer(kind: str, cell: NotebookNode) -> Answer:
    first = cell.source.splitlines()[0]
    label, _, rest = first.removeprefix("# ").partition(": ")
    name, _, phrase = rest.partition(" -> ")
    if label != kind or not name or bool(phrase) != (kind == "wrong"):
        form = "# wrong: what it does -> phrase" if kind == "wrong" else f"# {kind}: what it does"
        raise AuthorError(
            f"the cell {cell.id!r} is tagged {kind!r}, so its first line must read `{form}`; it reads `{first}`"
        )
    return Answer(kind, name, phrase, cell.source)
