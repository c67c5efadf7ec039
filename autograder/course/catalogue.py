"""The course as a list: each lesson's title, time, needs and hints, read from the data files beside this module."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path

import msgspec

FOLDER = Path(__file__).parent / "lessons"


class Exercise(msgspec.Struct, frozen=True):
    """One exercise: its id and three hints (what you see, where to look, which idea helps), never the line to type."""

    id: str
    hints: tuple[str, str, str]


class Aim(msgspec.Struct, frozen=True):
    """One thing that a lesson teaches, and the exercises that show it was learnt."""

    can: str
    shown_by: tuple[str, ...]


class Lesson(msgspec.Struct, frozen=True):
    """One lesson, which is one assignment: `name` is its folder below notebooks/ and solutions/, `minutes` the time to allow."""

    name: str
    title: str
    minutes: int
    needs: str
    aims: tuple[Aim, Aim, Aim]
    exercises: tuple[Exercise, ...]


@functools.cache
def lessons() -> tuple[Lesson, ...]:
    """Returns every lesson in the course's order."""
    files = sorted(FOLDER.glob("*.toml"))
    return tuple(
        msgspec.convert({"name": file.stem} | tomllib.loads(file.read_text("utf-8")), Lesson) for file in files
    )
