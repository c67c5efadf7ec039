"""The house rules: one-way imports, one place for versions, clean code, nothing at the top level without a reason."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROSE = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs", ".github"]

# Each room may import itself and the rooms named here.
ROOMS = {
    "tape": set(),
    "view": {"tape"},
    "check": {"tape", "view"},
    "course": {"tape", "view", "check"},
    "grade": {"tape", "view", "check", "course"},
}
BELOW = {"requirements"}  # what is installed here: any room may ask


def imports(file: Path) -> set[str]:
    """Returns the rooms of this package that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []
        found |= {name.split(".")[1] for name in names if name.startswith("autograder.")}
        if isinstance(node, ast.ImportFrom) and node.module == "autograder":
            found |= {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_one_way(room):
    """No room imports one that stands above it."""
    wrong = {
        str(file.relative_to(ROOT)): sorted(imports(file) - ROOMS[room] - BELOW - {room})
        for file in (ROOT / "autograder" / room).rglob("*.py")
        if imports(file) - ROOMS[room] - BELOW - {room}
    }
    assert {} == wrong


@pytest.mark.parametrize(
    ("module", "loads_torch"),
    [
        ("autograder", False),
        ("autograder.tape.recording", False),
        ("autograder.view", False),
        ("autograder.check", True),
    ],
)
def test_drawing_a_recording_needs_no_torch(module, loads_torch):
    """A stored recording is drawn where torch is absent; the last row shows that this test can tell."""
    code = f"import sys, {module}; print('torch' in sys.modules)"
    assert f"{loads_torch}\n" == subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT)


def test_top_level_has_only_what_has_a_reason():
    """What a newcomer sees first is the course, its sources, the package, and the tools' own files."""
    tracked = subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines()
    known = {
        "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs",
        "environment.yml", "pyproject.toml", "nbgrader_config.py",
        "notebooks", "autograder", "solutions", "assets", "tests", "requirements",
    }  # fmt: skip
    assert set() == {name.split("/")[0] for name in tracked if not name.startswith(".")} - known


def test_the_readme_lists_every_lesson():
    """The map of the lessons in README.md has each lesson's number, title and minutes, in the course's order."""
    rows = re.findall(r"^\| (\d\d) \| (.+?) \| .+ \| (\d+) \|$", (ROOT / "README.md").read_text("utf-8"), re.M)
    lessons = [file for file in sorted((ROOT / "autograder" / "course" / "lessons").glob("*.toml"))]
    known = [(file.stem[:2], tomllib.loads(file.read_text("utf-8"))) for file in lessons]
    assert [(number, lesson["title"], str(lesson["minutes"])) for number, lesson in known] == rows


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["ruff", "check"], id="ruff"),
        pytest.param(["ruff", "format", "--check"], id="format"),
        pytest.param(["mypy"], id="types"),
        pytest.param(["codespell_lib", *PROSE, "autograder", "solutions", "tests", "assets"], id="spelling"),
    ],
)
def test_the_code_is_clean(command):
    """Linter, formatter, type checker and spell checker find nothing."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert 0 == done.returncode, (done.stdout + done.stderr)[-3000:]
