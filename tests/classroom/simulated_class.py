"""A simulated class whose truth is known: graded records as `grade` keeps them, without running anything."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import NamedTuple

import nbformat

from tests.classroom.made_class import _known as known
from tests.classroom.made_grades import give_grades

ASSIGNMENT = "simulated"
EXERCISES = 6
BELIEFS = {"copies the input": 0.5, "silences the counter": 0.3, "moves the write": 0.15}
"""The planted misconceptions, by their share of the wrong answers; the other wrong answers are unnamed."""


class SimulatedStudent(NamedTuple):
    """The answers of a student: for each exercise whether it is right, otherwise the name of the wrong answer ("" if unnamed)."""

    student: str
    answers: dict[str, str | None]


def code(exercise: str, answer: str | None, style: int) -> str:
    """Return an answer in one of several dresses that do the same: names, comments, layout."""
    body = {
        "copies the input": "x.clone()", "silences the counter": "x.data", "moves the write": "x + 1", None: "x * 2",
    }  # fmt: skip
    name = ("value", "t", "h0")[style % 3]
    note = "" if style % 2 else f"  # Ann Lee, {style}"
    expression = body.get(answer, f"x ** {style % 4}").replace("x", name)
    return f"def {exercise}({name}):{note}\n    out = ({expression})\n    return out"


def simulate(folder: Path, count: int, seed: int = 0) -> list[SimulatedStudent]:
    """Create the course with the records of the given number of students, and return the answers of each."""
    chance = random.Random(seed)
    exercises = [f"exercise_{number}" for number in range(EXERCISES)]
    _write_source(folder, exercises)
    students = [_student(f"s{number:05}", exercises, chance) for number in range(count)]
    give_grades(folder, _points(students), ASSIGNMENT, dict.fromkeys(exercises, 2.0))
    _write_records(folder, students)
    for number, one in enumerate(students):
        cells = []
        for exercise, answer in one.answers.items():
            text = code(exercise, answer, number)
            cells += [_cell(f"answer_{exercise}", text, solution=True), _cell(exercise, "check()", grade=True)]
        _write(folder / "autograded" / one.student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", cells)
    return students


def _student(name: str, exercises: list[str], chance: random.Random) -> SimulatedStudent:
    skill = chance.betavariate(2, 2)
    answers = {}
    for number, exercise in enumerate(exercises):
        right = chance.random() < skill * (1 - 0.1 * number)
        drawn = chance.choices([*BELIEFS, ""], [*BELIEFS.values(), 1 - sum(BELIEFS.values())])[0]
        answers[exercise] = None if right else drawn
    return SimulatedStudent(name, answers)


def _points(students: list[SimulatedStudent]) -> dict[str, dict[str, float]]:
    return {
        one.student: {name: 0.0 if answer is not None else 2.0 for name, answer in one.answers.items()}
        for one in students
    }


def _write_records(folder: Path, students: list[SimulatedStudent]) -> None:
    """Write what `grade` keeps (autograder/grade/batch/gradebook.py)."""
    rows = []
    for number, one in enumerate(students):
        cells = {name: _grade(name, answer, number) for name, answer in one.answers.items()}
        record = json.dumps({"student": one.student, "cells": {ASSIGNMENT: cells}})
        rows.append((ASSIGNMENT, one.student, 1, "", "", "{}", record, ""))
    with sqlite3.connect(folder / "gradebook.db") as book:
        book.execute(
            "CREATE TABLE autograder_grade (assignment TEXT, student TEXT, run INTEGER, submission TEXT, source TEXT, "
            "made_with TEXT, cells TEXT, graded TEXT, PRIMARY KEY (assignment, student))"
        )
        book.executemany("INSERT INTO autograder_grade VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)


def _grade(name: str, answer: str | None, number: int) -> dict[str, object]:
    about = {"status": "correct", "points": 2.0, "max_points": 2.0}
    if answer is None:
        return about
    seen = {"copies the input": 1.5, "silences the counter": 2.5, "moves the write": 3.5}.get(answer, 10.5 + number % 4)
    return about | {
        "status": "incorrect",
        "points": 0.0,
        "reason": f"{name}: the gradient is wrong\n  saw  {seen}",
        "hidden": answer == "",
    }


def _write_source(folder: Path, exercises: list[str]) -> None:
    cells = []
    for exercise in exercises:
        cells.append(_cell(f"answer_{exercise}", code(exercise, None, 0), solution=True, tags=["stub"]))
        for answer in BELIEFS:
            cells.append(
                nbformat.v4.new_code_cell(
                    f"# wrong: {answer} -> phrase\n{code(exercise, answer, 1)}", metadata={"tags": ["wrong"]}
                )
            )
        cells.append(_cell(exercise, "check()", grade=True))
    _write(folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", cells)


def _cell(
    name: str, text: str, *, solution: bool = False, grade: bool = False, tags: list[str] | None = None
) -> nbformat.NotebookNode:
    about = (
        known(name)["nbgrader"]
        | {"solution": solution, "grade": grade, "locked": grade}
        | ({"points": 2} if grade else {})
    )  # type: ignore[operator]
    return nbformat.v4.new_code_cell(text, metadata={"nbgrader": about, "tags": tags or []})


def _write(path: Path, cells: list[nbformat.NotebookNode]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=cells)), "utf-8")
