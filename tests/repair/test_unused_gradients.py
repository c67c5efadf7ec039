"""Only a gradient that the program itself throws away may be missing after a repair."""

from __future__ import annotations

import pytest

from autograder.tape.repair.trial.meant_run import MeantRun, UnusedGradients
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.tape.repair.trial.trial_run import run_trial

HEAD = """import torch
a = torch.tensor([2.0], requires_grad=True)
b = torch.tensor([3.0], requires_grad=True)
one, two = torch.optim.SGD([a], lr=0.1), torch.optim.SGD([b], lr=0.1)
for step in range({rounds}):
    first, second = (a * a).sum(), (a * b).sum()
    {cleared}
    first.backward()
    one.step()
    {late}
    two.zero_grad()
    second.backward()
    two.step()
"""


def meant(**parts: object) -> MeantRun:
    """Return the run as it was meant, of the loop with two losses."""
    text = HEAD.format(**({"rounds": 2, "cleared": "one.zero_grad()", "late": ""} | parts))
    run = MeantRun()
    run_trial(factory_of_text(text, "train.py").original, run)
    assert run.error is None
    return run


def test_what_is_cleared_before_any_step_is_left_out():
    """The second loss's gradient in `a` is that of the old `a`, and is cleared before `a` steps again: only b's counts."""
    run = meant()
    assert [1, 1, 1, 1] == [len(call.gradients) for call in run.calls]
    assert 1 == run.thrown_away


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"cleared": ""}, id="never cleared, so a step uses it"),
        pytest.param({"rounds": 1}, id="the program ends, and may read it"),
        pytest.param({"late": "second = (a * b).sum()"}, id="it belongs to the values that are there now"),
    ],
)
def test_every_other_gradient_has_to_be_kept(parts):
    """If it is used, may be read, or is that of the present values, a repair has to keep it."""
    run = meant(**parts)
    assert [1, 2] * (len(run.calls) // 2) == [len(call.gradients) for call in run.calls]
    assert 0 == run.thrown_away


def test_what_becomes_of_a_gradient_after_the_end_of_a_run_is_not_asked():
    """The run ends before the third call, so it is unknown whether a step would have used the gradient of the old `a`."""
    text = HEAD.format(rounds=9, cleared="", late="")
    whole, cut = MeantRun(), MeantRun()
    run_trial(factory_of_text(text, "train.py").original, whole)
    run_trial(factory_of_text(text, "train.py").original, cut, calls=2)
    assert ([1, 2], 0) == ([len(call.gradients) for call in whole.calls[:2]], whole.thrown_away)
    assert ([1, 1], 1) == ([len(call.gradients) for call in cut.calls], cut.thrown_away)


def test_nothing_is_waited_for_before_the_first_call():
    """Without a backward, there is no gradient to discard."""
    assert {} == UnusedGradients().waiting
