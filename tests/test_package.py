"""The package: its requirements and their lock, the contents of the wheel, and an installation without a clone."""

import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from autograder import requirements
from autograder.course import paths
from tests import lock

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LESSON = "02_mutating_a_saved_tensor"
WRONG = """\
import torch

w = torch.ones(3, requires_grad=True)
a = w.exp()
a.data += 1
a.sum().backward()
"""


def locked() -> dict[str, str]:
    """Return the version of every locked package."""
    text = lock.LOCK.read_text("utf-8") + lock.TORCH.read_text("utf-8")
    return {package.name: package.version for package in lock.parse(text)}


def wanted(lines: list[str]) -> list[Requirement]:
    """Return requirements that hold for this Python and system, without the project's own extras."""
    parsed = map(Requirement, lines)
    return [
        one for one in parsed if one.name != PROJECT["name"] and (not one.marker or one.marker.evaluate({"extra": ""}))
    ]


# requirements and lock


def test_every_file_of_the_lock_has_a_hash_and_every_package_stands_once():
    """pip's hash mode needs hashes for all lines; torch has a separate file."""
    packages = lock.parse(lock.LOCK.read_text("utf-8"))
    assert [] == [package.name for package in packages if not package.hashes]
    assert len(packages) == len({package.name for package in packages})
    assert ["torch"] == [package.name for package in lock.parse(lock.TORCH.read_text("utf-8"))]


def test_the_lock_names_no_index():
    """Users choose pip's index: the lock contains no address and no option."""
    lines = (lock.LOCK.read_text("utf-8") + lock.TORCH.read_text("utf-8")).splitlines()
    assert [] == [line for line in lines if "://" in line or (line.startswith("-") or " -i " in line)]


def test_the_lock_fits_every_range_of_every_extra():
    """Every requirement of pyproject.toml and of each extra is locked at a version within its range."""
    versions = locked()
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    assert [] == [str(one) for one in wanted(lines) if not one.specifier.contains(versions.get(one.name, "0"))]


def test_the_lock_is_complete():
    """It is installed without resolving, so whatever a locked package needs here is locked, at a version that fits."""
    versions = {canonicalize_name(name): version for name, version in locked().items()}
    short = []
    for name in versions:
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:  # a package of another system
            continue
        for one in wanted(needs):
            version = versions.get(canonicalize_name(one.name))
            if version is None or not one.specifier.contains(version, prereleases=True):
                short.append(f"{name} needs {one}, locked is {version}")
    assert [] == [line for line in short if not re.match(r"torch needs (nvidia|cuda|triton)", line)]


def test_requirements_are_ranges():
    """Each requirement has a lower bound, and only nbgrader, whose internals the grader adapts, has an upper one."""
    lines = [*PROJECT["dependencies"], *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]
    parsed = [Requirement(line) for line in lines]
    bounds = {one.name: sorted(spec.operator for spec in one.specifier) for one in parsed}
    assert ["<", ">="] == bounds.pop("nbgrader")
    wrong = [name for name, operators in bounds.items() if operators != [">="]]
    assert [PROJECT["name"]] == wrong


def test_torch_of_the_requirement_is_the_oldest_that_a_command_accepts():
    """pyproject.toml and the sentence about an old PyTorch name the same version."""
    (torch,) = [one for one in map(Requirement, PROJECT["dependencies"]) if one.name == "torch"]
    assert f">={'.'.join(map(str, requirements.OLDEST_TORCH))}" == str(torch.specifier)


def test_conda_gets_the_locked_versions():
    """environment.yml lists its packages with the versions of the lock, and the project with the packages for its commands."""
    versions = locked()
    listed = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    named = dict(entry.split("=") for entry in listed if isinstance(entry, str) and "=" in entry)
    assert Version(named.pop("python")) >= Version("3.11")
    assert named == {name: versions[lock.CONDA_NAMES.get(name, name)] for name in named}
    assert {"jupyterlab", "nbgrader", "ipywidgets", "matplotlib", "pytorch"} <= set(named)
    assert {"pip": ["--editable .[test,cluster]"]} in listed


# what a command needs


@pytest.mark.parametrize(("command", "hidden", "told"), [
    pytest.param("lab", "jupyterlab", 'pip install "autograd-er[course]"', id="lab"),
    pytest.param("grade", "nbgrader", 'pip install "autograd-er[grade]"', id="grade"),
    pytest.param("explain", "igraph", "pip install autograd-er", id="explain"),
    pytest.param("explain", "torch", "pip install torch", id="torch"),
])  # fmt: skip
def test_what_is_missing_is_told_with_the_command_that_installs_it(command, hidden, told):
    """One sentence and exit code 2, before anything is done."""
    code = f"import sys; sys.modules[{hidden!r}] = None; from autograder.cli import main; sys.exit(main([{command!r}, 'x']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert f"needs {'PyTorch 2.6 or later' if hidden == 'torch' else hidden}" in done.stderr
    assert f"`{told}`" in done.stderr


@pytest.mark.parametrize(
    ("version", "accepted"),
    [("2.5.1+cu124", False), ("1.13.1", False), ("2.6.0", True), ("2.13.0+cpu", True), ("3.0.0a0+git12", True)],
)
def test_an_older_pytorch_is_told(version, accepted, monkeypatch):
    """Before 2.6 a command names the version that it found, and how to get a newer one."""
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version)
    advice = requirements.torch_advice()
    assert accepted is (advice == "")
    assert accepted or (f"this is {version}" in advice and "pip install --upgrade torch" in advice)


def test_python_is_told_of_an_older_pytorch_too(monkeypatch):
    """`autograder.explain` says the same sentence as the command."""
    import autograder

    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.5.1")
    with pytest.raises(requirements.SetupError, match="PyTorch 2.6 or later, and this is 2.5.1"):
        autograder.explain(lambda: None)


def test_a_clone_is_told_from_an_installed_package(tmp_path):
    """A package is in a clone if the sources are next to it."""
    assert ROOT == requirements.find_clone(ROOT / "autograder")
    assert requirements.find_clone(tmp_path / "site-packages" / "autograder") is None


def test_a_learners_folder_is_found_from_inside_it(tmp_path, monkeypatch):
    """Without a clone, a notebook in `work/` and a command next to it keep progress in the same place."""
    monkeypatch.setattr(paths, "HANDED_OUT", Path(".autograder") / "handed_out.json")
    inside = tmp_path / "mine" / "work" / LESSON
    inside.mkdir(parents=True)
    assert inside == paths.find_folder(inside)
    (tmp_path / "mine" / ".autograder").mkdir()
    (tmp_path / "mine" / ".autograder" / "handed_out.json").write_text("{}")
    assert tmp_path / "mine" == paths.find_folder(inside) == paths.find_folder(tmp_path / "mine")
    assert tmp_path == paths.find_folder(tmp_path)


# the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from this clone."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_the_released_course_and_no_answers(wheel):
    """Front end, catalogue, released notebooks and the typing mark are there; sources, answers and teachers' pages are not."""
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    notebooks = {name.removeprefix("autograder/course/") for name in contents if name.endswith(".ipynb")}
    released = {str(path.relative_to(ROOT)) for path in (ROOT / "notebooks").glob("*/*.ipynb")}
    assert released == notebooks
    front_end = {
        f"autograder/assets/{path.name}" for path in (ROOT / "assets").glob("*") if path.suffix in (".js", ".css")
    }
    assert {*front_end, "autograder/assets/screenshots/timeline.svg", "autograder/py.typed"} <= set(contents)
    assert f"autograder/course/lessons/{LESSON}.toml" in contents
    assert not [name for name in contents if name.endswith((".md", ".png"))]
    # the reason of a model answer, and the tags of the author's cells as a notebook stores them
    assert not [name for name, text in contents.items() if b"saves a copy that nobody else can reach" in text]
    assert not [
        name for name in notebooks if re.search(rb'"(answer|right|wrong)"', contents[f"autograder/course/{name}"])
    ]


# the image for JupyterHub


DOCKERFILE = ROOT / "assets" / "jupyterhub.Dockerfile"
STEPS = [line.split(maxsplit=1) for line in DOCKERFILE.read_text("utf-8").splitlines() if re.match("[A-Z]", line)]
COPIED = [words.split() for step, words in STEPS if step == "COPY" and not words.startswith("--from=")]


def test_the_image_copies_only_what_students_may_see():
    """Every copied path is tracked, sources with answers and tests are not copied, and each instruction is one of Docker's."""
    tracked = subprocess.check_output(["git", "ls-files"], text=True, cwd=ROOT).splitlines()
    paths = {path for *sources, _ in COPIED for path in sources}
    assert [] == [path for path in paths if not any(f"{known}/".startswith(f"{path}/") for known in tracked)]
    assert {"pyproject.toml", "README.md", "LICENSE", "assets", "autograder", "notebooks", "requirements"} == paths
    assert {"FROM", "ARG", "COPY", "RUN", "USER", "WORKDIR", "CMD"} == {step for step, _ in STEPS}


def test_the_image_names_no_version_that_the_lock_has():
    """Its Python is the oldest supported one, packages come from requirements/, and only JupyterHub has a version of its own."""
    text = DOCKERFILE.read_text("utf-8")
    pythons = {words.split()[0] for step, words in STEPS if step == "FROM"}
    assert {f"python:{PROJECT['requires-python'].removeprefix('>=')}-slim-bookworm"} == pythons
    assert {"lock.txt", "torch.txt"} == set(re.findall(r"/opt/requirements/([\w.]+)", text))
    assert [] == [name for name in locked() if re.search(rf"\b{re.escape(name)}==", text)]
    assert 1 == len(re.findall(r"^ARG JUPYTERHUB=\d+\.\d+\.\d+$", text, re.M))


@pytest.mark.slow
def test_the_copied_files_are_enough_for_the_wheel(wheel, tmp_path):
    """A wheel built from the copied files alone has the same files as one built from the clone."""
    for *sources, target in COPIED:
        for path in sources if target.startswith("/src/") else ():
            to = tmp_path / target.removeprefix("/src/") / (path if (ROOT / path).is_file() else "")
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(ROOT / path, to) if (ROOT / path).is_dir() else shutil.copy(ROOT / path, to)
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(tmp_path / "wheel")]
    subprocess.run([*build, str(tmp_path)], check=True, capture_output=True)
    names = [zipfile.ZipFile(one).namelist() for one in (wheel, *(tmp_path / "wheel").glob("*.whl"))]
    assert sorted(names[0]) == sorted(names[1])


class Installed:
    """An environment with the wheel in it, and an empty folder to run commands in."""

    def __init__(self, environment: Path, folder: Path) -> None:
        self.python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.folder = folder

    def pip(self, *words: str) -> None:
        """Install packages, at the locked versions so that a run tomorrow is the same."""
        constraints = self.folder.parent / "constraints.txt"
        constraints.write_text("".join(f"{name}=={version}\n" for name, version in locked().items()), "utf-8")
        command = [self.python, "-m", "pip", "install", "--quiet", "--constraint", constraints, *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert 0 == done.returncode, done.stderr[-3000:]

    def command(self, *words: str) -> list[str]:
        """Return a command line of the installed package."""
        return [str(self.python), "-P", "-m", "autograder", *words]

    def run(self, *words: str, **more) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder."""
        return subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment(), capture_output=True, text=True, **more
        )

    def environment(self) -> dict[str, str]:
        """Return the environment without variables that refer to the clone."""
        return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "AUTOGRADER_PROGRESS")}

    def has(self, *modules: str) -> list[str]:
        """Return which of the modules can be imported."""
        code = f"import importlib.util; print(*(m for m in {modules!r} if importlib.util.find_spec(m)))"
        return subprocess.check_output([self.python, "-P", "-c", code], text=True).split()


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory):
    """The wheel with only its required packages."""
    folder = tmp_path_factory.mktemp("core")
    subprocess.run([sys.executable, "-m", "venv", folder / "environment"], check=True)
    (folder / "empty").mkdir()
    installed = Installed(folder / "environment", folder / "empty")
    installed.pip(str(wheel))
    return installed


@pytest.fixture(scope="module")
def course(core, wheel, tmp_path_factory):
    """A copy of that environment, to which the extra `course` was added."""
    folder = tmp_path_factory.mktemp("course")
    environment = core.python.parents[1]
    shutil.copytree(environment, folder / "environment", symlinks=True, copy_function=os.link)
    (folder / "empty").mkdir()
    installed = Installed(folder / "environment", folder / "empty")
    installed.pip(f"{wheel}[course]")
    return installed


@pytest.mark.slow
def test_explain_needs_the_small_set_alone(core, tmp_path):
    """Text, JSON, page and picture work without Jupyter, widgets and NumPy, and without warnings."""
    program = tmp_path / "bug.py"
    program.write_text(WRONG)
    done = core.run(
        "explain", str(program), "--json", "--html", str(tmp_path / "a.html"), "--svg", str(tmp_path / "a.svg")
    )
    # `explain` reports its progress if it takes longer than a few seconds
    assert (1, []) == (done.returncode, [line for line in done.stderr.splitlines() if "autograder: " not in line])
    answer = json.loads(done.stdout)
    assert "silently-wrong" == answer["outcome"]
    assert [True] == sorted({fix["proven"] for fix in answer["fixes"]})
    assert "</svg>" in (tmp_path / "a.svg").read_text("utf-8")
    assert "</html>" in (tmp_path / "a.html").read_text("utf-8")
    assert "tested: same losses and gradients" in core.run("explain", str(program)).stdout
    assert [] == core.has("jupyterlab", "ipywidgets", "anywidget", "IPython", "numpy", "matplotlib", "nbgrader")


@pytest.mark.slow
def test_python_has_explain_with_the_small_set_alone(core, tmp_path):
    """`autograder.explain` of a function answers in a plain Python."""
    code = "import autograder, torch\n\ndef run(w):\n    a = w.exp()\n    a.data += 1\n    a.sum().backward()\n\n"
    (tmp_path / "mine.py").write_text(
        f"{code}print(autograder.explain(run, w=torch.ones(2, requires_grad=True)).outcome)\n"
    )
    told = subprocess.check_output([core.python, "-P", tmp_path / "mine.py"], text=True, env=core.environment())
    assert "silently-wrong\n" == told


@pytest.mark.slow
@pytest.mark.parametrize(("words", "told"), [
    (["lab"], 'pip install "autograd-er[course]"'),
    (["check", "mine.ipynb"], 'pip install "autograd-er[course]"'),
    (["grade", LESSON], 'pip install "autograd-er[grade]"'),
    (["release"], "Clone the project's repository and run `python3 -m autograder release` there"),
    (["test"], "Clone the project's repository and run `python3 -m autograder test` there"),
])  # fmt: skip
def test_what_the_small_set_cannot_do_is_told(core, words, told):
    """One sentence with the command that helps; nothing is written."""
    done = core.run(*words)
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert told in done.stderr
    assert [] == list(core.folder.iterdir())


@pytest.mark.slow
def test_a_cell_is_explained_without_widgets(course):
    """Where anywidget is missing, `%%explain` shows the static picture and makes no widget."""
    code = (
        "import sys; sys.modules['anywidget'] = None\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(); shell.kernel = object()\n"
        "shell.display_pub.publish = lambda data, **more: print(sorted(data))\n"
        "shell.run_line_magic('load_ext', 'autograder')\n"
        "shell.run_cell('import torch; w = torch.ones(3, requires_grad=True)')\n"
        "shell.run_cell('%%explain\\na = w.exp()\\na.data += 1\\na.sum().backward()')\n"
    )
    told = subprocess.check_output(
        [course.python, "-P", "-c", code], text=True, env=course.environment(), cwd=course.folder
    )
    assert "['text/html', 'text/plain']\n" == told


@pytest.mark.slow
def test_lab_opens_the_course_in_an_empty_folder(course, tmp_path):
    """From the wheel alone: the lessons are copied to `work/`, the server shows them, and settings are stored next to them."""
    server = subprocess.Popen(
        course.command("lab", "--no-browser"),
        cwd=tmp_path,
        env=course.environment() | {"HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = next(line for line in server.stdout if "http://" in line)
        base, token = re.search(r"(http://[\d.:]+)/lab/tree/start/start.ipynb\?token=(\w+)", address).groups()
        with urllib.request.urlopen(f"{base}/api/contents/?token={token}", timeout=30) as answer:
            listed = {entry["name"] for entry in json.load(answer)["content"]}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
    assert {path.name for path in (ROOT / "notebooks").iterdir()} == listed
    assert {"work", ".autograder"} == {path.name for path in tmp_path.iterdir()}
    copied, own = (folder / LESSON / f"{LESSON}.ipynb" for folder in (tmp_path / "work", ROOT / "notebooks"))
    assert json.loads(own.read_text("utf-8"))["cells"] == json.loads(copied.read_text("utf-8"))["cells"]


@pytest.mark.slow
def test_the_teachers_lab_needs_a_clone(course, tmp_path):
    """`lab --teacher` opens the sources, which are not in the wheel; the sentence says so, and nothing is written."""
    done = subprocess.run(
        course.command("lab", "--teacher"), cwd=tmp_path, env=course.environment(), capture_output=True, text=True
    )
    assert 2 == done.returncode
    assert "`python3 -m autograder lab --teacher`" in done.stderr
    assert [] == list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_course_with_its_own_sources_is_graded_far_from_a_clone(course, wheel, tmp_path):
    """nbgrader's own layout, source/ and submitted/, is all that `grade` of an installed package needs."""
    course.pip(f"{wheel}[grade]")
    for origin, target in ((ROOT / "solutions", "source"), (ROOT / "notebooks", "submitted/ada")):
        shutil.copytree(origin / LESSON, tmp_path / target / LESSON, ignore=shutil.ignore_patterns("*.md"))
    words = course.command("grade", LESSON, "--isolation", "process", "--json")
    done = subprocess.run(words, cwd=tmp_path, env=course.environment(), capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    assert ["ada"] == [row["student"] for row in json.loads(done.stdout)["students"]]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "told"), [("nowhere", "there is no folder"), (".", f"source/{LESSON}/ is missing")])
def test_a_course_that_is_not_there_is_told(course, tmp_path, place, told):
    """For a missing folder, or one without sources, one sentence names the problem; nothing is written."""
    words = course.command("grade", LESSON, "--isolation", "process", "--course", place)
    done = subprocess.run(words, cwd=tmp_path, env=course.environment(), capture_output=True, text=True)
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(done.stderr.splitlines())
    assert told in done.stderr
    assert [] == list(tmp_path.iterdir())
