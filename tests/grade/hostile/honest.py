"""Honest work that looks odd: a grader that punishes it is as wrong as one that is fooled."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode

from tests.grade.hostile.lesson import POINTS, RIGHT

FULL = sum(POINTS.values())


class Work(NamedTuple):
    """Answers, other changes of the notebook, and the points that it deserves."""

    answers: dict[str, str]
    change: Callable[[NotebookNode], None] = lambda notebook: None
    deserved: float = FULL


def _reordered(notebook: NotebookNode) -> None:
    notebook.cells.insert(0, notebook.cells.pop(3))


def _extra(notebook: NotebookNode) -> None:
    notebook.cells[2:2] = [
        nbformat.v4.new_markdown_cell("notes"),
        nbformat.v4.new_code_cell("import math\nx = 3\nx + 1"),
    ]
    notebook.cells.append(nbformat.v4.new_code_cell("7"))


def _broken_extra(notebook: NotebookNode) -> None:
    notebook.cells.insert(1, nbformat.v4.new_code_cell("this is not python"))
    notebook.cells.insert(1, nbformat.v4.new_code_cell("1 / 0"))


def _answer(**answers: str) -> dict[str, str]:
    return RIGHT | answers


HONEST = {
    "plain": Work(RIGHT),
    "a warning on stderr": Work(_answer(scaled="import warnings\nwarnings.warn('careful')\n" + RIGHT["scaled"])),
    "a warning in every call": Work(
        _answer(scaled=RIGHT["scaled"].replace(":\n", ":\n    import sys\n    print('careful', file=sys.stderr)\n", 1))
    ),
    "much printing": Work(_answer(mean_square="for i in range(5000):\n    print(i)\n" + RIGHT["mean_square"])),
    "extra cells": Work(RIGHT, _extra),
    "cells that fail": Work(RIGHT, _broken_extra),
    "another order": Work(RIGHT, _reordered),
    "slow but within budget": Work(_answer(number="import time\ntime.sleep(0.7)\n" + RIGHT["number"])),
    "another way": Work(
        _answer(
            scaled="import torch\ndef scaled(d, w):\n    kept = torch.empty_like(d).copy_(d)\n    d.fill_(1)\n    return w * kept",
            mean_square="import numpy\ndef mean_square(values):\n    return float(numpy.square(values).mean())",
            number="number = int('41317')",
        )
    ),
    "one left untouched": Work(_answer(mean_square="raise NotImplementedError"), deserved=FULL - POINTS["mean_square"]),
    "magics and shell": Work(_answer(scaled="%time 1\n!echo hello\n" + RIGHT["scaled"])),
    "last lines that show values": Work(_answer(number="number = 41317\nnumber - 1")),
    "numpy and a lambda": Work(
        _answer(mean_square="import numpy as np\nmean_square = lambda values: float((np.array(values) ** 2).mean())")
    ),
    "a plot": Work(_answer(number=RIGHT["number"] + "\nimport matplotlib.pyplot as plt\nplt.plot([1, 2]);")),
}
