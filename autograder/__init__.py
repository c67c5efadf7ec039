"""A course about PyTorch's in-place operations, explanations of autograd errors, and a grader for nbgrader courses.

PyTorch is imported when `autograder.explain`, `autograder.watch` or `%load_ext autograder` is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.api import explain as explain
    from autograder.tape.watch.watch_session import watch as watch

_HOMES = {"explain": "autograder.api", "watch": "autograder.tape.watch.watch_session"}

__all__ = [*_HOMES, "load_ipython_extension"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from autograder import graded
    from autograder.requirements import require

    require("explain")
    if name == "explain" and graded.is_graded():
        return graded.explain
    value = getattr(importlib.import_module(_HOMES[name]), name)
    if name == "watch":  # a loop may use the name in each step, and the checks of `require` take 2 ms
        globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """Register the magics `%%explain` and `%explain`; IPython calls this for `%load_ext autograder`."""
    from autograder import graded
    from autograder.requirements import require

    require("explain")
    if graded.is_graded():
        graded.load_magic(shell)
        return
    from autograder.api import load_magic

    load_magic(shell)
