"""Faults other than writes that keep a gradient from its leaf: named with the line and a change, never in correct programs."""

from __future__ import annotations

import re
from textwrap import dedent, indent

import pytest

from autograder.tape import explain_program, record, record_file
from autograder.tape.observe.forecast import BackwardCall
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.recording.verdict_types import GraphFault, Verdict
from autograder.tape.repair import repairs
from autograder.tape.repair.broken_program import BrokenProgram
from autograder.tape.repair.candidates import in_order_of_trial
from autograder.tape.repair.edits import EditableSource, apply_fix
from autograder.tape.repair.trial.program_factory import factory_of_file, factory_of_text
from autograder.tape.run.programs.program import from_source
from autograder.tape.run.runner import Runner
from autograder.tape.run.time_limit import TimeUp
from autograder.view.text.first_screen import as_screen
from autograder.view.text.headline import title
from tests.tape.graph_fault_programs import HEAD, PROGRAMS, RIGHT, FaultyProgram

EACH = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)


def verdict_of(source: str) -> Verdict:
    """Return the verdict on a text."""
    return record(source, file="bug.py").verdict


@EACH
def test_the_line_is_named_with_a_change(program: FaultyProgram):
    """The marked line, its kind, and a note that names both; the outcome is what happens, and no write is blamed."""
    verdict = verdict_of(program.source)
    assert "gradient not cleared" not in {fault.kind for fault in verdict.graph_faults} - {program.kind}
    assert (program.outcome, ()) == (verdict.outcome, verdict.harms)
    assert [(program.kind, line) for line in program.lines] == sorted(
        (fault.kind, fault.place.line) for fault in verdict.graph_faults if fault.place.line in program.lines
    ), verdict.graph_faults
    for line in program.lines:
        assert any(note.startswith(f"Line {line}: ") for note in verdict.notes)
    assert all(fault.change.endswith(".") for fault in verdict.graph_faults)


@EACH
def test_the_repaired_program_is_left_in_peace(program: FaultyProgram):
    """The same program with the change runs, and has no such note."""
    verdict = verdict_of(program.repaired)
    assert ("correct", (), ()) == (verdict.outcome, verdict.harms, verdict.graph_faults)


def test_a_variable_of_a_function_that_was_called_is_not_named():
    """The detached values are `x` in the called function; `x` of the calling one is another tensor."""
    program = next(one for one in PROGRAMS if one.name == "terms_of_two_networks_without_a_graph")
    called = f"{HEAD}def run():\n{indent(program.source.removeprefix(HEAD), '  ')}run()\n"
    detached = next(fault for fault in verdict_of(called).graph_faults if "detach()  #" in fault.place.text)
    assert "takes the values of its input without" in detached.sentence


@pytest.mark.parametrize(("before", "line", "effect", "fix"), [
    ("x = torch.ones(2)\n(w * x).sum().backward()", "x.grad.abs()", "x does not require grad", "x.requires_grad_()"),
    ("x = torch.ones(2)\nloss = w.sum() + (w * x).sum()\nx.requires_grad = True\nloss.backward()",
     "x.grad.abs()", "operations that used x before it required grad", "x.requires_grad_()"),
    ("x = w\nu.sum().backward()", "x.grad.abs()", "its loss does not depend on it", "if x.grad is not None:"),
    ("x = w\n(u * w.detach()).sum().backward()", "x.grad.abs()", "only through line 5", ""),
    ("w.sum().backward()\nw.grad = None", "step = 2 * w.grad", "it was set to None before this line", ""),
    ("", "step = 2 * w.grad", "no backward call was made before", ""),
    ("u.sum().backward()", "step = sum(p.grad for p in (w, u))", "its loss does not depend on it", "u) if p.grad is not None)"),
    ("x = w.detach()\n(x * u).sum().backward()\nfor p in [x]:", "  p.grad.abs()", "not require grad", "if p.grad is"),
])  # fmt: skip
def test_a_line_that_uses_a_gradient_that_is_none(before, line, effect, fix):
    """The note names the tensor and the reason; a fix that was run lets the tensor require grad, or skips it."""
    leaves = "w, u = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)\n"
    verdict = (recording := explain_program(factory_of_text(f"{HEAD}{leaves}{before}\n{line}\n"))).verdict
    (fault,) = verdict.graph_faults
    shown = as_screen(recording)  # an added line is shown with the line below it
    assert (re.search(r"\n  \+ x.requires_grad_\(\)\n    .*\(w \* x\).sum\(\)", shown) is not None) == (
        fix == "x.requires_grad_()"
    )
    assert ("raises-forward", "gradient that is None", line.strip()) == (verdict.outcome, fault.kind, fault.place.text)
    assert effect in fault.sentence
    assert (fix in fault.diff, bool(fix)) == (True, fault.was_run)


@pytest.mark.parametrize(("lines", "reason", "fix"), [
    ("torch.tensor([1, 2], requires_grad=True)", "only floating-point and complex numbers", "dtype=torch.float32"),
    ("x = torch.ones(2)\nx.register_hook(print)", "x does not require grad", ""),
    ("w.resize_(4)", "does not resize such a tensor", ""),
    ("y = torch.utils.checkpoint.checkpoint(torch.exp, w, use_reentrant=True)\ntorch.autograd.grad(y.sum(), w)",
     "works only with a backward call that fills the .grad", "use_reentrant=False"),
    ("y = torch.igamma(w, torch.ones(2))\ny.sum().backward()", "no formula for the derivative of igamma", ""),
    ("w.exp().backward(torch.ones(3))", "has the shape [3], and the tensor that it starts from has the shape [2]", ""),
    ("w.grad = torch.ones(3)", "a tensor of its shape, dtype and device", ""),
    ("w.grad = 0", "must be None, or a tensor", ""),
    ("import math\ny = math.exp(w[0])\ny.backward()", "this line makes a plain number", "+y = torch.exp(w[0])"),
    ("y = torch.Tensor([w[0], w[1]])\ny.sum().backward()", "this line makes a plain number", "+y = torch.stack([w[0], w[1]])"),
    ("class F(torch.autograd.Function):\n  def forward(self, x): return x\nF()(w)", "not a static method", ""),
    ("class F(torch.autograd.Function):\n  @staticmethod\n  def forward(ctx, x, k): ctx.save_for_backward(k)\nF.apply(w, 3)",
     "its argument 0 (counted from 0) has type int", ""),
    ("(torch.ones(2) ** 2).sum().backward()", "no tensor that the loss is computed from requires grad", ""),
    ("x = torch.ones(2)\n(x ** 2).sum().backward()", "x does not require grad", "x.requires_grad_()"),
])  # fmt: skip
def test_a_rule_of_autograd(lines, reason, fix):
    """PyTorch raises an error at a rule: the note has the reason, and a change that was run where one is known."""
    verdict = explain_program(factory_of_text(f"{HEAD}w = torch.ones(2, requires_grad=True)\n{lines}\n")).verdict
    assert verdict.outcome.startswith("raises")
    assert reason in "".join(fault.sentence for fault in verdict.graph_faults)
    assert fix in "".join(fault.diff for fault in verdict.graph_faults if fault.was_run)


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_what_is_meant(name: str):
    """Accumulation, logs, frozen parts, and players with an optimizer each do intentionally what faulty programs do."""
    verdict = verdict_of(HEAD + dedent(RIGHT[name]).lstrip("\n"))
    assert ("correct", ()) == (verdict.outcome, verdict.graph_faults)


def test_the_old_policy_beside_the_trained_one_is_not_noted():
    """Its gradient is meant for nothing: the next iteration copies the trained part again."""
    text = dedent(RIGHT["an old policy in a part of the module that is trained"]).lstrip("\n")
    assert not any("no optimizer holds" in note for note in verdict_of(HEAD + text).notes)


@pytest.mark.parametrize("after", ["pass", "net.cpu()"])
@pytest.mark.parametrize(("line", "is_noted"), [
    ("pass", True), ("net[0].requires_grad_(False), net[2].requires_grad_(False)", False),
    ("optimizer.add_param_group({'params': [*net[0].parameters(), *net[2].parameters()]})", False),
])  # fmt: skip
def test_an_optimizer_of_a_part_of_a_module(line, is_noted, after):
    """A note names the parameters that get gradients beside those that it holds, unless an optimizer holds them, too."""
    verdict = verdict_of(f"""{HEAD}net = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 2), nn.Linear(2, 1))
optimizer = torch.optim.SGD(net[1].parameters(), lr=0.1)
{line}
for _ in range(3):
    net.zero_grad()
    net(torch.ones(3, 1)).pow(2).mean().backward()
    optimizer.step()
{after}
""")
    assert ("correct", ()) == (verdict.outcome, verdict.graph_faults)
    assert is_noted == any("no optimizer holds net.0.weight and 3 more" in note for note in verdict.notes)


@pytest.mark.parametrize(
    "forward", ["h = net[:2](x)", "h = net[0](x); h = net[1](h)", "h = net[0](x)\n        h = net[1](h)"]
)
def test_each_layer_that_computes_without_recording_is_untrained(forward):
    """A layer gets values that have left the graph already, at its line or before. Oracle: the gradients that are None."""
    program = f"""{HEAD}net = nn.Sequential(nn.Linear(1, 2), nn.Linear(2, 2), nn.Linear(2, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x = torch.ones(3, 1)
    with torch.no_grad():
        {forward}
    optimizer.zero_grad()
    net[2](h).pow(2).mean().backward()
    optimizer.step()
"""
    exec(program, space := {})
    expected = [name for name, p in space["net"].named_parameters() if p.grad is None]
    [fault] = verdict_of(program).graph_faults
    assert [f"net.{name}" for name in expected] == [tensor.name for tensor in fault.tensors if tensor.is_untrained]


@pytest.mark.parametrize(("loss", "is_noted"), [
    ("(policy(x) - policy(x)).exp().mean()", True), ("(policy(x) - policy(x).detach()).exp().mean()", False),
])  # fmt: skip
def test_gradients_of_zeros(loss, is_noted):
    """A note names parameters whose gradient is 0 in each call, as of a ratio of probabilities that both have a history."""
    verdict = verdict_of(f"""{HEAD}policy, x = nn.Linear(2, 1), torch.ones(3, 2)
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    {loss}.backward()
    optimizer.step()
""")
    assert ("correct", ()) == (verdict.outcome, verdict.graph_faults)
    assert is_noted == any(note.startswith("The gradient of policy.bias and 1 more is 0") for note in verdict.notes)


CONVOLVED = "nn.Conv2d(64, 64, 3, padding=1, bias=False)", "torch.ones(2, 64, 1, 1)"


@pytest.mark.parametrize(("made", "x", "write", "outcome"), [
    (*CONVOLVED, "", "correct"), ("nn.Embedding(5000, 4)", "torch.tensor([2])", "", "correct"),
    (*CONVOLVED, "x.data *= 2", "silently-wrong"),
])  # fmt: skip
def test_large_gradients_with_few_elements_that_are_not_0(made, x, write, outcome):
    """A gradient whose kept elements are all 0 is not called 0, and an effect on the center of each kernel is found."""
    verdict = verdict_of(f"""{HEAD}net = {made}
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = {x}
    loss = net(x).sum()
    {write}
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert (outcome, []) == (verdict.outcome, [note for note in verdict.notes if " is 0 in each " in note])


@pytest.mark.parametrize("use", ["optimizer = torch.optim.SGD([w], lr=0.1)", "w.requires_grad = True"])
def test_a_computed_tensor_that_has_to_be_a_leaf(use):
    """A parameter that a conversion copied is named where it was made, and a run proves that it can be made a leaf there."""
    source = f"w = nn.Parameter(torch.ones(3)).double()\n{use}\nw.sum().backward()\n"
    (fault,) = explain_program(factory_of_text(HEAD + source)).verdict.graph_faults
    assert (3, True) == (fault.place.line, fault.was_run)
    assert "+w = nn.Parameter(torch.ones(3)).double().detach().requires_grad_()\n" in fault.diff


def test_an_optimizer_that_an_error_kept_from_its_step_is_none_that_is_missing():
    """The first optimizer also contains an unused layer, and the second one's step was next: neither is reported."""
    source = """
        critic, actor, unused = nn.Linear(2, 1), nn.Linear(2, 2), nn.Linear(2, 1)
        first = torch.optim.SGD([*critic.parameters(), *unused.parameters()], lr=0.1)
        second = torch.optim.SGD(actor.parameters(), lr=0.1)
        value = critic(actor(torch.ones(3, 2)))
        value.pow(2).mean().backward(retain_graph=True)
        first.step()
        (-value.mean()).backward()
        second.step()
        """
    verdict = verdict_of(HEAD + dedent(source).lstrip("\n"))
    assert ("raises-backward", ()) == (verdict.outcome, verdict.graph_faults)


def test_a_modified_graph_is_not_to_be_kept():
    """The step modified the second layer's weight, so that `retain_graph=True` would only lead to the next error."""
    text = HEAD + (
        "net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "shared = net(torch.ones(1, 2))\nshared.sum().backward(retain_graph=kept)\n"
        "optimizer.step()\nshared.exp().sum().backward()\n"
    )
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        exec(text, {"kept": True})
    (fault,) = verdict_of(text.replace("=kept", "=False")).graph_faults
    assert "Compute it again after line 7," in fault.change
    assert "retain_graph" not in fault.change


def test_a_state_whose_graph_was_modified_is_named():
    """A step modified the weight of an earlier round; plain PyTorch runs the program with the change that the note names."""
    text = HEAD + (
        "cell, state = nn.RNNCell(2, 3), torch.zeros(1, 3)\noptimizer = torch.optim.SGD(cell.parameters(), lr=0.1)\n"
        "for _ in range(3):\n    state = cell(torch.ones(1, 2), state)\n    optimizer.zero_grad()\n"
        "    state.sum().backward(retain_graph=True)\n    optimizer.step()\n"
    )
    (fault,) = verdict_of(text).graph_faults
    assert (6, "state = state.detach()") == (fault.place.line, fault.change.split("`")[1])
    exec(f"{text}    state = state.detach()", {})


def test_a_list_that_was_filled_before_the_loop_is_no_carried_value():
    """The rounds use elements that another loop computed; a second network of the class runs the same line in each round."""
    lines = """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

            def forward(self, x):
                return self.b(torch.relu(self.a(x)))

        policy, value = Net(), Net()
        step = torch.optim.SGD(policy.parameters(), lr=0.1).step
        logs = []
        for _ in range(3):
            log = policy(torch.randn(2, 3)).sum()
            logs.append(log)
        for i in range(3):
            (logs[i] * value(torch.randn(2, 3)).sum().detach()).backward()
            step()
        """
    verdict = verdict_of(HEAD + dedent(lines))
    assert ("raises-backward", ()) == (verdict.outcome, verdict.graph_faults)


@pytest.mark.parametrize(("task", "last"), [
    ("slope = torch.autograd.grad((x @ w).exp().mean(), w, create_graph=True)[0]", "total.backward()"),
    ("slope = torch.autograd.grad((x @ w).exp().mean(), w)[0]", "total.backward()"),
    ("slope = torch.autograd.grad(total + (x @ w).exp().mean(), x, create_graph=True)[0].mean(0)", "total.backward()"),
    ("slope = torch.autograd.grad((x @ w).exp().mean(), w, create_graph=True)[0]", "total.backward(retain_graph=True)"),
    ("slope = torch.autograd.grad((x @ w).exp().mean(), w)[0]", "w.grad, = torch.autograd.grad(total, w)"),
    ("slope = 0", "total.backward()"),
])  # fmt: skip
def test_a_carried_loss_is_cut_after_the_round_and_not_between_its_tasks(task, last):
    """The change is below the call that raises the error, and each proven one gives the gradient of all tasks of a round."""
    source = HEAD + (
        "torch.manual_seed(0)\nw = torch.ones(3, requires_grad=True)\noptimizer = torch.optim.SGD([w], lr=0.1)\n"
        "total = torch.tensor(0.0)\nfor _ in range(3):\n    optimizer.zero_grad()\n    for _ in range(2):\n"
        f"        x = torch.rand(2, 3, requires_grad=True)\n        {task}\n"
        f"        total = total + (x @ (w - 0.1 * slope)).exp().mean()\n    {last}\n    optimizer.step()\n"
    )
    verdict = explain_program(factory_of_text(source)).verdict
    (fault,) = verdict.graph_faults
    assert (12, True) == (fault.place.line, fault.was_run)
    assert fault.sentence.startswith("total is computed here")
    assert f"     {last}\n+    total = total.detach()\n" in fault.diff
    exec(source + "    total = total.detach()\n", right := {})
    proven = [apply_fix(source, fix) for fix in verdict.fixes if fix.proven]
    assert proven
    for text in proven:
        exec(text, found := {})
        assert right["w"].grad.equal(found["w"].grad)


def test_log_probabilities_of_a_rollout_are_cut_before_the_loop():
    """PPO: a function returns them with their graph, and the loop over epochs uses them again; only its caller can cut them."""
    text = """import torch
from torch.distributions import Normal
w = torch.zeros(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
def rollout():
    policy = Normal(w, 1)
    action = policy.sample()
    return action, policy.log_prob(action)
torch.manual_seed(0)
action, old = rollout()
for _ in range(3):
    loss = -(Normal(w, 1).log_prob(action) - old).exp().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    (fault,) = explain_program(factory_of_text(text)).verdict.graph_faults
    assert (8, True) == (fault.place.line, fault.was_run)
    assert "+old = old.detach()\n for _ in range(3):" in fault.diff


def test_a_value_has_no_name_of_a_called_function():
    """The function calls the value `loss`, and the line below its call binds this name to another tensor."""
    text = HEAD + (
        "net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "class Kept:\n    losses = []\n    def keep(self, loss): self.losses.append(loss)\nkept = Kept()\n"
        "for _ in range(2):\n    kept.keep(net(torch.ones(1, 2)).sum())\n    loss = torch.stack(kept.losses).mean()\n"
        "    loss.backward(retain_graph=True)\n    optimizer.step()\n"
    )
    (fault,) = verdict_of(text).graph_faults
    assert (10, "a part of the graph") == (fault.place.line, fault.sentence.partition(" is")[0])


def test_a_target_outside_of_the_graph_starts_no_search_for_writes(monkeypatch):
    """No change of an in-place operation adds a tensor to the graph, so none is tried."""
    source = (
        "x = torch.rand(4, 2, requires_grad=True)\ny = nn.Linear(2, 1)(x).tanh()\n"
        "loss = torch.autograd.grad(y.detach().requires_grad_().sum(), x)[0].sum()\n"
    )
    monkeypatch.setattr(repairs, "find_repairs", None)
    verdict = explain_program(factory_of_text(HEAD + source)).verdict
    assert ["target not in the graph"] == [one.kind for one in verdict.graph_faults]


def test_a_penalty_whose_graph_is_freed_is_mended_by_a_graph_of_its_own():
    """The gradient is x² + 8·w·x² = 9; with `retain_graph=True`, plain PyTorch would lose the second part."""
    source = (
        "x, w = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)\nout = (w * x**2).sum()\n"
        "slope = torch.autograd.grad(out, x{})[0]\n(out + slope.pow(2).sum()).backward()\n"
    )
    verdict = explain_program(factory_of_text(HEAD + source.format(""))).verdict
    exec(HEAD + source.format(change := ", create_graph=True"), names := {})
    assert ((), 9) == (verdict.fixes, names["w"].grad)
    assert f"+slope = torch.autograd.grad(out, x{change})[0]" in "".join(one.diff for one in verdict.graph_faults)


@pytest.mark.parametrize(("update", "code"), [
    ("w.data -= w.grad", "w.grad = None"),
    ("trainer.opt.step()", "trainer.opt.zero_grad()"),
    ("scaler.step(trainer.opt)", "trainer.opt.zero_grad()"),
    ("s.step(mine)", "mine.zero_grad()"),
])  # fmt: skip
def test_the_call_that_clears_is_one_of_the_program(update, code):
    """`w` is updated by hand or by its own optimizer; the other optimizer, which the program calls `other`, is not named."""
    source = f"""
        from types import SimpleNamespace
        v, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        other = torch.optim.SGD([v], lr=0.1)
        mine = torch.optim.SGD([w], lr=0.1)
        trainer = SimpleNamespace(opt=mine)
        s = scaler = torch.amp.GradScaler("cpu", enabled=False)
        for _ in range(3):
            other.zero_grad()
            (v * w).sum().backward()
            other.step()
            {update}
        """
    (fault,) = verdict_of(HEAD + dedent(source).lstrip("\n")).graph_faults
    assert f"`{code}`" in fault.change


@pytest.mark.parametrize(("made", "advice"), [
    ("[nn.Parameter(torch.ones(2).to('cpu'))]", "Use nn.ParameterList"),
    ("[nn.Parameter(torch.rand(2)).to('cpu')]", "Use nn.ParameterList"),
    ("[nn.Parameter(torch.rand(2)).double()]", "Convert the values before"),
])  # fmt: skip
def test_only_a_converted_parameter_is_said_to_be_another_tensor(made, advice):
    """Values that are converted before `nn.Parameter` are those of the parameter, and a conversion may return the parameter itself."""
    source = f"""
        class Net(nn.Linear, nn.Module):
            def __init__(self):
                super().__init__(2, 1)
                self.scales = {made}
            def forward(self, x): return super().forward(x * self.scales[0].float())
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
        """
    (fault,) = verdict_of(HEAD + dedent(source).lstrip("\n")).graph_faults
    assert advice in fault.change


def test_a_value_that_a_list_holds_is_not_detached_by_its_name():
    """In the next round, the name of the loss is that of another tensor, so `loss = loss.detach()` would change nothing."""
    (program,) = (one for one in PROGRAMS if one.name == "a list of losses with their graphs")
    (fault,) = verdict_of(program.source).graph_faults
    assert fault.change.endswith("or detach it before the next one.")


def test_each_kind_is_shown():
    """Every kind of fault that is looked for has a program here."""
    from autograder.tape.diagnose.verdict import KINDS

    assert {kind.name for kind in KINDS} == {program.kind for program in PROGRAMS}


OTHER_FILE = {
    "a number": ("def lost(h):\n    n = h.sum().item()\n    return h.sum() + n\n", "lost(w * w).backward()"),
    "no leaf": ("def lost(h):\n    print(h.grad)\n", "h = w * w\nh.sum().backward()\nlost(h)  # is not a leaf"),
    "a cut": ("def lost(h):\n    return h.detach().sum()\n", "lost(w * 2).backward()  # train.py, line 4 ends there"),
    "a state, which a variable of another file leads to": (
        "class lost(__import__('torch').nn.Module):\n    def step(self, w): self.h = self.h * w; self.h.sum().backward()\n",
        "runner = lost()\nrunner.h = w * 2\nfor _ in range(3): runner.step(w)  # or detach it before the next one.",
    ),
    "an unrecorded write": ("def lost(h):\n    h.data.mul_(2)\n    return h\n", "(lost(w * 3) ** 2).sum().backward()"),
}


@pytest.mark.parametrize("name", OTHER_FILE)
def test_a_line_of_an_imported_file_is_named_with_its_file(tmp_path, name):
    """The same number in the program's own file would send the reader to the wrong line."""
    module, use = OTHER_FILE[name]
    (tmp_path / "parts.py").write_text(module)
    program = tmp_path / "train.py"
    program.write_text(f"import torch\nfrom parts import lost\nw = torch.ones(2, requires_grad=True)\n{use}\n")
    notes = record_file(str(program)).verdict.notes
    assert any("parts.py, line 2: " in note and use.partition("  # ")[2] in note for note in notes), notes
    assert not any(note.startswith("Line 2") for note in notes)


def test_a_loss_of_another_file_that_no_optimizer_holds_is_named_where_it_is_made(tmp_path):
    """The parameters of its class are random numbers, so the class's own line would tell nothing about this one."""
    (tmp_path / "losses.py").write_text("""from torch import nn
class Centers(nn.Embedding):
    def __init__(self):
        super().__init__(4, 3)
    def forward(self, x): return (x - self.weight[0]).pow(2).mean()
""")
    (tmp_path / "train.py").write_text(f"""{HEAD}import losses
net = nn.Linear(2, 3)
centers = losses.Centers()
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, net.parameters()), lr=0.1)
centers(net(torch.ones(4, 2))).backward()
optimizer.step()
""")
    (fault,) = explain_program(factory_of_file(str(tmp_path / "train.py"))).verdict.graph_faults
    assert ("gradient that no optimizer uses", 5, "train.py") == (fault.kind, fault.place.line, fault.place.file[-8:])
    assert (True, True) == (fault.was_run, "net.parameters()), *centers.parameters()]" in fault.diff)


TWO_LAYERS = """import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
torch.manual_seed(0)
first, second = nn.Linear(3, 3), nn.Linear(3, 3)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
x = torch.randn(4, 3)
"""
SWITCHED_OFF = {
    "set_grad_enabled": ("torch.set_grad_enabled(False)\nsecond(x).sum().backward()\n", "set_grad_enabled has turned"),
    "a reentrant checkpoint": (
        "second(checkpoint(first, x, use_reentrant=True)).sum().backward()\noptimizer.step()\n",
        "Pass use_reentrant=False",
    ),
    "a sample": (
        "from torch.distributions import Normal\nsecond(Normal(first(x), 1).sample()).sum().backward()\noptimizer.step()\n",
        "Draw with rsample()",
    ),
    "a copied state": (
        "second.load_state_dict(first.state_dict())\nsecond(x).sum().backward()\noptimizer.step()\n",
        "this line takes the values of first.weight",
    ),
    "a value that only another function names": (
        "def f(y):\n    y = first(y)\n    return y[:2]\nsecond(f(x).data).sum().backward()\noptimizer.step()\n",
        ".data takes the values of its input",
    ),
}


@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_a_note_names_only_words_of_the_program(name):
    """Where recording is off without `no_grad`, or a library detaches, the note speaks of the program's own words."""
    source, phrase = SWITCHED_OFF[name]
    notes = " ".join(record(TWO_LAYERS + source).verdict.notes)
    assert phrase in notes
    assert "no_grad" not in notes
    assert ".detach()" not in notes


def test_a_gradient_that_is_given_by_hand_reaches_its_parameter():
    """As in A3C, the gradient of another network's backward is assigned, so the optimizer's parameters are trained."""
    given = "second.load_state_dict(first.state_dict())\nsecond(x).sum().backward()\n"
    given += "for mine, theirs in zip(second.parameters(), first.parameters()):\n    theirs._grad = mine.grad\n"
    verdict = record(TWO_LAYERS + given + "optimizer.step()\n").verdict
    assert ("correct", (), ()) == (verdict.outcome, verdict.graph_faults, verdict.notes)


def test_a_reentrant_checkpoint_without_gradients_is_no_wrong_gradient():
    """It does not record, as in plain PyTorch, in each of three steps."""
    loop = "for step in range(3):\n    optimizer.zero_grad()\n"
    loop += "    second(checkpoint(first, x, use_reentrant=True)).pow(2).sum().backward()\n    optimizer.step()\n"
    assert "correct" == record(TWO_LAYERS + loop).verdict.outcome


def test_a_checkpointed_block_that_reads_a_changed_attribute_is_named_without_a_write():
    """Neither the sum that the engine adds to `.grad` nor the optimizer's step after backward is the cause."""
    block = "first.k = 0\ndef block(x):\n    first.k += 1\n    return first(x).tanh() * first.k\n"
    calls = "for step in range(3):\n    optimizer.zero_grad()\n    loss = second(checkpoint(block, x, use_reentrant=False)).sum()\n"
    calls += "    loss.backward()\n    optimizer.step()\n"
    verdict = record(TWO_LAYERS + block + calls).verdict
    assert ("silently-wrong", ()) == (verdict.outcome, verdict.harms)
    assert ["Line 11: This checkpointed block is computed again"] == [note[:50] for note in verdict.notes]


@pytest.mark.parametrize(("loss", "told"), [
    ("torch.where(w > 0, w.sqrt(), 0 * w).sum()", "nan here, also with private copies of the saved tensors: it receives 0,"),
    ("(w * 0).sqrt().sum()", "nan or inf here from finite gradients, also"),
])  # fmt: skip
def test_a_gradient_of_nan_is_reported_at_its_line_without_blaming_a_write(loss, told):
    """The derivative of sqrt at -1 is nan and at 0 infinite, and where() multiplies it by 0."""
    verdict = verdict_of(f"{HEAD}w = torch.tensor([-1.0, 4.0], requires_grad=True)\n{loss}.backward()\n")
    (note,) = verdict.notes
    assert note.startswith(f"Line 4: in backward call 1, SqrtBackward0 computes {told}")
    assert "correct: no write broke backward; but a gradient is nan or inf" == title(verdict)


def test_the_first_backward_call_of_a_long_loop_that_computes_nan_is_recorded(monkeypatch):
    """Of 40 calls, number 31 is the first with a gradient of nan."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 10)
    loop = "w = torch.ones(2, requires_grad=True)\nfor i in range(40):\n    (w * (i != 30)).sqrt().sum().backward()\n"
    verdict = verdict_of(HEAD + loop)
    assert (31, 31) == (verdict.excerpt.first, verdict.excerpt.last)
    assert verdict.notes[0].startswith("Line 5: in backward call 31, SqrtBackward0 computes nan or inf here")


def test_the_steps_of_a_long_run_that_use_no_gradient_of_a_parameter_are_recorded(monkeypatch):
    """The second loop trains `mu` too, which its optimizer does not hold."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 20)
    loop = "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\nfor _ in range(9):\n    optimizer.zero_grad()\n"
    loop += "    (net(x) - mu).pow(2).mean().backward()\n    optimizer.step()\n"
    source = f"net, x, mu = nn.Linear(2, 1), torch.ones(3, 2), 0\n{loop}mu = nn.Parameter(torch.zeros(1))\n{loop}"
    assert [9] == [fault.place.line for fault in verdict_of(HEAD + source).graph_faults]


@pytest.mark.parametrize("data", ["[:, None].requires_grad_()", ".requires_grad_()[:, None]"])
def test_a_derivative_without_a_graph_is_named_in_a_later_loop_of_a_long_run(monkeypatch, data):
    """The first loop has no derivative, and `x` may be a view. The change is run, also in a call with a comma and a comment."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 60)
    program = next(one for one in PROGRAMS if one.name == "a derivative without a graph in an equation")
    assert "[:, None].requires_grad_()" in program.source
    source = program.source.replace("[:, None].requires_grad_()", data)
    text = source.removeprefix(HEAD).replace("=True)[0]", "=True,  # kept\n    )[0]")
    loop = "w = nn.Parameter(torch.ones(2))\nfor _ in range(9):\n    (w * w).sum().backward()\n"
    (fault,) = explain_program(factory_of_text(HEAD + loop + text)).verdict.graph_faults
    assert (6, True) == (fault.place.line, fault.was_run)
    assert "+    create_graph=True)[0]" in fault.diff


def test_gradients_that_a_step_of_a_long_run_uses_again_are_named(monkeypatch):
    """Each step is to use those of two calls; only the first step is recorded."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 10)
    loop = "for _ in range(9):\n    for _ in range(2):\n        net(x).pow(2).mean().backward()\n    optimizer.step()\n"
    source = (
        f"net, x = nn.Linear(2, 1), torch.ones(3, 2)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n{loop}"
    )
    verdict = verdict_of(HEAD + source)
    (fault,) = verdict.graph_faults
    assert (7, 2) == (fault.place.line, verdict.excerpt.last)
    assert "gradient of net.weight and 1 more" in fault.sentence


def test_a_change_for_a_lost_value_leaves_other_functions_alone():
    """`Variable` in a function that does not run has nothing to do with the number in the loss."""
    source = "w = torch.ones(2, requires_grad=True)\ndef show(z):\n    return torch.autograd.Variable(z, requires_grad=True)\n"
    source += "((w * w).sum() + w.exp().sum().item()).backward()\n"
    (fault,) = explain_program(factory_of_text(HEAD + source)).verdict.graph_faults
    changed = [line for line in fault.diff.splitlines()[2:] if line[0] == "+"]
    assert ["+((w * w).sum() + w.exp().sum()).backward()"] == changed


def test_a_step_of_a_long_run_without_gradients_is_named_in_a_later_loop(monkeypatch):
    """The first loop is recorded and right; the second one clears gradients between backward and the step."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 10)
    loop = "for _ in range(9):\n    {}net(x).pow(2).mean().backward()\n    {}optimizer.step()\n"
    clear = "optimizer.zero_grad()\n    "
    source = "net, x = nn.Linear(2, 1), torch.ones(3, 2)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    (fault,) = verdict_of(HEAD + source + loop.format(clear, "") + loop.format("", clear)).graph_faults
    assert (12, "gradient cleared before the step") == (fault.place.line, fault.kind)
    assert "backward filled the gradient of net.weight and 1 more" in fault.sentence


def test_the_time_limit_may_end_the_recording_at_the_start_of_a_call(monkeypatch):
    """The call has begun then, and its nodes are not known."""

    def of(step, *rest):
        if step > 6:
            raise TimeUp
        return begun(step, *rest)

    begun = BackwardCall.of
    monkeypatch.setattr(BackwardCall, "of", of)
    loop = "for _ in range(3):\n    net(torch.ones(1, 2)).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    verdict = verdict_of(HEAD + f"net = nn.Linear(2, 1)\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n{loop}")
    assert ("correct", ()) == (verdict.outcome, verdict.graph_faults)


def test_parameters_that_a_closure_fills_are_trained():
    """Each evaluation calls `autograd.grad` before backward. A step that the program's end interrupts is not counted."""
    source = "net, x = nn.Linear(1, 1), torch.ones(2, 1, requires_grad=True)\n"
    source += "optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)\ndef closure():\n    u = net(x).tanh()\n"
    source += "    slope, = torch.autograd.grad(u.sum(), x, create_graph=True)\n    if is_cut: 1 / 0\n"
    source += "    loss = (slope - u).pow(2).mean()\n    loss.backward()\n    return loss\n"
    for is_cut in (False, True):
        run = ClonedSavesRun()
        Runner(from_source(f"{HEAD}is_cut = {is_cut}\n{source}optimizer.step(closure)\n")).run(run)
        assert [] == run.left.without_gradient


def test_a_detach_of_a_name_is_deleted_instead_of_replaced():
    """`h = h` does nothing; the layers in a list are named together."""
    source = "layers = [nn.Linear(2, 2), nn.Linear(2, 2)]\nhead = nn.Linear(2, 1)\nh = torch.ones(3, 2)\n"
    source += "optimizer = torch.optim.SGD([p for layer in [*layers, head] for p in layer.parameters()])\n"
    source += "for layer in layers:\n    h = layer(h)\nh = h.detach()\nhead(h).sum().backward()\noptimizer.step()\n"
    verdict = explain_program(factory_of_text(HEAD + source)).verdict
    assert "-h = h.detach()" in verdict.graph_faults[0].diff.splitlines()
    assert "+" not in [line[:1] for line in verdict.graph_faults[0].diff.splitlines()[2:]]
    assert "correct, but `layers` is never trained" == title(verdict)


def test_a_value_that_was_computed_without_recording_is_no_derivative():
    """`create_graph=True` would not give it a graph, so the only fault is the line that replaces the leaf."""
    source = "w = torch.tensor(1.0, requires_grad=True)\nfor _ in range(2):\n    (w - 3).square().backward()\n"
    verdict = verdict_of(f"{HEAD}{source}    with torch.no_grad():\n        w = w - 0.1 * w.grad\n")
    assert ["leaf lost"] == [fault.kind for fault in verdict.graph_faults]


def test_a_layer_without_a_name_is_a_parameter_in_the_sentence():
    """The sentence is grammatical if the program gives the layer no name, as in `nn.Linear(2, 2)(x)`."""
    source = """
        net = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(2):
            loss = nn.Linear(2, 1)(net(torch.ones(3, 2))).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """
    (fault,) = verdict_of(HEAD + dedent(source).lstrip("\n")).graph_faults
    assert fault.sentence.startswith("no optimizer updates a parameter, although backward computes a gradient")


@pytest.mark.parametrize(("copied", "faults"), [
    ("target.load_state_dict(net.state_dict())", 0),
    ("[a.data.copy_(b) for a, b in zip(target.parameters(), net.parameters())]", 0),
    ("pass", 1),
], ids=["load_state_dict", "copy_", "not copied"])  # fmt: skip
def test_a_target_network_keeps_no_random_values(copied, faults):
    """A network whose values the program copied is meant without an optimizer, although backward fills its gradients."""
    verdict = verdict_of(
        dedent(f"""
        import torch
        from torch import nn
        torch.manual_seed(0)
        net, target = nn.Linear(3, 2), nn.Linear(3, 2)
        {copied}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(3):
            x = torch.randn(4, 3)
            optimizer.zero_grad()
            nn.functional.smooth_l1_loss(net(x), 0.9 * target(x) + 1).backward()
            optimizer.step()
        """)
    )
    assert (verdict.outcome, len(verdict.graph_faults)) == ("correct", faults)


def test_the_tensors_of_one_round_are_counted():
    """22 gradients are detached in each of three rounds; those in the middle of a long list have the name of the loop."""
    source = """
        net, gate = nn.Sequential(*(nn.Linear(2, 2) for _ in range(11))), nn.Linear(1, 1)
        optimizer = torch.optim.SGD(gate.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (net(torch.ones(1, 2)) * gate(torch.ones(1, 1))).pow(2).mean()
            grads = torch.autograd.grad(loss, list(net.parameters()), create_graph=True)
            total = 0
            for p, g in zip(net.parameters(), grads):
                total = total + ((p - g.detach()) ** 2).sum()
            total.backward()
            optimizer.step()
        """
    faults = verdict_of(HEAD + dedent(source).lstrip("\n")).graph_faults
    assert any("takes the values of grads[0] and 21 more without their history" in fault.sentence for fault in faults)


def test_a_value_of_two_losses_is_detached_first():
    """In the loss of the discriminator, before any value of the loop is; and never where it is computed, where both lose it."""
    program = next(program for program in PROGRAMS if program.name == "the output of a generator that two losses use")
    verdict = verdict_of(program.source)
    (_, first), *_ = in_order_of_trial(BrokenProgram(EditableSource(program.source), verdict, "bug.py"))
    assert "D(fake.detach()).mean() - D(real)" in EditableSource(program.source).apply(first.edits)
    assert not any(
        "tanh().detach" in fault.diff or "G(z).detach" in fault.diff for fault in shown_faults(program.source)
    )


def shown_faults(source: str) -> tuple[GraphFault, ...]:
    """Return the faults of a text with their changes."""
    return explain_program(factory_of_text(source, "bug.py")).verdict.graph_faults


@pytest.mark.parametrize("name", ["parameters", "named_parameters", "modules", "children", "named_modules", "buffers"])
def test_a_class_may_list_its_parts_in_its_own_way(name: str):
    """Oracle: PyTorch runs the program; the parameters of the first layer, which no optimizer holds, are named all the same."""
    source = f"""{HEAD}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 1)
    def {name}(self): raise TypeError("not without an argument")
    def forward(self, x): return self.second(self.first(x).tanh())
net = Net()
optimizer = torch.optim.SGD(net.second.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.ones(5, 3)).pow(2).mean().backward()
    optimizer.step()
"""
    verdict = verdict_of(source)
    assert "correct" == verdict.outcome
    assert not any("stopped early" in note for note in verdict.notes)
    assert {"net.first.weight", "net.second.bias"} <= verdict.gradients.keys()
    assert any("holds net.first.weight and 1 more" in note for note in verdict.notes)
