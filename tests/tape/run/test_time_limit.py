"""The timer of a run is stopped when the run is over, however many of its signals arrive together."""

import importlib
import importlib.abc
import importlib.machinery
import signal
import sys
import time
from contextlib import suppress

import pytest

from autograder.tape.run.time_limit import TimeUp, time_limit


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")
@pytest.mark.parametrize("now", [100.0, 30.0], ids=["the time is up", "time is left"])
def test_a_signal_that_comes_while_the_handler_is_put_back_is_let_go(monkeypatch, now):
    """It may arrive inside `signal.signal`, which the end of the context calls: nothing is raised, and the timer is not set again."""
    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    times, put_back = [0.0], signal.signal
    came = []

    def interrupted(number, handler):
        if callable(signal.getsignal(number)):
            came.append(signal.getsignal(number)(number, sys._getframe()))
        return put_back(number, handler)

    with time_limit(60, clock=lambda: times[0]):
        times[0] = now
        monkeypatch.setattr(signal, "signal", interrupted)
    monkeypatch.undo()
    assert came
    assert signal.getsignal(signal.SIGALRM) is before
    assert (signal.getitimer(signal.ITIMER_REAL)[0] > 0) == (left > 0)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")
def test_a_limit_inside_another_gives_the_rest_back():
    """The outer limit ends its block although an inner one was set and ended in between."""
    began, ended = time.monotonic(), False
    try:
        with time_limit(0.3):
            with suppress(TimeUp), time_limit(0.05):
                time.sleep(5)
            time.sleep(5)
    except TimeUp:
        ended = True
    assert ended
    assert time.monotonic() - began < 4


class SlowPart(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one more module of PyTorch, which takes longer to load than the limit."""

    def find_spec(self, name, path, target=None):
        """Find the one module."""
        return importlib.machinery.ModuleSpec(name, self) if name == "torch.slow_part" else None

    def exec_module(self, module):
        """Take its time."""
        time.sleep(0.3)
        module.is_complete = True


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")
def test_an_import_of_pytorch_is_not_cut_off(monkeypatch):
    """A module of PyTorch is loaded to its end, and the limit ends the block right after that."""
    monkeypatch.setattr(sys, "meta_path", [SlowPart(), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "torch.slow_part", raising=False)
    began = time.monotonic()
    with suppress(TimeUp), time_limit(0.05):
        importlib.import_module("torch.slow_part")
        time.sleep(5)
    assert sys.modules["torch.slow_part"].is_complete
    assert time.monotonic() - began < 4
