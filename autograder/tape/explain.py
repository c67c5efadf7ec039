"""From a file to its recording, and from a recording to the object that `explain --json` prints."""

from __future__ import annotations

import math
import os
from typing import Any

import msgspec

from autograder.tape.program import from_file
from autograder.tape.recorder import record_program
from autograder.tape.recording import Recording
from autograder.tape.run import SECONDS


def explain_file(path: str | os.PathLike, function: str | None = None, *, seconds: float = SECONDS) -> Recording:
    """Returns the recording of a script that is run as `__main__`, or of one function of a module.

    Args:
        path: a Python file; its neighbours can be imported as when it is run by itself.
        function: a function that needs no argument, or what the module's `make()` returns; a method as "Class.method". Where none
            is named and the script itself never runs a backward, its `run` is called.
        seconds: how long one run may take; there are at least three.

    Raises:
        ProgramError: it cannot be run; the message says in one sentence what was seen and what to do.
    """
    return record_program(from_file(path, function), seconds)


def explain_json(recording: Recording, file: str) -> dict[str, Any]:
    """Returns the object of `explain --json`: plain dictionaries, lists, texts and numbers.

    JSON has no word for infinity or not-a-number: where a gradient holds one, null stands.
    """
    verdict = msgspec.to_builtins(recording.verdict)
    for harm in verdict["harms"]:
        del harm["edge"]
    for gradient in verdict["gradients"].values():
        del gradient["unlisted"]
    return {"version": recording.version, "file": file} | _finite(verdict)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
