"""The values that demonstrations show; the cells themselves contain no expected value, because they follow a question."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from autograder.course.paths import SOLUTIONS
from tests.lessons.cells import ran

PRINTED = {
    "00_names_objects_storage": (
        "s is [0.0, 0.0] | same memory: False",
        "s is [1.0, 1.0] | same memory: True",
        "d.data is d.data: False",
        "| same address: True",
    ),
    "01_leaf_in_place": (
        "input x       is_leaf: True   requires_grad: False",
        "parameter w   is_leaf: True   requires_grad: True",
        "result x * w  is_leaf: False  requires_grad: True",
        "detached      is_leaf: True   requires_grad: False",
        "is_leaf: False | grad: [6.0, 12.0]",
        "is_leaf: True  version: 0  gradient: [1.0, 1.0, 1.0]\n"
        + 2 * "is_leaf: True  version: 1  gradient: [1.0, 1.0, 1.0]\n",
        "torch.empty(3): [nan, nan, nan]",
        "same object: True | type: torch.float64",
        "same memory after w.data = w.data.normal_(): True",
    ),
    "02_mutating_a_saved_tensor": (
        "which is output 0 of Fill",
        "which is output 0 of Mul,",
        "CopySlices, is at version 1",
        "is at version 2; expected version 0",
        "which is output 0 of Sigmoid,",
    ),
    "03_data_against_detach": (
        ".data      same memory: True  grad_fn: None  requires_grad: False",
        ".detach()  same memory: True  grad_fn: None  requires_grad: False",
        "gradient [2.0]  right [2.0]  agree: True\ngradient [200.0]  right [2.0]  agree: False",
        "plain:   True\nzeroed:  False",
        "after detach():  m still has MulBackward0",
        "after detach_(): m has None | is_leaf: True",
    ),
    "04_embedding_max_norm": ("versions: 2 then 3",),
    "05_select_and_index": (
        "SelectBackward0  shares memory: True\nSliceBackward0   shares memory: True\n"
        "IndexBackward0   shares memory: False\nIndexBackward0   shares memory: False",
        "[0]                    [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]] version 1",
        "before: SelectBackward0 | base: ",
        "the clone's node: True | of the read: True",
        "requires grad: False then True | node: CopySlices",
    ),
    "06_clinic": (
        "declared to autograd: False | h: [2.0, 4.0] | gradient: [1.0, 1.0]",
        "declared to autograd: True | h: [2.0, 4.0] | gradient: [2.0, 2.0]",
    ),
}


@pytest.mark.parametrize("lesson", PRINTED)
def test_a_demonstration_prints_what_pytorch_does(lesson):
    """Each line was worked out from PyTorch's documented behavior; the lesson's text explains it below the cell."""
    printed = "".join(cell.printed for cell in ran(SOLUTIONS / lesson / f"{lesson}.ipynb"))
    assert [] == [words for words in PRINTED[lesson] if words not in printed], printed


def test_every_parameter_of_a_module_is_a_leaf_that_requires_grad():
    """As stated in lesson 1 for `nn.Parameter`."""
    assert all(one.is_leaf and one.requires_grad for one in nn.Linear(3, 2).parameters())


def test_four_writes_that_raise_nothing_give_wrong_gradients():
    """Of the five programs of lesson 3, only the one without a write agrees with its formula."""
    path = SOLUTIONS / "03_data_against_detach" / "03_data_against_detach.ipynb"
    (printed,) = [cell.printed for cell in ran(path) if "agree: " in cell.printed]
    assert ["True", "False", "False", "False", "False"] == [row.rpartition(": ")[2] for row in printed.splitlines()]


def test_several_views_of_one_function_cannot_be_written():
    """`chunk` and `split` raise as `unbind` does, in the line that writes."""
    for function in (lambda u: u.unbind(0), lambda u: u.chunk(2), lambda u: u.split(1)):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            function(torch.ones(2, 2, requires_grad=True).clone())[0].mul_(2)
