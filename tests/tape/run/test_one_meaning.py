"""`explain` means the same as a command, a function and a cell magic: the same outcome, harms and proven repairs."""

import functools
import json
import math
import subprocess
import sys
import textwrap

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import autograder
from autograder.errors import AutograderError, InputError, UnfinishedError
from autograder.tape import ProgramError
from autograder.tape.recording.schema import from_json
from autograder.tape.repair.trial.program_factory import LiveFunctions

TEXTS = {
    "saved result": "w = torch.tensor([1.0, 2.0], requires_grad=True)\nh = w.exp()\nh += 1\nh.sum().backward()\n",
    "alias": "w = torch.tensor([1.0, 2.0], requires_grad=True)\nd = w * 1\ny = (d * d).sum()\nd.data[0] = 9\ny.backward()\n",
    "leaf": "w = torch.tensor([1.0, 2.0], requires_grad=True)\nw += 1\n(w * w).sum().backward()\n",
}


def by_command(text, folder):
    """The file on the command line."""
    file = folder / "bug.py"
    file.write_text(f"import torch\n{text}")
    done = subprocess.run(
        [sys.executable, "-m", "autograder", "explain", str(file), "--json"], capture_output=True, text=True
    )
    told = json.loads(done.stdout)
    return told["outcome"], [harm["kind"] for harm in told["harms"]], fixes_of(told["fixes"])


def by_function(text, folder):
    """The same lines as the body of a function in a module."""
    file = folder / "with_function.py"
    file.write_text(f"import torch\n\n\ndef run():\n{textwrap.indent(text, '    ')}")
    names: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return told_by(autograder.explain(names["run"]))


def by_magic(text, _folder):
    """The same lines as a cell, whose names the repairs leave alone."""
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "autograder")
    shell.run_cell("import torch")
    shell.run_cell_magic("explain", "found", text)
    return told_by(shell.user_ns["found"])


def by_text(text, _folder):
    """The text itself."""
    return told_by(autograder.explain(f"import torch\n{text}"))


def told_by(explanation):
    """Return the parts of an explanation without line numbers."""
    fixes = [{"kind": fix.kind, "before": fix.before, "after": fix.after} for fix in explanation.fixes]
    return explanation.outcome, [harm.kind for harm in explanation.harms], fixes_of(fixes)


def fixes_of(fixes):
    """Each fix without the indentation that its place in the text gives it."""
    return [(fix["kind"], textwrap.dedent(fix["before"]), textwrap.dedent(fix["after"])) for fix in fixes]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_every_way_gives_the_same(text, tmp_path, monkeypatch):
    """The command, a function, a cell and a text: one outcome, the same kinds of harm, the same fixes in the same order."""
    monkeypatch.setattr("autograder.view.show", lambda *_: None)

    told = {way.__name__: way(text, tmp_path) for way in (by_command, by_function, by_magic, by_text)}

    assert told["by_command"][2]
    assert {name: told["by_command"] for name in told} == told


def test_a_function_is_repaired_with_its_helper_closure_and_decorator(tmp_path):
    """The fault may be in another function of the file; a closure and a decorator are kept, and all changes are undone."""
    names = defined(
        tmp_path,
        """
        import torch
        from functools import wraps

        def logged(f):
            @wraps(f)
            def inner(*args):
                return f(*args)
            return inner

        def shift(h):
            h += 1
            return h

        def make(scale):
            @logged
            def run():
                w = torch.tensor([1.0, 2.0], requires_grad=True)
                shift((w * scale).exp()).sum().backward()
                return {"w": w.grad}
            return run
        """,
    )
    run, codes = names["make"](2.0), names["shift"].__code__

    explanation = autograder.explain(run)

    assert "raises-backward" == explanation.outcome
    assert any("h = h + 1" in fix.after for fix in explanation.fixes), explanation.notes
    assert codes is names["shift"].__code__
    with pytest.raises(RuntimeError, match="inplace"):
        run()


def test_a_method_and_an_argument_given_by_name(tmp_path):
    """A bound method is repaired in its class; what is given by name is copied for each run."""
    names = defined(
        tmp_path,
        """
        class Step:
            def loss(self, w):
                h = w.exp()
                h.mul_(2)
                h.sum().backward()
        """,
    )
    w = torch.tensor([1.0], requires_grad=True)

    explanation = autograder.explain(names["Step"]().loss, w=w)

    assert any("h = h.mul(2)" in fix.after for fix in explanation.fixes), explanation.notes
    assert w.grad is None


def test_where_no_text_can_be_changed_a_note_says_so(tmp_path):
    """A function without a source, and a fault outside of any function, which has already run: a sentence, no silence."""
    names: dict = {"torch": torch}
    exec("def run():\n    h = torch.ones(2, requires_grad=True).exp()\n    h += 1\n    h.sum().backward()\n", names)
    explanation = autograder.explain(names["run"])
    assert ("raises-backward", ()) == (explanation.outcome, explanation.fixes)
    assert any("the source text of run cannot be read" in note for note in explanation.notes)


@pytest.mark.parametrize(("old", "new", "said"), [
    pytest.param("SCALE = 2", "SCALE = 3", "outside of the functions", id="a module's own line"),
    pytest.param("scale=1", "scale=2", "outside of the functions", id="a default"),
    pytest.param("return x * scale", "return y * scale", "close over other names", id="another closure"),
])  # fmt: skip
def test_a_change_that_a_live_function_cannot_take_is_refused(tmp_path, old, new, said):
    """It is not run partly changed: a ProgramError is raised, and the function still works as before."""
    text = "SCALE = 2\ndef outer(x, y, scale=1):\n    def inner():\n        return x * scale\n    return inner\n"
    file = tmp_path / "live.py"
    file.write_text(text)
    names: dict = {}
    exec(compile(text, str(file), "exec"), names)
    inner = names["outer"](3, 4)
    live = LiveFunctions(text, str(file))

    with pytest.raises(ProgramError, match=said), live.running(text.replace(old, new)):
        pass

    assert 3 == inner()


@pytest.mark.parametrize(
    "program",
    [pytest.param(torch.nn.Linear(1, 1), id="a module"), pytest.param(functools.partial(print), id="partial")],
)
def test_what_has_no_code_is_one_sentence(program):
    """Something that can be called but not followed is refused with what to give instead."""
    with pytest.raises(AutograderError, match="has no code to follow. Give a function"):
        autograder.explain(program)


def test_repairs_of_a_cell_leave_its_names_as_the_cell_left_them(monkeypatch):
    """Values, versions, gradients, containers and the random generator: with repairs as without."""
    monkeypatch.setattr("autograder.view.show", lambda *_: None)
    cell = "log.append(1)\nnoise = torch.rand(2)\nh = (w * noise).exp()\nh.data.mul_(2)\nh.sum().backward()\n"
    state = "(log, noise.tolist(), h.tolist(), h._version, w.grad.tolist(), w._version, torch.rand(1).item())"
    seen = []
    for option in ("--no-repair found", "found"):
        shell = InteractiveShell()
        shell.run_line_magic("load_ext", "autograder")
        shell.run_cell("import torch\ntorch.manual_seed(5)\nw = torch.ones(2, requires_grad=True)\nlog = []")
        shell.run_cell_magic("explain", option, cell)
        seen.append((shell.user_ns["found"].fixes, eval(state, shell.user_ns)))

    (no_fixes, without), (fixes, with_repairs) = seen
    assert () == no_fixes
    assert fixes
    assert without == with_repairs


def test_a_cell_that_continues_another_cells_graph_is_not_tried(monkeypatch):
    """A trial would free the graph that the notebook still uses: a note says so, and the graph can still be used."""
    monkeypatch.setattr("autograder.view.show", lambda *_: None)
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "autograder")
    shell.run_cell("import torch\nw = torch.ones(2, requires_grad=True)\na = w.exp()\nb = w.exp()")
    shell.run_cell_magic("explain", "found", "a.mul_(2)\na.sum().backward()")
    shell.run_cell("b.sum().backward()")

    assert "raises-backward" == shell.user_ns["found"].outcome
    assert any("a has a graph from another cell" in note for note in shell.user_ns["found"].notes)
    assert pytest.approx([math.e, math.e]) == shell.user_ns["w"].grad.tolist()


def test_a_cell_that_runs_twice_is_repaired_twice(monkeypatch):
    """Names that the cell itself binds before reading them do not belong to another cell's graph."""
    monkeypatch.setattr("autograder.view.show", lambda *_: None)
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "autograder")
    shell.run_cell("import torch\nw = torch.ones(2, requires_grad=True)")
    for _ in range(2):
        shell.run_cell_magic("explain", "found", "h = w.exp()\nh += 1\nh.sum().backward()")
        assert shell.user_ns.pop("found").fixes


def test_an_unknown_option_of_the_magic_is_one_sentence():
    """The cell is not run."""
    shell = InteractiveShell()
    shell.run_line_magic("load_ext", "autograder")
    with pytest.raises(InputError, match=r"Write %%explain \[--no-repair\] \[NAME\]"):
        shell.run_cell_magic("explain", "--fast", "x = 1")
    assert "x" not in shell.user_ns


def test_save_writes_what_the_suffix_says(tmp_path):
    """A page, a picture, or the recording, which can be read again; any other suffix is refused and nothing is written."""
    explanation = autograder.explain("import torch\nw = torch.ones(1, requires_grad=True)\n(w * w).sum().backward()")

    for name in ("out.html", "out.svg", "out.json"):
        explanation.save(tmp_path / name)

    assert "<html" in (tmp_path / "out.html").read_text()[:200].lower()
    assert (tmp_path / "out.svg").read_text().startswith("<svg")
    assert explanation.recording == from_json((tmp_path / "out.json").read_text())
    with pytest.raises(InputError, match=r"out\.png does not have a known suffix. Use one of \.html, \.svg, \.json\.$"):
        explanation.save(tmp_path / "out.png")
    with pytest.raises(UnfinishedError, match="cannot be written: No such file"):
        explanation.save(tmp_path / "no" / "out.html")
    assert 3 == len(list(tmp_path.iterdir()))


def defined(folder, text):
    """Return the names that a module's text defines, as an import would."""
    file = folder / "module.py"
    file.write_text(textwrap.dedent(text).lstrip())
    names: dict = {"__name__": "module"}
    exec(compile(file.read_text(), str(file), "exec"), names)
    return names
