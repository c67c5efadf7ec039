"""Threads are followed like the program itself, and the smaller corpora agree with their declared outcomes."""

import threading
import time

import pytest

from autograder.tape import record
from autograder.tape.run.child_processes import in_new_threads
from tests.corpus.declared import assert_declared, assert_explained
from tests.corpus.programs import HERE, programs


def test_an_error_that_a_thread_kept_for_itself():
    """Backward raises in a thread without a visible error: the outcome and the line report it."""
    source = """
import threading, torch
threading.excepthook = lambda _: None
w = torch.tensor([1.0, 2.0], requires_grad=True)

def step():
    h = torch.exp(w)
    h.mul_(0.5)
    h.sum().backward()

worker = threading.Thread(target=step)
worker.start()
worker.join()
"""
    verdict = record(source).verdict
    assert "raises-backward" == verdict.outcome
    assert [8] == [place.line for harm in verdict.harms for place in harm.mutated_at]


@pytest.mark.parametrize("given", ["w", "weights[0]"])
def test_threads_that_take_turns_are_compared_each_with_itself(given):
    """Two threads train two models, or one, in another order in each run: no gradient is called wrong for it."""
    source = f"""
import random, threading, time, torch
weights = [torch.full((2,), 1.0 + i, requires_grad=True) for i in range(2)]

def train(w):
    for step in range(4):
        time.sleep(random.SystemRandom().random() / 200)
        (w * w * (step + 1)).sum().backward()

workers = [threading.Thread(target=train, args=({given},)) for w in weights]
[one.start() for one in workers]
[one.join() for one in workers]
"""
    assert {"correct"} == {record(source).verdict.outcome for _ in range(3)}


def test_a_thread_that_outlives_the_run_is_left_alone():
    """A daemon thread that never ends is no longer followed, and does not affect the explanation."""
    source = """
import threading, time, torch

def beat():
    for _ in range(200):
        time.sleep(0.005)
        torch.ones(2).add_(1)

threading.Thread(target=beat, name="beat", daemon=True).start()
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()
"""
    verdict = record(source).verdict
    assert "correct" == verdict.outcome
    assert not any("stopped early" in note for note in verdict.notes)
    for thread in threading.enumerate():
        if thread.name == "beat":  # in PyTorch when Python ends, it would abort the process (CPython up to 3.13)
            thread.join(timeout=60)
            assert not thread.is_alive()


def test_only_new_threads_are_met():
    """The context of a thread is created in that thread, for each thread that is started inside, in any way."""
    import _thread
    from contextlib import contextmanager

    met = []

    @contextmanager
    def around():
        met.append(threading.get_ident())
        yield

    done = []
    with in_new_threads(around):
        worker = threading.Thread(target=lambda: done.append(threading.get_ident()))
        worker.start()
        worker.join()
        _thread.start_new_thread(lambda: done.append(threading.get_ident()), ())
        while len(done) < 2:
            time.sleep(0.001)
    threading.Thread(target=lambda: done.append(0)).start()
    assert met == done[:2]
    assert threading.get_ident() not in met


FOLDERS = ("checkpoints", "engine", "threads")
EACH = pytest.mark.parametrize(
    "program", [one for folder in FOLDERS for one in programs(HERE / folder)], ids=lambda program: program.name
)


@EACH
def test_declared_outcome_is_what_pytorch_does(program):
    """Plain PyTorch raises as declared, or gives the reference's gradients, or others."""
    assert_declared(program)


@EACH
def test_outcome_and_line(program):
    """The outcome is the declared one, and the lines that wrote and that saved.

    No parameter's initialisation is blamed for a checkpointed block, and of a thread its own line is named, not the one that waited.
    """
    assert_explained(program)
