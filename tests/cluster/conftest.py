import pytest

from autograder.grade.sandbox.isolation import LEVELS


@pytest.fixture
def isolated():
    """Skip on a machine without the strongest level."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
