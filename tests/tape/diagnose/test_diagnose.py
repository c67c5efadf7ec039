"""From evidence to a verdict: each part looks at the same runs, and kinds of harm are asked row by row."""

import pytest
import torch

from autograder.tape import record
from autograder.tape.diagnose import assembly
from autograder.tape.diagnose.harms import HARM_KINDS, HarmKind
from autograder.tape.diagnose.shown_gradients import shown_gradients
from autograder.tape.diagnose.verdict import verdict_of
from autograder.tape.recording.verdict_types import Harm, Place

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"
WRITTEN = HEAD + "h = w.exp()\n{}\nh.sum().backward()\n"


def evidence_of(source: str, monkeypatch):
    """Return the evidence that a recording was made from."""
    gathered = []

    def kept(evidence):
        gathered.append(evidence)
        return verdict_of(evidence)

    monkeypatch.setattr(assembly, "verdict_of", kept)
    record(source, file="text.py")
    return gathered[-1]


def test_gradients_stand_beside_the_right_ones(monkeypatch):
    """exp keeps its result: after the write to 0 the gradient is 0 where exp(w) is right."""
    shown = shown_gradients(evidence_of(WRITTEN.format("h.data.zero_()"), monkeypatch))
    assert [0.0, 0.0] == shown["w"].got
    torch.testing.assert_close(torch.tensor(shown["w"].true), torch.tensor([1.0, 2.0]).exp())


def test_a_write_to_a_slice_gives_no_other_error(monkeypatch):
    """PyTorch's message names the function that kept the slice; if our code reads the graph, it names as_strided instead."""
    assert evidence_of(WRITTEN.format("h[:1].sigmoid_()\nh[:1] += 1"), monkeypatch).repeats


CLEARED = """import torch
a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
c = torch.ones(100, requires_grad=True)
for _ in range(40):
    c.sum().backward()
    c.grad = None
for _ in range(3):
    (a * b).sum().backward()
    a.grad = None
"""


def test_gradients_that_were_cleared_are_those_of_the_last_backward():
    """The gradient of `a` is `b`, although it was cleared; that of `c` is listed from an early call, because it is large."""
    gradients = record(CLEARED).verdict.gradients
    assert ([1.0, 1.0], [3.0, 3.0]) == (gradients["a"].got, gradients["b"].got)
    assert [1.0] * 100 == gradients["c"].got


ENLARGED = """import torch
torch.manual_seed(0)
x, y = torch.randn(16, 8), torch.randint(0, 4, (16,))
u = torch.randn(8, 4)
u[7] = 0.5
w = torch.ones(8, requires_grad=True)
optimizer = torch.optim.Adam([w], lr=0.1)
loss = torch.nn.functional.cross_entropy((x * w) @ u, y)
u.data.add_(0.1)
loss.backward()
optimizer.step()
optimizer.zero_grad()
w[7].square().backward()
"""


def test_enlarged_rounding_errors_are_not_wrong_gradients():
    """Line 9 adds the same number for each class, so by the formula of cross-entropy no gradient changes.

    The gradient of `w[7]` is a rounding error, from which Adam makes a step of 0.1.
    """
    verdict = record(ENLARGED).verdict

    assert ("correct", ()) == (verdict.outcome, verdict.harms)
    assert any("enlarged rounding errors" in note for note in verdict.notes)


CANCELLED = """import torch
w = torch.zeros(2, requires_grad=True)
out = w.log_softmax(0)
out.data.mul_(2)
out.backward(torch.tensor([1, 2e-5 - 1]))
"""


def test_rounding_errors_of_a_sum_that_cancels_are_not_wrong_gradients():
    """log-softmax subtracts softmax (1/2, after the write 1/4) times the sum of the gradients from each of them.

    After a cross-entropy this sum is a rounding error, here 2e-5: the gradients differ by 5e-6. A change of an exponential
    by 4e-5 is real.
    """
    assert "correct" == record(CANCELLED).verdict.outcome
    assert "silently-wrong" == record(WRITTEN.format("h.data.mul_(1 + 4e-5)")).verdict.outcome


DISPATCHED = """import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Count(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


w = torch.ones(3, requires_grad=True)
with Count():
    h = w.exp()
    h.mul_(2)
    h.sum().backward()
"""


STATISTICS = """import torch
torch.manual_seed(0)
norm, network = torch.nn.BatchNorm1d(3), torch.nn.LSTM(3, 2)
for step in range(2):
    h = torch.tanh(norm(torch.randn(4, 3)))
    out, _ = network(norm(torch.randn(4, 3)).unsqueeze(1))
    h.data.mul_(2)
    loss = h.sum() + out.sum()
    loss.backward(retain_graph=True)
    loss.backward()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("source", "outcome", "line"), [
    pytest.param(DISPATCHED, "raises-backward", "h.mul_(2)", id="a mode between every call and PyTorch"),
    pytest.param(STATISTICS, "silently-wrong", "h.data.mul_(2)", id="statistics, and memory that backward writes"),
])  # fmt: skip
def test_only_the_harmful_line_is_blamed(source, outcome, line):
    """A mode that passes calls on is not the line that wrote, and what backward does not read is not harmed."""
    verdict = record(source).verdict
    assert (outcome, {line}) == (verdict.outcome, {place.text for harm in verdict.harms for place in harm.mutated_at})


def test_a_gradient_of_rounding_errors_is_no_measure(monkeypatch):
    """A shift of all inputs of a softmax has no effect, so the correct gradient of `b` is a rounding error of about 1e-8."""
    source = "import torch\ntorch.manual_seed(3)\nw, b = torch.randn(7, requires_grad=True), torch.zeros(1, requires_grad=True)\n"
    source += "p = torch.softmax(w + b, 0)\nloss = (p * torch.randn(7)).sum()\n{}\nloss.backward()\n"
    plain: dict = {}
    exec(source.format(""), plain)
    shown = shown_gradients(evidence_of(source.format("p.data.mul_(2)"), monkeypatch))

    assert plain["b"].grad.abs() < 1e-6
    assert (shown["b"].off or 0) < 10  # None in a release that computes exactly 0
    right, got = plain["w"].grad, torch.tensor(shown["w"].got)
    assert pytest.approx(float((got - right).norm() / right.norm()), rel=1e-4) == shown["w"].off


def test_a_row_below_is_asked_only_where_those_above_are_silent(monkeypatch):
    """A kind that always finds something, in a new row at the top, prevents all others."""
    place = Place("<program>", 1, "import torch")
    loud = HarmKind("loud", "Always.", lambda _: [_harm(place)], ("raises-backward",))
    monkeypatch.setattr("autograder.tape.diagnose.harms.HARM_KINDS", ((loud,), *HARM_KINDS))

    assert ["loud"] == [harm.kind for harm in record(WRITTEN.format("h += 1")).verdict.harms]


def _harm(place: Place) -> Harm:
    return Harm("w", (place,), None, place, "MulBackward0", 0, 1, True)


def test_a_write_to_values_that_a_sparse_tensor_shares_is_named():
    """`weight` and the saved sparse tensor share their values, but not their counters (PyTorch 2.13)."""
    source = """import torch
weight, x = torch.rand(2), torch.rand(2, 3, requires_grad=True)
out = torch.sparse.mm(torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), weight, (2, 2)), x)
weight.mul_(0.5)
out.sum().backward()
"""
    verdict = record(source).verdict
    assert ["silently-wrong", [4]] == [verdict.outcome, [place.line for place in verdict.harms[0].mutated_at]]


def test_a_write_beside_the_saved_part_of_a_storage_is_not_named():
    """Only the first of two writes through `.data` changes the half that the multiplication saved."""
    writes = "buffer.data[:2] = 3.0\nbuffer.data[2:] = 5.0\n"
    source = (
        "import torch\nw, buffer = torch.ones(2, requires_grad=True), torch.ones(4)\nloss = (buffer[:2] * w).sum()\n"
    )
    [harm] = record(f"{source}{writes}loss.backward()").verdict.harms
    assert [4] == [place.line for place in harm.mutated_at]


def test_a_storage_without_memory_is_not_read():
    """The counter increases in backward, where the input gets new memory."""
    source = """import torch
def forward(ctx, x):
    ctx.x, ctx.y = x, x.detach() * 2
    x.untyped_storage().resize_(0)
    return ctx.y + 0
both = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, g: ctx.x.set_(ctx.y / 2) * 0 + 2 * g)}
type("Forget", (torch.autograd.Function,), both).apply(torch.relu(torch.ones(4, requires_grad=True))).sum().backward()
"""
    verdict = record(source).verdict
    assert ["raises-backward", 6] == [verdict.outcome, verdict.harms[0].mutated_at[0].line]


SECOND_ORDER = """import torch
net = torch.nn.Linear(1, 1)
outer = torch.optim.SGD(net.parameters(), lr=0.1)
loss_of = lambda *own: (torch.nn.functional.linear(torch.ones(2, 1), *own) ** 2).mean()
for _ in range(2):
    inner, kept = loss_of(*net.parameters()), [p.detach().clone() for p in net.parameters()]
    {}
    outer.zero_grad()
    {}.backward()
    outer.step()
"""
GRADS = "gs = torch.autograd.grad(inner, list(net.parameters()), create_graph=True)"
FILLED = "inner.backward(create_graph=True)"
CLONED = "cloned = [p.clone() for p in net.parameters()]; gs = torch.autograd.grad(loss_of(*cloned), cloned, create_graph=True)"
MOVED = "[p.data.sub_(g) for p, g in zip(net.parameters(), gs)]"


@pytest.mark.parametrize(("update", "loss", "is_unused"), [
    (f"{FILLED}; outer.step()", "loss_of(*net.parameters())", True),
    (f"{GRADS}; {MOVED}", "loss_of(*net.parameters())", True),
    (f"{GRADS}", "loss_of(*[p - g for p, g in zip(net.parameters(), gs)])", False),
    (f"{FILLED}; gs = [p.grad for p in net.parameters()]", "loss_of(*[p - g for p, g in zip(net.parameters(), gs)])", False),
    (f"{GRADS}", "(inner + sum((g ** 2).sum() for g in gs))", False),
    (f"{CLONED}", "loss_of(*[p for p in cloned])", True),
    (f"{CLONED}", "loss_of(*[p - g for p, g in zip(cloned, gs)])", False),
    ("gs = torch.autograd.grad(inner, list(net.parameters()))", "loss_of(*net.parameters())", False),
])  # fmt: skip
def test_a_graph_of_gradients_that_no_call_goes_through_is_named(update, loss, is_unused):
    """A step that autograd does not record leaves the outer loss without the second derivative."""
    verdict = record(SECOND_ORDER.format(update, loss)).verdict
    named = [note for note in verdict.notes if note.startswith("Line 7: create_graph=True")]
    assert ("correct", is_unused) == (verdict.outcome, bool(named))
