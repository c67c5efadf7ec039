"""Memory of a device, which is copied to be read. These tests run without a GPU: they read the host's memory in that way."""

import functools
import operator

import pytest
import torch

from autograder.tape import record
from autograder.tape.run import storages
from autograder.tape.run.engine import Listener, watched
from tests.corpus.programs import programs

NAMES = "facts_aliases/numpy_write", "facts_bad_repairs/mutation_numpy", "lesson3_detach/D4", "style_clamp[bug]"


@pytest.fixture
def as_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats all memory as that of a device."""
    monkeypatch.setattr(storages, "is_on_host", functools.partial(operator.is_, None))


@pytest.mark.parametrize("name", NAMES)
def test_copies_give_the_same_verdict_as_memory_that_is_read_in_place(name, request):
    """Outcome, harms and gradients do not depend on how memory is read, also under a dispatch mode."""
    program = next(one for one in programs() if one.name == name)
    in_place = record(program.source, file=program.file).verdict
    request.getfixturevalue("as_device")
    assert record(program.source, file=program.file).verdict == in_place


@pytest.mark.parametrize("size", [8, storages.COPIED // 8 + 1, storages.CHECKSUMMED // 8 + 1])
def test_a_copy_has_the_fingerprint_of_the_values(size, request):
    """A fingerprint is the same for equal values on the host and on a device, and another one for other values."""
    values = torch.arange(float(size), dtype=torch.float64)
    in_place = storages.fingerprint(values)
    request.getfixturevalue("as_device")
    assert storages.fingerprint(values) == in_place
    assert storages.fingerprint(values + 1) != in_place
    assert storages.fingerprint(values.expand(3, size)[:, 2:]) == storages.fingerprint(values.repeat(3, 1)[:, 2:])


def test_backward_runs_in_the_thread_of_its_call():
    """A GPU's part of backward would run in a thread of PyTorch; while a program's calls are followed, it does not."""
    seen: list[bool] = []
    loss = torch.ones(2, requires_grad=True).sum()
    loss.register_hook(lambda _: seen.append(torch._C._is_multithreading_enabled()))
    with watched(Listener()):
        loss.backward()
    assert (seen, torch._C._is_multithreading_enabled()) == ([False], True)
