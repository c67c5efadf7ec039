"""A lesson with one of each kind of block, to make a small book of."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from autograder.course.catalogue import Aim, Lesson

NAME = "00_small"
LESSON = Lesson(NAME, "A small lesson", 5, "nothing", tuple(Aim(can, ()) for can in ("read", "predict", "step")), ())
SECRET = "The product kept h, so the secret is out."
FOLDED = "The write came between the product and backward."
"""The text after the first question, and the text that is shown when it is unfolded."""

PROGRAM = """def late():
    w = torch.tensor([2.0], requires_grad=True)
    h = w * 3
    y = h * h
    h.add_(1)
    y.backward()
    return {"w": w.grad}
"""

SLOPE = """def slope():
    w = torch.tensor(1.5, requires_grad=True)
    (w * w).backward()
    return w.grad.item()
"""
ORDER = """def order(w):
    # | return a
    # | a = w.exp()
    # | a.mul_(2)
    # | a = a * 2
    raise NotImplementedError
"""

NUMBER = "The slope is twice as much as w."


def small_notebook(folder: Path) -> Path:
    """Write the lesson and returns its path."""
    cells = [
        new_markdown_cell(
            f"# A small lesson\n\nAfter this lesson you can predict.\n\n```\n{'a long line ' * 9}\n```", id="opening"
        ),
        new_code_cell(
            "import torch\n\nfrom autograder.check import check, leaf, observed, predicted, predicted_value",
            id="imports",
        ),
        new_markdown_cell(
            "## 1 · Late\n\nA write after a product, see [the words](../start/glossary.ipynb#Leaf).", id="late-text"
        ),
        _solution("prediction_late", 'prediction_late = "..."'),
        _check("prediction_late", f'@predicted("prediction_late")\n{PROGRAM}'),
        new_markdown_cell(f"{SECRET}\n\n<details><summary>Why</summary>\n\n{FOLDED}\n\n</details>", id="told"),
        new_code_cell(f"@observed\n{PROGRAM.replace('late', 'seen').replace('h.add_(1)', 'h = h + 1')}", id="seen"),
        new_markdown_cell("## 2 · A number", id="number-text"),
        _solution("prediction_slope", "prediction_slope = ...  # a number"),
        _check("prediction_slope", f'@predicted_value("prediction_slope")\n{SLOPE}'),
        new_markdown_cell(NUMBER, id="number-told"),
        new_markdown_cell("## Repair it", id="Repair-it"),
        _solution("repair", "def repair(w):\n    a = w.exp()\n    a += 1\n    return a"),
        _check("repair", "def given(w):\n    return w.exp() + 1\n\n\ncheck('repair', like=given, w=leaf(2))"),
        new_markdown_cell("## 4 · Order", id="order-text"),
        _solution("order", ORDER),
        _check("order", "def paper(w):\n    return 2 * w.exp()\n\n\ncheck('order', like=paper, w=leaf(2))"),
        new_code_cell('play("order")', id="play-order"),
        new_code_cell("print(sum(range(5)))", id="printing"),
    ]
    path = folder / NAME / f"{NAME}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(new_notebook(cells=cells), path)
    return path


def _solution(name: str, source: str):
    return _graded(f"answer_{name}", source, solution=True)


def _check(name: str, source: str):
    return _graded(name, source, grade=True, locked=True, points=1)


def _graded(name: str, source: str, **shape):
    known = {"grade_id": name, "grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    return new_code_cell(source, id=name, metadata={"nbgrader": known | shape, "tags": ["raises-exception"]})
