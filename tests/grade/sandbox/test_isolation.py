"""The registry of isolation levels: the effect of one of its rows."""

import shutil
import subprocess
import sys

import pytest

from autograder.cli import doctor, parser
from autograder.cli.doctor import examine
from autograder.course.paths import ROOT
from autograder.grade.sandbox.isolation import (
    LEVELS,
    BubblewrapLevel,
    IsolationError,
    IsolationLevel,
    find_copies,
    hidden_folders,
    require_level,
)


class AddedLevel(IsolationLevel):
    """A level that a contributor adds; `problem` is the result of its probe."""

    name = "added"
    defends = "a submission can do anything"
    separates_submissions = False

    def __init__(self, problem=""):
        self.problem = problem

    def probe(self):
        """Return the problem with which it was created."""
        return self.problem

    def command(self, server):
        """The server's own."""
        return server


def isolation_finding():
    """Return what `doctor` says of isolation."""
    return next(finding for finding in examine() if finding.what == "isolation")


def test_a_row_of_the_registry_is_a_level_everywhere(monkeypatch):
    """The command line offers it, it can be required, and `doctor` names it if no stronger level works."""
    monkeypatch.setitem(LEVELS, "added", AddedLevel())
    monkeypatch.setitem(LEVELS, "bubblewrap", AddedLevel("it does not work here"))
    monkeypatch.setitem(LEVELS, "user", AddedLevel("nor does this"))
    monkeypatch.setitem(LEVELS, "process", AddedLevel("nor does this"))
    assert "added" == parser._parser().parse_args(["grade", "x", "--isolation", "added"]).isolation
    assert AddedLevel is type(require_level("added"))
    finding = isolation_finding()
    assert ("added", "to grade at level 'bubblewrap': it does not work here") == (finding.found, finding.advice)


def test_a_machine_without_bubblewrap_says_how_to_get_it(monkeypatch):
    """The message has the command, and the weaker level with its gaps; nothing is graded instead."""
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setitem(LEVELS, "bubblewrap", BubblewrapLevel())
    with pytest.raises(IsolationError, match=r"sudo apt install bubblewrap.*`--isolation process`.*read your files"):
        require_level("bubblewrap")
    assert "process" == isolation_finding().found


def test_an_unknown_level_is_one_sentence():
    """The levels that exist are named."""
    with pytest.raises(IsolationError, match="no isolation level 'docker'. Choose one of: bubblewrap, user, process"):
        require_level("docker")


def test_the_security_page_has_a_column_for_each_level():
    """The page documents for teachers which attacks a level prevents."""
    (header,) = [
        line
        for line in (ROOT / "SECURITY.md").read_text("utf-8").splitlines()
        if line.startswith("| a submission tries")
    ]
    assert [] == [name for name in LEVELS if f"`{name}`" not in header]


def test_every_copy_of_a_hidden_package_is_found(tmp_path):
    """A clone and a wheel may both be importable: the folder of each is hidden, and finding it does not import anything."""
    for place in ("clone", "wheel"):
        folder = tmp_path / place / "outer" / "inner"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise ImportError('imported')")
        (folder / "__init__.py").touch()
    roots = [str(tmp_path / place) for place in ("clone", "empty", "wheel")]
    expected = [str(tmp_path / place / "outer" / "inner") for place in ("clone", "wheel")]
    assert expected == find_copies("outer.inner", roots)


def test_the_search_for_repairs_is_hidden_where_this_package_lies():
    """The folder that this very process would import from is among the hidden ones."""
    program = "import autograder.tape.repair as package; print(package.__path__[0])"
    folder = subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT).strip()
    assert folder in hidden_folders()


def test_importing_the_grader_changes_no_other_import():
    """nbformat and nbgrader.utils are imported without slow modules that they do not need; later imports work as usual."""
    program = (
        "import sys; from autograder.grade.sandbox.warmup import import_nbformat, import_nbgrader_utils\n"
        "import_nbformat(); import_nbgrader_utils()\n"
        "print('jsonschema' in sys.modules, [name for name, module in sys.modules.items() if module is None])\n"
        "print('sqlalchemy' in sys.modules); from nbgrader import api, utils; print(api.utils is utils)"
    )
    assert "True []\nFalse\nTrue\n" == subprocess.check_output([sys.executable, "-c", program], text=True, cwd=ROOT)


def test_doctor_has_a_line_for_each_wall():
    """The protections that this machine provides for a submission, without advice if none is missing."""
    found = {wall.what: wall for wall in doctor._layers()}
    assert ["system calls", "namespaces", "keyring", "processes", "memory", "processors"] == list(found)
    assert "filtered" == found["system calls"].found
    assert set(found) < {finding.what for finding in examine()}


def test_doctor_says_what_a_machine_refuses(monkeypatch):
    """The reason that was given, and what is weaker."""
    monkeypatch.setitem(doctor.TRIALS, "namespaces", "raise OSError('unshare: Operation not permitted')")
    (wall,) = [wall for wall in doctor._layers() if wall.what == "namespaces"]
    assert "refused" == wall.found
    assert wall.advice.startswith("unshare: Operation not permitted; allow user namespaces")


@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_no_variable_of_the_teacher_reaches_a_server(level, monkeypatch):
    """A token in the teacher's environment is not among the variables of the host, at any level."""
    monkeypatch.setenv("COURSE_TOKEN", "secret")
    assert {"PATH", "PYTHONHASHSEED"} <= level.environment().keys()
    assert "COURSE_TOKEN" not in level.environment()
