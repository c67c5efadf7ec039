"""What a learner was asked to do, as a graded notebook tells: each answer with its tests, its heading, points and status."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from nbformat import NotebookNode
from nbgrader import utils

from autograder.locale.translations import translatable

Status = Literal["correct", "partly", "incorrect", "not attempted", "not run", "waiting"]
NO_ANSWER = translatable("No response.")
"""What nbgrader remarks on an answer that is as it was handed out (0.9.6, preprocessors/saveautogrades.py)."""
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)


class GradedExercise(NamedTuple):
    """One exercise.

    Attributes:
        name: the heading above it, or else the name of its first graded cell in words.
        answers: the learner's cells; those that a person grades are among them.
        tests: the cells that test the answers.
        points: reached, and possible; cells that wait for a person count 0.
    """

    name: str
    answers: list[NotebookNode]
    tests: list[NotebookNode]

    @property
    def graded(self) -> list[NotebookNode]:
        """The cells that give points."""
        return [cell for cell in [*self.answers, *self.tests] if utils.is_grade(cell) or utils.is_task(cell)]

    @property
    def points(self) -> float:
        """What the learner has reached so far."""
        return sum(cell.metadata.nbgrader.get("score") or 0.0 for cell in self.graded)

    @property
    def max_points(self) -> float:
        """What could be reached."""
        return sum(float(cell.metadata.nbgrader.get("points") or 0.0) for cell in self.graded)

    @property
    def comments(self) -> list[str]:
        """What a person wrote about it, and nbgrader's own remark about an empty answer."""
        cells = [*self.answers, *self.tests]
        return [cell.metadata.nbgrader.comment for cell in cells if cell.metadata.nbgrader.get("comment")]

    @property
    def status(self) -> Status:
        """How it stands."""
        if any(cell.metadata.nbgrader.get("waiting") for cell in self.graded):
            return "waiting"
        if self.points == 0 and NO_ANSWER in self.comments:  # it may be one that gives no points
            return "not attempted"
        if self.points >= self.max_points:
            return "correct"
        if self.points > 0:
            return "partly"
        found = {cell.metadata.get("autograder", {}).get("status") for cell in self.graded}
        return next((one for one in ("not attempted", "not run") if found == {one}), "incorrect")


def title_of(notebook: NotebookNode, exercises: list[GradedExercise], otherwise: str) -> str:
    """Returns the notebook's first heading, unless that is the heading of one of several exercises."""
    texts = (cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    first = next((_plain(found[1]) for text in texts if (found := HEADING.search(text))), otherwise)
    return otherwise if len(exercises) > 1 and first in [exercise.name for exercise in exercises] else first


def list_exercises(notebook: NotebookNode) -> list[GradedExercise]:
    """Returns the exercises in order. Tests belong to the answers before them, up to the tests of the exercise before."""
    found: list[GradedExercise] = []
    heading, answers, tests = "", [], []  # type: ignore[var-annotated]

    def close() -> None:
        nonlocal answers, tests
        if any(utils.is_grade(cell) or utils.is_task(cell) for cell in [*answers, *tests]):
            found.append(GradedExercise(heading or _words(answers, tests), answers, tests))
            answers, tests = [], []

    for cell in notebook.cells:
        headings = HEADING.findall(cell.source) if cell.cell_type == "markdown" else []
        if headings and not utils.is_solution(cell):
            close()
            heading = _plain(headings[-1])
        if utils.is_solution(cell) or utils.is_task(cell):
            if tests or any(utils.is_grade(one) or utils.is_task(one) for one in answers):
                close()
            answers.append(cell)
        elif utils.is_grade(cell):
            tests.append(cell)
    close()
    return _with_different_names(found)


def _with_different_names(found: list[GradedExercise]) -> list[GradedExercise]:
    """Returns the exercises; where several stand below one heading, each has the name of its graded cell too."""
    names = [exercise.name for exercise in found]
    return [
        exercise._replace(name=f"{exercise.name}: {_words(exercise.answers, exercise.tests)}")
        if names.count(exercise.name) > 1
        else exercise
        for exercise in found
    ]


def _words(answers: list[NotebookNode], tests: list[NotebookNode]) -> str:
    """Returns the name of the first graded cell in words."""
    cell = next(cell for cell in [*tests, *answers] if utils.is_grade(cell) or utils.is_task(cell))
    name = re.sub(r"^(test|cell|grade|prediction)[-_]", "", cell.metadata.nbgrader.grade_id)
    return re.sub(r"[-_]+", " ", name).strip() or cell.metadata.nbgrader.grade_id


def _plain(heading: str) -> str:
    """Returns a heading without Markdown's marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"[`*]|</?\w+>", "", heading)).strip()
