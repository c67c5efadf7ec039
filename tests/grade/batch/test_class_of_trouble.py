"""A failing submission does not affect others: in any order of the class, each submission has the row that it has alone."""

import tempfile
from dataclasses import replace

import pytest

from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.where import local_processes
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import LocalBackend
from autograder.grade.wire.limits import MEBIBYTE
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, source

pytestmark = pytest.mark.slow

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
        yield Job(student, SMALL.name, hand_in(SMALL, {"f": CLASS[student]}), {})


def row(result):
    """Return the parts of one result that a student and a teacher read, without times."""
    # Which limit of memory a program reaches first is a matter of moments; that it gets nothing is not.
    reasons = {name: "" if result.student == "hungry" else cell.reason for name, cell in result.grade.cells.items()}
    return {name: (cell.status, cell.points, reasons[name]) for name, cell in result.grade.cells.items()}


def test_the_order_of_a_class_changes_no_row(bubblewrap):
    """Two lanes, three orders: programs that run out of memory, end themselves or leave a child do not change other rows."""
    terms, rows = GradingTerms({SMALL.name: SMALL}, LEVELS["bubblewrap"], TIGHT, 7), []
    names = list(CLASS)
    with LocalBackend(terms.level, 2) as backend, backend.graders(terms) as processes:
        for order in (names, names[::-1], [*names[3:], *names[:3]]):
            rows.append({result.student: row(result) for result in processes.grade(jobs(order))})
    assert {name: float(points) for name, points in POINTS.items()} == {
        name: found["test_f"][1] for name, found in rows[0].items()
    }
    assert rows[0] == rows[1] == rows[2]


def test_a_job_in_reserve_is_graded_after_its_lane_has_ended(bubblewrap, monkeypatch):
    """A lane that is killed has its own job and the one in reserve graded by the next lane, in this order; a large job, too."""
    begin, killed = local_processes._Lane._set_deadlines, []

    def begin_and_kill(lane, job, *others):
        begin(lane, job, *others)
        if job.student == "wrong" and not killed:
            killed.append(lane.process)
            lane.process.kill()

    monkeypatch.setattr(local_processes._Lane, "_set_deadlines", begin_and_kill)
    terms = GradingTerms({SMALL.name: SMALL}, LEVELS["bubblewrap"], LIMITS, 7)
    for largest in (local_processes.FITS_SOCKET, 0):
        monkeypatch.setattr(local_processes, "FITS_SOCKET", largest)
        killed.clear()
        with LocalBackend(terms.level, 1) as backend, backend.graders(terms) as processes:
            results = list(processes.grade(jobs(["right", "wrong", "right"])))
        assert [("right", 1.0), ("wrong", 0.0), ("right", 1.0)] == [
            (result.student, result.grade.points) for result in results
        ]
        assert 1 == len(killed)


def test_grading_that_takes_too_long_is_one_row(bubblewrap, monkeypatch, tmp_path):
    """A lane that hangs is ended with a reason; the next submission is graded. No file is left behind."""
    begin = local_processes._Lane._set_deadlines

    def begin_and_hang(lane, job, *others):
        begin(lane, job, *others)
        if job.student == "wrong":
            lane.process.suspend()

    monkeypatch.setattr(local_processes._Lane, "_set_deadlines", begin_and_hang)
    monkeypatch.setattr(local_processes, "MARGIN_SECONDS", 10)
    monkeypatch.setattr(local_processes, "PLANNING_SECONDS", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("IPYTHONDIR", raising=False)
    limits = replace(LIMITS, submission_seconds=5)
    terms = GradingTerms({SMALL.name: SMALL}, LEVELS["bubblewrap"], limits, 7)
    with LocalBackend(terms.level, 1) as backend, backend.graders(terms) as processes:
        before, late, after = processes.grade(jobs(["right", "wrong", "right"]))
    assert ("wrong", "not run", 0.0) == (late.student, *row(late)["test_f"][:2])
    assert "grading it took more than 5 seconds" == row(late)["test_f"][2]
    assert before.grade.points == after.grade.points == 1.0
    assert [] == list(tmp_path.iterdir())
