"""The data between a check and its subject: values are transferred correctly, and nothing else is transferred."""

import msgspec
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.parametrize(
    ("function", "phase", "kind"),
    [
        pytest.param(lambda x: undefined_name, "forward", "NameError", id="own error"),  # noqa: F821
        pytest.param(lambda x: x.mul_(2), "forward", "RuntimeError", id="leaf in place"),
        pytest.param(lambda x: _raise(KeyboardInterrupt), "forward", "KeyboardInterrupt", id="interrupted"),
        pytest.param(lambda x: x.exp().add_(1), "backward", "RuntimeError", id="saved tensor"),
    ],
)
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


def test_what_shares_memory_is_reported():
    """A returned view is distinguished from a returned copy."""
    assert (("value[0]", "x"),) == call(lambda x: (x[:1], x.clone()), kind="result").shared
