"""A class of submissions made from the author's cells of a lesson, each with the points that it deserves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from autograder.course.author_cells import AuthorExercise, exercises
from autograder.course.canonical import read
from tests.lessons.solving import answered

OUTCOMES = {
    "prediction_late_write": "raises-backward",
    "prediction_early_write": "correct",
    "prediction_early_slope": 2,
    "prediction_relu_then_add": "raises-backward",
    "prediction_times_three": "correct",
    "prediction_total_squared": "raises-backward",
    "prediction_backward_twice": "raises-backward",
    "prediction_anomaly": "saving",
    "culprit_by_message": "e.sub_(top.detach())",
}


class Submission(NamedTuple):
    """One student's notebook, as text, and the share of each grade cell's points that it deserves (0 or 1)."""

    student: str
    text: str
    deserved: dict[str, int]


class Lesson:
    """A released lesson beside its source: writes answers into the stubs' cells."""

    def __init__(self, source: Path, release: Path) -> None:
        self.exercises: dict[str, AuthorExercise] = {exercise.id: exercise for exercise in exercises(source)}
        self.released = read(release)

    def answered(self, answers: dict[str, str]) -> NotebookNode:
        """Returns the released notebook with these texts in the answers' cells; the others stay as handed out."""
        return answered(self.released, answers)

    def right(self, kind: str = "answer") -> dict[str, str]:
        """Returns right answers to everything: the model answers, or the first of the other right ones."""
        predictions = {name: f"{name} = {outcome!r}" for name, outcome in OUTCOMES.items()}
        return predictions | {
            exercise.id: exercise.of_kind(kind)[0].source for exercise in self.exercises.values() if exercise.answers
        }

    def wrong(self, number: int) -> dict[str, str]:
        """Returns the wrong answer of this number to every exercise, and a wrong prediction."""
        predictions = {name: f'{name} = "silently-wrong"' for name in OUTCOMES}
        return predictions | {
            exercise.id: exercise.of_kind("wrong")[number].source
            for exercise in self.exercises.values()
            if exercise.answers
        }

    def deserves(self, points: int, **others: int) -> dict[str, int]:
        """Returns the same share for every grade cell, but for those named."""
        return dict.fromkeys(self.exercises, points) | others


def submissions(lesson: Lesson) -> list[Submission]:
    """Returns the class: right, each kind of wrong, untouched, broken, endless, tampered, noisy and untidy work."""
    right, all_right, none = lesson.right(), lesson.deserves(1), lesson.deserves(0)

    def written(notebook: NotebookNode) -> str:
        return nbformat.writes(notebook)

    def changed(change: Callable[[NotebookNode], None]) -> str:
        notebook = lesson.answered(right)
        change(notebook)
        return written(notebook)

    endless = "def shifted_exp(w):\n    while True:\n        pass"
    noisy = "import sys\n\ndef shifted_exp(w):\n    print('careful', file=sys.stderr)\n    return w.exp() + 1"
    library = (
        "import os\n\ndef shifted_exp(w):\n    os.write(2, b'libfast: using one thread\\n')\n    return w.exp() + 1"
    )
    forged = "def shifted_exp(w):\n    get_ipython().displayhook(float('nan'))\n    return w"
    raising = "def shifted_exp(w):\n    return w.exp() + undefined"
    syntax = "def shifted_exp(w)\n    return w.exp() + 1"
    return [
        Submission("model", written(lesson.answered(right)), all_right),
        Submission("other_way", written(lesson.answered(lesson.right("right"))), all_right),
        *(Submission(f"wrong_{number}", written(lesson.answered(lesson.wrong(number))), none) for number in range(4)),
        Submission("untouched", written(lesson.released), none),
        Submission(
            "half_done", written(lesson.answered({"shifted_exp": right["shifted_exp"]})), none | {"shifted_exp": 1}
        ),
        Submission("broken_json", written(lesson.answered(right))[:-200], none),
        Submission(
            "endless", written(lesson.answered(right | {"shifted_exp": endless})), all_right | {"shifted_exp": 0}
        ),
        Submission("noisy", written(lesson.answered(right | {"shifted_exp": noisy})), all_right),
        Submission("noisy_library", written(lesson.answered(right | {"shifted_exp": library})), all_right),
        Submission("forged", written(lesson.answered(right | {"shifted_exp": forged})), all_right | {"shifted_exp": 0}),
        Submission(
            "raising", written(lesson.answered(right | {"shifted_exp": raising})), all_right | {"shifted_exp": 0}
        ),
        Submission(
            "syntax_error", written(lesson.answered(right | {"shifted_exp": syntax})), all_right | {"shifted_exp": 0}
        ),
        Submission("deleted_check", changed(_delete_a_check), all_right | {"open_gate": 0}),
        Submission("edited_check", changed(_edit_a_check), all_right),
        Submission("extra_cells", changed(_add_cells), all_right),
    ]


def _delete_a_check(notebook: NotebookNode) -> None:
    """Removes a check cell and its answer, as somebody does who wants to be rid of the question."""
    gone = ("open_gate", "answer_open_gate")
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") not in gone]


def _edit_a_check(notebook: NotebookNode) -> None:
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "GatedBlock":
            cell.source = "raise RuntimeError('I changed this cell')"


def _add_cells(notebook: NotebookNode) -> None:
    note = nbformat.v4.new_markdown_cell("My notes")
    loud = nbformat.v4.new_code_cell("import sys, warnings\nprint('x' * 2000)\nwarnings.warn('mine')\n1 + 1")
    notebook.cells[2:2] = [note, loud]
    notebook.cells.append(nbformat.v4.new_code_cell("5"))
