"""A script runs in a copy of the working folder: the folder stays as it was, and each run finds the same."""

import json
import os
import re
import tempfile
from pathlib import Path

import pytest
import torch

import autograder
from autograder.cli import main
from autograder.errors import InputError
from autograder.tape.run.programs import scratch_folder
from autograder.tape.run.programs.command_line import CommandLine
from autograder.tape.run.programs.program import from_file_text
from autograder.tape.run.programs.scratch_folder import ScratchFolder, file_state
from autograder.tape.run.programs.source_text import ProgramError, read_source
from autograder.tape.run.runner import Runner

WRITES = """
import os
from pathlib import Path
import torch

runs = int(Path("count.txt").read_text()) + 1 if os.path.exists("count.txt") else 1
Path("count.txt").write_text(str(runs))
Path("made/deep").mkdir(parents=True)
Path("made/deep/log").write_text("a line")
Path("../made_beside.txt").write_text("new")
with open("notes.txt", "a") as notes:
    notes.write("more")
os.remove("old.txt")
assert "beside" == Path("../beside/read.txt").read_text()
assert 1 == runs, "a run has found what another one wrote"

w = torch.ones(3, requires_grad=True)
h = torch.exp(w)
torch.save(h.detach(), "checkpoint.pt")
h.mul_(2)
h.sum().backward()
"""


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with a script that writes, the files it needs, and a neighbor."""
    folder, beside = tmp_path / "project", tmp_path / "beside"
    for made in (folder, beside, folder / ".git"):
        made.mkdir()
    (folder / "train.py").write_text(WRITES)
    (folder / "notes.txt").write_text("notes")
    (folder / "old.txt").write_text("old")
    (beside / "read.txt").write_text("beside")
    monkeypatch.chdir(folder)
    return folder


def listing(folder: Path) -> dict[str, tuple[int, str]]:
    """Return every file below a folder with its last change and its text."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
    return {str(path): (path.stat().st_mtime_ns, path.read_text()) for path in files}


def copied(root: Path, file: str = "train.py"):
    """Return the program that runs in a copy below `root`, and the copy."""
    root.mkdir()
    scratch = ScratchFolder(str(root))
    return from_file_text(read_source(file), file, None, CommandLine(scratch=scratch)), scratch


def test_the_folder_stays_as_it_was(project, capfd, monkeypatch):
    """The command and the function run it many times; it finds the line, and only the file above the folder is new."""
    copies = project.parent.parent / f"{project.parent.name}-copies"
    copies.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(copies))
    before = listing(project.parent)

    assert 1 == main(["explain", "train.py", "--no-repair"])
    assert "line 20" in capfd.readouterr().out
    found = autograder.explain(Path("train.py"), repair=False)

    assert "raises-backward" == found.outcome
    assert {20} == {place.line for harm in found.harms for place in harm.mutated_at}
    assert {"train.py"} == {place.file for harm in found.harms for place in harm.mutated_at}
    assert (project.parent / "made_beside.txt").read_text() == "new"
    (project.parent / "made_beside.txt").unlink()
    assert before == listing(project.parent)
    assert [] == list(copies.iterdir())
    assert str(project) == os.getcwd()


def test_each_run_finds_what_the_first_one_found(project, tmp_path):
    """Files that a run created, changed or removed are restored before the next."""
    program, scratch = copied(tmp_path / "root")
    errors = [type(Runner(program).run().error).__name__ for _ in range(3)]

    assert ["RuntimeError"] * 3 == errors, "the script's own assertions hold in each run, and backward refuses"
    assert [str(project.parent / "made_beside.txt")] == re.findall(r"project: (.*)\.$", "".join(scratch.notes()))


def test_a_large_file_is_a_link_and_a_write_into_it_is_told(project, tmp_path, monkeypatch):
    """It is not copied; a sentence is added only if the program writes into it."""
    monkeypatch.setattr(scratch_folder, "LARGE", 1000)
    (project / "data.bin").write_bytes(b"0" * 2000)
    (project / "train.py").write_text("assert 2000 == len(open('data.bin').read())\n")
    program, scratch = copied(tmp_path / "root")
    Runner(program).run()
    assert (Path(scratch.root + str(project)) / "data.bin").is_symlink()
    assert [] == list(scratch.notes())

    (project / "train.py").write_text("open('data.bin', 'a').write('1')\n")
    program, scratch = copied(tmp_path / "other")
    Runner(program).run()
    assert ["data.bin is too large to be copied, so each run wrote into the file itself."] == list(scratch.notes())


def test_a_folder_with_too_many_files_is_not_copied(project, tmp_path, monkeypatch):
    """The program runs in the folder itself, and one sentence says so."""
    monkeypatch.setattr(scratch_folder, "MOST_FILES", 2)
    (project / "train.py").write_text("open('here.txt', 'w').close()\n")
    program, scratch = copied(tmp_path / "root")
    Runner(program).run()

    assert (project / "here.txt").exists()
    assert any("was not copied completely" in note for note in scratch.notes())


def test_hidden_folders_and_environments_are_links(project, tmp_path):
    """They may be as large as they like: `.git`, `.venv`, or an environment by another name."""
    (project / "env").mkdir()
    (project / "env/pyvenv.cfg").write_text("")
    program, scratch = copied(tmp_path / "root")
    Runner(program).run()
    copy = Path(scratch.root + str(project))

    assert (copy / ".git").is_symlink()
    assert (copy / "env").is_symlink()
    assert not (copy / "train.py").is_symlink()


def test_a_program_that_leaves_its_folder_changes_it_for_nobody(project):
    """`os.chdir` lasts as long as the run."""
    (project / "train.py").write_text("import os\nos.chdir('/')\n")
    Runner(from_file_text(read_source("train.py"), "train.py")).run()
    assert str(project) == os.getcwd()


def test_a_program_that_removes_its_own_folder_removes_the_copy(project, capfd):
    """`__file__` names the copy, so that `rmtree` and a write next to the script leave the user's files as they were."""
    source = (
        "import shutil\nfrom pathlib import Path\nimport torch\nhere = Path(__file__).parent\n"
        "assert (here.parent / 'beside' / 'read.txt').read_text() == 'beside'\n(here / 'notes.txt').write_text('new')\n"
        "h = torch.ones(3, requires_grad=True).exp()\nh.sum().backward()\nshutil.rmtree(here)\nopen(here / 'gone.txt')\n"
    )
    (project / "train.py").write_text(source)
    before = listing(project)
    assert main(["explain", "train.py", "--no-repair"]) == 1
    assert listing(project) == before
    assert f"No such file or directory: '{project}/gone.txt'" in " ".join(capfd.readouterr().out.split())


@pytest.mark.parametrize("end", ["os._exit(3)", "os.abort()"])
def test_a_program_that_ends_the_process_does_not_end_the_notebook(project, end):
    """`explain` of a path raises an error with the reason, and does not hang after parallel operations of the caller."""
    torch.ones(300, 300) @ torch.ones(300, 300)
    (project / "train.py").write_text(f"{TRAINS}assert torch.ones(300, 300).mm(torch.ones(300, 300)).max() == 300\n")
    assert "correct" == autograder.explain(Path("train.py")).outcome
    (project / "train.py").write_text(f"import os\n{end}\n")
    with pytest.raises(
        ProgramError, match=r"train.py: the program ended the Python process \((signal SIGABRT|os._exit\(3\))"
    ):
        autograder.explain(Path("train.py"))


TRAINS = "import torch\nh = torch.ones(3, requires_grad=True).exp()\nh.sum().backward()\n"
HELPER = "import os, shutil\ndef clean():\n    shutil.rmtree(os.path.dirname(__file__))\n"


CHANGES = """
import tempfile
from pathlib import Path
import helper
here = Path(__file__).parent
assert (here.parent / "beside" / "read.txt").read_text() == "beside"
with tempfile.TemporaryDirectory() as made:
    open(made + "/file", "w").close()
open(here / ".git" / "new", "w").close()
open(here / "large.pt", "r+b").write(b"new")
torch.save({"a": h}, here / "saved.pt")
(here / "renamed.pt").rename(here / "old.pt")
open(here / "old.pt", "ab").write(b"1")
helper.clean()
assert not here.exists()
"""


@pytest.mark.parametrize("folder", ["project", "beside"])
def test_a_program_does_not_change_the_project(project, capfd, monkeypatch, folder):
    """Removals and writes by `__file__` of any file of the project reach the copy, also if the script is elsewhere."""
    (project / "helper.py").write_text(HELPER)
    for name in ("large.pt", "saved.pt", "renamed.pt"):
        with (project / name).open("wb") as large:
            large.truncate(40 << 20)
    (project / "train.py").write_text(TRAINS + CHANGES)
    before = {path: file_state(str(path)) for path in project.parent.rglob("*") if "__pycache__" not in str(path)}
    monkeypatch.chdir(project.parent / folder)
    assert main(["explain", str(project / "train.py"), "--no-repair"]) == 0, capfd.readouterr()
    after = {path: file_state(str(path)) for path in project.parent.rglob("*") if "__pycache__" not in str(path)}
    assert before == after
    assert "each run wrote" not in capfd.readouterr().out.lower()


@pytest.mark.parametrize("wrapped", ["{}", "try:\n    {}\nexcept Exception: pass"])
def test_a_removal_outside_of_the_project_is_refused(project, capfd, wrapped):
    """The file stays, and one sentence names the line and the file, also if the program catches the error."""
    (project / "train.py").write_text(TRAINS + "import os\n" + wrapped.format("os.remove('../beside/read.txt')"))
    assert main(["explain", "train.py"]) == 2
    line = 5 if wrapped == "{}" else 6
    read = project.parent / "beside/read.txt"
    told = f"train.py, line {line}: the program removes {read}, which is outside of"
    assert told in capfd.readouterr().err
    with pytest.raises(ProgramError, match=re.escape(told)):
        autograder.explain(Path("train.py"))
    assert read.exists()


def test_a_write_outside_of_the_project_is_listed(project, capfd):
    """The file is written as in the plain run, which starts without it, and the first screen names it, and no file that exists."""
    fails = "try:\n    open('../beside/read.txt', 'x')\nexcept FileExistsError: pass\n"
    (project / "train.py").write_text(
        f"{TRAINS}{fails}open('../beside/log', 'x').write('line')\nopen('/dev/null', 'w')\n"
        "open('/proc/self/comm', 'w').write('train')\n"
    )
    assert main(["explain", "train.py"]) == 0
    assert f"outside of the copy of the project: {project.parent}/beside/log." in " ".join(
        capfd.readouterr().out.split()
    )
    assert "line" in (project.parent / "beside/log").read_text()


THREAD = """
import threading, time
def write():
    while True:
        open("logs/events", "a").write("event")
        time.sleep(0.01)
threading.Thread(target=write, daemon=True).start()
"""


def test_a_thread_that_outlives_its_run_writes_to_no_file_of_the_project(project):
    """A logger's thread opens its file again for each event, also after the run, when the folder is the user's again."""
    (project / "logs").mkdir()
    (project / "train.py").write_text(THREAD + TRAINS)
    assert main(["explain", "train.py"]) == 0
    assert [] == list((project / "logs").iterdir())


DOWNLOADS = """
import os, socket
if not os.path.exists("../beside/data"):
    socket.socket().connect_ex(("127.0.0.1", 9))
    open("../beside/data", "w")
    open("../beside/count", "a").write("once ")
"""


def test_what_the_program_downloads_stays(project):
    """Later runs find the files of a run that used the network, so that they do not download them again."""
    (project.parent / "beside/count").write_text("")
    (project / "train.py").write_text(DOWNLOADS + TRAINS)
    assert main(["explain", "train.py"]) == 0
    assert (project.parent / "beside/count").read_text() == "once "


ABOVE = """
import os
from pathlib import Path
with open("../log.txt", "a") as log:
    log.write("line")
assert Path("../log.txt").read_text() == "line"  # each run starts with the same files
Path("../made/deep").mkdir(parents=True, exist_ok=True)
Path("../made/deep/file.txt").write_text("deep")
Path("../passing.txt").write_text("gone")
os.remove("../passing.txt")
os.makedirs("../beside/passing")
os.removedirs("../beside/passing")  # tries the folders above, too, which are not empty
"""


def test_a_write_above_the_project_is_one_outside(project, capfd):
    """New files above the project are where a plain run writes them, and are listed; temporary ones are gone."""
    (project / "train.py").write_text(TRAINS + ABOVE)
    before = listing(project)
    assert main(["explain", "train.py"]) == 0
    above, told = project.parent, " ".join(capfd.readouterr().out.split())
    assert f"outside of the copy of the project: {above}/log.txt, {above}/made/deep/file.txt." in told
    assert (above / "log.txt").read_text() == "line"
    assert (above / "made/deep/file.txt").read_text() == "deep"
    assert not (above / "passing.txt").exists()
    assert before == listing(project)


@pytest.mark.parametrize("removal", ["os.remove('../kept.txt')", "os.rename('../kept.txt', '../moved.txt')"])
def test_a_removal_above_the_project_is_refused(project, capfd, removal):
    """The file stays, as in any other folder outside of the project."""
    (project.parent / "kept.txt").write_text("kept")
    (project / "train.py").write_text(TRAINS + "import os\n" + removal)
    assert main(["explain", "train.py"]) == 2
    assert f"train.py, line 5: the program removes {project.parent}/kept.txt" in capfd.readouterr().err
    assert (project.parent / "kept.txt").read_text() == "kept"


def test_a_child_process_removes_the_copy(project):
    """The working folder of a child is the copy, so a relative name does not reach the user's files."""
    (project / "train.py").write_text(TRAINS + "import subprocess\nassert subprocess.call(['rm', 'notes.txt']) == 0\n")
    before = listing(project)
    assert main(["explain", "train.py"]) == 0
    assert before == listing(project)


PATH = """
import sys, importlib
from pathlib import Path
import helper
here = Path(sys.path[0])
assert here == Path(__file__).parent == Path(helper.__file__).parent, sys.path
(here / "notes.txt").write_text("new")
(here / "generated.py").write_text("VALUE = 3")
importlib.invalidate_caches()
import generated
assert generated.VALUE == 3
"""


def test_the_path_of_modules_names_the_copy(project, capfd):
    """`sys.path[0]` is the folder of the script's copy; the program imports its own files and files that it writes."""
    (project / "helper.py").write_text("")
    (project / "train.py").write_text(TRAINS + PATH)
    before = listing(project)
    assert main(["explain", "train.py"]) == 0, capfd.readouterr()
    assert before == listing(project)


FAILS = """
from pathlib import Path
def stop():
    assert "/project" in __file__
    raise ValueError(f"no data in {Path(__file__).parent}: {Path.cwd()}")
"""


def test_the_answer_names_the_paths_of_the_user(project, capfd):
    """Neither JSON nor progress contains the folder of the copy, also if the error's message does."""
    (project / "helper.py").write_text(FAILS)
    (project / "train.py").write_text("import helper\n" + TRAINS + "helper.stop()\n")
    assert main(["explain", "--json", "train.py"]) == 1
    printed = capfd.readouterr()
    error = json.loads(printed.out)["error"]
    assert (f"no data in {project}: {project}", 5, "helper.py") == (error["message"], error["line"], error["file"])
    assert f"{tempfile.gettempdir()}/autograder-" not in printed.out + printed.err


def test_the_name_of_a_file_is_not_taken_for_source_text(project):
    """One sentence says how to name the file."""
    with pytest.raises(InputError, match=r"^'train.py' is the name of a file\. Pass pathlib\.Path"):
        autograder.explain("train.py")


def test_a_folder_of_6000_files_is_copied(project, tmp_path):
    """Each run finds all of them as they were."""
    for number in range(6000):
        (project / "made" / str(number % 60)).mkdir(parents=True, exist_ok=True)
        (project / "made" / str(number % 60) / f"{number}.txt").write_text(str(number))
    (tmp_path / "root").mkdir()
    scratch = ScratchFolder(str(tmp_path / "root"))
    for _ in range(2):
        with scratch.entered():
            assert sum(int(path.read_text()) for path in Path("made").rglob("*.txt")) == sum(range(6000))
            Path("made/0/0.txt").unlink()
            Path("made/1/1.txt").write_text("2")
    assert list(scratch.notes()) == []
