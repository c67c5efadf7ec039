"""The parts of the observer, each by itself, and programs that do much without PyTorch."""

import json
import linecache
import subprocess
import sys
from collections import namedtuple

import pytest
import torch

from autograder.tape import record
from autograder.tape.observe.memory_watcher import MemoryWatcher
from autograder.tape.observe.names import tensors_in
from autograder.tape.observe.observer import ALWAYS_CHECKED
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import statements_of, tree_of_file
from autograder.tape.observe.tensors import Tensors, values_text
from autograder.tape.observe.writes import written_through
from autograder.tape.recording.schema import from_json
from autograder.tape.run.storages import Memories
from tests.commands import autograder


def test_a_dead_tensor_is_forgotten():
    """Its place in the table is free again: the next object may have the same id."""
    tensors, tensor = Tensors(Memories()), torch.ones(2)
    key = id(tensor)
    tensors.add(tensor)
    del tensor

    assert key not in tensors.of
    assert tensors.all[0].ref() is None


def test_values_are_told_in_short():
    """All of a few numbers; of many the first three and how many more."""
    assert "[[1, 2], [3, 4]]" == values_text(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert "[0, 1, 2, … 97 more]" == values_text(torch.arange(100))


class State:
    """A plain object with a list."""

    def __init__(self):
        self.hidden = [torch.ones(1), torch.ones(2)]


def test_names_are_the_expressions_that_reach_a_tensor():
    """Through lists, dictionaries, plain objects, and tuples with other items. Oracle: each name evaluated gives the very tensor."""
    pair = type("Pair", (namedtuple("Pair", "first"),), {"__getitem__": None})(torch.ones(4))
    space = {"state": State(), "table": {"a": torch.ones(3)}, "pair": pair}
    found = [pair for name, value in space.items() for pair in tensors_in(value, name)]
    assert ["state.hidden[0]", "state.hidden[1]", "table['a']", "pair.first"] == [name for name, _ in found]
    assert all(eval(name, {}, space) is tensor for name, tensor in found)


def test_a_watcher_tells_writes_that_no_function_reported():
    """A write of NumPy is recorded once, after its statement; the line is certain while the storage is observed often."""
    told, state, tensor = [], RunState(), torch.zeros(4)
    watcher = MemoryWatcher(state, lambda *change: told.append(change), frozenset())
    memory = state.memories.of(tensor)
    watcher.begin(memory)
    watcher.statement_done()
    assert [] == told
    tensor.numpy()[3] = 1.0
    watcher.statement_done()
    watcher.statement_done()

    assert [(memory, (14, 16), True)] == told  # 1.0 is 00 00 80 3f


@pytest.mark.parametrize(("line", "expected"), [
    ("d.data[:] = 1", ("d.data", "__setitem__")),
    ("n *= 2", ("n", "in place")),
    ("w.grad = None", ("w", "grad =")),
    ("h.detach().mul_(3)", ("h.detach()", "mul_")),
    ("torch.add(a, b, out=c)", ("c", "add")),
    ("with torch.no_grad(): b.fill_(1)", ("b", "fill_")),
    ("F.fill(0)", ("F", "fill")),
    ("F.relu_(h)", ("h", "relu_")),
    ("nn.init.zeros_(w)", ("w", "zeros_")),
    ("functions.relu(h, inplace=True)", ("h", "relu")),
    ("y = a + 1", (None, "unseen")),
    ("foo(", (None, "unseen")),
])  # fmt: skip
def test_a_line_tells_through_what_it_writes(line, expected):
    """The alias and the operation, as in the text."""
    assert expected == written_through(line)


def test_each_line_belongs_to_its_innermost_statement():
    """A call over two lines starts on its first; a block's header is one statement, and declarations are marked."""
    text = "import torch\nx = max(\n    1,\n    2)\nfor i in (1,\n          2):\n    y = i\n'text'\n"
    linecache.cache["statements_test.py"] = (len(text), None, text.splitlines(keepends=True), "statements_test.py")
    starts = statements_of(tree_of_file("statements_test.py"))

    assert {1: 1, 2: 2, 3: 2, 4: 2, 5: 5, 6: 5, 7: 7, 8: 8} == {line: first for line, (first, _) in starts.items()}
    assert {1, 8} == {line for line, (_, declares) in starts.items() if declares}


# In each, several thousand statements that call nothing of PyTorch, then a NumPy write into what `exp` saved.
LOOP = "for i in range({many}):\n{indent}    total = total * 0.5 + i"
START = "import torch\nw = torch.ones(3, requires_grad=True)\ntotal = 0.0\n"
END = "h = w.exp()\nn = h.detach().numpy()\nn[0] = 5\nh.sum().backward()\n"
PROGRAMS = {
    "at the top": START + LOOP.format(many=4000, indent="") + "\n" + END,
    "in each step": START + "for step in range(2):\n    " + LOOP.format(many=3000, indent="    ") + "\n"
    + "".join(f"    {line}\n" for line in END.splitlines()),
    "in a function": START + "def prepare(total):\n    " + LOOP.format(many=4000, indent="    ")
    + "\n    return total\nprepare(total)\n" + END,
    "in a generator": START + "def numbers(total):\n    " + LOOP.format(many=4000, indent="    ")
    + "\n        yield total\nfor number in numbers(total):\n    pass\n" + END,
    "in a hook": START + "def slow(gradient, total=0.0):\n    " + LOOP.format(many=4000, indent="    ")
    + "\nk = w * 2\nk.register_hook(slow)\nk.sum().backward()\nw.grad = None\n" + END,
    "in a thread": START + "import threading\ndef prepare(total=0.0):\n    " + LOOP.format(many=1500, indent="    ")
    + "\nthread = threading.Thread(target=prepare)\nthread.start()\nthread.join()\n" + END,
    "in an imported file": "import sys\nsys.path.insert(0, {folder!r})\nimport preparing\n" + START
    + "preparing.prepare(total)\n" + END,
    **{name: START + LOOP.format(many=4000, indent="") + "\nimport numpy\nn = numpy.ones(3, 'float32')\n"
    + f"h = w * torch.{name}\nn[0] = 5\ni = 1\nh.sum().backward()\n"
    for name in ("from_numpy(n)", "frombuffer(n, dtype=torch.float32)")},
}  # fmt: skip


@pytest.mark.parametrize("place", PROGRAMS)
def test_a_numpy_write_after_much_python_is_named(place, tmp_path):
    """The gradient of plain PyTorch differs from exp(w), and the harmful line is that of the NumPy write."""
    text = LOOP.format(many=4000, indent="    ")
    (tmp_path / "preparing.py").write_text(f"def prepare(total):\n    {text}\n    return total\n")
    source = PROGRAMS[place].replace("{folder!r}", repr(str(tmp_path)))
    names: dict = {}
    exec(compile(source, "<plain>", "exec"), names)
    assert names["w"].grad[0].item() != pytest.approx(names["w"].detach().exp()[0].item())
    verdict = record(source).verdict
    assert ("silently-wrong", ["n[0] = 5"]) == (
        verdict.outcome, list(dict.fromkeys(place.text for place in verdict.harms[0].mutated_at)),
    )  # fmt: skip


def test_an_alias_that_was_made_without_a_call_is_known():
    """Names that are bound in statements which are not looked at are read at the next look."""
    source = (
        START
        + LOOP.format(many=4000, indent="")
        + "\nh = w.exp()\nfor i in range(99):\n    k = h\nk += 1\nh.sum().backward()\n"
    )
    verdict = record(source).verdict
    assert ("raises-backward", ["k += 1"]) == (verdict.outcome, [place.text for place in verdict.harms[0].mutated_at])


def test_a_scripted_function_is_looked_at(tmp_path):
    """Function modes do not receive its calls, so each of its statements is observed."""
    script = "@torch.jit.script\ndef grow(x: torch.Tensor):\n    x.add_(1)\n"
    source = (
        START
        + script
        + LOOP.format(many=2500, indent="")
        + "\nh = w.exp()\ni = 1\ngrow(h)\ni = 2\nh.sum().backward()\n"
    )
    (tmp_path / "scripted.py").write_text(source)
    found = json.loads(autograder("explain", "scripted.py", "--json", "--no-repair", cwd=tmp_path).stdout)
    assert ("raises-backward", "grow(h)") == (found["outcome"], found["harms"][0]["mutated_at"][0]["text"])


def test_statements_without_pytorch_are_not_looked_at(tmp_path):
    """Of 200,000 such statements, all but the first are skipped, and a note says so."""
    source = START + LOOP.format(many=100_000, indent="") + "\nh = w.exp()\nh += 1\nh.sum().backward()\n"
    (tmp_path / "long.py").write_text(source)
    found = json.loads(autograder("explain", "long.py", "--json", "--no-repair", cwd=tmp_path).stdout)
    assert ("raises-backward", "h += 1") == (found["outcome"], found["harms"][0]["mutated_at"][0]["text"])
    assert any("not listed" in note for note in found["notes"])


@pytest.mark.parametrize(("mode", "number"), [("enable_grad", "1"), ("no_grad", "(w * 2)[0].item()")])
def test_a_line_apart_from_every_graph_is_counted(mode, number):
    """Only its first rounds are listed, although it reads a size; the kind of line is named where a graph saved the tensor."""
    source = (
        "import torch\nN = torch.zeros(3, 3)\nw = torch.ones(3, requires_grad=True)\n"
        f"with torch.{mode}():\n    for i in range(4000):\n        N[i % len(N), 0] += {number}\n"
        "k = N @ w\nfor i in range(300):\n    N[0, 1] += 1\nk.sum().backward()\n"
    )
    # In a process of its own: after other tests, a living NumPy array may share memory with a tensor.
    imports = "import sys; from autograder.tape import record; from autograder.tape.recording.schema import to_json"
    code = f"{imports}; print(to_json(record(sys.argv[1])))"
    done = subprocess.run([sys.executable, "-c", code, source], capture_output=True, text=True, check=True)
    recording = from_json(done.stdout)
    harm = recording.verdict.harms[0]
    assert ("raises-backward", {"N[0, 1] += 1"}) == (
        recording.verdict.outcome,
        {place.text for place in harm.mutated_at},
    )
    assert sum(step.place.line == 6 for step in recording.steps) < ALWAYS_CHECKED
    assert any("not listed" in note for note in recording.verdict.notes)
