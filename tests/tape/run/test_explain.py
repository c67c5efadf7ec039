"""The entry points: a file or one function, the JSON object, one sentence if it cannot be run, and programs of real size."""

import importlib
import json
import multiprocessing
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

import autograder
from autograder.tape import ProgramError, explain_json, record, record_file
from autograder.tape.recording.verdict_types import OUTCOMES
from autograder.tape.run.programs.source_text import is_own_file
from tests.tape.modules import MODULES

BUG = """
import torch

def make():
    torch.manual_seed(3)
    return torch.randn(3, requires_grad=True), torch.ones(3)

def run():
    w, x = make()
    h = (w * x).exp()
    h.data.mul_(2)
    h.sum().backward()
    return {"w": w.grad}

def given(w, x):
    return {"w": torch.autograd.grad((w * x).sum(), w)[0]}

class Trainer:
    @staticmethod
    def step():
        w, x = make()
        (w * x).sum().backward()
        return {"w": w.grad}
"""


@pytest.fixture
def bug(tmp_path):
    """A module with make() and run(), as in a bug report."""
    file = tmp_path / "bug.py"
    file.write_text(BUG)
    return file


def test_json_is_exactly_the_object_of_the_contract(bug):
    """Every field of the contract, no other, and it survives json."""
    told = explain_json(record_file(bug, "run"), "bug.py")

    promised = {"version", "file", "outcome", "error", "harms", "gradients", "notes", "fixes"}
    assert promised | {"checks", "graph_faults", "runs", "excerpt", "messages"} == set(told)
    assert (1, "bug.py", "silently-wrong", None) == (told["version"], told["file"], told["outcome"], told["error"])
    harm = told["harms"][0]
    fields = "tensor mutated_at through saved_at saved_by saved_version version_now bytes_changed kind explanation"
    assert set(fields.split()) == set(harm)
    assert [{"file": str(bug), "line": 11, "text": "h.data.mul_(2)"}] == harm["mutated_at"]
    assert {"got", "true", "off"} <= set(told["gradients"]["w"])
    assert told == json.loads(json.dumps(told, allow_nan=False))


def test_an_error_has_type_message_and_line(tmp_path):
    """The line is the innermost of the user's own file."""
    file = tmp_path / "leaf.py"
    file.write_text("import torch\ndef f(w):\n    w.mul_(2)\nf(torch.ones(2, requires_grad=True))\n")

    told = explain_json(record_file(file), "leaf.py")

    assert "raises-forward" == told["outcome"]
    assert ("RuntimeError", 3) == (told["error"]["type"], told["error"]["line"])
    assert "a leaf Variable that requires grad" in told["error"]["message"]


@pytest.mark.parametrize("function", ["run", "given", "Trainer.step"])
def test_a_function_runs_as_it_is(bug, function):
    """Without arguments, with the result of make(), or as a method: the gradients are its return value."""
    verdict = record_file(bug, function).verdict

    assert ["w"] == list(verdict.gradients)
    assert ("silently-wrong" if function == "run" else "correct") == verdict.outcome


def test_a_module_that_runs_nothing_has_its_run_called(bug):
    """If no function is named and the script does not call backward, run() is called."""
    assert "silently-wrong" == record_file(bug).verdict.outcome


def test_a_script_runs_as_main(tmp_path):
    """`if __name__ == "__main__"` holds, a neighbor can be imported and followed, and is forgotten afterwards."""
    (tmp_path / "neighbour_of_bug.py").write_text("def double(h):\n    h.mul_(2)\n")
    file = tmp_path / "script.py"
    file.write_text(
        textwrap.dedent(
            """
            import torch
            from neighbour_of_bug import double
            if __name__ == "__main__":
                h = torch.ones(2, requires_grad=True).exp()
                double(h)
                h.sum().backward()
            """
        )
    )

    recording = record_file(file)

    assert "raises-backward" == recording.verdict.outcome
    place = recording.verdict.harms[0].mutated_at[0]
    assert ("neighbour_of_bug.py", 2) == (place.file.rpartition("/")[2], place.line)
    assert ["script.py", "neighbour_of_bug.py"] == [one.file.rpartition("/")[2] for one in recording.programs]
    assert "neighbour_of_bug" not in sys.modules


@pytest.mark.parametrize("has_init", [True, False])
def test_a_folder_without_an_init_file_can_be_imported_in_each_run(tmp_path, monkeypatch, has_init):
    """A namespace package is forgotten with its parent, also if the path of modules is relative."""
    part = tmp_path / "outermost_of_bug" / "part"
    part.mkdir(parents=True)
    if has_init:
        (tmp_path / "outermost_of_bug/__init__.py").write_text("")
    (part / "numbers_of_bug.py").write_text("TWO = 2\n")
    (part / "bug.py").write_text(
        "import sys\nsys.path.append('../..')\nfrom outermost_of_bug.part.numbers_of_bug import TWO\nimport torch\n"
        "w = torch.ones(2, requires_grad=True)\n(w * TWO).sum().backward()\n"
    )
    monkeypatch.chdir(part)

    found = autograder.explain(Path("bug.py"))

    assert ("correct", [2.0, 2.0]) == (found.outcome, found.gradients["w"].got)
    assert not [note for note in found.notes if "differ" in note]
    assert not [name for name in sys.modules if name.startswith("outermost_of_bug")]


@pytest.mark.parametrize("name", ["secrets", "uuid", "statistics", "random", "msgspec", "rich"])
def test_a_neighbour_named_like_a_module_that_is_imported_already_comes_first(tmp_path, name):
    """As in Python, a file next to the script comes before the standard library and packages, which are restored afterwards."""
    importlib.import_module(name)
    before = {key: module for key, module in sys.modules.items() if key.partition(".")[0] == name}
    (tmp_path / f"{name}.py").write_text("def double(h):\n    h.mul_(2)\n")
    file = tmp_path / "script.py"
    file.write_text(
        f"import torch\nimport {name} as mine\nh = torch.ones(2, requires_grad=True).exp()\n"
        "mine.double(h)\nh.sum().backward()\n"
    )

    recording = record_file(file)

    assert [f"{name}.py"] == [harm.mutated_at[0].file.rpartition("/")[2] for harm in recording.verdict.harms]
    assert before == {key: module for key, module in sys.modules.items() if key.partition(".")[0] == name}


@pytest.mark.parametrize(("source", "function", "said"), [
    pytest.param("x = (", None, "is not Python", id="a syntax error"),
    pytest.param("x = 1\0", None, "null bytes. Save it as plain text.", id="a null byte"),
    pytest.param("import no_such_module_here", None, "cannot be imported", id="a missing import"),
    pytest.param("1 / 0", "run", "cannot be imported", id="an error while importing"),
    pytest.param("def walk(): pass", "run", "has no function run; it has walk", id="no such function"),
    pytest.param("def run(x): pass", "run", "needs x", id="an argument nobody gives"),
    pytest.param("input('name? ')", None, "reads input", id="reads input"),
    pytest.param("import sys\nsys.exit(3)", None, "exited with 3", id="exits"),
    pytest.param("import torch\ntorch.empty(10**15)", None, "more memory", id="memory"),
    pytest.param("import torch\ntorch.ones(2, device='cuda')", None, "device", id="a device that is not here"),
])  # fmt: skip
def test_what_cannot_be_run_is_said_in_one_sentence(tmp_path, source, function, said):
    """One line with the problem and a solution."""
    file = tmp_path / "broken.py"
    file.write_text(source)

    with pytest.raises(ProgramError, match=said) as raised:
        record_file(file, function)

    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith(".")


def test_a_missing_file_is_said(tmp_path):
    """So is a file that is not there."""
    with pytest.raises(ProgramError, match="cannot be read"):
        record_file(tmp_path / "none.py")


def test_a_program_without_end_is_cut_off(tmp_path):
    """After the limit there is one sentence, and the analysis of the first seconds."""
    file = tmp_path / "forever.py"
    file.write_text("import torch\nw = torch.ones(2, requires_grad=True)\nwhile True:\n    w = w * 1.0\n")

    with pytest.raises(ProgramError, match="still running after 0.2 seconds") as raised:
        record_file(file, seconds=0.2)

    recording = raised.value.recording
    assert recording.steps
    assert recording.verdict.outcome in OUTCOMES


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the very loss that is tested
@pytest.mark.timeout(60)
def test_an_end_that_python_drops_is_called_for_again(tmp_path):
    """A signal's exception in a weak reference's callback is lost; a program that is often in one ends nevertheless."""
    file = tmp_path / "callbacks.py"
    file.write_text(
        "import weakref\n"
        "class Thing:\n    pass\n"
        "def slow(_):\n    sum(range(20_000))\n"
        "while True:\n    sum(range(10_000))\n    thing = Thing()\n    kept = weakref.ref(thing, slow)\n    del thing\n"
    )

    with pytest.raises(ProgramError, match="still running after 0.2 seconds"):
        record_file(file, seconds=0.2)


def test_leaving_with_status_0_is_an_ordinary_end(tmp_path):
    """`sys.exit(0)` ends a script that has done its work."""
    file = tmp_path / "leaves.py"
    file.write_text("import sys, torch\nw = torch.ones(2, requires_grad=True)\n(w * w).sum().backward()\nsys.exit(0)\n")

    assert "correct" == record_file(file).verdict.outcome


@pytest.mark.parametrize(("write", "outcome"), [("y * 2", "correct"), ("y.data.mul_(2)", "silently-wrong")])
def test_an_exit_with_an_error_after_a_backward_call_is_said_and_the_gradients_are_compared(tmp_path, write, outcome):
    """A script may end with `sys.exit("Loss is nan")` and status 1; the gradients before it are compared."""
    file = tmp_path / "leaves.py"
    file.write_text(
        "import sys, torch\nw = torch.ones(2, requires_grad=True)\ny = w.exp()\n"
        f"{write}\ny.sum().backward()\nsys.exit('Loss is nan')\n"
    )

    recording = record_file(file)
    verdict = recording.verdict

    assert outcome == verdict.outcome
    assert "Line 6: the program exits here with: Loss is nan." in verdict.notes


def test_threads_are_said():
    """Threads are not followed, and a note says so."""
    source = (
        "import threading, torch\nw = torch.ones(2, requires_grad=True)\ndef f():\n    w * 2\n"
        "t = threading.Thread(target=f)\nt.start()\nt.join()\n(w * w).sum().backward()"
    )

    assert any("threads" in note for note in record(source).verdict.notes)


def test_nothing_global_is_left_changed():
    """Generators, default dtype, grad mode, arguments and path are as before."""
    import random

    import torch

    source = (
        "import random, sys, torch\ntorch.manual_seed(1)\nrandom.seed(1)\ntorch.set_default_dtype(torch.float64)\n"
        "torch.set_grad_enabled(False)\nsys.argv.append('x')\nsys.path.append('y')\ntorch.autograd.set_detect_anomaly(True)\n"
        "torch.__future__.set_swap_module_params_on_conversion(True)\ntorch.set_float32_matmul_precision('medium')\n"
    )

    def world():
        numbers = torch.get_rng_state().tolist(), random.getstate()
        modes = torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_anomaly_enabled()
        kept = torch.__future__.get_swap_module_params_on_conversion(), torch.get_float32_matmul_precision()
        return numbers, modes, kept, sys.argv[:], sys.path[:]

    before = world()

    record(source)

    assert before == world()


@pytest.mark.parametrize("once", [
    "library = torch.library.Library('once_only', 'DEF')\nlibrary.define('double(Tensor x) -> Tensor')\n"
    "library.impl('double', lambda x: 2 * x, 'CompositeImplicitAutograd')\ndouble = torch.ops.once_only.double\n",
    "torch.library.define('once_defined::double', '(Tensor x) -> Tensor')\n"
    "torch.library.impl('once_defined::double', 'CompositeImplicitAutograd')(lambda x: 2 * x)\n"
    "double = torch.ops.once_defined.double\n",
    "torch.multiprocessing.set_start_method('spawn')\ndouble = lambda x: 2 * x\n",
    "torch.set_num_interop_threads(1)\ndouble = lambda x: 2 * x\n",
])  # fmt: skip
def test_a_call_that_a_process_accepts_once_works_in_each_run(tmp_path, monkeypatch, once):
    """A program that registers an operator, or sets the start method, is compared; the derivative is by hand."""
    monkeypatch.setattr(multiprocessing.context._default_context, "_actual_context", None)  # as in a new process
    file = tmp_path / "program.py"
    file.write_text(f"import torch\n{once}w = torch.ones(3, requires_grad=True)\ndouble(w).pow(2).sum().backward()\n")
    explanation = explain_json(record_file(file), str(file))
    assert "correct" == explanation["outcome"]
    assert [8.0, 8.0, 8.0] == explanation["gradients"]["w"]["got"]


def test_parameters_in_the_global_store_of_a_library_are_made_in_each_run(monkeypatch):
    """Pyro's store outlives a run, so the next one would begin with trained parameters; the module here has its functions."""
    pyro, store = types.ModuleType("pyro"), {}
    pyro.get_param_store, pyro.clear_param_store = lambda: store, store.clear
    monkeypatch.setitem(sys.modules, "pyro", pyro)
    source = (
        "import pyro, torch\nw = pyro.get_param_store().setdefault('w', torch.ones(2, requires_grad=True))\n"
        "w.pow(2).sum().backward()\nwith torch.no_grad(): w -= 0.1 * w.grad\n"
    )
    verdict = record(source).verdict
    assert ("correct", {}) == (verdict.outcome, store)


def test_a_module_may_set_an_attribute_before_its_parameters():
    """Setting `requires_grad` before `super().__init__()` is legal in PyTorch; the observed run reaches backward, too."""
    source = (
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self):\n        self.requires_grad = True\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(2, 1)\nNet().layer(torch.ones(3, 2)).sum().backward()\n"
    )
    assert {"passed"} == {step.status for step in record(source).backward}


def test_what_a_program_prints_stays_inside(capfd):
    """Standard output belongs to the caller alone."""
    record("import sys\nprint('out')\nprint('err', file=sys.stderr)\nimport warnings\nwarnings.warn('w')")

    assert ("", "") == tuple(capfd.readouterr())


def test_importing_loads_no_torch():
    """The package and the Recording load without torch; the last module shows that the test detects it."""
    modules = (
        "autograder.tape.recording.schema", "autograder.tape", "autograder", "autograder.view", "autograder.check",
        "autograder.course.lab", "autograder.classroom.collect.collection", "autograder.tape.explain",
    )  # fmt: skip
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name); print(name, 'torch' in sys.modules)"
    loads = "".join(f"{name} {name == modules[-1]}\n" for name in modules)

    assert loads == subprocess.check_output([sys.executable, "-c", code, *modules], text=True)


def test_no_file_of_this_package_counts_as_the_users(tmp_path):
    """Calls of this package are not shown as the program's own lines; oracle: the folder from which Python imports the package."""
    file = tmp_path / "train.py"
    file.write_text("")
    ours = [*Path(autograder.__file__).parent.rglob("*.py")]

    assert [] == [name for name in ours if is_own_file(str(name))]
    assert is_own_file(str(file))


@pytest.mark.parametrize("name", MODULES)
def test_a_correct_program_has_no_blamed_line(name):
    """Layers of libraries, hooks, and writes in place that look like faults are called correct."""
    verdict = record(MODULES[name], file=f"{name}.py", function="run").verdict
    assert ("correct", ()) == (verdict.outcome, verdict.harms)
