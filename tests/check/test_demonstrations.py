"""A recording of a demonstration that was made elsewhere is used where the same would be recorded, and nowhere else."""

import linecache
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from autograder.check import demonstrations
from autograder.check.demonstrations import RecordingCache, demonstration, use_recordings
from autograder.tape import record

TEXT = """
def shown():
    w = torch.ones(2, requires_grad=True)
    a = nn.ReLU()(w).exp()
    a.mul_(2)
    a.sum().backward()
"""


def program(text=TEXT, cell="<cell 1>", **names):
    """Return the function that a cell defines."""
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    space = {"torch": torch, "nn": nn} | names
    exec(compile(text, cell, "exec"), space)
    return space["shown"]


@pytest.fixture(autouse=True)
def nothing_replaced_yet(monkeypatch):
    """Ignore replacements by earlier tests of this process."""
    monkeypatch.setattr(demonstrations, "_before", demonstrations.parts())


@pytest.fixture
def made(monkeypatch):
    """Count the recordings that are made."""
    made = []
    monkeypatch.setattr(demonstrations, "record", lambda program: made.append(program) or record(program))
    return made


def kept():
    """Return the recordings that another process sends: that of the released program."""
    elsewhere = RecordingCache()
    elsewhere.recording(program())
    kept = RecordingCache()
    kept.add(elsewhere.encoded())
    return kept


def test_a_kept_recording_is_what_would_be_recorded(made):
    """The recording equals a fresh one after the transfer, and the program is not recorded; outside the context it is."""
    here = kept()
    made.clear()
    with use_recordings(here):
        assert (record(program()), []) == (demonstration(program()), made)
    demonstration(program())
    assert 1 == len(made)


def test_the_number_of_its_cell_decides_nothing(made):
    """A student who adds a cell, or whose tests run elsewhere, counts the same cell differently; another text is another program."""
    counted = [program(cell=f"<ipython-input-{number}-18ecf53870c1>") for number in (5, 31)]
    with use_recordings(RecordingCache()):
        assert demonstration(counted[0]).verdict == demonstration(counted[1]).verdict
        assert 1 == len(made)
        demonstration(program(cell="<ipython-input-5-5d89c2d53b66>"))
        assert 2 == len(made)


def _as_default_dtype():
    torch.set_default_dtype(torch.float64)
    return lambda: torch.set_default_dtype(torch.float32)


def _under_a_mode():
    device = torch.device("cpu")
    device.__enter__()
    return lambda: device.__exit__(None, None, None)


def _replaced(space, name, value):
    def change():
        before = vars(space).get(name)
        setattr(space, name, value)
        return (lambda: delattr(space, name)) if before is None else (lambda: setattr(space, name, before))

    return change


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_as_default_dtype, id="another default dtype"),
        pytest.param(_under_a_mode, id="a default device"),
        pytest.param(_replaced(torch, "exp", torch.sin), id="a function of torch is replaced"),
        pytest.param(_replaced(torch.Tensor, "exp", torch.Tensor.sin), id="a method is replaced"),
        pytest.param(_replaced(torch.Tensor, "__add__", torch.Tensor.sub), id="an operator is added"),
        pytest.param(_replaced(nn.functional, "relu", torch.sin), id="a function that a module of nn calls is replaced"),
        pytest.param(_replaced(torch.autograd, "backward", torch.autograd.backward.__call__), id="backward is replaced"),
    ],
)  # fmt: skip
def test_what_a_learner_changed_is_recorded(made, change):
    """Where something that a program runs on is another than in the other process, the program is recorded as it is now."""
    here = kept()
    undo = change()
    made.clear()
    try:
        with use_recordings(here):
            demonstration(program())
    finally:
        undo()
    assert 1 == len(made)


@pytest.mark.parametrize("other", [
    pytest.param(lambda: program(TEXT.replace("mul_(2)", "mul_(3)")), id="another number"),
    pytest.param(lambda: program("\n" + TEXT), id="another line"),
    pytest.param(lambda: program(cell="<cell 2>"), id="another cell"),
    pytest.param(lambda: program(torch=nn), id="another module of that name"),
    pytest.param(lambda: program(torch=SimpleNamespace(ones=torch.ones)), id="a value of that name"),
    pytest.param(lambda: program(TEXT.replace("(2)", "(factor)", 1), factor=2), id="a value of another cell"),
])  # fmt: skip
def test_another_program_is_recorded(made, other):
    """A program that differs in text, place or in the objects of its names does not find another program's recording."""
    here, target = kept(), other()
    made.clear()
    with use_recordings(here):
        try:
            demonstration(target)
        finally:
            assert 1 == len(made)


def test_a_value_of_another_cell_is_looked_at_each_time(made):
    """The same function is recorded again after the value has changed, because used values are not part of the key."""
    shown = program(TEXT.replace("mul_(2)", "mul_(factor)"), factor=2)
    with use_recordings(RecordingCache()):
        first = demonstration(shown)
        shown.__globals__["factor"] = 5
        assert first != demonstration(shown)
    assert 2 == len(made)


def test_an_attribute_is_no_name_of_the_notebook(made):
    """`torch.ones` is PyTorch's, whatever a cell calls `ones`; a program that reads `ones` itself is recorded each time."""
    with use_recordings(RecordingCache()):
        demonstration(program(ones=3))
        demonstration(program(ones=4))
        assert 1 == len(made)
        for value in (3, 4):
            demonstration(program(TEXT.replace("mul_(2)", "mul_(ones)"), ones=value))
        assert 3 == len(made)


def test_a_program_that_binds_a_name_of_the_notebook_runs_each_time(made):
    """The program's assignments are available as if the recording had not been stored."""
    shown = program(TEXT.replace("w = ", "global seen; seen = 1; w = "))
    with use_recordings(RecordingCache()):
        for _ in range(2):
            shown.__globals__.pop("seen", None)
            demonstration(shown)
            assert 1 == shown.__globals__["seen"]
    assert 2 == len(made)
