"""Credit for completion: with `any_prediction`, a wrong prediction earns its points, and stays recognizable as wrong."""

import msgspec
import nbformat
import pytest

from autograder.grade.batch.feedback_page import list_exercises
from autograder.grade.submission.teacher.source import plan_all_in_process, plan_of_source
from tests.grade.conftest import grader_of
from tests.grade.small_course import answer, graded_cell, hand_in, source

IMPORTS = "import torch\nfrom autograder.check import predicted, predicted_value\n"
PROGRAM = "def program():\n    w = torch.ones(2, requires_grad=True)\n    (w * 2).sum().backward()\n"
WORD = f'@predicted("word")\n{PROGRAM}    return {{"w": w.grad}}'
NUMBER = f'@predicted_value("number")\n{PROGRAM}    return w.grad[0].item()'
MORE = f"{WORD}\nassert False"
SOURCE = source(
    nbformat.v4.new_code_cell(IMPORTS),
    answer("a", 'word = "correct"\nnumber = 2.0'),
    graded_cell("outcome", WORD, 2),
    graded_cell("value", NUMBER, 1),
    graded_cell("more", MORE, 1),
)
PLANS = {"outside": plan_of_source(SOURCE), "inside": plan_all_in_process(SOURCE)}
WRONG = 'word = "silently-wrong"\nnumber = 3'


def graded(server, text, plan, *, any_prediction):
    """Return the grade of a submission with this answer."""
    plan = msgspec.structs.replace(plan, any_prediction=any_prediction)
    return grader_of(server).grade(SOURCE, hand_in(SOURCE, {"a": text}), {}, 7, plan)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize(("text", "given"), [
    (WRONG, {"outcome": 2, "value": 1, "more": 0}),
    ('word = "perhaps"\nnumber = 3', {"outcome": 0, "value": 1, "more": 0}),
    ('word = "..."\nnumber = ...', {"outcome": 0, "value": 0, "more": 0}),
    ('word = "correct"\nnumber = 2', {"outcome": 2, "value": 1, "more": 0}),
    ("pass", {"outcome": 0, "value": 0, "more": 0}),
], ids=["wrong", "another word", "untouched", "right", "missing"])  # fmt: skip
def test_any_outcome_or_value_earns_the_points(server, plan, text, given):
    """One of the four words, or a value, is enough; another word, an empty answer and a test with more than a prediction are not."""
    grade = graded(server, text, plan, any_prediction=True)
    assert given == {name: cell.points for name, cell in grade.cells.items()}


def test_a_counted_prediction_is_shown_as_such(server):
    """It has the status "completed" with its reason, and the feedback's own word; without the setting it earns nothing."""
    strict, counted = (graded(server, WRONG, PLANS["outside"], any_prediction=given) for given in (False, True))
    assert (0.0, "incorrect") == (strict.cells["outcome"].points, strict.cells["outcome"].status)
    assert (2.0, "completed") == (counted.cells["outcome"].points, counted.cells["outcome"].status)
    assert "It was correct" in counted.cells["outcome"].reason
    notebook = nbformat.reads(counted.notebook, 4)
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") != "more"]
    for cell in notebook.cells:
        known = cell.metadata.get("nbgrader", {})
        if known.get("grade"):
            known["score"] = counted.cells[known["grade_id"]].points
    assert ["completed"] == [exercise.status for exercise in list_exercises(notebook)]
