"""Repairs of programs in several files: found and written in the harmful file, and tested to train like the correct version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.tape.recording.verdict_types import Fix
from autograder.tape.repair.trial.program_factory import changed_imports, factory_of_file, factory_of_module
from autograder.tape.repair.with_repairs import explain_program
from autograder.tape.run.programs.command_line import CommandLine
from tests.commands import autograder
from tests.corpus.script_runs import in_child, run_script, same_training
from tests.corpus.whole_scripts import Script, scripts

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


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("speech_tagger", {"layers.py"}),
        ("world_model", {"imagine.py"}),
        ("image_trainer", {"image_trainer/model.py"}),
        ("translator", {"translator/decoder.py", "translator/encoder.py"}),
    ],
)
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
    assert "Repair at line 6 of parts/start.py, write under no_grad (run: same losses and gradients" in done.stdout
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
            return value()

    assert [1, 2, 1] == [in_child(value), in_child(inside), in_child(value)]
    assert "value = 1\n" == path.read_text()
