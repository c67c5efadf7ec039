"""The language rules that a machine can check: three patterns in strings of the package, and the subject of a commit."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commit_subject import fault

ROOT = Path(__file__).resolve().parents[1]
PATTERNS = {
    "name the value that is returned": re.compile(r"^Returns? what", re.M),
    "write 'is not a'": re.compile(r"(?<![Tt]here) is no (?!longer)"),
    "name the case": re.compile(r"\bnone\.$", re.M),
}


def breaches(source: str) -> list[str]:
    """Return the advice for each pattern in the strings of a Python text, docstrings included."""
    strings = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)]
    texts = [text for text in strings if isinstance(text, str)]
    return [advice for text in texts for advice, pattern in PATTERNS.items() for _ in pattern.finditer(text)]


def test_docstrings_and_messages_follow_the_patterns():
    """Docstrings and messages of the package do not contain riddles such as "Returns what …" and "is no …"."""
    texts = {str(file): file.read_text("utf-8") for file in (ROOT / "autograder").rglob("*.py")}
    assert {} == {file: found for file, text in texts.items() if (found := breaches(text))}


@pytest.mark.parametrize(
    ("subject", "is_good"),
    [
        ("explain: compare second derivatives before calling gradients right", True),
        ("docs, tests: pass the address", True),
        ("Merge branch 'main'", True),
        ("The changelog has the day", False),
        ("docs: updated the changelog", False),
        ("docs: updates the changelog", False),
        ("docs: updating the changelog", False),
        ("explain: " + "x" * 64, False),
        ("wip", False),
    ],
)
def test_a_subject_names_the_area_and_the_change(subject, is_good, tmp_path):
    """The hook accepts `area: verb object` in 72 characters, and explains why it rejects anything else."""
    assert is_good == (not fault(subject))
    message = tmp_path / "message"
    message.write_text(f"# a comment of git\n{subject}\n\nA body.\n", "utf-8")
    command = [sys.executable, "-m", "tests.commit_subject", str(message)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (0 if is_good else 1, is_good) == (done.returncode, not done.stderr)
