"""The objects of a run are released before the next one begins, however the program stores them."""

import gc
import weakref

import pytest

from autograder.tape.diagnose import record as recorder
from autograder.tape.diagnose.record import record
from autograder.tape.run import once

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
    leaves, alive, run_once = [], [], recorder.run_once
    monkeypatch.setattr(once, "MUCH", -(1 << 60))  # so that even a small program's cycles are looked for

    def counted(*arguments, **options):
        alive.append(sum(leaf() is not None for leaf in leaves))
        return run_once(*arguments, **options)

    monkeypatch.setattr(recorder, "run_once", counted)
    monkeypatch.setattr("builtins.leaves_of_test", leaves, raising=False)
    record(PROGRAM.format(write=write), names={"reference": weakref.ref})

    assert len(alive) >= 4
    assert [0] * len(alive) == alive


def test_much_memory_is_looked_for_and_little_is_not(monkeypatch):
    """Python's collector runs where a run left a quarter of a gigabyte, and only there: it takes longer than a lesson's snippet."""
    sizes, collected = iter([0, 10, 0, 1 << 28]), []
    monkeypatch.setattr(once, "resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(gc, "collect", lambda: collected.append(True))
    with once.memory_given_back():
        pass
    assert not collected
    with once.memory_given_back():
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
