"""The list of lessons: title, time, prerequisites and hints of each, read from the data files next to this module."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from autograder.course.author_cells import Explanation
from autograder.locale.languages import language, use_language
from autograder.locale.translations import translated

FOLDER = Path(__file__).parent / "lessons"
BELIEFS = Path(__file__).parent / "beliefs.toml"
EXPLANATIONS = Path(__file__).parent / "explanations"
"""The explanations of each lesson's questions, written by `release`; the grader hides this folder from submissions."""


class Exercise(msgspec.Struct, frozen=True):
    """One exercise: its id and three hints (the symptom, the place to look, the idea), never the line to type."""

    id: str
    hints: tuple[str, str, str]


class Aim(msgspec.Struct, frozen=True):
    """One aim of a lesson, and the exercises that show whether it was reached."""

    can: str
    shown_by: tuple[str, ...]


class Lesson(msgspec.Struct, frozen=True):
    """One lesson, which is one assignment."""

    name: str  # its folder in notebooks/ and solutions/
    title: str  # the title of the lesson
    minutes: int  # the recommended time
    needs: str  # the prerequisites
    aims: tuple[Aim, Aim, Aim]  # three aims
    exercises: tuple[Exercise, ...]  # the exercises, in order
    # for each prediction, a wrong outcome or value → the name of the belief that often leads to it
    predictions: dict[str, dict[str, str]] = {}


def lessons() -> tuple[Lesson, ...]:
    """Return every lesson in the course's order, in the reader's language."""
    return _lessons_in(language())


@functools.cache
def _lessons_in(language_code: str) -> tuple[Lesson, ...]:
    files = sorted(FOLDER.glob("*.toml"))
    with use_language(language_code):
        return tuple(
            msgspec.convert({"name": file.stem} | _translated(tomllib.loads(file.read_text("utf-8"))), Lesson)
            for file in files
        )


def beliefs() -> dict[str, str]:
    """Return the explanation of each belief that leads to wrong predictions, in the reader's language."""
    return _translated(_beliefs())


@functools.cache
def _beliefs() -> dict[str, str]:
    return tomllib.loads(BELIEFS.read_text("utf-8"))


@functools.cache
def explanations(lesson: str) -> tuple[Explanation, ...]:
    """Return the explanations of a lesson's questions, in English; empty for a notebook that is not one of the course's."""
    file = EXPLANATIONS / f"{lesson}.json"
    return msgspec.json.decode(file.read_bytes(), type=tuple[Explanation, ...]) if file.is_file() else ()


def misconception_of(prediction: str, choice: str) -> str | None:
    """Return the name of the belief that often leads to a wrong choice; None if the exercise is not a prediction."""
    return next((of[choice] for lesson in lessons() if choice in (of := lesson.predictions.get(prediction, {}))), None)


def _translated(data: Any) -> Any:
    """Return a lesson's data with each text in the reader's language; names have no translation and are unchanged."""
    if isinstance(data, dict):
        return {key: _translated(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_translated(item) for item in data]
    return translated(data) if isinstance(data, str) else data
