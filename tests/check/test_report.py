"""The data between a check and its subject, and the statement which run of a cell a check judged."""

from __future__ import annotations

import re

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from autograder.check import answer_cell, events
from autograder.check.answer_cell import NotJudged, judged_run, require_finished
from autograder.check.message import Incorrect
from autograder.check.subject.call_report import Argument, Array, Call, array
from autograder.check.subject.subjects import LocalSubject

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 3), max_size=3), st.sampled_from(DTYPES), st.booleans())
def test_a_tensor_survives_the_trip(shape, dtype, transposed):
    """Shape, dtype and every byte arrive, also for empty, zero-dimensional and non-contiguous tensors."""
    tensor = (torch.rand(shape) * 9 - 4).to(dtype)
    tensor = tensor.t() if transposed and tensor.dim() == 2 else tensor
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(array(tensor)), type=Array)
    assert torch.equal(tensor, sent.tensor())
    assert tensor.dtype is sent.tensor().dtype


@pytest.mark.parametrize(
    "broken",
    [Array("float64", (2,), bytes(8)), Array("no_dtype", (1,), bytes(8)), Array("load", (1,), bytes(8))],
    ids=["too few bytes", "no dtype", "a function's name"],
)
def test_bytes_that_do_not_fit_are_refused(broken):
    """A report from an untrusted process cannot claim a shape that differs from its data."""
    with pytest.raises((ValueError, RuntimeError)):
        broken.tensor()


def call(function, *, kind="leaf", values=(1.0, 2.0), **request):
    """Return the report of one call with a single argument x."""
    x = Argument(kind, array(torch.tensor(values, dtype=torch.float64)))
    return LocalSubject(function).call(Call({"x": x}, **request))


def test_a_call_that_does_not_end_is_stopped():
    """After the time limit of a forward or a backward the report names the limit and the line, and the next call has all of it."""

    class Endless(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            while True:
                pass

    def loop(x):
        while True:
            pass

    one = array(torch.tensor(1.0, dtype=torch.float64))
    x = Argument("leaf", one)
    for function, phase in ((loop, "forward"), (Endless.apply, "backward"), (lambda x: x + 0, None)):
        problem = LocalSubject(function, 0.1).call(Call({"x": x}, cotangents={"value": one})).problem
        assert phase == (problem and problem.phase)
        assert problem is None or ("TimeUp", "stopped after 0.1 seconds") == (problem.type, problem.message)
        assert function is not loop or problem.text in ("while True:", "pass")


def test_values_gradients_and_memory_are_reported():
    """The report's numbers are those of plain PyTorch on the same inputs."""

    def scale(x):
        y = x * x
        x.zero_()
        return {"y": y.detach() + 0 * x, "n": 3}

    report = call(scale, kind="constant")
    assert {"value['y']": [1.0, 4.0], "value['n']": 3} == {k: v.tensor().tolist() for k, v in report.outputs.items()}
    assert [0.0, 0.0] == report.after["x"].tensor().tolist()

    cotangent = array(torch.tensor([1.0, 10.0], dtype=torch.float64))
    report = call(lambda x: x**3, kind="result", cotangents={"value": cotangent})
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    (right,) = torch.autograd.grad((x**3 * torch.tensor([1.0, 10.0])).sum(), x)
    assert torch.equal(right, report.gradients["x"].tensor())


def test_memory_is_seen_where_the_caller_handed_it_in():
    """Swapping `.data` or rebinding the name does not move the place where effects are looked for."""

    def swap(x):
        x.data = torch.full_like(x, 7)
        return x.sum()

    assert [1.0, 2.0] == call(swap, kind="constant").after["x"].tensor().tolist()


@pytest.mark.parametrize(("function", "phase", "kind"), [
    pytest.param(lambda x: undefined_name, "forward", "NameError", id="own error"),  # noqa: F821
    pytest.param(lambda x: x.mul_(2), "forward", "RuntimeError", id="leaf in place"),
    pytest.param(lambda x: _raise(KeyboardInterrupt), "forward", "KeyboardInterrupt", id="interrupted"),
    pytest.param(lambda x: x.exp().add_(1), "backward", "RuntimeError", id="saved tensor"),
])  # fmt: skip
def test_an_exception_is_part_of_the_report(function, phase, kind):
    """Any exception of the answer is reported with its phase and type, and the check continues."""
    cotangent = array(torch.ones(2, dtype=torch.float64))
    problem = call(function, cotangents={"value": cotangent}).problem
    assert (phase, kind) == (problem.phase, problem.type)


def _raise(error):
    raise error


def test_global_state_is_put_back(capfd):
    """Grad mode, default dtype, seed and threads are restored, and nothing is written to stderr."""
    import sys
    import warnings

    def untidy(x):
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float16)
        torch.manual_seed(0)
        warnings.warn("careful", stacklevel=1)
        print("careful", file=sys.stderr)
        return x.sum()

    torch.manual_seed(5)
    before = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state())
    call(untidy)
    after = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state())
    assert before[:3] == after[:3]
    assert torch.equal(before[3], after[3])
    assert "" == capfd.readouterr().err


@pytest.mark.parametrize(
    ("function", "tensors"),
    [(lambda x: x + 1, 1), (lambda x: (x + 1).mul_(2), 1), (lambda x: x[:1], 0), (lambda x: x.exp() * 2 + x, 3)],
    ids=["one sum", "then in place", "a view", "three operations"],
)
def test_allocated_bytes_are_counted(function, tensors):
    """New memory counts, in-place operations and views do not."""
    assert [16] * tensors == [one.nbytes for one in call(function, kind="result", measure=True).allocated]


@pytest.fixture
def run(monkeypatch):
    """Return a function that runs a cell, given its id and its text, in a shell whose cells are followed."""
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.showtraceback = shell.showsyntaxerror = lambda *_args, **_options: None
    monkeypatch.setattr(answer_cell, "get_ipython", lambda: shell)
    monkeypatch.setattr(answer_cell, "_runs", None)
    answer_cell.follow_cells()
    return lambda cell, text: shell.run_cell(text, store_history=True, cell_id=cell)


def test_the_verdict_names_the_run(run):
    """The number is that of the run that defined the function, the class or the value."""
    run("a", "def drain(): pass")
    run("b", "guess = 'correct'")
    run("a", "def drain(): return 1")
    run("c", "class Gate:\n    def forward(self): pass")
    assert "drain, as run in In [3]" == judged_run("drain")
    assert "Gate, as run in In [4]" == judged_run("Gate")
    assert "guess, as run in In [2]" == judged_run("guess")
    assert "" == judged_run("nowhere")


@pytest.mark.parametrize("broken", ["def drain(:", "def drain(): pass\n1 / 0", "drain = 1 +"])
def test_a_cell_that_raised_is_not_judged(run, broken):
    """The error and its run are named until the cell runs to its end; another cell's error has no effect."""
    run("a", "def drain(): pass")
    run("b", "1 / 0")
    require_finished("drain")
    result = run("a", broken)
    error = result.error_before_exec or result.error_in_exec
    with pytest.raises(NotJudged, match="drain: not judged, because its cell raised an error") as refused:
        require_finished("drain")
    assert f"{type(error).__name__}: " in str(refused.value)
    assert "In [3]" in str(refused.value)
    run("a", "def drain(): return 1")
    require_finished("drain")


def test_a_prediction_is_followed_too(run):
    """A value is that of its cell; defined again in another cell, it is that cell's."""
    run("a", "guess = '...'")
    run("a", "guess = 'correct")
    with pytest.raises(NotJudged, match="guess: not judged"):
        require_finished("guess")
    run("b", "guess = 'correct'")
    require_finished("guess")


def test_a_cell_with_an_answer_and_its_check_is_judged(run):
    """A verdict is not an error of the answer's cell, and the definition in the running cell is the newest."""
    run("a", "def drain(): pass\n1 / 0")
    result = run(
        "b",
        "def drain(): return 1\n"
        "from autograder.check.answer_cell import require_finished\n"
        "require_finished('drain')\n"
        "from autograder.check.message import Incorrect\n"
        "raise Incorrect('drain: wrong')",
    )
    assert isinstance(result.error_in_exec, Incorrect)
    require_finished("drain")


def test_a_notebook_shows_the_run_with_the_verdict(run, monkeypatch):
    """The card of a pass and the rows of a refusal name it; the text of a pass, and the exception's, stay as they are."""
    run("a", "def drain(): pass")
    shown = []
    monkeypatch.setattr(events, "show_card", lambda *forms: shown.extend(forms))
    events.show_passed("drain", " (the values)")
    assert re.search("judged </span>drain, as run in In .1.</div>", shown[1])
    assert "drain: correct (the values)" == shown[0]
    wrong = Incorrect.of("drain: wrong", saw="1", expected="2", look_at="line 1")
    wrong.judged = judged_run("drain")
    assert [*str(wrong).splitlines(), "  judged    drain, as run in In [1]"] == wrong._render_traceback_()
