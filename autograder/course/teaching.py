"""A generated page for teachers: aims, misconceptions and the wrong answers that show them, timing, points, ways to shorten.

It lists wrong answers, so it is in solutions/ and not part of a release or of the package. Information that cannot be
computed is in `solutions/teaching.toml`; the rest comes from the catalogue and the author's cells.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
from nbformat import NotebookNode
from nbgrader.utils import is_grade

from autograder.course import catalogue
from autograder.course.author_cells import AuthorError, AuthorExercise, exercises
from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS

FILE = "teaching.toml"
HEAD = """# For teachers

One section for each lesson: its aims, what learners believe and which wrong answers show it, timing, points, and how to shorten it.
This page is generated: edit `teaching.toml`, the catalogue or the notebooks, then run `autograder release`.
It lists wrong answers, so it is not released.
"""


class Misconception(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A misconception, and for each exercise the names of the wrong answers that show it."""

    belief: str
    shown_by: dict[str, tuple[str, ...]]


class Teaching(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The entry of `teaching.toml` for one lesson: timing, a question for the class, how to shorten it, and misconceptions."""

    timing: str
    ask: str
    shorten: str
    misconceptions: tuple[Misconception, ...]


def page(folder: Path = SOLUTIONS) -> str:
    """Return the page as Markdown, from the source notebooks and `teaching.toml` in a folder.

    Raises:
        AuthorError: a lesson has no entry, or an entry names a wrong answer that its notebook does not have.
    """
    parts = [HEAD]
    for lesson in catalogue.lessons():
        text = teaching_of(folder, lesson.name)
        if text is None:
            differ = f"{folder / FILE} and the catalogue differ in the lesson {lesson.name}"
            raise AuthorError(f"{differ}. Add it to the one that lacks it.")
        parts.append(_lesson(lesson, text, folder / lesson.name / f"{lesson.name}.ipynb"))
    return "\n".join(parts)


def teaching_of(folder: Path, lesson: str) -> Teaching | None:
    """Return the entry of `teaching.toml` for a lesson; None if the file or the entry does not exist.

    Raises:
        AuthorError: the entry is invalid.
    """
    file = folder / FILE
    try:
        return msgspec.convert(tomllib.loads(file.read_text("utf-8")).get(lesson), Teaching | None)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise AuthorError(f"{file} cannot be read: {error}") from None


def _lesson(lesson: catalogue.Lesson, text: Teaching, source: Path) -> str:
    by_id = {exercise.id: exercise for exercise in exercises(source)}
    _every_answer_exists(lesson.name, text, by_id)
    cells = [cell for cell in read(source).cells if is_grade(cell)]
    points = {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader.points for cell in cells}
    by_hand = [cell for cell in cells if cell.cell_type == "markdown"]
    hand_points = [cell.metadata.nbgrader.points for cell in by_hand]
    written = f"{sum(hand_points)} for {len(hand_points)} written answers, " if any(hand_points) else ""
    graded = [exercise for exercise in by_id.values() if exercise.answers]
    return "\n".join(
        [
            f"## {lesson.name[:2]} · {lesson.title}\n",
            f"Prerequisites: {lesson.needs}.",
            f"Allow {lesson.minutes} minutes. {text.timing}",
            f"Worth {sum(points.values())} points: {sum(points[e.id] for e in graded)} for {len(graded)} exercises, "
            f"{written}the rest for {len(by_id) - len(graded)} predictions and named lines.\n",
            "Aims, each with the exercises that show it:\n",
            *(f"- {aim.can} ({_code(aim.shown_by)})" for aim in lesson.aims),
            f"\n**Ask the class:** {text.ask}\n",
            f"**To shorten it:** {text.shorten}\n",
            *map(_written, by_hand),
            "Misconceptions, and the wrong answers that show them:\n",
            *(line for misconception in text.misconceptions for line in _belief(misconception, by_id)),
            "\n<details><summary>All exercises, with each wrong answer and what the check says</summary>\n",
            "| exercise | points | wrong answer | the check says |\n|---|---|---|---|",
            *(row for exercise in graded for row in _rows(exercise, points[exercise.id])),
            "\n</details>\n",
        ]
    )


def _every_answer_exists(lesson: str, text: Teaching, exercises: dict[str, AuthorExercise]) -> None:
    for misconception in text.misconceptions:
        for name, wrong in misconception.shown_by.items():
            names = {answer.name for answer in exercises[name].of_kind("wrong")} if name in exercises else set()
            for missing in sorted(set(wrong) - names):
                raise AuthorError(
                    f"teaching.toml: {lesson} has no wrong answer {missing!r} to {name}. Use the text of the cell's first line."
                )


def _written(cell: NotebookNode) -> str:
    """Return the description of a good answer to a manually graded question."""
    about, answer = cell.metadata.nbgrader, " ".join(cell.source.split())
    return f"**A person grades** {_code((about.grade_id,))}, {about.points} points. A good answer: {answer}\n"


def _belief(misconception: Misconception, by_id: dict[str, AuthorExercise]) -> list[str]:
    shown = [
        f"  - {_code((name,))}: {answer.name}"
        for name, wrong in misconception.shown_by.items()
        for answer in by_id[name].of_kind("wrong")
        if answer.name in wrong
    ]
    return [f"- *{misconception.belief}*", *shown]


def _rows(exercise: AuthorExercise, points: int) -> list[str]:
    wrong = exercise.of_kind("wrong")
    first = [f"| {_code((exercise.id,))} | {points} | {wrong[0].name} | {wrong[0].phrase} |"]
    return first + [f"| | | {answer.name} | {answer.phrase} |" for answer in wrong[1:]]


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
