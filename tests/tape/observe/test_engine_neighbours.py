"""Features around the engine: saved-tensor hooks, custom Functions, AMP, DDP, LBFGS, transforms, tensors without values."""

import pytest
import torch

from autograder.tape import ProgramError, record

WITHOUT_VALUES = {
    "meta": """
import torch
torch.set_default_device("meta")
w = torch.ones(3, requires_grad=True)
h = torch.exp(w)
{write}
h.sum().backward()
""",
    "fake": """
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    w = torch.ones(3, requires_grad=True)
    h = torch.exp(w)
    {write}
    h.sum().backward()
""",
}


@pytest.mark.parametrize("kind", WITHOUT_VALUES)
def test_gradients_without_values_are_not_called_right(kind):
    """Nothing can be compared: one sentence says so, and the default device is restored."""
    with pytest.raises(ProgramError, match=r"no values \(device meta, or fake tensors\).*Run the program on the CPU"):
        record(WITHOUT_VALUES[kind].format(write="pass"))
    assert "cpu" == torch.get_default_device().type


@pytest.mark.parametrize("kind", WITHOUT_VALUES)
def test_a_refused_write_is_named_without_values(kind):
    """Versions are counted there as well; whether bytes changed is unknown, so the error is not called needless."""
    verdict = record(WITHOUT_VALUES[kind].format(write="h.mul_(2)")).verdict
    assert "raises-backward" == verdict.outcome
    assert "h.mul_(2)" in {place.text for harm in verdict.harms for place in harm.mutated_at}
    assert not any("not needed" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("f(w).backward()", "@torch.jit.script\ndef f(w):\n    h = torch.exp(w)\n    h.mul_(2)\n    return h.sum()"),
        (
            "torch.func.vmap(f)(w[None]).sum().backward()",
            "def f(x):\n    y = torch.exp(x)\n    y.mul_(2)\n    return y.sum()",
        ),
    ],
)
def test_a_write_that_no_mode_hears_is_named_by_its_call(call, source):
    """Scripted code and what `vmap` maps make no calls that can be heard: the line that called them is named, once."""
    verdict = record(f"import torch\n{source}\nw = torch.ones(3, requires_grad=True)\n{call}\n").verdict
    assert "raises-backward" == verdict.outcome
    assert {call} == {place.text for harm in verdict.harms for place in harm.mutated_at}
    assert all(harm.bytes_changed for harm in verdict.harms)


def test_what_transforms_save_is_said_to_be_unchecked():
    """`torch.func` forbids the hooks that copy saved tensors; the program runs as it is, and a note lists the gap."""
    verdict = record(
        """
import torch

def loss(w):
    h = torch.exp(w)
    return h.sum()

w = torch.ones(3, requires_grad=True)
(w * torch.func.grad(loss)(torch.ones(3))).sum().backward()
"""
    ).verdict
    assert "correct" == verdict.outcome
    assert any("torch.func" in note and "not detected" in note for note in verdict.notes)
    assert not any("raised" in note for note in verdict.notes)
