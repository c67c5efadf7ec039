import pytest

from autograder.grade.sandbox.walls import probe
from autograder.grade.submission.remote import Server
from autograder.grade.wire.limits import MEBIBYTE, Limits

LIMITS = Limits(cell_seconds=5, submission_seconds=30, memory_bytes=512 * MEBIBYTE)


@pytest.fixture(scope="session")
def walls():
    """Skips where this machine has no namespaces: what is tested here is that they hold."""
    if probe().level != "bubblewrap":
        pytest.skip(f"needs bubblewrap to work here: {probe().reason}")


@pytest.fixture(scope="module")
def server(walls):
    """A warm server at the strongest level."""
    with Server("bubblewrap", LIMITS) as server:
        yield server
