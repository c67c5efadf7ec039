"""Gradients called right were checked: custom backwards, whole losses, and PyTorch's own formulas."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

import autograder
from autograder.tape import record
from autograder.tape.diagnose.shown_gradients import checks_of
from autograder.tape.oracle.untracked_writes import UntrackedEffect
from autograder.tape.recording.verdict_types import Excerpt, Verdict
from autograder.view.text.headline import headline

FUNCTION = """
import torch

class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return {forward}

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return {backward}

w = torch.tensor([1.5, -2.5], requires_grad=True)
Power.apply(w * 2).sum().backward()
"""
RIGHT = FUNCTION.format(forward="x ** 3", backward="grad * 3 * x ** 2")
FORGOTTEN = FUNCTION.format(forward="x ** 3", backward="grad * x ** 2")
STRAIGHT_THROUGH = FUNCTION.format(forward="x.round()", backward="grad")
REVERSED = FUNCTION.format(forward="x.view_as(x)", backward="-grad")

SCATTER = """
import torch
w = torch.arange(1.0, 7.0, requires_grad=True)
part = torch.ones(2, 2, requires_grad=True)
h = w * 2
{write}
y = torch.as_strided_scatter(h + 0, part, (2, 2), (1, 1), 1)
(y * torch.arange(6.0)).sum().backward()
"""

TRAINING = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(5, 3)).pow(2).mean().backward()
    optimizer.step()
"""


PADDED = """
import torch
from torch import nn
table, bag = nn.Embedding(4, 2, padding_idx=0), nn.EmbeddingBag(4, 2, padding_idx=1)
words = torch.tensor([[0, 1, 2], [0, 3, 1]])
{write}(table(words).sum(1).tanh() + bag(words)).pow(2).sum().backward()
"""


def checked(source: str) -> Verdict:
    """Return the verdict on a text whose gradients are compared with finite differences."""
    return autograder.explain(source, repair=False, check_gradients=True).recording.verdict


def answers(verdict: Verdict) -> dict[str, str]:
    """Return the answer of each oracle."""
    return {check.oracle: check.answer for check in verdict.checks}


def test_a_forgotten_factor_is_told_and_nothing_is_called_right():
    """Copies of saved tensors do not check a formula: no gradient below it is called right, and a note names the backward."""
    verdict = record(FORGOTTEN, file="bug.py").verdict

    assert ("correct", None) == (verdict.outcome, verdict.gradients["w"].true)
    assert any(
        note.startswith("Line 11: the backward of Power does not match the derivative of its forward")
        for note in verdict.notes
    )
    assert "no" == answers(verdict)["finite differences of each custom Function"]
    assert "right" not in headline(verdict)


def test_asked_for_the_slope_beside_it_is_given():
    """With finite differences of the whole loss the gradient is wrong, and the right one is 3·(2w)²·2."""
    verdict = checked(FORGOTTEN)
    right = 6 * (2 * torch.tensor([1.5, -2.5], dtype=torch.float64)) ** 2

    assert ("silently-wrong", ()) == (verdict.outcome, verdict.fixes)
    torch.testing.assert_close(torch.tensor(verdict.gradients["w"].true, dtype=torch.float64), right, rtol=1e-4, atol=0)


@pytest.mark.parametrize("source", [STRAIGHT_THROUGH, REVERSED], ids=["straight through", "reversed"])
def test_a_choice_is_no_fault(source):
    """A flat forward, or one that returns its input, has the backward that the program chose; it is not judged."""
    for verdict in (record(source).verdict, checked(source)):
        assert ("correct", None) == (verdict.outcome, verdict.gradients["w"].true)
        assert any("is not the derivative of its forward, which is constant" in note for note in verdict.notes)
        assert "yes" not in [answers(verdict)[oracle] for oracle in answers(verdict) if "differences" in oracle]


@pytest.mark.parametrize(
    "source", [RIGHT, TRAINING, PADDED.format(write="")], ids=["custom Function", "training", "padding"]
)
def test_what_agrees_is_called_right(source):
    """Only then: without differences, the same program has no harmed value and no other judgment."""
    plain, compared = record(source).verdict, checked(source)

    assert "no write broke backward" == headline(plain)
    assert ("correct", "yes") == (compared.outcome, answers(compared)["finite differences"])
    assert headline(compared).startswith("finite differences confirm the gradients")


@pytest.mark.parametrize(("write", "outcome"), [("add_(1)", "correct"), ("mul_(2)", "silently-wrong")])
def test_the_padding_of_an_embedding_has_no_gradient(write, outcome):
    """PyTorch sets the gradient of this row to zero on purpose. A write by which a constant is added changes no gradient."""
    write = f"h = table(words)\nh.data.{write}\n"
    verdict = record(PADDED.format(write=write).replace("table(words).sum", "h.sum")).verdict
    table = verdict.gradients["table.weight"]

    assert outcome == verdict.outcome
    assert [0.0, 0.0] == table.got[0] == table.true[0]


def is_wrong_in_pytorch() -> bool:
    """Return whether PyTorch's own check finds the derivative of as_strided_scatter wrong in this release."""
    options = {"dtype": torch.double, "requires_grad": True}
    inputs = [torch.randn(6, **options), torch.ones(2, 2, **options)]
    scatter = lambda whole, part: torch.as_strided_scatter(whole, part, (2, 2), (1, 1), 1)  # noqa: E731
    return not torch.autograd.gradcheck(scatter, inputs, raise_exception=False)


@pytest.mark.parametrize("write", ["", "h.data.add_(1)"], ids=["alone", "beside a write"])
def test_a_wrong_formula_of_pytorch_is_told_as_such(write):
    """The operation is named, and no write is blamed for it, though one is not recorded."""
    if not is_wrong_in_pytorch():
        pytest.skip("this PyTorch has the right derivative of as_strided_scatter")
    verdict = checked(SCATTER.format(write=write))

    assert ("silently-wrong", ()) == (verdict.outcome, verdict.harms)
    assert any(note.startswith("Line 7: PyTorch") and "as_strided_scatter" in note for note in verdict.notes)


@pytest.mark.parametrize("source", [
    "h = w * 2\nh.register_hook(lambda grad: grad * 0.1)\nh.sum().backward()",
    "torch.relu(w - w.detach()).sum().backward()",
], ids=["a hook that scales", "a kink"])  # fmt: skip
def test_what_cannot_be_judged_is_not_called_wrong(source):
    """Finite differences see what a hook and a kink do, and neither is a fault of the program."""
    verdict = checked(f"import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n{source}\n")

    assert ("correct", "not known") == (verdict.outcome, answers(verdict)["finite differences"])


def test_a_program_without_backward_is_not_called_right():
    """Nothing was checked, and the verdict says so."""
    verdict = record("import torch\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum()\n").verdict

    assert "not asked" == answers(verdict)["copies of saved tensors"]
    assert "backward was never called" in headline(verdict)


def test_both_meanings_of_a_hidden_write_are_told():
    """exp, then a write outside autograd: the loss that ran has the derivative 2·exp(w), the recorded program exp(w)."""
    source = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh.data.mul_(2)\nh.sum().backward()\n"
    verdict, exp = record(source).verdict, torch.tensor([1.0, 2.0]).exp()
    gradient = verdict.gradients["w"]

    assert "silently-wrong" == verdict.outcome
    torch.testing.assert_close(torch.tensor(gradient.got), 2 * exp)
    torch.testing.assert_close(torch.tensor(gradient.ran), 2 * exp)
    torch.testing.assert_close(torch.tensor(gradient.true), exp)
    assert any(
        "two possible values: [5.437, 14.78] is the gradient of the loss that ran" in note for note in verdict.notes
    )


@pytest.mark.parametrize(
    ("checked", "words"), [(12, "the first 12 of 17 calls of backward"), (17, "17 calls of backward")]
)
def test_a_check_counts_the_calls_that_were_compared(checked, words):
    """If the time is up before the other run has ended, the result is based on the calls until then."""
    runs = SimpleNamespace(
        plain=SimpleNamespace(calls=[None] * 17),
        cloned_saves=SimpleNamespace(error=None),
        excerpt=Excerpt(17, checked, 1, 4),
        untracked_effect=UntrackedEffect(),
    )
    evidence = SimpleNamespace(outcome="correct", copies_differ=False, runs=runs)

    assert ("yes", words) == next((check.answer, check.detail) for check in checks_of(evidence))


TWICE = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        {forward}

    @staticmethod
    def backward(ctx, grad):
        return {backward}

x = torch.tensor([0.3, -0.8], requires_grad=True)
slope, = torch.autograd.grad({square}.sin().sum(), x, create_graph=True)
slope.pow(2).sum().backward()
"""
SAVED = TWICE.format(
    square="Square.apply(x)",
    forward="ctx.save_for_backward(x)\n        return x ** 2",
    backward="2 * ctx.saved_tensors[0] * grad",
)
ON_CTX = TWICE.format(
    square="Square.apply(x)", forward="ctx.twice = x * 2\n        return x ** 2", backward="ctx.twice * grad"
)
BEFORE_USE = TWICE.format(
    square="Square.apply(x)",
    forward="ctx.twice = x * 2\n        return ctx.twice ** 2 / 4",
    backward="1 * ctx.twice * grad",
)
PENALTY = TWICE.format(square="(x ** 2)", forward="return x", backward="grad")


@pytest.mark.parametrize(
    ("source", "is_right"),
    [(SAVED, True), (PENALTY, True), (ON_CTX, False), (BEFORE_USE, False)],
    ids=["saved input", "no Function", "intermediate", "intermediate in a product"],
)
def test_second_derivatives_are_compared(source, is_right):
    """The second derivative of a Function that keeps an intermediate on ctx is wrong; PyTorch's own of x² is the right one."""
    plain, compared, names = record(source).verdict, checked(source), {}
    exec(PENALTY, names)
    shown = compared.gradients["x"]

    assert "correct" == plain.outcome
    assert (source is PENALTY) == (plain.gradients["x"].true is not None)
    assert ("correct" if is_right else "silently-wrong") == compared.outcome
    assert ("yes" if is_right else "no") == answers(compared)["finite differences"]
    torch.testing.assert_close(torch.tensor(shown.true), names["x"].grad, rtol=1e-3, atol=1e-4)
    if not is_right:
        assert any("second derivatives" in note.lower() for note in plain.notes)
        assert any("the derivative of its result is not" in note for note in compared.notes)


def test_each_step_of_backward_is_compared_with_that_of_the_same_leaf():
    """Where the engine reaches the leaves in another order, no leaf is given the gradient of another one."""
    source = TWICE.replace(
        "x = torch.tensor([0.3, -0.8], requires_grad=True)",
        "lin = torch.nn.Linear(3, 3)\nx = torch.randn(4, 3, requires_grad=True)",
    ).format(
        square="Square.apply(lin(x))",
        forward="ctx.twice = x * 2\n        return ctx.twice ** 2",
        backward="4 * ctx.twice * grad",
    )
    steps = record(source).backward

    assert any(step.true for step in steps)
    assert all(step.true in ("", step.got) for step in steps)


def test_custom_backward_that_reads_an_overwritten_tensor_does_not_use_it():
    """A write after the only forward use changes no loss, so no note says that the graph does not match the computation."""
    source = RIGHT.replace("Power.apply(w * 2).sum()", "h = w * 2\ny = Power.apply(h)\nh.data.mul_(2)\ny.sum()")
    verdict = record(source).verdict
    assert "silently-wrong" == verdict.outcome
    assert [18] == [place.line for place in verdict.harms[0].mutated_at]
    assert "does not match" not in " ".join(verdict.notes)


def test_a_leaf_that_only_a_later_call_reaches_has_no_right_gradient(monkeypatch):
    """The runs for the right gradients end before the call that reaches y. The large leaf is not varied entry by entry."""
    monkeypatch.setattr("autograder.tape.oracle.excerpt.LONG", 10)
    source = (
        "import torch\nnet, y = torch.nn.Linear(3, 32), torch.ones(2, requires_grad=True)\nfor step in range(34):\n"
        "    h = net(torch.ones(4, 3)).tanh()\n    h.data.clamp_(-0.1, 0.1)\n    h.sum().backward()\n(y * y).sum().backward()\n"
    )
    verdict = record(source).verdict
    assert "silently-wrong" == verdict.outcome
    assert [None] == [one.true for one in verdict.gradients.values() if one.got == [2.0, 2.0]]
