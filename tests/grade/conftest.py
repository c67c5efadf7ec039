import pytest

from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.sandbox.shell import make_shell
from autograder.grade.submission.cell_planner import CellPlanner
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.teacher.source import plan_of_source
from autograder.grade.wire.limits import MEBIBYTE, Limits

LIMITS = Limits(cell_seconds=5, submission_seconds=30, memory_bytes=512 * MEBIBYTE)

EACH_LEVEL = ["bubblewrap", *(pytest.param(level, marks=pytest.mark.slow) for level in ("user", "process"))]
"""The isolation levels, as parameters of a fixture."""


@pytest.fixture(scope="session")
def bubblewrap():
    """Skip a test of the isolation on a machine that does not have it."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)


@pytest.fixture(scope="session")
def server(bubblewrap):
    """A warm server at the strongest level, one for all files of a worker."""
    with ServerClient(LEVELS["bubblewrap"], LIMITS) as server:
        server.start()
        control = server._host.fork("judge server")
        with ServerClient(LEVELS["bubblewrap"], LIMITS, control, "judge server") as server.judges:
            yield server


def grader_of(server):
    """Return a grader for the servers of the fixture, which judges tests by their kinds in the source if it gets no plan."""
    grader = SubmissionGrader(server, server.judges, CellPlanner(make_shell(server.limits.output_bytes)))
    own = grader.grade
    grader.grade = lambda source, data, files, seed=5, plan=None, *, pictures=False: own(
        source, data, files, seed, plan or plan_of_source(source), pictures=pictures
    )
    return grader


@pytest.fixture(scope="module")
def grader(server):
    """A grader at the strongest level."""
    return grader_of(server)
