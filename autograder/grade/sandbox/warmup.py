"""What is slow the first time, done before any submission is forked."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

WARM = (
    "torch",
    "numpy.random",
    "matplotlib.pyplot",
    "matplotlib_inline.backend_inline",
    "IPython.display",
    "autograder.check.culprits",
    "autograder.check.outcome",
    "autograder.course.hints",
    "autograder.tape",
    "autograder.view",
    "autograder.grade.sandbox.worker",
)

# By a word in a notebook: what PyTorch 2.13 loads when it is first used. It takes most of a second, so only where it is.
LATE = {"optim": "autograder.grade.sandbox.first_optimizer"}

# What a lesson does, once, so that no submission pays for what is slow the first time.
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
    "1 / 0",
    "%pwd",
    "1",
)


def late_modules(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns the modules that the cells of a notebook will make PyTorch load."""
    whole = "\n".join(texts)
    return tuple(module for word, module in LATE.items() if word in whole)


def load(modules: Iterable[str]) -> None:
    """Imports what is not imported yet."""
    for name in modules:
        importlib.import_module(name)


def warm_up() -> None:
    """Imports what submissions use, and does once what they do; leaves a clean shell."""
    from autograder.grade.sandbox.shell import make_shell

    shell = make_shell(1 << 20)  # first: matplotlib asks for it when it is imported, to show figures below their cell
    load(WARM)
    import torch

    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    for text in REHEARSAL:
        shell.run(text, 60.0)
    shell.forget()
