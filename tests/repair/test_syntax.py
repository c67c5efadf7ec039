"""Repairs of odd syntax, and of programs in several files, which then train like the correct version."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.tape.explain import explain_program, prove, record
from autograder.tape.recording.verdict_types import Fix
from autograder.tape.repair.code_reader import carried_names
from autograder.tape.repair.edits import EditableSource, apply_fix, as_fix
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.repair.trial.program_factory import (
    changed_imports,
    factory_of_file,
    factory_of_module,
    factory_of_text,
)
from autograder.tape.run.programs.command_line import CommandLine
from tests.commands import autograder
from tests.corpus.script_runs import in_child, run_script, same_training
from tests.corpus.whole_scripts import Script, scripts
from tests.repair.plain import flat, plain

HEAD = "import torch\nw = torch.tensor([1.0, 2.0], requires_grad=True)\n"
EXP = [2.718282, 7.389056]

ODD = {
    "tabs": ("def f(x):\n\th = x.exp()\n\tif True:\n\t\th += 1\n\treturn h\ny = f(w)\ny.sum().backward()\n", "\t\th = h + 1\n"),
    "one line": ("h = w.exp(); h += 1; y = h.sum(); y.backward()\n", "h = w.exp(); h = h + 1; y = h.sum(); y.backward()\n"),
    "inline suite": ("h = w.exp()\nif True: h += 1; y = h.sum()\ny.backward()\n", "if True: h = h + 1; y = h.sum()\n"),
    "comment at the end": ("h = w.exp()\nh += 1  # é: +=\nh.sum().backward()\n", "h = h + 1  # é: +=\n"),
    "over several lines": (
        "h = w.exp()\nh += (  # why\n    1 + 0 * 2\n)\nh.sum().backward()\n",
        "h = h + (  # why\n    1 + 0 * 2\n)\n",
    ),
    "backslash": ("h = w.exp()\nh += \\\n    1\nh.sum().backward()\n", "h = h + \\\n    1\n"),
    "weak operator": ("h = w.exp()\nh *= 1 if True else 2\nh.sum().backward()\n", "h = h * (1 if True else 2)\n"),
    "decorator and nested": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x):\n        h = x.exp()\n"
        "        h.add_(\n            f(1)  # one\n        )\n        return h\n    return inner\n"
        "@twice\ndef one(x): return x\none(w).sum().backward()\n",
        "        h = h.add(\n            f(1)  # one\n        )\n",
    ),
    "no line feed at the end": ("h = w.exp()\nh += 1\nh.sum().backward()", "h = h + 1\nh.sum().backward()"),
    "Windows line ends": ("h = w.exp()\r\nh += 1\r\nh.sum().backward()\r\n", "h = h + 1\r\n"),
    "another alphabet": ("höhe = w.exp()\nx = 'ü'; höhe += 1\nhöhe.sum().backward()\n", "x = 'ü'; höhe = höhe + 1\n"),
    "a string over lines": ('h = w.exp()\ns = """a\n  h += 1\n"""\nh += 1\nh.sum().backward()\n', '  h += 1\n"""\nh = h + 1\n'),
}  # fmt: skip


def test_warnings_of_the_compiler_are_not_printed(recwarn: pytest.WarningsRecorder):
    """Each run and each change would print those of the whole program again."""
    source = f"{HEAD}h = w.exp()\nif w is 'w': h = None\nh += 1\nh.sum().backward()\n"
    assert explain_program(factory_of_text(source)).verdict.fixes
    assert not recwarn.list


@pytest.mark.parametrize("name", ODD)
def test_odd_syntax_is_rewritten_without_damage(name):
    """The write changes, every other byte stays, and the result computes the right gradient."""
    body, after = ODD[name]
    source = HEAD + body
    found = find_repairs(factory_of_text(source, "odd.py"), record(source, file="odd.py").verdict, prove)
    texts = [apply_fix(source, fix) for fix in found.fixes]
    assert any(after in text for text in texts), texts
    for text in texts:
        ast.parse(text)
        assert pytest.approx(EXP, rel=1e-4) == flat(plain(text).gradients["w"])


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("a = 1; b = 2; c = 3\n", "a = 1; c = 3\n", id="between semicolons"),
    pytest.param("a = 1; b = 2\n", "a = 1\n", id="last of its line"),
    pytest.param("a = 1\nb = 2  # gone too\nc = 3\n", "a = 1\nc = 3\n", id="a line of its own"),
    pytest.param("if a:\n    b = 2\nc = 3\n", "if a:\n    pass\nc = 3\n", id="the only one of its block"),
    pytest.param("b = 2\nc = 3\n", "c = 3\n", id="the first line"),
])  # fmt: skip
def test_deletion_leaves_python(text, expected):
    """A statement is taken out with its line, or with its semicolon, or leaves `pass`."""
    source = EditableSource(text)
    gone = next(one for one in source.statements() if source.of(one) == "b = 2")
    assert expected == source.apply([source.delete(gone)])


@pytest.mark.parametrize(("text", "expected"), [
    pytest.param("a = 1\nb = 2\n", "a = 1\nwith x:\n    b = 2\n", id="a line of its own"),
    pytest.param("a = 1; b = 2; c = 3\n", "a = 1\nwith x: b = 2\nc = 3\n", id="between semicolons"),
    pytest.param("def f():\n\tb = 2\n", "def f():\n\twith x:\n\t\tb = 2\n", id="tabs"),
    pytest.param("if a: b = 2\n", "with x:\n    if a: b = 2\n", id="an inline suite of one statement"),
    pytest.param("if a: b = 2; c = 3\n", "if a: b = 2; c = 3\n", id="one of two statements has no room"),
])  # fmt: skip
def test_wrapping_leaves_python(text, expected):
    """A block is put around exactly one statement, or around the line of an inline suite."""
    source = EditableSource(text)
    inside = next(one for one in source.statements() if source.of(one) == "b = 2")
    assert expected == source.apply(source.wrap(inside, "with x:"))


LINES = st.lists(st.sampled_from(["a = 1", "    b = 2", "", "  ", "\tc", "        d()", "é"]), min_size=1, max_size=8)


@given(LINES, LINES)
def test_fix_holds_the_whole_change(before, after):
    """For any change, applying the fix to the old text gives the new one."""
    old, new = "\n".join(before), "\n".join(after)
    assert new == apply_fix(old, as_fix(old, new, "any"))


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        pytest.param("for x in data:\n    h = cell(x, h)", ["h"], id="read, then assigned"),
        pytest.param("for x in data:\n    z = noise()\n    y = net(z)\n    x = x + y", [], id="assigned, then read"),
        pytest.param("for epoch in data:\n    for x in epoch:\n        z = noise()\n        x = z", [], id="in an inner loop"),
        pytest.param("for x in data:\n    if x:\n        h = start()\n    h = cell(x, h)", ["h"], id="assigned in one branch"),
        pytest.param("for x in data:\n    if x:\n        h = a()\n    else:\n        h = b()\n    h = f(h)", [], id="in both"),
        pytest.param("while True:\n    with gate() as g:\n        self.h = g(self.h)", ["self.h"], id="an attribute"),
    ],
)  # fmt: skip
def test_a_name_is_carried_where_a_round_reads_what_the_last_one_left(body, carried):
    """Names that are assigned before they are read, and the loop's own, start afresh in each round."""
    assert carried == carried_names(ast.parse(body).body[0])


BY_NAME = {script.name: script for script in scripts()}
HELPER = "import torch\n\n\ndef spread(values):\n    h = torch.exp(values)\n    h.mul_(0.5)\n    return h\n"
MAIN = """import torch
from helper import spread
w = torch.ones(2, requires_grad=True)
for step in range(2):
    k = torch.sigmoid(w)
    k += 1
    loss = (spread(w) + k).sum()
    loss.backward()
"""


def fixes_of(script: Script, folder: Path) -> tuple[Fix, ...]:
    """Return the repairs for a script, from a process whose working directory is its folder."""
    script.write(folder)

    def found() -> tuple[Fix, ...]:
        os.chdir(folder)
        started = CommandLine(script.arguments)
        make = (
            factory_of_module(script.module, started) if script.module else factory_of_file(script.main, None, started)
        )
        return explain_program(make).verdict.fixes

    return in_child(found)


def patched(script: Script, fix: Fix, folder: Path) -> str | None:
    """Return how the training of a script with a fix from `patch` differs from its correct version; None if it does not."""
    script.write(folder)
    subprocess.run(["patch", "-p1"], input=fix.diff, text=True, cwd=folder, check=True, capture_output=True)
    return same_training(run_script(script.twin), run_script(script, folder=folder))


@pytest.mark.parametrize(("name", "files"), [
    ("speech_tagger", {"layers.py"}),
    ("world_model", {"imagine.py"}),
    ("image_trainer", {"image_trainer/model.py"}),
    ("translator", {"translator/decoder.py", "translator/encoder.py"}),
])  # fmt: skip
def test_repair_lies_in_the_files_that_do_harm(name, files, tmp_path):
    """The first repair changes the imported files, and makes the script train like its correct version."""
    script = BY_NAME[name]
    fixes = fixes_of(script, tmp_path / "asked")
    first = fixes[0]
    assert files == {one.file for one in (first, *first.more)}
    assert first.proven
    for number, fix in enumerate(fixes):
        assert not fix.proven or patched(script, fix, tmp_path / str(number)) is None


def test_one_fault_here_and_one_in_an_import(tmp_path):
    """The script's own line and the imported one are changed together; `--apply` writes both, and keeps both as they were."""
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "train.py").write_text(MAIN)
    done = autograder("explain", "train.py", "--apply", cwd=tmp_path)
    assert "helper.py.orig" in done.stderr
    assert "train.py.orig" in done.stderr
    assert HELPER == (tmp_path / "helper.py.orig").read_text()
    assert MAIN == (tmp_path / "train.py.orig").read_text()
    assert 0 == autograder("explain", "train.py", cwd=tmp_path).returncode


INITIAL = """import torch


def shift(layer):
    b = layer.bias.view(1, -1)
    b[:, 1] += 3.0
"""
BY_PATH = """import importlib.util
import torch
spec = importlib.util.spec_from_file_location("start", "parts/start.py")
start = importlib.util.module_from_spec(spec)
spec.loader.exec_module(start)
torch.manual_seed(0)
net = torch.nn.Linear(4, 3)
start.shift(net)
net(torch.ones(2, 4)).pow(2).sum().backward()
"""


def test_a_forward_that_stops_in_another_file_is_named_and_repaired_there(tmp_path):
    """The error's line is that of the file, its code is shown, and a repair is offered, also of a file that is loaded by its path."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "start.py").write_text(INITIAL)
    (tmp_path / "train.py").write_text(BY_PATH)
    done = autograder("explain", "train.py", "--apply", cwd=tmp_path)

    assert "RuntimeError at parts/start.py, line 6: a view of a leaf" in done.stdout
    assert ">    6 |     b[:, 1] += 3.0" in done.stdout
    assert "Fix for line 6 of parts/start.py: write under no_grad (tested: same losses and gradients" in done.stdout
    assert BY_PATH == (tmp_path / "train.py").read_text()
    assert 0 == subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=False).returncode


def test_a_changed_text_is_imported_only_inside(tmp_path, monkeypatch):
    """Inside, the module has the other text, whatever its compiled form says; the file itself stays as it is."""
    path = tmp_path / "module_with_a_value.py"
    path.write_text("value = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def value() -> int:
        import module_with_a_value

        return module_with_a_value.value

    def inside() -> int:
        with changed_imports({str(path): "value = 2\n"}):
            return value() + 2 * runpy.run_path(str(path))["value"]

    assert [1, 6, 1] == [in_child(value), in_child(inside), in_child(value)]
    assert "value = 1\n" == path.read_text()
