"""Features around the engine (hooks, AMP, DDP, checkpoints, tracing programs), and the release of each run's objects."""

import gc
import weakref

import pytest
import torch

from autograder.tape import ProgramError, record
from autograder.tape.run import runner
from tests.corpus.declared import assert_explained
from tests.corpus.programs import HERE, programs

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
    assert "cpu" == torch.empty(0).device.type


A_SPARSE = "A = torch.eye(2).to_sparse()\ny = (A @ torch.ones(2, 1, requires_grad=True)).sum()\nh = A._values()\n"


@pytest.mark.parametrize("text", [*WITHOUT_VALUES.values(), f"import torch\n{A_SPARSE}{{write}}\ny.backward()\n"])
def test_a_refused_write_is_named_without_values(text):
    """Versions are counted there as well; whether bytes changed is unknown, so the error is not called needless."""
    verdict = record(text.format(write="h.mul_(2)")).verdict
    assert "raises-backward" == verdict.outcome
    assert "h.mul_(2)" in {place.text for harm in verdict.harms for place in harm.mutated_at}
    assert not any("not needed" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("call", "source"),
    [
        ("f(w).backward()", "@torch.jit.script\ndef f(w):\n    h = torch.exp(w)\n    h.mul_(2)\n    return h.sum()"),
        ("torch.func.vmap(f)(w[None]).sum().backward()", "def f(x):\n    y = torch.exp(x)\n    y.mul_(2)\n    return y.sum()"),
    ],
)  # fmt: skip
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
    assert not any(gradient.unlisted for gradient in verdict.gradients.values())


CORPUS = programs(HERE / "checkpoints")


@pytest.mark.parametrize("name", ["tower[bug]", "tower_view[bug]", "inside_reentrant[bug]"])
def test_a_write_in_a_recomputed_block_is_one_harm(name):
    """One write is one harm, and it changed bytes: the error is not called needless."""
    (program,) = (one for one in CORPUS if one.name == f"checkpoints/{name}")
    verdict = assert_explained(program)
    assert [True] == [harm.bytes_changed for harm in verdict.harms]
    assert not any("not needed" in note for note in verdict.notes)


HEAD = """
import torch
from torch.fx.experimental.proxy_tensor import make_fx

def loss_of(w, x):
    return torch.tanh(x @ w).pow(2).sum()

def step(w, x):
    loss = torch.sin(x @ w).pow(2).sum()
    return loss, torch.autograd.grad(loss, w)[0]

w, x = torch.randn(3, requires_grad=True), torch.randn(4, 3)
"""
RIGHT = {
    "a loss": "make_fx(loss_of)(w, x)(w, x).backward()",
    "a step with its gradient": "loss, slope = make_fx(step)(w, x)(w, x)\n(w.exp().sum() * loss.detach()).backward()",
    "a traced module": "torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.ReLU()), x)(w).sum().backward()",
    "a parameter that has no shape yet": "torch.nn.LazyLinear(1)(w).sum().backward()",
    "a forward-mode trace": "graph = torch.fx.symbolic_trace(loss_of)\ngraph(w, x).backward()",
}


@pytest.mark.parametrize("body", RIGHT.values(), ids=RIGHT)
def test_a_traced_graph_runs_as_it_does_alone(body):
    """No note says that two runs differ, and the observer is not stopped."""
    verdict = record(HEAD + body).verdict
    assert ("correct", ()) == (verdict.outcome, verdict.notes)


def test_a_write_after_a_traced_graph_has_run_is_named():
    """The graph saved its input, which the next line overwrites."""
    verdict = record(
        HEAD + "h = w.exp()\nloss = make_fx(loss_of)(h, x)(h, x) + h.pow(2).sum()\nh.mul_(2)\nloss.backward()"
    ).verdict
    assert "raises-backward" == verdict.outcome
    assert {"h.mul_(2)"} == {place.text for harm in verdict.harms for place in harm.mutated_at}


PROGRAM = """
import torch
w = torch.ones(8, requires_grad=True)
leaves_of_test.append(reference(w))
def keeps(): return w  # a function and its module hold each other
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    h = w.exp()
    loss = h.sum()
    {write}
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize("write", ["pass", "h.mul_(2)", "h.data.mul_(2)"])
def test_no_run_holds_the_tensors_of_an_earlier_one(monkeypatch, write):
    """When a run begins, no leaf of the runs before it is alive: not by their gradients, errors, graphs or modules."""
    leaves, alive, run = [], [], runner.Runner.run
    monkeypatch.setattr(runner, "MUCH", -(1 << 60))  # so that even a small program's cycles are looked for

    def counted(*arguments, **options):
        alive.append(sum(leaf() is not None for leaf in leaves))
        return run(*arguments, **options)

    monkeypatch.setattr(runner.Runner, "run", counted)
    monkeypatch.setattr("builtins.leaves_of_test", leaves, raising=False)
    record(PROGRAM.format(write=write), names={"reference": weakref.ref})

    assert len(alive) >= 3
    assert [0] * len(alive) == alive


def test_much_memory_is_looked_for_and_little_is_not(monkeypatch):
    """Python's collector runs where a run left a quarter of a gigabyte, and only there: it takes longer than a lesson's snippet."""
    sizes, collected = iter([0, 10, 0, 1 << 28]), []
    monkeypatch.setattr(runner, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(gc, "collect", lambda: collected.append(True))
    with runner.garbage_collected():
        pass
    assert not collected
    with runner.garbage_collected():
        pass
    assert [True] == collected


def test_a_large_gradient_is_compared_by_sums_that_show_one_wrong_entry():
    """One of eight million entries is doubled by a write: the program is silently wrong, and its size is given."""
    source = (
        "import torch\nw = torch.ones(1 << 23, requires_grad=True)\nh = w.exp()\nloss = h.sum()\n"
        "h.data[12345] = 7.0\nloss.backward()\n"
    )
    verdict = record(source).verdict

    assert "silently-wrong" == verdict.outcome
    assert 1 << 23 == verdict.gradients["w"].unlisted
