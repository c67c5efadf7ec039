"""Solves a whole lesson: the author's answers, and for predictions whatever passes when it is tried."""

from __future__ import annotations

import copy
from pathlib import Path

from nbformat import NotebookNode

from autograder.check.message import Unsolved
from autograder.course.author_cells import AuthorExercise, questions_of
from autograder.course.variants import variant_proof
from autograder.course.variants.variant_proof import CellNamespace as Namespace
from tests.lessons.cells import functions
from tests.lessons.sources import exercises, setup


def verdict(path: Path, exercise: AuthorExercise, answer: str) -> Unsolved | None:
    """Return the error of the exercise's check cell after this answer; None if it passes."""
    learner = Namespace()
    learner.run(setup(path))
    learner.run(answer)
    try:
        learner.run(exercise.check)
    except Unsolved as raised:
        return raised
    return None


def candidates(exercise: AuthorExercise) -> list[str]:
    """Return answers that a prediction may have: the four outcomes, each line of the program below it, or its value and others."""
    name = exercise.stub.partition(" ")[0]
    asked = next(questions_of(exercise.check), None)
    if asked is not None and asked.asks == "predicted_value":
        return [f"{name} = {value!r}" for value in values(asked.program)]
    return variant_proof.candidates(exercise, {})


def values(program: str) -> list:
    """Return the result of a program in plain PyTorch, and other values of that kind."""
    learner = Namespace()
    learner.run("import warnings\n\nimport torch\nfrom torch import nn")
    learner.run(program)
    (name,) = functions(program)
    value = learner.names[name]()
    others = [0, 1, None, "saving", "writing", "same", "different", [0.0, 0.0, 0.0], [[2, 8], [2, 8]], [3, 3]]
    return [value, *(other for other in others if other != value)]


def right_answers(path: Path) -> dict[str, str]:
    """Return an answer to every exercise and prediction of a lesson, by its id."""
    answers = {}
    for exercise in exercises(path):
        author = exercise.of_kind("answer")
        tried = (answer for answer in candidates(exercise) if verdict(path, exercise, answer) is None)
        answers[exercise.id] = author[0].source if author else next(tried)
    return answers


def answered(released: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    """Return the released notebook with these answers in their cells."""
    notebook = copy.deepcopy(released)
    for cell in notebook.cells:
        grading = cell.metadata.get("nbgrader", {})
        exercise = grading.get("grade_id", "").removeprefix("answer_")
        if grading.get("solution") and exercise in answers:
            cell.source = answers[exercise]
    return notebook


def errors(cells) -> dict[str, str]:
    """Return the error of each cell that shows one: its grade id, and the exception's name."""
    return {
        cell.metadata.get("nbgrader", {}).get("grade_id", cell.source[:30]): output.ename
        for cell in cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }
