"""Recordings that the view's tests draw: made by make_recordings.py, read here without torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from autograder.tape.recording.schema import Recording, from_json, to_json

FOLDER = Path(__file__).parent / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
SCRIPT = '"><img src=x onerror=alert(1)></text><script>alert(2)</script>&lt;'

SAVED_TAGS = {
    "div", "p", "strong", "table", "tbody", "tr", "td", "b", "br", "small", "code", "details", "summary", "pre", "img",
}  # fmt: skip
"""The elements of a saved output."""


def stored(name: str) -> Recording:
    """Return a stored recording."""
    return from_json((FOLDER / f"{name}.json").read_bytes())


@pytest.fixture
def recorded() -> Callable[[str], Recording]:
    """A function that reads a stored recording by its name."""
    return stored


@pytest.fixture(params=NAMES)
def recording(request: pytest.FixtureRequest) -> Recording:
    """Each stored recording in turn."""
    return stored(request.param)


@pytest.fixture
def hostile() -> Recording:
    """The two matmuls, with markup in everything that a program can choose: names, values, source, file, messages."""
    whole = msgspec.json.decode(to_json(stored("raises_backward")))
    for step in whole["steps"]:
        for change in step["names"]:
            change["name"] = SCRIPT
        for state in step["states"]:
            state["values"] = SCRIPT
        step["place"]["text"] = SCRIPT
        for write in step["writes"]:
            write["through"] = SCRIPT
    for node in whole["nodes"]:
        node["name"] = SCRIPT
        node["scope"] = [SCRIPT]
    for edge in whole["saved"]:
        edge["name"] = SCRIPT
    for visit in whole["backward"]:
        visit["got"] = visit["true"] = visit["message"] = SCRIPT
    whole["programs"][0] |= {"file": SCRIPT, "source": f"{SCRIPT}\n" * 10}
    verdict = whole["verdict"]
    verdict["error"]["message"] = SCRIPT
    verdict["notes"] = [SCRIPT]
    verdict["gradients"] = {SCRIPT: {"got": [1.0], "true": [2.0]}}
    return msgspec.convert(whole, Recording)
