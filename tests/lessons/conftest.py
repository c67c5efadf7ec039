"""Fixtures of the tests of checks in lessons."""

import pytest

from autograder.check import attempt_picture, outcome


@pytest.fixture
def shown(monkeypatch):
    """Return the recordings that checks show, as a notebook would draw them."""
    recordings = []
    for module in (attempt_picture, outcome):
        monkeypatch.setattr(module, "draws_here", lambda: True)
        monkeypatch.setattr(module, "show", lambda recording, **_: recordings.append(recording))
    return recordings
