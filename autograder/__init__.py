"""See what autograd holds, fix what breaks it: lessons, explanations and grades for PyTorch's in-place operations.

Importing this package loads no torch; `autograder.explain` and `%load_ext autograder` do when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autograder.api import explain as explain

__all__ = ["explain", "load_ipython_extension"]


def __getattr__(name: str) -> object:
    if name != "explain":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from autograder.requirements import require

    require("explain")
    from autograder.api import explain

    return explain


def load_ipython_extension(shell: Any) -> None:
    """Makes the cell magic `%%explain` known; IPython calls it for `%load_ext autograder`."""
    from autograder.requirements import require

    require("explain")
    from autograder.api import load_magic

    load_magic(shell)
