"""Slow first-time work, done before workers are forked. Importing this module is fast."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterable

from autograder.graded import AUTOGRADE, EXECUTION
from autograder.requirements import import_without

WARM = (
    "torch", "numpy.random", "IPython.display", "autograder.check.prediction", "autograder.check.outcome",
    "autograder.course.learner.after_success", "autograder.course.learner.hints", "autograder.tape", "autograder.view",
    "autograder.grade.sandbox.worker",
)  # fmt: skip

FIRST_PLOT = ("matplotlib.pyplot", "matplotlib_inline.backend_inline")
# Word in a notebook -> modules that import what is loaded on first use. They take most of a second, so only if needed.
LATE = {"optim": ("autograder.grade.sandbox.first_optimizer",), "plot": FIRST_PLOT, "pylab": FIRST_PLOT}
IMPORT = re.compile(r"^ *(?:import|from) +([\w.]+)", re.MULTILINE)
LIBRARIES = {"networkx", "pandas", "scipy", "seaborn", "sklearn", "statsmodels", "sympy"}
"""Libraries of courses that take up to some seconds to import, and start no threads."""

# The operations of a lesson, run once, so that submissions do not wait for slow first-time work.
WARM_UP_CELLS = (
    """
import torch
from torch import nn
from autograder.check import check, leaf, observed, result
def repaired(d, w):
    f = d.clone() * w
    d[:] = 1
    return f
def given(d, w):
    f = d * w
    d[:] = 1
    return f
check("repaired", like=given, at_most=lambda d, w: 9 * d.nbytes, d=result("n", 2), w=leaf(2))
""",
    """
class Given(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Linear(width, width)
    def forward(self, x):
        return torch.sigmoid(self.gate(x))
class Block(Given):
    def forward(self, x):
        return self.gate(x).sigmoid()
check("Block", like=Given, width=2, x=leaf("n", 2))
""",
    """
@observed
def late_write():
    w = torch.ones(2, requires_grad=True)
    a = w.exp()
    a.mul_(2)
    a.sum().backward()
""",
    "from autograder.course.catalogue import beliefs, lessons\nlessons(), beliefs()",
    # Decoders of messages to a worker: msgspec reads the annotations of a type once in a process, when it first decodes one.
    """
import msgspec
from autograder.grade.wire.messages import Batch, Reply
from autograder.tape.recording.schema import Recording
msgspec.msgpack.Decoder(Batch), msgspec.msgpack.Decoder(Reply), msgspec.msgpack.Decoder(Recording)
""",
    "1 / 0",
    "%pwd",
    "1",
)


def late_modules(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the modules to import early, because the cells of a notebook import them, or make PyTorch import them."""
    whole = "\n".join(texts)
    late = [module for word, modules in LATE.items() if word in whole for module in modules]
    return tuple(dict.fromkeys([*late, *(name for name in IMPORT.findall(whole) if name.split(".")[0] in LIBRARIES)]))


def import_modules(modules: Iterable[str]) -> None:
    """Import modules by name; a cell that imports one again raises the error of one that cannot be imported."""
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def import_nbformat() -> None:
    """Import nbformat without one slow dependency; call this before any module that imports nbformat.

    nbformat imports jsonschema, which builds a parser for international addresses if the package `rfc3987_syntax` is
    installed (jsonschema 4.26, `jsonschema/_format.py`; Jupyter requires both). That takes most of a second, for a
    format that notebooks do not use. The package itself can be imported as usual afterwards.
    """
    import_without("rfc3987_syntax", "nbformat", ready="jsonschema")


def import_nbgrader_utils() -> None:
    """Import `nbgrader.utils` without `nbgrader/__init__.py`, which also imports the server extensions and SQLAlchemy (0.9.6).

    That saves a lane a third of a second and 40 MB. Other modules of nbgrader can be imported as usual afterwards.
    """
    if "nbgrader" not in sys.modules and (spec := importlib.util.find_spec("nbgrader")) is not None:
        sys.modules["nbgrader"] = importlib.util.module_from_spec(spec)  # not executed
    importlib.import_module("nbgrader.utils")


def warm_up() -> None:
    """Import the modules that submissions use, run the warm-up cells, and leave a clean shell."""
    from autograder.grade.sandbox.shell import make_shell

    os.environ[EXECUTION] = AUTOGRADE  # permanent: this process and its forks do nothing but grade
    shell = make_shell(1 << 20)  # first, because matplotlib looks for it at import, to show figures below their cell
    import_modules(WARM)
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    for text in WARM_UP_CELLS:
        shell.run(text)
    shell.reset_namespace()
