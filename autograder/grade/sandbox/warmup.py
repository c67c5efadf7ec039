"""What is slow the first time, done before submissions are forked. Importing this module imports nothing slow."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable

from autograder.graded import AUTOGRADE, EXECUTION

WARM = (
    "torch",
    "numpy.random",
    "IPython.display",
    "autograder.check.programs.culprits",
    "autograder.check.programs.outcome",
    "autograder.course.learner.after_success",
    "autograder.course.learner.hints",
    "autograder.course.learner.lesson_end",
    "autograder.course.learner.playing",
    "autograder.tape",
    "autograder.view",
    "autograder.grade.sandbox.worker",
)

# By a word in a notebook: what is imported when it is first used. Each takes most of a second, so only if needed.
LATE = {
    "optim": "autograder.grade.sandbox.first_optimizer",
    "plot": "autograder.grade.sandbox.first_plot",
    "pylab": "autograder.grade.sandbox.first_plot",
}

# What a lesson does, run once, so that no submission has to wait for what is slow the first time.
REHEARSAL = (
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
    # What a worker is sent. msgspec reads a type's annotations once in a process, when it first decodes one.
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
    """Returns the modules that load what the cells of a notebook will import late."""
    whole = "\n".join(texts)
    return tuple(dict.fromkeys(module for word, module in LATE.items() if word in whole))


def import_modules(modules: Iterable[str]) -> None:
    """Imports modules by name."""
    for name in modules:
        importlib.import_module(name)


def import_nbformat() -> None:
    """Imports nbformat without one slow requirement; to be called before any module that imports nbformat at its top.

    nbformat imports jsonschema, which builds a parser for international addresses if the package `rfc3987_syntax` is
    installed (jsonschema 4.26, `jsonschema/_format.py`; Jupyter requires both). That takes most of a second, for a format
    that no notebook uses. The package itself can be imported as usual afterwards.
    """
    _import_without("rfc3987_syntax", "nbformat", ready="jsonschema")


def import_igraph() -> None:
    """Imports what the trusted process draws with, and not matplotlib, in which igraph could show a graph of its own.

    igraph 1.0 imports matplotlib if it is installed (`igraph/drawing/matplotlib/utils.py`), which takes most of a second.
    """
    _import_without("matplotlib", "igraph", ready="igraph")


def _import_without(missing: str, name: str, ready: str) -> None:
    """Imports a module as if another were not installed, unless that is imported already or `ready` is."""
    if missing in sys.modules or ready in sys.modules:
        importlib.import_module(name)
        return
    sys.modules[missing] = None  # type: ignore[assignment]  # an import of it raises ImportError
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[missing]


def warm_up() -> None:
    """Imports what submissions use, and runs the rehearsal; leaves a clean shell."""
    from autograder.grade.sandbox.shell import make_shell

    os.environ[EXECUTION] = AUTOGRADE  # for good: this process and its forks do nothing else
    shell = make_shell(1 << 20)  # first: matplotlib looks for it at import, to show figures below their cell
    import_modules(WARM)
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    for text in REHEARSAL:
        shell.run(text, 60.0)
    shell.forget()
