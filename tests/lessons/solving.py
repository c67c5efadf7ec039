"""Solves a whole lesson: the author's answers, and for predictions whatever passes when it is tried."""

from __future__ import annotations

import copy
from pathlib import Path

from nbformat import NotebookNode

from autograder.check.message import Unsolved
from autograder.course.author_cells import AuthorExercise, exercises, setup
from autograder.tape.recording.verdict_types import OUTCOMES
from tests.lessons.namespace import Namespace


def verdict(path: Path, exercise: AuthorExercise, answer: str) -> Unsolved | None:
    """Returns what the exercise's check cell raises after this answer, None where it passes."""
    learner = Namespace()
    learner.run(setup(path))
    learner.run(answer)
    try:
        learner.run(exercise.check)
    except Unsolved as raised:
        return raised
    return None


def candidates(exercise: AuthorExercise) -> list[str]:
    """Returns every answer that a prediction may have: the four outcomes, or each line of the program below it."""
    name = exercise.stub.partition(" ")[0]
    lines = [line.strip() for line in exercise.check.splitlines() if line.startswith("    ")]
    words = [f"{name} = {line!r}" for line in lines] if "@culprit" in exercise.check else []
    return words or [f'{name} = "{outcome}"' for outcome in OUTCOMES]


def right_answers(path: Path) -> dict[str, str]:
    """Returns an answer to every exercise and prediction of a lesson, by its id."""
    answers = {}
    for exercise in exercises(path):
        author = exercise.of_kind("answer")
        tried = (answer for answer in candidates(exercise) if verdict(path, exercise, answer) is None)
        answers[exercise.id] = author[0].source if author else next(tried)
    return answers


def answered(released: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    """Returns the released notebook with these answers in their cells."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        exercise = grading.get("grade_id", "").removeprefix("answer_")
        if grading.get("solution") and exercise in answers:
            cell.source = answers[exercise]
    return notebook
