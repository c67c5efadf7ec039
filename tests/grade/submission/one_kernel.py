"""An answer and a test in one namespace, as one kernel runs them; and the same pair as the grader judges it."""

from __future__ import annotations

import contextlib
import io
import linecache

from autograder.grade.submission.notebook_grade import CellGrade
from autograder.grade.submission.teacher.source import plan_all_in_process
from tests.grade.conftest import grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher

SETUP = (
    "import abc, collections, copy, dataclasses, enum, functools, inspect, math, numpy as np, random, torch\n"
    "from torch import nn\nimport pytest"
)


def alone(text: str, test: str) -> tuple[str, str]:
    """Return the result of a test in the answer's own namespace ("passed", or the name of its exception), and its output."""
    space = {"__name__": "__main__"}
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            exec(SETUP, space)
            # As IPython does, so that inspect finds the text.
            linecache.cache["<answer>"] = len(text), None, text.splitlines(keepends=True), "<answer>"
            exec(compile(text, "<answer>", "exec"), space)
            exec(test, space)
            ended = "passed"
        except BaseException as error:  # whatever it is, both must end so
            ended = type(error).__name__
    return ended, said.getvalue()


def judged(server, text: str, test: str, model: str | None = None) -> CellGrade:
    """Return the grade of a test for an answer, as the text of the source says; `model` is its model answer, or the same."""
    of = source(teacher(SETUP), answer("a", model or text), graded_cell("t", test))
    return grader_of(server).grade(of, hand_in(of, {"a": text}), {}, 5).cells["t"]


def graded(server, text: str, test: str, model: str | None = None) -> bool:
    """Return whether an answer gets the points of a test.

    If the model answer does not pass outside the submission's process, the validation of the source plans the test in
    process, and so does this function.
    """
    if judged(server, model or text, test, model).points == 1:
        return judged(server, text, test, model).points == 1
    of = source(teacher(SETUP), answer("a", model or text), graded_cell("t", test))
    found = grader_of(server).grade(of, hand_in(of, {"a": text}), {}, 5, plan_all_in_process(of))
    return found.cells["t"].points == 1
