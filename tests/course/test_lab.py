"""`lab`: copies for the student, settings inside the clone, a server that starts and stops cleanly."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from autograder.course import lab
from autograder.course.paths import NOTEBOOKS, ROOT, lessons
from tests.commands import hear_ctrl_c


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A course folder that a test may write to."""
    shutil.copytree(NOTEBOOKS, tmp_path / "notebooks")
    for name in ("NOTEBOOKS", "WORK", "HOME"):
        folder = {"NOTEBOOKS": "notebooks", "WORK": "work", "HOME": ".home"}[name]
        monkeypatch.setattr(lab, name, tmp_path / folder)
    return tmp_path


def test_lessons_are_handed_out_once(clone):
    """Every lesson is copied; a second call has no effect."""
    assert [] == lab.hand_out() == lab.hand_out()
    copies = {path.relative_to(clone / "work") for path in lessons(clone / "work")}
    assert copies == {path.relative_to(NOTEBOOKS) for path in lessons(NOTEBOOKS)}


def test_an_update_renews_what_nobody_touched_and_keeps_answers(clone):
    """A new release replaces an unchanged copy; a copy with answers is kept, and one line reports that."""
    lab.hand_out()
    touched, untouched = lessons(clone / "work")[:2]
    touched.write_text(touched.read_text().replace(" a ", " my ", 1))
    mine = touched.read_text()
    for copy in (touched, untouched):
        released = clone / "notebooks" / copy.relative_to(clone / "work")
        released.write_text(released.read_text().replace(" the ", " now the ", 1))

    told = lab.hand_out()
    assert mine == touched.read_text()
    assert " now the " in untouched.read_text()
    assert [True] == [touched.parent.name in line for line in told]


def test_a_copy_is_what_jupyterlab_would_save_of_it(clone):
    """The copy contains the kernel's language metadata, so opening it has no effect; a copy without them counts as unchanged."""
    lab.hand_out()
    copy = lessons(clone / "work")[0]
    notebook = json.loads(copy.read_text())
    told = "from ipykernel.ipkernel import IPythonKernel as K; import json; print(json.dumps(K.language_info))"
    assert json.loads(subprocess.check_output([sys.executable, "-c", told])) == notebook["metadata"].pop(
        "language_info"
    )
    copy.write_text(json.dumps(notebook))
    released = clone / "notebooks" / copy.relative_to(clone / "work")
    released.write_text(released.read_text().replace(" the ", " now the ", 1))
    assert [] == lab.hand_out()
    assert " now the " in copy.read_text()


def test_a_file_that_is_no_notebook_is_kept(clone):
    """A student's own file in the place of a lesson is kept."""
    lab.hand_out()
    copy = lessons(clone / "work")[0]
    copy.write_text("[1, 2")
    lab.hand_out()
    assert "[1, 2" == copy.read_text()


@pytest.mark.parametrize(("word", "told"), [("nothing", "matches no lesson"), ("0", "matches more than one lesson")])
def test_a_lesson_that_is_not_one_is_told(word, told):
    """A name that fits no lesson, or several, lists the lessons."""
    with pytest.raises(lab.SetupError, match=f"{told}.*02_mutating_a_saved_tensor"):
        lab._page(word)


def test_a_taken_port_is_told_and_the_next_one_taken_otherwise():
    """A named port that is taken is refused; without a name the first free one is used."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(lab.SetupError, match=f"port {port} is taken"):
            lab._port(port)
        assert port != lab._port(None)


@pytest.mark.parametrize("teacher", [False, True])
def test_a_learner_does_not_meet_the_teachers_tools(clone, teacher):
    """formgrader and the assignment lists are off for a student and on for a teacher; Validate is on for both."""
    lab._write_settings(teacher)
    config = clone / ".home" / "jupyter" / "config"
    disabled = json.loads((config / "labconfig" / "page_config.json").read_text())["disabledExtensions"]
    servers = json.loads((config / "jupyter_server_config.json").read_text())["ServerApp"]["jpserver_extensions"]
    assert teacher is not disabled["@jupyter/nbgrader:formgrader"]
    assert teacher is servers["nbgrader.server_extensions.formgrader"]
    assert "@jupyter/nbgrader:validate-assignment" not in disabled


@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_the_server_starts_serves_and_stops(stop):
    """The printed address responds, and Ctrl-C or a signal ends the server and the command with exit code 0."""
    command = [sys.executable, "-m", "autograder", "lab", "02", "--no-browser"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear_ctrl_c
    )
    address = next(line for line in process.stdout if "http" in line).split()[-1]
    assert 200 == urllib.request.urlopen(address).status
    assert "02_mutating_a_saved_tensor.ipynb" in address

    os.kill(process.pid, stop)
    assert 0 == process.wait(timeout=30)
    port = int(address.split(":")[2].split("/")[0])
    time.sleep(0.2)
    with socket.socket() as probe:
        assert 0 != probe.connect_ex(("127.0.0.1", port))


def test_jupyter_reads_and_writes_inside_the_clone():
    """Every place where Jupyter, IPython and matplotlib keep files is below the clone."""
    environment = lab._environment()
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")
    assert all(Path(environment[place]).is_relative_to(ROOT) for place in places)


def test_a_folder_that_cannot_be_written_is_told(clone, monkeypatch):
    """If the copies cannot be created, one sentence names the folder and a solution; the server is not started."""
    (clone / "file").write_text("in the way")
    monkeypatch.setattr(lab, "HOME", clone / "file" / ".home")
    with pytest.raises(lab.SetupError, match="file.* cannot be written .*Run the command in a folder of your own"):
        lab.open_lab(None, port=None, browser=False, teacher=False)
