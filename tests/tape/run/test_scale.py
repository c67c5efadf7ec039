"""Cost: time and memory grow with the program and not with its square."""

import gc
import time
import tracemalloc

import pytest

from autograder.tape import record
from autograder.tape.diagnose.record import outcome_of
from autograder.tape.observe.state import RunState

PROGRAMS = {
    "a chain": "x = w\nfor i in range({n}):\n    x = x.sin()\nloss = x.sum()",
    "a list": "xs = []\nfor i in range({n}):\n    xs.append(w * i)\nloss = torch.stack(xs).sum()",
    "rows of one buffer": "out = torch.zeros({n}, 8)\nfor i in range({n}):\n    out[i] = w * i\nloss = out.sum()",
}


def seconds(name: str, n: int) -> float:
    """The processor time of one recording of a program with n operations."""
    source = f"import torch\nw = torch.ones(8, requires_grad=True)\n{PROGRAMS[name]}\nloss.backward()".format(n=n)
    start = time.process_time()
    recording = record(source)
    assert "correct" == recording.verdict.outcome
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_time_grows_linearly(name):
    """Eight times the operations cost at most sixteen times as much; a square would cost sixty-four."""
    seconds(name, 50)

    assert seconds(name, 2000) < 16 * seconds(name, 250)


@pytest.mark.slow
def test_memory_grows_linearly():
    """So does the memory of a recording."""
    sizes = []
    for n in (250, 2000):
        tracemalloc.start()
        seconds("a chain", n)
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert sizes[1] < 16 * sizes[0]


def test_a_lesson_snippet_takes_little_processor_time():
    """The median of ten warm recordings of the two matmuls stays under the promised 0.1 s."""
    source = (
        "import torch\nx = torch.tensor([[1.0, 2.0]])\nw1 = torch.tensor([[2.0], [1.0]], requires_grad=True)\n"
        "w2 = torch.tensor([3.0], requires_grad=True)\nd = x @ w1\nf = d * w2\nd.data[:] = 1\nf.backward()"
    )
    taken = []
    for _ in range(11):
        start = time.process_time()
        assert "silently-wrong" == outcome_of(source)
        taken.append(time.process_time() - start)

    assert sorted(taken[1:])[5] < 0.1


def test_a_foreign_write_is_found_late_and_told_exactly():
    """Among hundreds of storages a write by raw pointer, taken before anybody watched, still gets its line: the run is repeated."""
    source = (
        "import ctypes, torch\nw = torch.ones(8, requires_grad=True)\nh = w * 2\naddress = h.data_ptr()\n"
        "xs = [torch.ones(8) for _ in range(400)]\ny = h * h\nfor i in range(30):\n    xs[i] = xs[i] + 1\n"
        "ctypes.memset(address, 0, 32)\nfor i in range(30):\n    xs[i] = xs[i] + 1\ny.sum().backward()"
    )

    verdict = record(source).verdict

    assert "silently-wrong" == verdict.outcome
    assert [9] == [place.line for place in verdict.harms[0].mutated_at]


def test_what_the_program_lets_go_is_let_go(monkeypatch):
    """An evaluation loop that never calls backward holds one graph at a time; so does its recording, beyond a limit."""
    alive = []
    close = RunState.close

    def counting(state, *arguments):
        alive.append(sum(type(one).__name__ == "ExpBackward0" for one in gc.get_objects()))
        return close(state, *arguments)

    monkeypatch.setattr("autograder.tape.observe.nodes.HELD", 1 << 20)
    monkeypatch.setattr(RunState, "close", counting)
    loop = "for i in range(40):\n    loss = (w * i).exp().sum()"

    gc.collect()
    gc.freeze()  # what was there before is counted no more: a session of tests holds a million objects
    try:
        outcome = outcome_of(f"import torch\nw = torch.ones(1 << 16, requires_grad=True)\n{loop}\nloss.backward()")
    finally:
        gc.unfreeze()
    assert "correct" == outcome
    assert max(alive) - alive[0] < 10  # forty without the limit
