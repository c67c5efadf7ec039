"""The object that `autograder explain --json` prints."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from autograder.tape.recording.schema import VERSION, Recording
from autograder.tape.recording.verdict_types import Verdict


def explain_json(recording: Recording, file: str) -> dict[str, Any]:
    """Return the object that `explain --json` prints, as dictionaries, lists, strings and numbers.

    JSON has neither infinity nor NaN; such elements of a gradient become null.
    """
    verdict = _of(recording.verdict)
    for harm in verdict["harms"]:
        del harm["edge"]
    for gradient in verdict["gradients"].values():
        del gradient["unlisted"]
        if gradient["ran"] is None:
            del gradient["ran"]
    return {"version": recording.version, "file": file} | _finite(verdict)


def unknown_json(file: str, note: str) -> dict[str, Any]:
    """Return the object that `explain --json` prints for a program without a known outcome. `note` gives the reason."""
    nothing = _of(Verdict("correct", notes=(note,)))
    return {"version": VERSION, "file": file} | nothing | {"outcome": None}


def _of(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    del found["refusal"], found["named"]  # only checks set these fields
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
