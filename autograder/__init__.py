"""See what autograd holds, fix what breaks it: lessons, explanations and grades for PyTorch's in-place operations.

Importing this package loads no torch; `autograder.explain`, `autograder.watch` and `%load_ext autograder` do when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.api import explain as explain
    from autograder.tape.watch.job_watch import watch as watch

_HOMES = {"explain": "autograder.api", "watch": "autograder.tape.watch.job_watch"}

__all__ = [*_HOMES, "load_ipython_extension"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    from autograder import graded
    from autograder.installation.requirements import require

    require("explain")
    if name == "explain" and graded.is_graded():
        return graded.explain
    return getattr(importlib.import_module(_HOMES[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """Makes the cell magic `%%explain` known; IPython calls it for `%load_ext autograder`."""
    from autograder import graded
    from autograder.installation.requirements import require

    require("explain")
    if graded.is_graded():
        graded.load_magic(shell)
        return
    from autograder.api import load_magic

    load_magic(shell)
