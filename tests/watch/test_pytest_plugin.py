"""`autograd_guard`: a fixture and a marker that fail a test with the sentence."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest, torch

def exponential():
    return torch.ones(3, requires_grad=True).exp()

def silent():
    h = exponential()
    h.data.mul_(2)
    h.sum().backward()

def loud():
    h = exponential()
    h.mul_(2)
    h.sum().backward()

def test_unguarded():
    silent()

def test_fixture(autograd_guard):
    silent()

@pytest.mark.autograd_guard
def test_marker():
    silent()

@pytest.mark.autograd_guard(check="versions")
def test_versions_do_not_look_at_bytes():
    silent()

@pytest.mark.autograd_guard
def test_refused():
    loud()

@pytest.mark.autograd_guard
def test_meant():
    with pytest.raises(RuntimeError):
        loud()

@pytest.mark.autograd_guard
class TestRight:
    def test_right(self):
        (exponential() * 2).sum().backward()
"""


def run(folder: Path, *words: str) -> str:
    """Return pytest's output for TESTS."""
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "autograder.pytest_plugin", *words]
    # Where the package is installed, its entry point would register the plugin a second time.
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone).stdout


def test_a_guarded_test_fails_with_the_sentence(tmp_path):
    """An unnoticed wrong gradient fails the test; a refusal has an explanation with its error; intended writes pass."""
    text = run(tmp_path, "-q", "-rA", "--strict-markers", "-W", "error")
    ended = {
        line.split("::")[-1].split(" ")[0]: line.split(" ")[0] for line in text.splitlines() if "test_it.py::" in line
    }
    wrong = {"test_fixture", "test_marker", "test_refused"}
    assert {name: "FAILED" if name in wrong else "PASSED" for name in ended} == ended
    assert 7 == len(ended)
    assert "h, which backward needs, was written through h.data at test_it.py, line 9: h.data.mul_(2)." in text
    assert "was written at test_it.py, line 14: h.mul_(2)." in text


def test_the_plugin_costs_nothing_where_it_is_not_used(tmp_path):
    """pytest loads it in every project of the environment, so it loads no torch."""
    code = "import sys, autograder.pytest_plugin; print('torch' in sys.modules)"
    assert "False\n" == subprocess.check_output([sys.executable, "-c", code], text=True)
    assert "autograd_guard" in run(tmp_path, "--markers")
