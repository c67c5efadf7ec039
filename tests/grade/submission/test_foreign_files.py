# ruff: noqa: E501 - a test's text is easier to read on one line
"""A test touches no file but those of its own folder, whatever an answer names."""

import os

import pytest

from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.trusted.foreign_files import touches_others
from tests.grade.conftest import LIMITS
from tests.grade.hostile.deputies import DEPUTIES, MODEL, SECRET
from tests.grade.small_course import answer, graded_cell, hand_in, source, teacher


@pytest.fixture
def graded(server):
    """A function that grades an answer by a test, with a data file and a helper module of the teacher's, and returns the cell's grade."""

    def grade(test: str, text: str):
        files = {
            "data.csv": b"1 2\n",
            "helper.py": b"from pathlib import Path\nWORDS = Path(__file__).with_name('data.csv').read_text()\n",
        }
        of = source(teacher("import numpy"), answer("a", MODEL), graded_cell("t", test), files=files)
        return SubmissionGrader(server, LIMITS).grade(of, hand_in(of, {"a": text}), of.files, 5).cells["t"]

    return grade


@pytest.mark.parametrize("deputy", DEPUTIES, ids=lambda deputy: deputy.name)
def test_a_test_does_no_harm_for_an_answer(graded, tmp_path, deputy):
    """The teacher's file is as it was, nothing stands beside it, its text is in no reason, and the answer gets no points."""
    folder = tmp_path / "private"
    folder.mkdir()
    (path := folder / "notes").write_text(SECRET)
    found = graded(deputy.test, deputy.answer.format(path=str(path), folder=str(folder)))
    assert [path] == list(folder.iterdir())
    assert SECRET.encode() == path.read_bytes()
    assert SECRET not in found.reason
    assert not found.points
    assert found.reason.startswith("this test could not be judged")


@pytest.mark.parametrize(
    "test",
    [
        "assert open(f()).read() == '1'",
        "import os\nname = f()\nos.rename(name, 'b')\nos.mkdir('c')\nos.remove('b')\nassert sorted(os.listdir()) == ['c', 'data.csv', 'helper.py']",
        "import tempfile, shutil\nplace = tempfile.mkdtemp()\nshutil.copy(f(), place)\nshutil.rmtree(place)",
        "import numpy as np\nassert np.loadtxt('data.csv').sum() == 3 and f()",
        "import helper\nassert helper.WORDS == '1 2\\n' and f()",
        "import sqlite3\nassert sqlite3.connect(':memory:').execute('select 1').fetchall() == [(1,)] and f()",
        "import warnings\nwith warnings.catch_warnings(record=True):\n    warnings.warn('a line of code is shown', stacklevel=30)\nassert f()",
        "import importlib.metadata, os\nassert importlib.metadata.version('torch') and f()\nopen(os.devnull, 'w').close()",
        "import torch\ntorch.save([f()], 'w.pt')\nassert torch.load('w.pt') == ['own.txt']",
        "import datetime, zoneinfo\nassert datetime.datetime.now(zoneinfo.ZoneInfo('Europe/Paris')) and f()",
    ],
)  # fmt: skip
def test_ordinary_tests_read_and_write(graded, test):
    """In their own folder, temporary ones, the teacher's data and modules, and Python's own files."""
    found = graded(test, MODEL)
    assert (found.status, found.reason) == ("correct", "")


@pytest.mark.parametrize(
    ("path", "mode", "own"),
    [
        ("~/.config/matplotlib/matplotlibrc", "w", True),
        ("~/.ssh/id_rsa", "r", False),
        ("/proc/cpuinfo", "r", True),
        ("/proc/self/environ", "r", False),
        ("/proc/self/root/etc/../root/notes", "w", False),
        ("/usr/bin/env", "r", True),
        ("/usr/bin/env", "a", False),
        (os.devnull, "w", True),
        ("file:/etc/a.db?mode=rw", "w", False),
        ("inside", "w", True),
        ("../beside", "w", False),
    ],
)
def test_what_is_a_tests_own(tmp_path, monkeypatch, path, mode, own):
    """Its folder, matplotlib's settings, and for reading what everybody may read of the system's."""
    home, folder = tmp_path / "home", tmp_path / "own"
    for one in (home / ".ssh", folder):
        one.mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text(SECRET)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(folder)
    assert own is (touches_others("open", (os.path.expanduser(path), mode, 0), folder) == "")


@pytest.mark.parametrize(
    "test",
    [
        "import torch\ntorch.save([1], 'own.pt')\nassert torch.load('own.pt') == [1]",
        "import sqlite3\nfound = sqlite3.connect('one.db')\nfound.execute(\"ATTACH 'two.db' AS two\")\nfound.execute('CREATE TABLE two.a (b)')\nfound.commit()\nfound.execute('VACUUM')",
    ],
)
def test_files_opened_in_c_may_be_the_tests_own(graded, test):
    """A test that saves weights, or attaches a database, in its own folder goes on as in one process."""
    assert 1 == graded(f"{test}\nassert f() == 'own.txt'", MODEL).points
