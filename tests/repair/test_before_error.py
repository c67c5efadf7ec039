"""A program that continues after its harmed backward, and later ends with another error."""

import pytest
import torch

import autograder
from autograder.tape.repair.edits import apply_fix

PROGRAM = """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
kept = []
for step in range(2):
    h = w.exp()
    y = h * h
    {write}
    y.sum().backward()
    kept.append(w.grad.clone())
open("no such file")
"""


def gradients(source):
    """Return the list of a program that ends with its own error, in plain PyTorch."""
    names: dict = {}
    with pytest.raises(FileNotFoundError):
        exec(source, names)
    return torch.stack(names["kept"])


def test_an_error_later_does_not_hide_the_harm_or_its_repair():
    """The outcome is the error's; the answer has the write, the gradients and a proven repair. Oracle: 2 e^2w a step, in plain PyTorch."""
    source = PROGRAM.format(write="h.data.zero_()")
    found = autograder.explain(source)

    assert ("raises-forward", 8) == (found.outcome, found.harms[0].mutated_at[0].line)
    assert "FileNotFoundError" == found.recording.verdict.error.type
    assert found.fixes[0].proven
    step = 2 * torch.tensor([2.0, 4.0]).exp()
    assert torch.allclose(torch.stack([step, 2 * step]), gradients(apply_fix(source, found.fixes[0])))
    assert "is off by 100 %" in repr(found)


def test_an_error_alone_is_told_as_before():
    """Where every gradient was right until the error, no harm and no repair is named."""
    found = autograder.explain(PROGRAM.format(write="pass"))

    assert ("raises-forward", (), ()) == (found.outcome, found.harms, found.fixes)
