"""The parts of one run: memory, state, backward, the timer, and notebook cells as Python with IPython's lines."""

import ast
import importlib
import importlib.abc
import importlib.machinery
import itertools
import json
import signal
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

import pytest
import torch
from IPython.core.inputtransformer2 import TransformerManager

from autograder.tape.run.engine import Listener, watched
from autograder.tape.run.graph_walk import autograd_flags
from autograder.tape.run.programs.notebook_text import python_of_cell
from autograder.tape.run.snapshot import Snapshot
from autograder.tape.run.storages import Memories, changed_interval, extent_of, fingerprint
from autograder.tape.run.time_limit import TimeUp, time_limit
from tests.commands import autograder


def test_a_freed_address_is_another_memory():
    """The allocator reuses an address; its new contents are not those from before."""
    memories, first = Memories(), torch.zeros(1000)
    before, address = memories.of(first), first.data_ptr()
    del first
    again = [torch.zeros(1000) for _ in range(20)]
    same = [tensor for tensor in again if tensor.data_ptr() == address]
    assert all(memories.of(tensor) is not before for tensor in again)
    assert (False, True) == (before.alive(), len(same) <= 1)


def test_the_nodes_of_a_nested_backward_count():
    """Sum, exp and the leaf, and three more of the backward that a hook calls: recording a call costs what all nodes cost."""
    w = torch.ones(2, requires_grad=True)
    root, inner = w.exp(), (w * 3).sum()
    root.register_hook(lambda _: torch.autograd.grad(inner, w)[0])
    with watched(Listener()) as calls:
        root.sum().backward()
    assert ([6], [3.0, 3.0]) == ([call.nodes for call in calls], (w.grad / w.exp()).tolist())


def test_a_write_is_seen_with_the_bytes_that_changed():
    """One float of four is written without a counter: bytes 4 to 8 at most, and no change at the next look."""
    tensor = torch.tensor([1.0, 2.0, 3.0, 4.0])
    memory = Memories().of(tensor)
    assert memory.look() is None
    tensor.numpy()[1] = -2.0
    start, stop = memory.look()
    assert 4 <= start < stop <= 8
    assert memory.look() is None
    assert (1, 3) == changed_interval(b"\x00\x01\x02\x03", b"\x00\xff\xfe\x03")


def test_extent_and_fingerprint_are_those_of_the_tensor_alone():
    """A column of a matrix extends from its first to its last element; a write next to it does not change its fingerprint."""
    matrix = torch.arange(12.0).view(3, 4)
    column = matrix[:, 1]
    before = fingerprint(column)
    matrix[:, 2] = 0
    assert (4, 4 + (2 * 4 + 1) * 4) == extent_of(column)
    assert before == fingerprint(column)
    matrix[2, 1] = 0
    assert before != fingerprint(column)


def test_a_world_is_put_back():
    """Bytes, versions, gradients, containers and random numbers are as they were, in the same objects."""
    w, seen = torch.ones(2, requires_grad=True), {"a": [1, 2]}
    inner, expected = seen["a"], torch.rand(1, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(3)
    world = Snapshot((w, seen))
    with torch.no_grad():
        w.mul_(5)
    w.sum().backward()
    inner.append(3)
    seen["b"] = 1
    torch.rand(7)
    world.restore()

    assert ([1.0, 1.0], 0, None) == (w.tolist(), w._version, w.grad)
    assert ({"a": [1, 2]}, True) == (seen, inner is seen["a"])
    assert torch.equal(expected, torch.rand(1))


@dataclass(slots=True)
class Transition:
    """A record with slots, as of a replay buffer."""

    state: torch.Tensor


def test_a_replay_buffer_is_put_back():
    """A deque keeps its items and length, a tensor in a set its values, and a slot its object."""
    kept, replaced = torch.ones(2), torch.zeros(2)
    buffer, seen = deque([Transition(replaced)], maxlen=2), {kept}
    item = buffer[0]
    world = Snapshot((buffer, seen))
    item.state = kept.add_(1)
    buffer.extend([Transition(kept), Transition(kept)])
    world.restore()

    assert (buffer, 2) == (deque([item]), buffer.maxlen)
    assert item.state is replaced
    assert [1.0, 1.0] == kept.tolist()


def test_a_view_made_without_gradient_is_no_leaf():
    """PyTorch calls a view taken under no_grad a leaf; it has no `.grad` to fill."""
    w = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        view = w.detach()[:1]
    assert [(True, True), (False, True), (True, False)] == [autograd_flags(tensor) for tensor in (w, view, w * 2)]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such timer here")
@pytest.mark.parametrize("now", [100.0, 30.0], ids=["the time is up", "time is left"])
def test_a_signal_that_comes_while_the_handler_is_put_back_is_let_go(monkeypatch, now):
    """It may arrive inside `signal.signal`, which the end of the context calls: nothing is raised, and the timer is not set again."""
    before, left = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    times, put_back, came = [0.0], signal.signal, []

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
    began = time.monotonic()
    with pytest.raises(TimeUp), time_limit(0.3):  # noqa: PT012
        with suppress(TimeUp), time_limit(0.05):
            time.sleep(5)
        time.sleep(5)
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


PLAIN = [
    "n = 3 # context length: how many?", 'prompt = """\n!important\n%time f()\nready?\n"""', "x = [1,\n  5 % 2,\n  7]",
    "total = (a\n  % b)", "if n:\n    y = 1\nelse:\n    y = 2", "def f(a, b='!ls'):\n    # why?\n    return a % b",
    "s = 'is it?' # yes?", "print(f'{n=!r} {n!s}')", 'z = "a = !ls"', "mask = x != y", "first = \\\n  second",
]  # fmt: skip
REPLACED = [
    "%matplotlib inline", "!pip install torch  # it's needed", "!ls \\\n  -l", "files = !ls", "a.b[0] = !ls 'x",
    "seed = %env SEED", "f?", "torch.exp??", "?f", "if n:\n    !ls\n    y = 1", "for i in x:\n    %cd ..",
    "with f() as g:\n    names = !ls\n    y = 2",
]  # fmt: skip


def as_ipython_reads(cell):
    """The statements that IPython makes of a cell; its calls of magics are None, of commands []."""

    class WithoutShell(ast.NodeTransformer):
        def visit_Expr(self, node):
            return ast.Pass() if ast.unparse(node).startswith("get_ipython().") else node

        def visit_Assign(self, node):
            value = ast.unparse(node.value)
            if value.startswith("get_ipython()."):
                node.value = ast.List([], ast.Load()) if ".getoutput(" in value else ast.Constant(None)
            return node

    return statements(WithoutShell().visit(ast.parse(TransformerManager().transform_cell(cell))))


def statements(tree):
    """The statements of a program as text; one without effect may be left out at the top."""
    return [ast.unparse(one) for one in tree.body if not isinstance(one, ast.Pass)]


@pytest.mark.parametrize("first", [*PLAIN, *REPLACED])
def test_a_cell_has_the_statements_that_ipython_reads(first):
    """Alone, and before and after each of the other statements; Python stays as it is, on its own lines."""
    for cell in [first, *(f"{first}\n{second}" for second in (*PLAIN, *REPLACED))]:
        python = python_of_cell(cell)
        assert cell.count("\n") == python.count("\n")
        assert as_ipython_reads(cell) == statements(ast.parse(python)), cell


@pytest.mark.parametrize(("one", "other"), itertools.pairwise([*PLAIN, PLAIN[0]]))
def test_python_stays_as_it_is(one, other):
    """A `?`, `!` or `%` in a comment, a string or an expression has no effect."""
    assert f"{one}\n{other}" == python_of_cell(f"{one}\n{other}")


@pytest.mark.parametrize(("cell", "python"), [
    pytest.param("%time h += 1", "h += 1", id="time"),
    pytest.param("    %timeit -n 10 -r3 f(h)", "    f(h)", id="timeit with options"),
    pytest.param("%prun -s cumulative -q f(-h)", "f(-h)", id="prun with options"),
    pytest.param("y = %time f(h)", "y = f(h)", id="value of time"),
    pytest.param("t = %timeit -o f(h)", "f(h); t = None", id="value of timeit"),
    pytest.param("%time !ls", "# %time !ls", id="a command in time"),
    pytest.param("%time %run -i a.py", "get_ipython().run_line_magic('run', '-i a.py')", id="a file in time"),
    pytest.param(
        "\n%%writefile a.py\nx = 'a'",
        "\nget_ipython().run_cell_magic('writefile', 'a.py',\n\"x = 'a'\\n\")",
        id="file",
    ),
    pytest.param("%%time\nh += 1", "# %%time\nh += 1", id="cell of time"),
    pytest.param("ls -l | grep w\n", "# %ls -l | grep w\n", id="command without a sign"),
    pytest.param("time h += 1", "h += 1", id="magic without a sign"),
    pytest.param("time - env", "time - env", id="names of magics"),
    pytest.param("%%timeit -n 1 h = f()\nh += 1", "h = f()\nh += 1", id="cell of timeit with its setup"),
    pytest.param("\n%%capture out --no-stderr\nh += 1", "\n# %%capture out --no-stderr\nh += 1", id="capture"),
    pytest.param("%%bash\nls $h?", "# %%bash\n# ls $h?", id="another language"),
    pytest.param("\n%%bash\nls $h?", "# \n# %%bash\n# ls $h?", id="another language below an empty line"),
])  # fmt: skip
def test_python_in_a_magic_runs_once(cell, python):
    """`%time`, `%timeit`, `%prun` and their cell magics give their code; the body of any other cell magic is left out."""
    assert python == python_of_cell(cell)


def notebook(*cells):
    """A notebook as JSON."""
    code = [{"cell_type": "code", "id": f"c{number}", "metadata": {}, "execution_count": None, "outputs": [],
             "source": cell.splitlines(keepends=True)} for number, cell in enumerate(cells)]  # fmt: skip
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": code})


def test_a_lecture_is_explained_as_it_is(tmp_path):
    """Commands give [], files are written and run, `display` exists, and the repair of a line in a magic keeps the magic."""
    path = tmp_path / "lecture.ipynb"
    path.write_text(notebook(
        "_#m\nimport torch\n%matplotlib inline\nget_ipython().run_line_magic('env', 'A=1')",
        'n = 3 # how many?\nprompt = """\n!important\nready?\n"""\nfiles = !ls\ndisplay(files)\n'
        "assert files == [] and prompt.count('\\n') == 3 and get_ipython().getoutput('ls') == []",
        "%%bash\nls",
        "%%writefile own.py\nimport sys\nn, given = 0, [*sys.argv[1:], __name__]\nsys.exit(0)",
        "%%writefile -a shared.py\nm = len(given)",
        "%run own --lr {n + 1}\n%run -i shared.py\n!python own.py\n!pip install python\n"
        "assert given == ['--lr', '4', '__main__'] and n == 0 and 'own' not in __file__",
        "w = torch.ones(m, requires_grad=True)\na = w.exp()\n%time a += 1\na.sum().backward()",
    ))  # fmt: skip
    found = json.loads(autograder("explain", path.name, "--json", cwd=tmp_path).stdout)
    assert "raises-backward" == found["outcome"]
    assert ["a += 1"] == [place["text"] for place in found["harms"][0]["mutated_at"]]
    assert any("cell 7, line 3" in note for note in found["notes"])
    assert any(note.endswith("`%%bash` is not run; line 34: `!python own.py` is not run.") for note in found["notes"])
    assert not (tmp_path / "own.py").exists()
    autograder("explain", path.name, "--apply", cwd=tmp_path)
    assert "%time a = a + 1\n" in json.loads(path.read_text())["cells"][6]["source"]


@pytest.mark.thorough
def test_a_graph_fault_is_named_with_its_cell(tmp_path):
    """The gradient of `w` is never cleared: a note on the line has its place in the notebook."""
    path = tmp_path / "faulty.ipynb"
    path.write_text(notebook(
        "import torch\nw = torch.ones(2, requires_grad=True)",
        "o = torch.optim.SGD([w])\nfor _ in range(3): w.square().sum().backward(); o.step()",
    ))  # fmt: skip
    found = json.loads(autograder("explain", path.name, "--json", cwd=tmp_path).stdout)
    (line,) = {fault["place"]["line"] for fault in found["graph_faults"]}
    assert any(f"line {line} = cell 2, line 2" in note for note in found["notes"])


def test_a_line_that_only_a_note_names_has_its_cell(tmp_path):
    """The backward of a straight-through estimator begins in the seventh line of the second cell."""
    path = tmp_path / "quantization.ipynb"
    path.write_text(notebook(
        "import torch",
        "class Round(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.round()\n\n"
        "    @staticmethod\n    def backward(ctx, grad):\n        return grad",
        "w = torch.full((2,), 0.7, requires_grad=True)\nRound.apply(w).sum().backward()",
    ))  # fmt: skip
    found = json.loads(autograder("explain", path.name, "--json", cwd=tmp_path).stdout)
    (line,) = {int(note.split()[1][:-1]) for note in found["notes"] if "backward of Round" in note}
    assert any(f"line {line} = cell 2, line 7" in note for note in found["notes"])
