"""Errors unrelated to autograd: they are reported with their line, without a search for in-place operations."""

import json

import pytest

import autograder as package
from autograder.locale.messages import id_of
from autograder.tape import record
from autograder.tape.diagnose.unknown_outcome import is_foreign
from autograder.tape.explain import explain_program
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.repair.trial.program_factory import factory_of_text
from tests.commands import autograder

TRAINING = """import torch
model = torch.nn.Linear(3, 1)
{before}
for step in range(2):
    x = torch.ones(4, 3)
    x += 1
    loss = model(x).pow(2).mean()
    loss.backward()
{after}
"""
FOREIGN = {
    "a file": ("open('train.txt')", "FileNotFoundError"),
    "a name": ("model(batch)", "NameError"),
    "shapes": ("model(torch.ones(4, 5))", "RuntimeError"),
    "a dtype": ("model(torch.ones(4, 3).double())", "RuntimeError"),
    "an index": ("torch.ones(3)[5]", "IndexError"),
    "an assertion": ("assert model.bias is None", "AssertionError"),
    "its own error": ("raise RuntimeError('the gradients are too large')", "RuntimeError"),
    "None": ("import re; re.search('a', 'b').group()", "AttributeError"),
    "an environment that is None": ("env = None\nenv.step(0)", "AttributeError"),
    "a saved model": ("import io; torch.save(model, f := io.BytesIO())\nf.seek(0)\ntorch.load(f)", "UnpicklingError"),
    # Libraries that earlier tests import raise the limit.
    "endless recursion": ("import sys; sys.setrecursionlimit(1000)\nf = lambda x: f(x * 2)\nf(model.weight)", "RecursionError"),
}  # fmt: skip
OF_AUTOGRAD = {
    "a leaf": "w = torch.ones(3, requires_grad=True)\nw += 1",
    "numpy": "model.weight.numpy()",
    "a scalar": "torch.autograd.grad(model.weight, model.weight)",
    "nothing to differentiate": "torch.ones(3).sum().backward()",
    "no gradient yet": "model.weight.data -= 0.1 * model.weight.grad",
    "no gradient under a name": "for p in [model.weight]:\n    g = p.grad\n    g.zero_()",
    "inference": "with torch.inference_mode():\n    x = torch.ones(3)\n(x * model.bias)",
    "a view of a bundle": "a, b = model.weight.clone().split(2, 1)\na += 1",
    "deepcopy": "import copy; copy.deepcopy(model.weight * 2)",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_error_is_reported_with_its_line(name):
    """One run before any backward call, no repair, and no note; after right backward calls the same answer."""
    line, error = FOREIGN[name]
    found = package.explain(TRAINING.format(before=line, after=""))
    verdict = found.recording.verdict
    assert ("raises-forward", error, 1) == (verdict.outcome, verdict.error.type, verdict.runs)
    assert 3 <= verdict.error.line <= 3 + line.count("\n")
    later = package.explain(TRAINING.format(before="", after=line)).recording.verdict
    assert ("raises-forward", error) == (later.outcome, later.error.type)
    for one in (verdict, later):
        assert "\x1b" not in one.error.message
        assert ((), (), ()) == (one.harms, one.fixes, one.notes)


@pytest.mark.parametrize("name", OF_AUTOGRAD)
def test_an_error_of_autograd_is_not_foreign(name):
    """The rules of autograd, as PyTorch's messages name them, and a gradient that is None."""
    source = "import torch\nmodel = torch.nn.Linear(3, 1)\n" + OF_AUTOGRAD[name]
    with pytest.raises((RuntimeError, TypeError, AttributeError)) as raised:
        exec(compile(source, "<source>", "exec"), {})
    line = next(one.lineno for one in raised.traceback[::-1] if str(one.path) == "<source>") + 1
    problem = Problem(type(raised.value).__name__, str(raised.value), line)
    assert not is_foreign(problem, in_backward=False, source=source)


def test_an_error_inside_a_hook_is_foreign_and_one_of_the_engine_is_not():
    """The engine's errors are at the line that calls backward."""
    source = "h.register_hook(\n    lambda g: g @ g)\nh.sum().backward()\n"
    shapes = "mat1 and mat2 shapes cannot be multiplied (4x1 and 4x1)"
    assert [True, False] == [is_foreign(Problem("RuntimeError", shapes, line), True, source) for line in (2, 3)]


@pytest.mark.parametrize("end", ["sys.exit(3)", "sys.exit()", "failed = True\nif failed:\n    sys.exit(1)"])
def test_leaving_after_an_error_does_not_hide_the_harm(tmp_path, end):
    """`except RuntimeError: sys.exit(3)` is explained as the error that it caught."""
    (tmp_path / "leaves.py").write_text(
        "import sys, torch\nw = torch.ones(3, requires_grad=True)\nh = w.exp()\nh += 1\ntry:\n    h.sum().backward()\n"
        f"except RuntimeError:\n    {end}\n"
    )
    found = json.loads(autograder("explain", "leaves.py", "--json", "--no-repair", cwd=tmp_path).stdout)
    assert ("raises-backward", 4, 6) == (
        found["outcome"], found["harms"][0]["mutated_at"][0]["line"], found["error"]["line"],
    )  # fmt: skip


def test_a_class_is_refused_with_one_sentence(tmp_path):
    """For `FILE::Class`, the message suggests an alternative, and the form of a static method."""
    (tmp_path / "net.py").write_text("import torch\nclass Net(torch.nn.Module):\n    pass\n")
    done = autograder("explain", "net.py::Net", cwd=tmp_path)
    assert (2, "") == (done.returncode, done.stdout)
    assert "autograder: net.py::Net is a class. Name a function, or a static method as Net.METHOD.\n" == done.stderr


IMPORTED_LATE = """import torch
import warnings
warnings.simplefilter("always")
warnings.warn("old name")
w = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(2):
    w.square().sum().backward()
    optimizer.step()
import no_such_module
"""


def test_gradients_before_an_import_error_are_compared():
    """The line of the import is named, and the gradient that is not cleared; a warning of the program is not PyTorch's."""
    verdict = record(IMPORTED_LATE).verdict
    assert ("raises-forward", 10) == (verdict.outcome, verdict.error.line)
    assert [8] == [fault.place.line for fault in verdict.graph_faults]
    assert not any("PyTorch warned" in note for note in verdict.notes)


@pytest.mark.parametrize(("write", "lines", "note"), [
    ("h.data.mul_(2)", [7], "note.before_error"), ("pass", [], "excerpt.all_compared"),
])  # fmt: skip
def test_all_calls_before_the_error_of_a_long_run_are_compared(write, lines, note):
    """A write that makes 60 gradients wrong is named, although a file is missing after them; else each was compared.

    Plain PyTorch: without the write, the gradient of the sum is the derivative of the sigmoid.
    """
    source = f"""import torch
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.01)
for step in range(60):
    optimizer.zero_grad()
    h = sum([w] * 200).sigmoid()
    {write}
    h.sum().backward()
    optimizer.step()
open("no such file")
"""
    verdict = explain_program(factory_of_text(source, "bug.py"), repair=False).verdict
    assert ("raises-forward", "FileNotFoundError") == (verdict.outcome, verdict.error.type)
    assert lines == [place.line for harm in verdict.harms[:1] for place in harm.mutated_at[:1]]
    assert note in {id_of(note) for note in verdict.notes}
    assert "excerpt.none_compared" not in {id_of(note) for note in verdict.notes}
