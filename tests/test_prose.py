"""The form of a commit's subject."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commit_subject import fault

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("subject", "is_good"), [
    ("explain: compare second derivatives before calling gradients right", True),
    ("docs, tests: pass the address", True),
    ("Merge branch 'main'", True),
    ("The changelog has the day", False),
    ("docs: updated the changelog", False),
    ("docs: updates the changelog", False),
    ("docs: updating the changelog", False),
    ("explain: " + "x" * 64, False),
    ("wip", False),
])  # fmt: skip
def test_a_subject_names_the_area_and_the_change(subject, is_good, tmp_path):
    """The hook accepts `area: verb object` in 72 characters, and explains why it rejects anything else."""
    assert is_good == (not fault(subject))
    message = tmp_path / "message"
    message.write_text(f"# a comment of git\n{subject}\n\nA body.\n", "utf-8")
    command = [sys.executable, "-m", "tests.commit_subject", str(message)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (0 if is_good else 1, is_good) == (done.returncode, not done.stderr)
