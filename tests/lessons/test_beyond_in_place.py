"""Values that demonstrations show, the recorded results and claims of lessons 04 and 07, and the terms that readers search for."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS
from autograder.tape import record
from tests.lessons.cells import ran

PATHS = [SOLUTIONS / name / f"{name}.ipynb" for name in ("04_embedding_max_norm", "07_beyond_in_place")]
PROGRAMS = {name: program for path in PATHS for cell in ran(path) for name, program in cell.programs.items()}

RECORDED = [
    pytest.param(program, printed, id=program.partition("torch.compile")[1] or "DDP")
    for cell in read(PATHS[1]).cells
    for program, printed in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", cell.source, re.DOTALL)
]
"""The programs that the lesson shows with a stored output, each with this output."""

SEARCHED = {
    "zero_grad": "zero_grad()",
    "hook": "register_full_backward_hook",
    "BatchNorm": "nn.BatchNorm1d",
    "buffer": "nn.BatchNorm1d",
    "EMA": "average.mul_(0.9)",
    "moving average": "average.mul_(0.9)",
    "target network": "average.mul_(0.9)",
    "torch.compile": "torch.compile(total)",
    "inductor": "torch.compile(total)",
    "functional_call": "torch.func.functional_call(",
    "MAML": "torch.func.functional_call(",
    "clip_grad": "clip_grad_norm_(",
    "gradient clipping": "clip_grad_norm_(",
    "gradient accumulation": "zero_grad()",
    "scheduler": "lr_scheduler.LambdaLR(",
    "warm-up": "lr_scheduler.LambdaLR(",
    "state_dict": ".state_dict()",
    "state dict": ".state_dict()",
    "mixed precision": "torch.autocast(",
    "AMP": "torch.autocast(",
    "autocast": "torch.autocast(",
    "DDP": "DistributedDataParallel(",
    "vmap": "torch.vmap(",
    "checkpoint": "checkpoint.checkpoint(",
    "RNN": "nn.RNNCell(",
    "hidden state": "nn.RNNCell(",
}
"""Each term that a reader may search for, and the call of it in the section's program."""


def sections():
    """Return the text of each section, up to its first answer cell, which is what the book's search finds."""
    found = [[]]
    for cell in (cell for path in PATHS for cell in read(path).cells):
        if cell.source.startswith("## "):
            found.append([])
        found[-1].append(cell)
    shown = []
    for cells in found:
        tags = [set(cell.metadata.get("tags", [])) for cell in cells]
        end = next((at for at, tag in enumerate(tags) if "stub" in tag), len(cells) - 1)
        shown.append("\n".join(cell.source for cell in cells[: end + 1]))
    return shown


@pytest.mark.parametrize(("term", "call"), SEARCHED.items())
def test_a_searched_term_is_in_a_section_whose_program_uses_it(term, call):
    """Each term is in the initial text of a section, and the program of that section contains the call."""
    assert [text for text in sections() if term.lower() in text.lower() and call in text]


@pytest.mark.parametrize(("program", "printed"), RECORDED)
def test_a_recorded_result_is_what_the_program_prints(program, printed, tmp_path):
    """The two programs that a notebook does not run print the stored output when they are run as the lesson says."""
    file = tmp_path / "averaged.py"
    file.write_text(program, "utf-8")
    command = [sys.executable, str(file)]
    if "DistributedDataParallel" in program:
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    elif shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert printed == done.stdout


@pytest.mark.parametrize(
    "name",
    ["cleared_gradient", "loss_of_numbers", "replaced_head", "checkpointed_body", "called_with_copies", "one_autocast"],
)
def test_a_parameter_that_is_not_trained_gets_a_note(name):
    """The outcome of these programs is `correct`, and `explain` and the picture report the fault in a note."""
    recording = record(PROGRAMS[name])
    assert "correct" == recording.verdict.outcome
    assert recording.verdict.graph_faults


def test_the_other_way_that_each_explanation_names_works():
    """The repaired forms in the explanations give the figures that the text states."""
    w = torch.tensor(3.0, requires_grad=True)
    a = w * 2
    a.register_hook(lambda gradient: gradient * 10)
    (a + w).backward()
    assert 21 == w.grad
    assert 30 == PROGRAMS["gradient_times_ten"]()["w"]

    v = torch.tensor([1.0, 1.0], requires_grad=True)
    (v * torch.tensor([3.0, 4.0])).sum().backward()
    nn.utils.clip_grad_norm_([v], max_norm=1.0)
    assert torch.allclose(v.grad, torch.tensor([0.6, 0.8]))

    body = nn.Linear(2, 2)
    checkpoint(body, torch.ones(1, 2), use_reentrant=False).sum().backward()
    assert body.weight.grad is not None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checkpoint(body, torch.ones(1, 2), use_reentrant=True)
    assert "None of the inputs have requires_grad=True. Gradients will be None" in str(caught[0].message)

    layer = nn.Linear(1, 1, bias=False)
    own = {"weight": layer.weight.clone()}
    torch.func.functional_call(layer, own, torch.tensor([[3.0]])).sum().backward()
    assert 3 == layer.weight.grad

    norm = nn.BatchNorm1d(1, affine=False)
    before = norm.running_var._version
    norm(torch.tensor([[1.0], [3.0]]))
    assert (1.1, before) == (pytest.approx(norm.running_var.item()), norm.running_var._version)
    assert 4 / 1.1**0.5 == pytest.approx(PROGRAMS["running_statistics"]()["w"].item(), abs=1e-4)


def test_vmap_takes_a_row_that_is_created_from_the_row():
    """`row.new_zeros(1)` has one element for each row, so the write of section 16 of lesson 07 is possible."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)

    def total(row):
        out = row.new_zeros(1)
        out[0] = (row * w).sum()
        return out

    torch.vmap(total)(torch.ones(3, 2)).sum().backward()
    assert [3.0, 3.0] == w.grad.tolist()


def test_an_autocast_around_each_step_sees_the_new_weights():
    """With `autocast` around each forward only, the second loss differs."""
    layer, x = nn.Linear(2, 1), torch.ones(1, 2)
    optimizer, losses = torch.optim.SGD(layer.parameters(), lr=0.5), []
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = layer(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] != losses[1]


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
