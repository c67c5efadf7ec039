"""The object that `autograder explain --json` prints."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from autograder.tape.recording.schema import VERSION, Recording
from autograder.tape.recording.verdict_types import Verdict


def explain_json(recording: Recording, file: str) -> dict[str, Any]:
    """Returns the object of `explain --json`: plain dictionaries, lists, texts and numbers.

    JSON has no infinity and no not-a-number: where a gradient has one, the object has null.
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
    """Returns the object of `explain --json` for a program of which no outcome can be named, and why."""
    nothing = _of(Verdict("correct", notes=(note,)))
    return {"version": VERSION, "file": file} | nothing | {"outcome": None}


def _of(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    del found["refusal"], found["named"]  # of a check, which `explain` makes none of
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
