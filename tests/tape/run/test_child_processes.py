"""Processes that a program starts are not followed; cost grows with the program and not with its square."""

import gc
import json
import multiprocessing
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path

import pytest

from autograder.tape import explain_json, record
from autograder.tape.diagnose.unknown_outcome import UnknownOutcomeError
from autograder.tape.explain import outcome_of
from autograder.tape.observe.state import RunState
from autograder.tape.run.storages import Memory

HEAD = """
import os, subprocess, sys, torch
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from torch.utils.data import DataLoader, Dataset
def train(x):
    w = torch.tensor([x], requires_grad=True)
    h = w.exp()
    h.data.mul_(2)
    h.sum().backward()
    return w.grad.item()
def write(buffer):
    buffer.mul_(3)
class Numbers(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, place):
        return torch.full((2,), float(place)).mul_(2)
fork = get_context("fork")
w = torch.ones(2, requires_grad=True)
"""
UNFOLLOWED = {
    "a process": "child = fork.Process(target=train, args=(1.0,))\nchild.start()\nchild.join()",
    "a process that is joined at the end": "fork.Process(target=train, args=(1.0,)).start()",
    "a pool": "with ProcessPoolExecutor(1, fork) as pool:\n    list(pool.map(train, [1.0, 2.0]))",
    "a bare fork": "child = os.fork()\nif not child:\n    train(1.0)\n    os._exit(0)\nos.waitpid(child, 0)",
    "a process beside a right gradient": "(w * w).sum().backward()\nfork.Process(target=train, args=(1.0,)).start()",
    "another Python": "subprocess.run([sys.executable, '-c', ''])",
    "another Python by the shell": "os.system('python3 -c 1')",
    "a write into shared memory": """
buffer = torch.ones(2).share_memory_()
loss = (w * buffer).sum()
child = fork.Process(target=write, args=(buffer,))
child.start()
child.join()
loss.backward()
""",
}
FOLLOWED = {
    "workers that load": "for x in DataLoader(Numbers(), 2, num_workers=1):\n    (x @ w).backward(torch.ones(2))",
    "a command that is no Python": "subprocess.run(['true'])\n(w * w).sum().backward()",
    "another Python beside a right gradient": "subprocess.run([sys.executable, '-c', ''])\n(w * w).sum().backward()",
    "a pool that is left open": "pool = torch.multiprocessing.get_context('fork').Pool(2)\n(w * len(pool.map(abs, [1]))).sum().backward()",
    "an executor and a manager left open": "pool, names = ProcessPoolExecutor(1, fork), fork.Manager().list()\n"
    "names.append(pool.submit(abs, 1).result())\n(w * len(names)).sum().backward()",
    "a shared tensor that nobody wrote": "fork.Process(target=print).start()\n(w * torch.ones(2).share_memory_()).sum().backward()",
}


@pytest.mark.parametrize("body", UNFOLLOWED.values(), ids=UNFOLLOWED)
def test_no_outcome_is_named_where_another_process_decides_it(body):
    """A wrong gradient in a child, or a child's write into memory of this process, is never "correct" and blames no line here."""
    with pytest.raises(UnknownOutcomeError, match="Explain that"):
        record(HEAD + body)


@pytest.mark.parametrize("body", FOLLOWED.values(), ids=FOLLOWED)
def test_processes_that_change_nothing_leave_the_answer_alone(body):
    """A loader's workers, an open pool and another command do not change the answer, and end with the run."""
    assert "correct" == record(HEAD + body).verdict.outcome
    assert [] == multiprocessing.active_children()


def test_a_harm_that_was_seen_is_told_whatever_a_child_did():
    """The line of this process that made a gradient wrong is named all the same."""
    verdict = record(HEAD + "fork.Process(target=train, args=(1.0,)).start()\ntrain(2.0)").verdict
    assert "silently-wrong" == verdict.outcome
    assert {"h.data.mul_(2)"} == {place.text for harm in verdict.harms for place in harm.mutated_at}
    assert any("Another process" in note for note in verdict.notes)


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_the_command_prints_null_and_nothing_of_the_child(tmp_path, method):
    """`explain --json`: one object whose outcome is null, exit code 2, the reason as its note and on stderr; also for a process
    that starts from nothing.
    """
    program = f"""
import torch, torch.multiprocessing

def train():
    w = torch.ones(2, requires_grad=True)
    (w * w).sum().backward()
    print("printed by the child", flush=True)

if __name__ == "__main__":
    child = torch.multiprocessing.get_context("{method}").Process(target=train)
    child.start()
    child.join()
"""
    (tmp_path / "train.py").write_text(program)
    command = [sys.executable, "-m", "autograder", "explain", "train.py", "--json", "--budget", "600"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    told = json.loads(done.stdout)
    assert (2, None) == (done.returncode, told["outcome"])
    assert f"autograder: {told['notes'][0]}" in done.stderr.splitlines()
    right = record("import torch\nw = torch.ones(2, requires_grad=True)\n(w * w).sum().backward()")
    assert set(explain_json(right, "a.py")) == set(told)


def test_a_forked_child_ends_where_the_program_ends_in_it(tmp_path):
    """A child of `os.fork` that raises or returns does not come back into the tool; the parent is explained."""
    for end in ("raise ValueError('the child gives up')", "pass"):
        source = f"import os, torch\nchild = os.fork()\nif child == 0:\n    {end}\nelse:\n    os.waitpid(child, 0)\n"
        source += "    h = torch.ones(3, requires_grad=True).exp()\n    h += 1\n    h.sum().backward()\n"
        (tmp_path / "forks.py").write_text(source)
        command = [sys.executable, "-m", "autograder", "explain", "forks.py", "--json", "--no-repair"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        found = json.loads(done.stdout)
        assert ("raises-backward", "h += 1") == (found["outcome"], found["harms"][0]["mutated_at"][0]["text"])
        assert "Traceback" not in done.stderr


def test_workers_of_a_loader_are_ended_with_the_run(tmp_path):
    """An endless loader's iterator is still open at the end: no worker is left, and collecting it takes no time."""
    source = HEAD + (
        "from torch.utils.data import RandomSampler\n"
        "sampler = RandomSampler(Numbers(), replacement=True, num_samples=10**9)\n"
        "batches = iter(DataLoader(Numbers(), sampler=sampler, num_workers=1))\n"
        "h = w.exp()\nh += next(batches)[0]\nh.sum().backward()\n"
    )
    began = time.monotonic()
    verdict = record(source).verdict
    assert ("raises-backward", "h += next(batches)[0]") == (verdict.outcome, verdict.harms[0].mutated_at[0].text)
    gc.collect()
    assert [] == multiprocessing.active_children()
    assert time.monotonic() - began < 20  # 5 s for each of four runs, before


PROGRAMS = {
    "a chain": "x = w\nfor i in range({n}):\n    x = x.sin()\nloss = x.sum()",
    "a list": "xs = []\nfor i in range({n}):\n    xs.append(w * i)\nloss = torch.stack(xs).sum()",
    "a deep copy": "import copy\nxs = copy.deepcopy([torch.ones(8) for i in range({n})])\nloss = (w * torch.stack(xs)).sum()",
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


def test_long_plain_code_costs_only_reads_of_foreign_aliases(monkeypatch):
    """After 2,000 statements, a storage without a foreign alias is not read, and a write through NumPy keeps its line."""
    looks, look = [], Memory.look
    monkeypatch.setattr(Memory, "look", lambda memory: looks.append(memory) or look(memory))
    verdict = record(
        "import torch\nw = torch.ones(8, requires_grad=True)\nxs = [torch.ones(8) for _ in range(50)]\nh = w * 2\n"
        "a = h.detach().numpy()\ny = h * h\nfor i in range(4000):\n    n = i\na[0] = 0\ny.sum().backward()"
    ).verdict
    assert [9] == [place.line for place in verdict.harms[0].mutated_at]
    assert len(looks) < 200_000  # twice as many if each statement reads them all


THREAD = """
import threading, torch
w = torch.ones(2, requires_grad=True)
def train():
    h = w.exp()
    h.data.mul_(2)
    h.sum().backward()
threading.{start}.start()
"""


@pytest.mark.parametrize("start", ["Thread(target=train)", "Timer(0.2, train)"])
def test_a_program_ends_after_its_threads(start):
    """Python waits for a thread that the program does not join, so its backward call is one of the program."""
    verdict = record(THREAD.format(start=start)).verdict
    assert ("silently-wrong", [6]) == (verdict.outcome, [place.line for place in verdict.harms[0].mutated_at])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_does_not_end_is_no_part_of_the_next_run():
    """The daemon calls backward until its run is over; a call after that would belong to the run that follows."""
    endless = "def forever():\n    while True:\n        (w * w).sum().backward()\n"
    text = THREAD.format(start="Thread(target=forever, daemon=True)").replace("threading.", f"{endless}threading.")
    before = set(threading.enumerate())
    outcome_of(text)
    assert set(threading.enumerate()) <= before


def test_what_the_program_lets_go_is_let_go(monkeypatch):
    """An evaluation loop that never calls backward holds one graph at a time; so does its recording, beyond a limit."""
    alive = []
    close = RunState.close

    def counting(state, *arguments):
        alive.append(sum(type(one).__name__ == "ExpBackward0" for one in gc.get_objects()))
        return close(state, *arguments)

    monkeypatch.setattr("autograder.tape.observe.nodes.LEAST_BYTES", 1 << 20)
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
