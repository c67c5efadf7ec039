"""A fresh clone with only Python: the effect of the first command, and its one-sentence errors."""

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from autograder.cli import bootstrap
from autograder.cli.bootstrap import stage

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A folder with the package's files and no environment, on which the bootstrap works."""
    shutil.copytree(ROOT / "autograder", tmp_path / "autograder", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name, path in {
        "ROOT": tmp_path,
        "ENVIRONMENT": tmp_path / ".venv",
        "READY": tmp_path / ".venv" / "ready",
    }.items():
        monkeypatch.setattr(bootstrap, name, path)
    return tmp_path


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    """An environment with pip in it; making one takes seconds."""
    folder = tmp_path_factory.mktemp("made") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def begun(clone, made_once):
    """The clone with an empty environment."""
    shutil.copytree(made_once, clone / ".venv", symlinks=True, copy_function=os.link)
    return clone


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["grade", "--help"], []], ids=" ".join)
def test_help_and_version_need_no_package(clone, words):
    """With the standard library alone the parser prints its help or the version, and no environment is created."""
    (clone / "solutions").mkdir()  # which a clone has and a wheel does not
    command = [sys.executable, "-S", "-m", "autograder", *words]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    version = tomllib.loads((clone / "pyproject.toml").read_text())["project"]["version"]
    expected = {"--version": f"autograder {version}\n", "": "autograder: the following arguments are required"}
    assert expected.get(" ".join(words), "usage: autograder") in done.stdout + done.stderr
    assert (0 if words else 2) == done.returncode
    assert not (clone / ".venv").exists()


def small_lock(folder: Path, line: str) -> bootstrap.Lock:
    """Return a lock of one package, written into a folder."""
    file = folder / "small.txt"
    file.write_text(f"{line}\n", "utf-8")
    return bootstrap.Lock(file, "torch==2.13.0", {})


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index in a folder, the only one that pip knows: torch 2.13.0, three lines long."""
    wheel = tmp_path / "index" / "torch" / "torch-2.13.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    metadata = {"METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\n", "RECORD": ""}
    metadata["WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in metadata.items():
            archive.writestr(f"torch-2.13.0.dist-info/{name}", text)
    (wheel.parent / "index.html").write_text(
        f'<!DOCTYPE html><html><body><a href="{wheel.name}">torch</a></body></html>'
    )
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", wheel.parent.parent.as_uri())
    return wheel


def sentence(capture: pytest.ExceptionInfo[SystemExit]) -> str:
    """Return the sentence for the user, which must be one line."""
    told = str(capture.value.code)
    assert 1 == len(told.splitlines())
    return told


@pytest.mark.parametrize("name", ["__init__.py", "__main__.py"])
def test_an_old_python_can_read_as_far_as_the_sentence(name):
    """The files that run before the version check use no syntax newer than Python 3.6."""
    ast.parse((ROOT / "autograder" / name).read_text("utf-8"), feature_version=(3, 6))


def test_an_old_python_is_told_which_one_to_use():
    """Python 3.10 gets one sentence that names its version and the one that is needed."""
    code = "import sys, runpy; sys.version_info = (3, 10, 1); runpy.run_module('autograder', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert 1 == done.returncode
    assert "this is Python 3.10; autograder needs 3.11 or later" in done.stderr
    assert 1 == len(done.stderr.splitlines())


def test_the_bootstrap_needs_only_the_standard_library():
    """Only modules of the standard library are imported."""
    tree = ast.parse((ROOT / "autograder" / "cli" / "bootstrap.py").read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert set() == {name.partition(".")[0] for name in names - {"autograder.cli.bootstrap"}} - sys.stdlib_module_names


def test_a_ready_environment_is_used_as_it_is(monkeypatch):
    """If the pinned packages are installed, the command continues in the same process."""
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started another Python"))
    bootstrap.ensure_environment(["doctor"])


def test_another_version_of_a_package_is_not_ready(clone, monkeypatch):
    """One package with another version than pinned, and the command goes to the clone's environment, unless it runs there."""
    (clone / "requirements" / "torch.txt").write_text("torch==2.12.0\n", "utf-8")
    monkeypatch.setattr(bootstrap, "install", lambda lock: None)
    started = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments))
    bootstrap.ensure_environment(["lab", "02"])
    assert [str(clone / ".venv" / "bin" / "python"), "-m", "autograder", "lab", "02"] == started[0][1]
    monkeypatch.setattr(bootstrap, "_is_ready", lambda lock: True)
    monkeypatch.setattr(sys, "prefix", str(clone / ".venv"))
    bootstrap.ensure_environment(["lab", "02"])
    assert len(started) == 1


def test_a_half_copied_package_is_installed_again(tmp_path):
    """After an interruption, metadata without all of its files is forgotten; a whole package is left alone."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, files in {"whole": ["whole.py"], "torn": ["torn.py", "missing.py"]}.items():
        metadata = packages / f"{name}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "RECORD").write_text("".join(f"{file},,\n" for file in files))
        (packages / files[0]).touch()
    (packages / "recordless-1.0.dist-info").mkdir()

    bootstrap.forget_incomplete(tmp_path)
    assert ["whole-1.0.dist-info"] == [folder.name for folder in packages.glob("*.dist-info")]


def test_a_full_disk_is_told_before_anything_is_made(clone, monkeypatch):
    """Too little space ends the command immediately, with the folder and both figures."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**9))
    with pytest.raises(SystemExit) as stopped:
        bootstrap.install(small_lock(clone, "six==1.17.0"))
    assert "only 1.0 GB are free" in sentence(stopped)
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(("said", "told"), [
    pytest.param("No module named venv", "sudo apt install python3-venv", id="Debian's bare Python"),
    pytest.param("Error: [Errno 30] Read-only file system: '.venv'", "cannot be written", id="read-only clone"),
])  # fmt: skip
def test_an_environment_that_cannot_be_made_is_told(clone, monkeypatch, said, told):
    """The error of venv becomes one sentence with a solution, and no files are left behind."""
    python = clone / "python"
    python.write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(SystemExit) as stopped:
        bootstrap.install(small_lock(clone, "six==1.17.0"))
    assert told in sentence(stopped)
    assert not (clone / ".venv").exists()


@pytest.mark.slow
def test_no_network_is_told_and_the_next_call_goes_on(clone, monkeypatch):
    """An unreachable package index is one sentence, and the environment that was begun is kept for the next call."""
    for name, value in {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "1", "PIP_FIND_LINKS": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as stopped:
        bootstrap.install(small_lock(clone, f"no-such-package==1.0 --hash=sha256:{'0' * 64}"))
    assert "the package index could not be reached" in sentence(stopped)
    assert (clone / ".venv" / "bin" / "python").exists()
    assert not (clone / ".venv" / "ready").exists()


def test_a_file_that_is_not_the_locked_one_is_refused(begun, index):
    """The downloaded file must have the hash in the lock; the sentence says so, and nothing is installed."""
    lock = small_lock(begun, f"torch==2.13.0 --hash=sha256:{'0' * 64}")
    with pytest.raises(SystemExit) as stopped:
        bootstrap.install(lock)
    assert "differs from the one in the lock" in sentence(stopped)
    assert not list((begun / ".venv").glob("lib/python*/site-packages/torch*"))


def test_the_cpu_build_falls_back_to_the_usual_index(begun, index, monkeypatch, capsys):
    """If PyTorch's CPU index cannot be reached, one sentence says so, and torch comes from the default index.

    Standard output stays empty, because the command that follows may print JSON there.
    """
    monkeypatch.setattr(bootstrap, "CPU_INDEX", "http://127.0.0.1:9/whl/cpu")
    monkeypatch.setenv("AUTOGRADER_TORCH", "cpu")
    bootstrap._install_torch("torch==2.13.0", bootstrap._wants_cpu_index())
    printed = capsys.readouterr()
    (told,) = [line for line in printed.err.splitlines() if "could not be used" in line]
    assert "" == printed.out
    assert "http://127.0.0.1:9/whl/cpu" in told
    assert "several GB of CUDA libraries" in told
    assert list((begun / ".venv").glob("lib/python*/site-packages/torch-2.13.0.dist-info"))


def test_the_cpu_build_comes_from_its_own_index(begun, index, monkeypatch, capsys):
    """If the CPU index responds, the default index is not asked."""
    monkeypatch.setattr(bootstrap, "CPU_INDEX", os.environ["PIP_INDEX_URL"])
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    bootstrap._install_torch("torch==2.13.0", True)
    assert "could not be used" not in capsys.readouterr().err
    assert list((begun / ".venv").glob("lib/python*/site-packages/torch-2.13.0.dist-info"))


def test_another_build_than_cpu_is_no_choice(clone, monkeypatch):
    """A misspelled choice is reported before anything is created."""
    monkeypatch.setenv("AUTOGRADER_TORCH", "gpu")
    with pytest.raises(SystemExit) as stopped:
        bootstrap.install(small_lock(clone, ""))
    assert "Set it to cpu" in sentence(stopped)
    assert not (clone / ".venv").exists()


FETCHING = [
    "Ignoring colorama: markers 'sys_platform == \"win32\"' don't match your environment",
    "Collecting alembic==1.20.1",
    "  Downloading alembic-1.20.1-py3-none-any.whl (246 kB)",
    "Collecting torch==2.13.0",
    "  Downloading https://files.example/torch-2.13.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl (190.5 MB)",
]


@pytest.mark.parametrize(
    ("lines", "total", "unpacked", "told"),
    [
        pytest.param([], 0, 0, "fetching", id="nothing yet"),
        pytest.param(FETCHING[:3], 9, 0, "fetching 1 of 8: alembic (246 kB)", id="one of eight, the ninth is for Windows"),
        pytest.param(FETCHING, 0, 0, "fetching: torch (190.5 MB)", id="torch, whose download takes long"),
        pytest.param(["Installing collected packages: a, b, c"], 9, 2, "unpacking 2 of 3", id="unpacking some"),
        pytest.param(["Installing collected packages: torch"], 0, 0, "unpacking, up to two minutes", id="unpacking torch"),
    ],
)  # fmt: skip
def test_the_progress_line_says_what_is_being_done(lines, total, unpacked, told):
    """From pip's output: the package, its number and size; and steps that pip does not report."""
    assert told == stage(lines, total, unpacked)


@pytest.mark.slow
def test_the_users_own_pip_settings_are_out_of_reach(begun, monkeypatch):
    """A pip.conf in the home folder is not read, and pip's cache stays inside the clone."""
    home = begun / "home"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".config" / "pip" / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9/mine\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv(
        "PIP_CONFIG_FILE", raising=False
    )  # set where these tests run inside the bootstrapped environment
    (begun / ".venv" / "pip.conf").touch()
    pip = [str(begun / ".venv" / "bin" / "python"), "-m", "pip", "config", "list"]
    seen = subprocess.run(pip, env=bootstrap._environment(), capture_output=True, text=True).stdout
    assert "127.0.0.1:9/mine" not in seen
    assert "127.0.0.1:9/mine" in subprocess.run(pip, capture_output=True, text=True).stdout  # the control
