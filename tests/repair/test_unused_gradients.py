"""Programs that throw a gradient away, or continue after their harmed backward."""

from __future__ import annotations

import pytest
import torch

import autograder
from autograder.tape.repair.edits import apply_fix
from autograder.tape.repair.trial.intended_run import IntendedRun
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.tape.repair.trial.trial_run import run_trial
from autograder.tape.run.runner import Runner

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


def intended(**parts: object) -> IntendedRun:
    """Return the run as it was intended, of the loop with two losses."""
    text = HEAD.format(**({"rounds": 2, "cleared": "one.zero_grad()", "late": ""} | parts))
    run = IntendedRun()
    run_trial(Runner(factory_of_text(text, "train.py").original), run)
    assert run.error is None
    return run


@pytest.mark.parametrize("late", ["", "second = (a * b).sum()"], ids=["of the old a", "of the present a"])
def test_what_is_cleared_before_any_step_is_left_out(late):
    """The second loss's gradient in `a` is cleared before `a` steps again: only b's counts."""
    run = intended(late=late)
    assert [1, 1, 1, 1] == [len(call.gradients) for call in run.calls]
    assert 1 == run.cleared_unused


@pytest.mark.parametrize("parts", [
    pytest.param({"cleared": ""}, id="never cleared, so a step uses it"),
    pytest.param({"rounds": 1}, id="the program ends, and may read it"),
])  # fmt: skip
def test_every_other_gradient_has_to_be_kept(parts):
    """If it is used or may be read, a repair has to keep it."""
    run = intended(**parts)
    assert [1, 2] * (len(run.calls) // 2) == [len(call.gradients) for call in run.calls]
    assert 0 == run.cleared_unused


def test_what_becomes_of_a_gradient_after_the_end_of_a_run_is_not_asked():
    """The run ends before the third call, so it is unknown whether a step would have used the gradient of the old `a`."""
    text = HEAD.format(rounds=9, cleared="", late="")
    whole, cut = IntendedRun(), IntendedRun()
    run_trial(Runner(factory_of_text(text, "train.py").original), whole)
    run_trial(Runner(factory_of_text(text, "train.py").original, calls=2), cut)
    assert ([1, 2], 0) == ([len(call.gradients) for call in whole.calls[:2]], whole.cleared_unused)
    assert ([1, 1], 1) == ([len(call.gradients) for call in cut.calls], cut.cleared_unused)


def test_a_leaf_that_only_the_new_part_reads_cuts_nothing_off():
    """In a GAN, the discriminator steps between two losses of one fake: the second still trains the generator `a`."""
    text = HEAD.partition("for ")[0] + "y = a * a\n" + "(y * b).backward()\ntwo.step()\na.grad = None\n" * 2
    run = IntendedRun(keeps_graph=True)
    run_trial(Runner(factory_of_text(text, "train.py").original), run)
    assert [12, pytest.approx(4 * 2.6)] == [call.gradients[-1].item() for call in run.calls]


LOSSES = """import torch
from torch import nn
torch.manual_seed(0)
generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
one = torch.optim.Adam(generator.parameters())
two = torch.optim.Adam(critic.parameters())
norms = []
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
for step in range(3):
    fake = generator(torch.randn(4, 2))
    {first}
    {read}
    {second}
"""
UPDATE = "{0}.zero_grad(); loss = {1}critic(fake).mean(); loss.backward(); {0}.step()"
CALLS = {"first": "update(two, critic(fake).mean())", "second": "update(one, -critic(fake).mean())"}
LINES = {"first": UPDATE.format("two", ""), "second": UPDATE.format("one", "-")}


@pytest.mark.parametrize(("parts", "after"), [
    pytest.param(CALLS | {"read": ""}, "update(two, critic(fake.detach()).mean())", id="a function with backward"),
    pytest.param(LINES | {"read": ""}, "loss = critic(fake.detach()).mean()", id="backward in the loop"),
    pytest.param(LINES | {"read": "norms.append(generator.weight.grad.norm().item())"}, "loss.backward(retain_graph=True)",
        id="the program reads the gradient"),
])  # fmt: skip
def test_a_shared_value_is_detached_where_its_gradient_is_not_used(parts, after):
    """The first loss of a GAN needs no gradient of its fake: `detach()` is the first fix, and trains as the kept graph does."""
    source = LOSSES.format(**parts)
    fix = autograder.explain(source).fixes[0]
    assert fix.proven
    assert after in fix.after
    trained = []
    for text in (apply_fix(source, fix), source.replace("loss.backward()", "loss.backward(retain_graph=True)")):
        names: dict = {}
        exec(text, names)
        trained.append([*names["generator"].parameters(), *names["critic"].parameters()])
    assert all(map(torch.allclose, *trained))


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


def test_an_error_after_the_fixed_call_rejects_no_fix():
    """The first fix trains as the out-of-place operation does, and the note names the other error. Oracle: plain PyTorch."""
    source = PROGRAM.format(write="h += 1")
    found = autograder.explain(source)

    assert ("raises-backward", 9) == (found.outcome, found.recording.verdict.error.line)
    assert found.fixes[0].proven
    assert any(
        "later error" in note and "FileNotFoundError at line 11" in note for note in found.recording.verdict.notes
    )
    assert torch.equal(gradients(PROGRAM.format(write="h = h + 1")), gradients(apply_fix(source, found.fixes[0])))


def test_a_later_error_of_autograd_is_no_error_of_the_program():
    """A fix has to remove that one, too: `w` is a leaf that the last line modifies."""
    source = PROGRAM.format(write="h += 1").replace('open("no such file")', "w -= w.grad")
    found = autograder.explain(source)

    assert "raises-backward" == found.outcome
    assert all("no_grad" in fix.diff for fix in found.fixes if fix.proven)
    assert not any("later error" in note for note in found.recording.verdict.notes)


def test_a_later_error_does_not_hide_the_change_for_a_graph_fault():
    """The gradients are used twice, because nothing clears them before the second step; the change was run."""
    source = PROGRAM.format(write="pass").replace("step in range(2):", "step in range(3):")
    source = source.replace("kept.append(w.grad.clone())", "w.data -= 0.1 * w.grad")
    (fault,) = autograder.explain(source).recording.verdict.graph_faults
    assert fault.was_run
    assert "+    w.grad = None" in fault.diff
