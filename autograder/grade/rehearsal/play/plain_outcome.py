"""The outcome of a program by plain PyTorch, for tests that ask for an outcome and for no value: `check_outcome`."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable
from typing import Any

import torch

from autograder.grade.rehearsal.play.comparison import same, seed_all
from autograder.tape.recording.verdict_types import Outcome

BACKWARD = ("autograd/__init__.py", "autograd/graph.py")  # where PyTorch's Python calls its engine


def plain_outcome(program: Callable[[], Any]) -> Outcome:
    """Runs a program as it is, and again with a copy of each tensor that is saved for backward.

    Where what it returns differs, a saved tensor was overwritten without an error. What it does not return is not compared.
    """
    try:
        as_it_is = _returned(program)
    except Exception as error:  # noqa: BLE001 - an edited answer may raise anything
        return _raised(error)
    try:
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda copy: copy):
            meant = _returned(program)
    except Exception as error:  # noqa: BLE001 - as above
        return _raised(error)
    return "correct" if same(as_it_is, meant) else "silently-wrong"


def _returned(program: Callable[[], Any]) -> Any:
    seed_all()
    with contextlib.redirect_stdout(io.StringIO()):
        return program()


def _raised(error: Exception) -> Outcome:
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return "raises-backward" if any(file.endswith(BACKWARD) for file in files) else "raises-forward"
