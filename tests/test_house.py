"""The house rules: one-way imports, one place for versions, clean code, nothing at the top level without a reason."""

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

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
        str(file.relative_to(ROOT)): sorted(imports(file) - ROOMS[room] - {room})
        for file in (ROOT / "autograder" / room).rglob("*.py")
        if imports(file) - ROOMS[room] - {room}
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


def test_environment_has_the_versions_of_pyproject():
    """environment.yml names the five packages with the versions of pyproject.toml, and the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pins = dict(pin.split("==") for pin in project["dependencies"])
    expected = {name: pins[name] for name in ("jupyterlab", "nbgrader", "ipywidgets", "matplotlib", "torch")}

    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    versions = dict(entry.split("=") for entry in listed if isinstance(entry, str) and "=" in entry)
    versions["torch"] = versions.pop("pytorch")  # conda-forge's name
    python = versions.pop("python")

    assert expected == versions
    assert {"pip": ["--editable .[test]"]} in listed
    assert tuple(map(int, python.split("."))) >= (3, 11)


def test_every_pin_is_exact_and_stands_once():
    """The whole set is pinned with ==, in pyproject.toml, and nothing is pinned twice."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project, more = settings["project"], settings["tool"]["autograder"]["pins"]
    pins = [*project["dependencies"], *project["optional-dependencies"]["test"], *more]
    names = [re.split(r"==", pin)[0].lower() for pin in pins]

    assert [] == [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]
    assert len(names) == len(set(names))


def test_the_wheel_holds_no_answers(tmp_path):
    """An installed package has the front-end module and the catalogue, and none of the sources, answers or teachers' pages."""
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        text = b"".join(archive.read(name) for name in names)
    assert {"autograder/assets/graph.js", "autograder/assets/graph.css"} <= names
    assert any(name.endswith("02_mutating_a_saved_tensor.toml") for name in names)
    assert not [name for name in names if name.endswith((".ipynb", ".md", ".png"))]
    assert b"saves a copy that nobody else can reach" not in text  # the reason of a model answer


def test_top_level_has_only_what_has_a_reason():
    """What a newcomer sees first is the course, its sources, the package, and the tools' own files."""
    tracked = subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines()
    known = {
        "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "docs",
        "environment.yml", "pyproject.toml", "nbgrader_config.py",
        "notebooks", "autograder", "solutions", "assets", "tests",
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
