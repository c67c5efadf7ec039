"""However a run ends, `--resume` completes it with the rows of an undisturbed run; a failing submission changes no other row."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

import psutil
import pytest

from autograder import cli
from autograder.cli.grade_command import has_pending_work
from autograder.grade.backends import local_processes
from autograder.grade.backends.grading_job import GradingTerms, Job
from autograder.grade.backends.local_processes import LocalBackend
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.launch import HostProcess
from autograder.grade.wire.limits import MEBIBYTE
from tests.commands import hear_ctrl_c
from tests.grade.conftest import LIMITS
from tests.grade.hostile.lesson import ASSIGNMENT, RIGHT, WRONG, write_source
from tests.grade.hostile.school import hand_in
from tests.grade.small_course import answer, graded_cell, source
from tests.grade.small_course import hand_in as answered

# Each run grades a class of eight, some more than once: over a minute together.
pytestmark = pytest.mark.slow

start_host = HostProcess.start
STUDENTS = {f"s{number}": RIGHT if number % 2 else WRONG | {"scaled": RIGHT["scaled"]} for number in range(8)}


def enrolled(folder):
    """Return the folder as a class of eight."""
    write_source(folder)
    for student, answers in STUDENTS.items():
        hand_in(folder, student, answers)
    return folder


def rows(folder) -> set:
    """Return all grades and comments, by student and cell."""
    query = """
        SELECT s.student_id, c.name, g.auto_score, g.needs_manual_grade
        FROM grade g JOIN base_cell c ON g.cell_id = c.id JOIN submitted_notebook n ON g.notebook_id = n.id
        JOIN submitted_assignment s ON n.assignment_id = s.id"""
    with sqlite3.connect(folder / "gradebook.db") as database:
        return set(database.execute(query))


@pytest.fixture(scope="module")
def undisturbed(bubblewrap, tmp_path_factory):
    """The rows of an undisturbed run with one process."""
    folder = enrolled(tmp_path_factory.mktemp("undisturbed"))
    grade_assignment(ASSIGNMENT, folder, Options(jobs=1))
    return rows(folder)


def test_the_number_of_processes_changes_nothing(undisturbed, tmp_path):
    """Two processes, in whatever order they finish, give the same rows."""
    folder = enrolled(tmp_path)
    graded = grade_assignment(ASSIGNMENT, folder, Options(jobs=2))
    assert undisturbed == rows(folder)
    assert sorted(STUDENTS) == [row.student for row in graded]


def test_a_killed_run_resumes_with_nothing_lost(undisturbed, tmp_path):
    """Killed with SIGKILL at random moments, twice: its processes are gone, its grades are kept."""
    folder = enrolled(tmp_path)
    chance = random.Random()
    command = command_for(folder)
    for _ in range(2):
        run = subprocess.Popen([*command, "--resume"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        family = _wait_for_grades(run, folder, chance.uniform(0, 0.3))
        run.send_signal(signal.SIGKILL)
        run.wait()
        _, alive = psutil.wait_procs(family, timeout=20)
        assert [] == alive
    assert subprocess.run([*command, "--resume"], capture_output=True, text=True).returncode == 0
    assert undisturbed == rows(folder)
    assert [] == [path for path in folder.rglob(".*writing")]
    again = grade_assignment(ASSIGNMENT, folder, Options(jobs=1, resume=True))
    assert [True] * len(STUDENTS) == [row.unchanged for row in again]


def test_ctrl_c_ends_with_one_sentence_and_resumes(undisturbed, tmp_path):
    """Ctrl-C reaches every process: no traceback, and the next run continues."""
    folder = enrolled(tmp_path)
    # Else all may be graded before anybody on a busy machine sees the first grade.
    hand_in(folder, "z_last", RIGHT | {"scaled": f"import time\ntime.sleep(8)\n{RIGHT['scaled']}"})
    run = subprocess.Popen(
        command_for(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    family = _wait_for_grades(run, folder, 0.0)
    os.killpg(run.pid, signal.SIGINT)
    _, told = run.communicate(timeout=60)
    assert 130 == run.returncode
    assert "autograder: grade was interrupted. Grades so far are kept" in told.splitlines()[-1]
    assert "Traceback" not in told
    _, alive = psutil.wait_procs(family, timeout=20)
    assert [] == alive
    grade_assignment(ASSIGNMENT, folder, Options(jobs=1, resume=True))
    assert undisturbed == {row for row in rows(folder) if row[0] != "z_last"}


def command_for(folder) -> list[str]:
    """Return the command that grades the class with one process."""
    options = ["--course", str(folder), "--feedback", "off", "--jobs", "1"]
    return [sys.executable, "-m", "autograder", "grade", ASSIGNMENT, *options]


def _wait_for_grades(run, folder, pause) -> list[psutil.Process]:
    """Wait until the run has written one more grade, and a little longer; returns its child processes."""
    before = len(list((folder / "autograded").glob("*"))) if (folder / "autograded").exists() else 0
    until = time.monotonic() + 90
    while run.poll() is None and time.monotonic() < until:
        if (folder / "autograded").exists() and len(list((folder / "autograded").glob("*"))) > before:
            break
        time.sleep(0.02)
    time.sleep(pause)
    return psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []


def test_unchanged_work_is_graded_again_only_by_force(undisturbed, tmp_path):
    """A second run skips everything; a changed file, or --force, is graded."""
    folder = enrolled(tmp_path)
    grade_assignment(ASSIGNMENT, folder, Options(jobs=1))
    hand_in(folder, "s0", RIGHT)
    changed = [row.student for row in grade_assignment(ASSIGNMENT, folder, Options(jobs=1)) if not row.unchanged]
    forced = [
        row.student for row in grade_assignment(ASSIGNMENT, folder, Options(jobs=1, force=True)) if not row.unchanged
    ]
    assert (["s0"], sorted(STUDENTS)) == (changed, forced)


def test_no_server_starts_for_unchanged_work(undisturbed, tmp_path, monkeypatch, capsys):
    """A second run without changes does not start a server; new submissions start it."""
    folder = enrolled(tmp_path)
    assert has_pending_work(folder, ASSIGNMENT)
    grade_assignment(ASSIGNMENT, folder, Options(jobs=1))
    assert not has_pending_work(folder, ASSIGNMENT)
    started = []
    monkeypatch.setattr(HostProcess, "start", lambda host: started.append(host) or start_host(host))
    command = ["grade", ASSIGNMENT, "--course", str(folder), "--feedback", "off", "--jobs", "1", "--json"]
    assert (0, []) == (cli.main(command), started)
    assert [True] * len(STUDENTS) == [row["unchanged"] for row in json.loads(capsys.readouterr().out)["students"]]
    hand_in(folder, "s0", RIGHT)
    assert has_pending_work(folder, ASSIGNMENT)
    assert 0 == cli.main(command)
    assert started


SMALL = source(answer("f", "def f(x):\n    return x + 1"), graded_cell("test_f", "assert f(1) == 2\nassert f(5) == 6"))
TIGHT = replace(LIMITS, memory_bytes=300 * MEBIBYTE)
# A child leaves its parents and their session, and would answer the next question on this process's connection.
CHILD = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("child", "w").write("here")
        time.sleep(600)
    os._exit(0)
def f(x):
    return x + 1
"""
CLASS = {
    "right": "def f(x):\n    return x + 1",
    "wrong": "def f(x):\n    return 2",
    "hungry": "kept = []\nwhile True:\n    kept.append(bytearray(32 << 20))\n    kept[-1][:] = bytes(len(kept[-1]))",
    "dies": "import os\nos._exit(0)",
    "leaves a child": CHILD,
    "right, too": "f = lambda x: 1 + x",
}
POINTS = {"right": 1, "wrong": 0, "hungry": 0, "dies": 0, "leaves a child": 1, "right, too": 1}


def jobs(students):
    """Yield the submissions of these students."""
    for student in students:
        yield Job(student, SMALL.name, answered(SMALL, {"f": CLASS[student]}), {})


def row(result):
    """Return the parts of one result that a student and a teacher read, without times."""
    # Which limit of memory a program reaches first is a matter of moments; that it gets nothing is not.
    reasons = {name: "" if result.student == "hungry" else cell.reason for name, cell in result.grade.cells.items()}
    return {name: (cell.status, cell.points, reasons[name]) for name, cell in result.grade.cells.items()}


def test_the_order_of_a_class_changes_no_row(bubblewrap):
    """Two lanes, three orders: programs that run out of memory, end themselves or leave a child do not change other rows."""
    terms, rows = GradingTerms({SMALL.name: SMALL}, "bubblewrap", TIGHT, 7), []
    names = list(CLASS)
    with LocalBackend(terms, 2) as processes:
        for order in (names, names[::-1], [*names[3:], *names[:3]]):
            rows.append({result.student: row(result) for result in processes.grade(jobs(order))})
    assert {name: float(points) for name, points in POINTS.items()} == {
        name: found["test_f"][1] for name, found in rows[0].items()
    }
    assert rows[0] == rows[1] == rows[2]


def test_a_job_in_reserve_is_graded_after_its_lane_has_ended(bubblewrap, monkeypatch):
    """A lane that is killed has its own job and the one in reserve graded by the next lane, in this order."""
    grade, killed = local_processes._Lane.grade, []

    def kill_and_grade(lane, job, limits):
        if job.student == "wrong" and not killed:
            killed.append(lane.process)
            lane.process.kill()
        return grade(lane, job, limits)

    monkeypatch.setattr(local_processes._Lane, "grade", kill_and_grade)
    terms = GradingTerms({SMALL.name: SMALL}, "bubblewrap", LIMITS, 7)
    with LocalBackend(terms, 1) as processes:
        results = list(processes.grade(jobs(["right", "wrong", "right"])))
    assert [("right", 1.0), ("wrong", 0.0), ("right", 1.0)] == [
        (result.student, result.grade.points) for result in results
    ]
    assert 1 == len(killed)


def test_grading_that_takes_too_long_is_one_row(bubblewrap, monkeypatch, tmp_path):
    """A lane that hangs is ended with a reason; the next submission is graded. No file is left behind."""
    grade = local_processes._Lane.grade

    def hang_and_grade(lane, job, limits):
        if job.student == "wrong":
            lane.process.suspend()
        return grade(lane, job, limits)

    monkeypatch.setattr(local_processes._Lane, "grade", hang_and_grade)
    monkeypatch.setattr(local_processes, "MARGIN_SECONDS", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("IPYTHONDIR", raising=False)
    limits = replace(LIMITS, submission_seconds=5)
    terms = GradingTerms({SMALL.name: SMALL}, "bubblewrap", limits, 7)
    with LocalBackend(terms, 1) as processes:
        before, late, after = processes.grade(jobs(["right", "wrong", "right"]))
    assert ("wrong", "not run", 0.0) == (late.student, *row(late)["test_f"][:2])
    assert "grading it took more than 5 seconds" == row(late)["test_f"][2]
    assert before.grade.points == after.grade.points == 1.0
    assert [] == list(tmp_path.iterdir())


DENIED = """
def deny(clone):
    raise PermissionError(1, "denied")
from autograder.grade.sandbox import namespaces
namespaces.fork_into_own_namespaces = deny
"""


def test_a_kernel_without_namespaces_inside_the_sandbox_grades_the_same(bubblewrap, monkeypatch):
    """Each submission then gets a sandbox of its own, and the planner runs outside; the points are those of the class."""
    start = subprocess.Popen

    def start_denied(command, **options):
        return start([f"{DENIED}{part}" if "sandbox.host" in part else part for part in command], **options)

    monkeypatch.setattr("autograder.grade.sandbox.launch.subprocess.Popen", start_denied)
    terms = GradingTerms({SMALL.name: SMALL}, "bubblewrap", LIMITS, 7)
    with LocalBackend(terms, 2) as processes:
        results = list(processes.grade(jobs(["right", "wrong", "right, too"])))
        assert processes._unsandboxed_host is not None
    assert {"right": 1.0, "wrong": 0.0, "right, too": 1.0} == {
        result.student: result.grade.points for result in results
    }
