"""The described effect of a repair on a training run, compared with the program repaired by hand in plain PyTorch."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from autograder.tape.explain import prove, record_program
from autograder.tape.oracle import nominal_replay
from autograder.tape.recording.verdict_types import Fix
from autograder.tape.repair.edits import apply_fix, as_diff
from autograder.tape.repair.patch_file import best_fix
from autograder.tape.repair.repairs import Repairs, find_repairs
from autograder.tape.repair.trial.intended_run import IntendedRun
from autograder.tape.repair.trial.meaning import Reference
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.tape.repair.trial.trial_run import CallValues, TrialRun
from autograder.tape.run.budget import Budget
from tests.commands import autograder

LOOP = """import torch
w = torch.ones(2, requires_grad=True)
sgd = torch.optim.SGD([w], lr=0.1)
for step in range(3):
    sgd.zero_grad()
    h = torch.exp(w * 2)
    h.mul_(2)
    h.sum().backward()
    sgd.step()
"""
MASK = """import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 4)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
x, hidden = torch.randn(3, 4), torch.eye(4)[:3].bool()
for step in range(2):
    sgd.zero_grad()
    attention = torch.softmax(net(x), -1)
    attention.masked_fill_(hidden, 0)
    (attention ** 2).sum().backward()
    sgd.step()
"""
BY_HAND = """import torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
x, y = torch.randn(5, 3), torch.randn(5, 1)
for step in range(3):
    net.zero_grad()
    ((net(x) - y) ** 2).mean().backward()
    for p in net.parameters():
        p.add_(p.grad, alpha=-0.1)
"""
ACTOR_CRITIC = """import torch
torch.manual_seed(0)
actor, critic = torch.nn.Linear(3, 2), torch.nn.Linear(3, 1)
actor_sgd = torch.optim.SGD(actor.parameters(), lr=0.1)
critic_sgd = torch.optim.SGD(critic.parameters(), lr=0.1)
states, actions, rewards = torch.randn(4, 3), torch.tensor([0, 1, 1, 0]), torch.randn(4, 1)
for step in range(3):
    advantage = rewards - critic(states)
    critic_loss = advantage.pow(2).mean()
    critic_sgd.zero_grad()
    critic_loss.backward()
    critic_sgd.step()
    log = torch.log_softmax(actor(states), -1).gather(1, actions[:, None])
    actor_loss = -(log * advantage).mean()
    actor_sgd.zero_grad()
    actor_loss.backward()
    actor_sgd.step()
"""
CLOSURE = """import torch
torch.manual_seed(0)
w, x = torch.randn(3, requires_grad=True), torch.randn(5, 3)
lbfgs = torch.optim.LBFGS([w], max_iter=3)
h = torch.exp(x @ w)
def closure():
    lbfgs.zero_grad()
    loss = (h ** 2).sum()
    loss.backward()
    return loss
lbfgs.step(closure)
"""
INNER_STEPS = """import torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(5, 3), torch.randn(5, 1)
for outer in range(2):
    sgd.zero_grad()
    fast = list(net.parameters())
    loss = ((x @ fast[0].t() + fast[1] - y) ** 2).mean()
    grads = torch.autograd.grad(loss, fast, create_graph=True)
    for w, g in zip(fast, grads):
        w -= 0.1 * g
    ((x @ fast[0].t() + fast[1] - y) ** 2).mean().backward()
    sgd.step()
"""


@dataclass(frozen=True)
class Run:
    """The results of a text: the loss and the gradients of each backward, and the final parameters."""

    losses: list[float]
    gradients: list[list[float]]
    trained: list[float]


def plain(text: str, monkeypatch) -> Run:
    """Return the results of a text in plain PyTorch; for each backward, the gradients of the leaves that it reached."""
    losses, gradients, leaves = [], [], {}  # type: ignore[var-annotated]
    backward = torch.Tensor.backward

    def noted(self, *args, **options):
        losses.append(self.item())
        backward(self, *args, **options)
        found = [leaf for leaf in leaves.values() if leaf.grad is not None]
        gradients.append([number for leaf in found for number in leaf.grad.flatten().tolist()])

    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "backward", noted)
        space: dict = {"__name__": "plain"}
        before = text.partition("for " if "for " in text else "lbfgs.step")[0]  # there, every leaf is made
        exec(before, space)
        modules = [one for one in space.values() if isinstance(one, torch.nn.Module)]
        leaves |= {id(p): p for module in modules for p in module.parameters()}
        leaves |= {id(v): v for v in space.values() if isinstance(v, torch.Tensor) and v.requires_grad and v.is_leaf}
        exec(text[len(before) :], space)
    return Run(losses, gradients, [number for leaf in leaves.values() for number in leaf.flatten().tolist()])


def repairs(text: str) -> Repairs:
    """Return what is offered for a text."""
    factory = factory_of_text(text, "train.py")
    return find_repairs(factory, record_program(factory.original).verdict, prove)


@pytest.mark.parametrize(("broken", "old", "new"), [
    pytest.param(LOOP, "h.mul_(2)", "h = h * 2", id="a loop"),
    pytest.param(MASK, "attention.masked_fill_(", "attention = attention.masked_fill(", id="a mask in a loop"),
    pytest.param(BY_HAND, "p.add_(p.grad, alpha=-0.1)", "p.data.add_(p.grad, alpha=-0.1)", id="steps by hand"),
    pytest.param(ACTOR_CRITIC, "(log * advantage)", "(log * advantage.detach())", id="actor and critic"),
])  # fmt: skip
def test_every_repair_that_is_called_the_same_trains_the_same(broken, old, new, monkeypatch):
    """Losses, gradients and trained parameters equal those of the program repaired by hand; such a repair is found and listed first."""
    wanted = plain(broken.replace(old, new), monkeypatch)
    found = repairs(broken)
    assert found.fixes[0].proven
    for fix in found.fixes:
        got = plain(apply_fix(broken, fix), monkeypatch)
        assert fix.proven == (fix.effect == "same losses and gradients")
        assert not fix.proven or pytest.approx(wanted.losses, rel=1e-4) == got.losses, fix
        assert not fix.proven or pytest.approx(wanted.trained, rel=1e-4) == got.trained, fix


@pytest.mark.parametrize("broken", [
    pytest.param(LOOP, id="backward raises"),
    pytest.param(MASK, id="a mask"),
    pytest.param(BY_HAND, id="a step raises after backward"),
    pytest.param(ACTOR_CRITIC, id="the second of two losses raises"),
])  # fmt: skip
def test_what_would_train_for_hours_is_repaired_as_what_trains_three_steps(broken):
    """An error in the first step ends the program; once it is repaired, only a few of its steps are run, and the repairs are the same."""
    hours = re.sub(r"range\(\d\)", "range(10**9)", broken)
    short, long = repairs(re.sub(r"range\(\d\)", "range(7)", broken)), repairs(hours)
    assert long.fixes
    assert [fix.after for fix in short.fixes] == [fix.after for fix in long.fixes]
    assert [fix.proven for fix in short.fixes] == [fix.proven for fix in long.fixes]


def test_an_update_that_reaches_no_parameter_is_not_offered(monkeypatch):
    """`p = p.add(...)` in a loop over parameters does not train anything."""
    found = repairs(BY_HAND)
    assert found.fixes
    for fix in found.fixes:
        assert len(set(plain(apply_fix(BY_HAND, fix), monkeypatch).losses)) == 3, fix


def test_a_graph_that_is_kept_over_a_step_is_not_offered(monkeypatch):
    """With `retain_graph=True` the closure would go on with the loss of old values; what is offered computes it again."""
    found = repairs(CLOSURE)
    assert found.fixes
    for fix in found.fixes:
        assert "changes what is computed" == fix.effect
        assert not fix.proven
        assert fix.changes
        assert len(set(plain(apply_fix(CLOSURE, fix), monkeypatch).losses)) > 1, fix


def test_the_inner_step_of_meta_learning_makes_a_new_list(monkeypatch):
    """The first repair is the functional one, and is not called proven: PyTorch stopped before any loss could be compared."""
    first = repairs(INNER_STEPS).fixes[0]
    assert ("fast = [w - (0.1 * g) for w, g in zip(fast, grads)]", False) == (first.after.strip(), first.proven)
    by_hand = INNER_STEPS.replace(
        "    for w, g in zip(fast, grads):\n        w -= 0.1 * g",
        "    fast = [w - 0.1 * g for w, g in zip(fast, grads)]",
    )
    assert plain(by_hand, monkeypatch) == plain(apply_fix(INNER_STEPS, first), monkeypatch)


def test_the_diff_is_one_that_patch_applies(tmp_path):
    """`--diff` prints the best repair, also of a file that is named by its whole path; after each of the tools it is made."""
    path = tmp_path / "train.py"
    path.write_text(LOOP)
    done = autograder("explain", path, "--diff", "--budget", 600, cwd=tmp_path)
    assert 1 == done.returncode
    texts = set()
    for tool in (["patch"], ["patch", "-p1"], ["git", "apply"]):
        path.write_text(LOOP)
        subprocess.run(tool, input=done.stdout, text=True, cwd=tmp_path, check=True, capture_output=True)
        texts.add(path.read_text())
    (text,) = texts
    assert "correct" == record_program(factory_of_text(text, "train.py").original).verdict.outcome


@pytest.mark.parametrize(("named", "path"), [("job/train.py", "job/train.py"), ("../train.py", "train.py")])
def test_the_diff_names_the_file_as_seen_from_the_working_folder(named, path):
    """A file below is named with its folders; one that lies elsewhere, where tools refuse to go, as seen from its own folder."""
    assert [f"--- a/{path}", f"+++ b/{path}"] == as_diff("a\n", "b\n", named).splitlines()[:2]


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# é"]},
        {"cell_type": "code", "id": "b", "metadata": {}, "outputs": [], "execution_count": None,
         "source": ["%matplotlib inline\n", "import torch\n", "w = torch.ones(2, requires_grad=True)"]},
        {"cell_type": "code", "id": "c", "metadata": {}, "outputs": [], "execution_count": None,
         "source": ["%time h = w.exp()\n", "h = w.exp()\n", "h += 1\n", "h.sum().backward()"]},
    ],
    "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
}  # fmt: skip


@pytest.mark.parametrize("how", ["patch", "--apply"])
def test_a_notebook_is_repaired_in_its_own_cell(tmp_path, how):
    """One line of one cell changes; magics, other cells and the layout stay. The screen names the cell and the line in it."""
    path, before = tmp_path / "n.ipynb", json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n"
    path.write_text(before, "utf-8")
    screen = autograder("explain", "n.ipynb", "--apply" if how == "--apply" else "--json", cwd=tmp_path)
    if how == "patch":
        diff = autograder("explain", "n.ipynb", "--diff", cwd=tmp_path).stdout
        subprocess.run(["patch"], input=diff, text=True, cwd=tmp_path, check=True, capture_output=True)
    assert before.replace('"h += 1\\n"', '"h = h + 1\\n"') == path.read_text("utf-8")
    assert "= cell 2, line 3" in screen.stdout


@pytest.mark.thorough
def test_apply_keeps_the_file_as_it_was(tmp_path):
    """`--apply` writes the repair, keeps line ends and encoding, and saves the old text next to it."""
    path = tmp_path / "train.py"
    before = ("# -*- coding: latin-1 -*-\n# é\n" + LOOP).replace("\n", "\r\n").encode("latin-1")
    path.write_bytes(before)
    done = autograder("explain", "train.py", "--apply", cwd=tmp_path)
    assert 1 == done.returncode
    assert "train.py: line 9, out of place; the original is train.py.orig." == done.stderr.splitlines()[-1]
    assert before == Path(f"{path}.orig").read_bytes()
    assert before.replace(b"h.mul_(2)", b"h = h.mul(2)") == path.read_bytes()


def test_apply_writes_nothing_that_changes_what_is_computed(tmp_path):
    """A repair that computes something else is only shown."""
    path = tmp_path / "train.py"
    path.write_text(CLOSURE)
    done = autograder("explain", "train.py", "--apply", cwd=tmp_path)
    assert "train.py was not changed: no repair keeps every loss and gradient." == done.stderr.splitlines()[-1]
    assert CLOSURE == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_change_of_the_computation_is_chosen_only_if_asked_for():
    """A patch is that of the first fix that keeps losses and gradients; without one, of none unless asked for."""
    changed, kept = (Fix("out of place", 1, "h.mul_(2)", "h = h.mul(2)", proven) for proven in (False, True))
    assert kept == best_fix([changed, kept])
    assert best_fix([changed]) is None
    assert changed == best_fix([changed], unproven=True)


def test_a_change_of_the_computation_is_printed_only_if_asked_for(tmp_path, monkeypatch):
    """`--diff` prints unproven repairs only with `--unproven`; then the patch states above its lines what it changes."""
    path = tmp_path / "train.py"
    path.write_text(CLOSURE)
    done = autograder("explain", "train.py", "--diff", cwd=tmp_path)
    assert ("", 1) == (done.stdout, done.returncode)
    assert done.stderr.splitlines()[-1].startswith("autograder: train.py: No fix keeps every loss and gradient;")
    patch = autograder("explain", "train.py", "--diff", "--unproven", cwd=tmp_path).stdout
    assert patch.startswith("# Changes what is computed: ")
    done = autograder("explain", "train.py", "--apply", "--unproven", cwd=tmp_path)
    assert "It changes what is computed: " in done.stderr
    applied = path.read_text()
    path.write_text(CLOSURE)
    subprocess.run(["patch", "-p1"], input=patch, text=True, cwd=tmp_path, check=True, capture_output=True)
    assert applied == path.read_text()
    assert len(set(plain(applied, monkeypatch).losses)) > 1


@pytest.mark.parametrize(("losses", "said"), [
    ([3.0, 2.0], "backward starts from 3, not 1."),
    ([1.0, 3.0], "backward call 2 starts from 3, not 2."),
    ([1.0, 2.0], None),
])  # fmt: skip
def test_the_first_backward_that_starts_from_another_number_is_named(losses, said):
    """Of two calls that should start from 1 and 2, the first is named without a number; if both do, neither is named."""

    def calls(numbers: list[float]) -> list[CallValues]:
        return [CallValues([torch.tensor(one, dtype=torch.float64)]) for one in numbers]

    intended, trial = IntendedRun(calls=calls([1.0, 2.0])), TrialRun(calls=calls(losses))

    assert said == Reference(TrialRun(error="refused"), intended).changed_losses(trial)


UNSEEN = """import torch
w = torch.tensor([0.3, -0.2], requires_grad=True)
sgd = torch.optim.SGD([w], lr=0.1)
for step in range(2):
    h = torch.tanh(w * 2)
    h.data.mul_(0.5)
    sgd.zero_grad()
    h.sum().backward()
    sgd.step()
"""


@pytest.mark.parametrize(("steps", "limit"), [(2, nominal_replay.HEAVY), (2, 0), (1, 0)])
def test_a_write_that_the_loss_contains_unseen_is_repaired_in_a_loop_too(steps, limit, monkeypatch):
    """Copies of the saved tensors give slopes of another loss, and are not called right if finite differences do not apply."""
    monkeypatch.setattr(nominal_replay, "HEAVY", limit)
    text = UNSEEN.replace("range(2)", f"range({steps})")
    factory = factory_of_text(text, "train.py")
    verdict = record_program(factory.original).verdict
    first = find_repairs(factory, verdict, prove).fixes[0]

    assert (verdict.gradients["w"].true is None, verdict.outcome) == (not limit, "silently-wrong")
    assert ("h = h.mul(0.5)", True, "") == (first.after.strip(), first.proven, first.changes)
    repaired, by_hand = {}, {}
    exec(apply_fix(text, first), repaired)
    exec(text.replace("h.data.mul_(0.5)", "h = h * 0.5"), by_hand)
    assert torch.equal(repaired["w"], by_hand["w"])


def test_of_two_slopes_a_repair_keeps_that_of_the_loss_that_ran():
    """For exp doubled outside autograd, the loss that ran is 2·exp(w), and so is its derivative; `h = h * 2` has both."""
    source = (
        "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh.data *= 2\nh.sum().backward()\n"
    )
    factory = factory_of_text(source, "train.py")
    first = find_repairs(factory, record_program(factory.original).verdict, prove).fixes[0]

    assert ("h = h * 2", True, "") == (first.after.strip(), first.proven, first.changes)


@pytest.mark.parametrize("is_used", [False, True], ids=["printed", "in a later loss"])
def test_values_for_numpy_are_intended_if_no_later_loss_contains_them(is_used):
    """A change to `detach()` keeps the training if the values are only printed. In a loss, they might need their graph."""
    use = "scale = float(a.sum())" if is_used else ""
    end = "(scale * w.exp()).sum().backward()" if is_used else "print(a)"
    head = "import torch\nw, scale = torch.ones(2, requires_grad=True), 1.0\nloss = (w * w).sum()\nloss.backward()\n"
    text = head + f"a = loss.numpy()\n{use}\n{end}\n"
    factory = factory_of_text(text, "train.py")
    first = find_repairs(factory, record_program(factory.original).verdict, prove).fixes[0]

    assert "a = loss.detach().numpy()" == first.after.strip()
    assert ("before its next backward" in first.changes) if is_used else ("" == first.changes)


def test_a_proof_asks_for_the_outcome_alone():
    """Right gradients are computed entry by entry once, for the program as it is, and not again for each change that is tried."""
    source = (
        "import torch\ntorch.manual_seed(0)\nnet = torch.nn.Linear(4, 3)\nsgd = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "x = torch.randn(5, 4)\nfor _ in range(4):\n    h = torch.tanh(net(x))\n    h.data.mul_(2)\n"
        "    loss = h.pow(2).mean()\n    sgd.zero_grad()\n    loss.backward()\n    sgd.step()\n"
    )
    factory, budget = factory_of_text(source, "train.py"), Budget(600)
    with budget.active():
        verdict = record_program(factory.original).verdict
        entries = 2 * (4 * 3 + 3)
        fixes, alone = find_repairs(factory, verdict, prove).fixes, verdict.runs

    assert ("h = h.mul(2)", True) == (fixes[0].after.strip(), fixes[0].proven)
    assert entries < alone < entries + 25
    assert budget.runs - alone < 100


AVERAGE = """import torch
torch.manual_seed(0)
net, target = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(5, 3)
for step in range(3):
    sgd.zero_grad()
    ((net(x) - target(x).detach()) ** 2).mean().backward()
    sgd.step()
    for old, new in zip(target.parameters(), net.parameters()):
        old.mul_(0.9)
        old.add_(new * 0.1)
"""


def test_a_moving_average_is_repaired_and_not_lost():
    """A new value for a name of the loop would leave the target as it was: no such change is called proven. Oracle: `.data` by hand."""
    fixes = repairs(AVERAGE).fixes
    by_hand = AVERAGE.replace("old.mul_(0.9)", "old.data.mul_(0.9)").replace("old.add_(new", "old.data.add_(new.data")
    values = []
    for text in (by_hand, *(apply_fix(AVERAGE, one) for one in fixes if one.proven)):
        exec(text, space := {})
        values.append(space["target"].weight.detach())

    assert fixes[0].proven
    assert all(torch.allclose(values[0], one) for one in values[1:])


ADDED = """import torch
w, v = torch.ones(100, requires_grad=True), torch.ones(100, requires_grad=True)
for step in range(40):
    loss = (w * w * v).sum()
    w.data.mul_(0.99)
    loss.backward()
    w.grad = None
"""


def test_gradients_that_many_calls_add_to_are_compared():
    """After 32 calls only sums of the gradients are kept; that of `v` is never cleared. Oracle: the formula, v = w = 1."""
    first = next(one for one in repairs(ADDED).fixes if one.proven)
    exec(apply_fix(ADDED, first).replace("range(40)", "range(1)").replace("w.grad = None", ""), space := {})

    assert torch.equal(torch.full((100,), 2.0), space["w"].grad)


def test_where_the_program_as_meant_stops_at_the_next_line_nothing_is_known():
    """Its error at another line than the program's own is not a later call for comparison."""
    calls = [CallValues([torch.tensor(1.0)])]
    plain = TrialRun(error="RuntimeError: refused (line 1)", calls=calls)

    assert Reference(plain, IntendedRun(error="RuntimeError: refused (line 2)", calls=calls)).stopped_early
    assert not Reference(plain, IntendedRun(error="RuntimeError: refused (line 2)", calls=2 * calls)).stopped_early
    assert not Reference(plain, IntendedRun(calls=calls)).stopped_early


def test_copies_that_change_only_a_returned_gradient_give_the_right_one():
    """No variable of the file differs if the training loop is in another file."""
    wrong, right = ([CallValues([], [(1, torch.tensor([number]))])] for number in (1.0, 2.0))
    assert Reference(TrialRun(calls=wrong), IntendedRun(calls=right)).gradients_known
    assert not Reference(TrialRun(calls=right), IntendedRun(calls=right)).gradients_known


REFILLED = """import torch
w, a, b, losses = torch.tensor([1.0, 2.0], requires_grad=True), torch.zeros(2), torch.zeros(2), []
for k in (1.0, 2.0):
    [kept.data.fill_(k * factor) for kept, factor in ((a, 1), (b, 3))]
    h = w * a
    losses.append((h * b).sum())
sum(losses).backward()
"""


def test_two_silent_modifications_are_repaired_by_two_changes():
    """Neither a copy of `a` nor one of `b` alone gives the gradient 1 · 3 + 2 · 6 of both leaves' elements."""
    exec(apply_fix(REFILLED, repairs(REFILLED).fixes[0]), space := {})
    assert [15, 15] == space["w"].grad.tolist()
