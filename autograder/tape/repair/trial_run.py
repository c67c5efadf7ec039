"""One run of a program, and the values it computed, so that two versions of it can be compared."""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.once import run_once
from autograder.tape.run.program import Program
from autograder.tape.run.source_text import ProgramError

LARGEST = 100_000  # elements of a tensor that are compared one by one; larger ones are compared by sums
MEMBERS = 100  # of a list or dictionary that are compared


@dataclass
class TrialRun(Listener):
    """What one run computed.

    Attributes:
        error: the exception's text, or None.
        losses: what backward was called on, call by call.
        values: the tensors that names held when their function returned, keyed "name" or "function.name"; and the results.
        leaves: the names among them that held a leaf which requires grad, each with the leaf's `id`.
        gradients: what backward left in leaves or returned.
    """

    error: str | None = None
    losses: list[Tensor] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    leaves: dict[str, int] = field(default_factory=dict)
    gradients: list[Tensor] = field(default_factory=list)
    cloned_saves: Listener = field(default_factory=Listener)

    def before_backward(self, call: Backward) -> None:
        """Records the numbers that backward starts from."""
        self.cloned_saves.before_backward(call)
        self.losses += [snapshot(root) for root in call.roots if isinstance(root, Tensor)]

    def after_backward(self, call: Backward) -> None:
        """Records the gradients that it gave."""
        self.cloned_saves.after_backward(call)
        self.gradients += [snapshot(one) for one in call.gradients if one is not None]

    def keep(self, name: str, value: Any) -> None:
        """Keeps the tensors in a value: its own, those in lists and dictionaries, a module's parameters, and their gradients."""
        if isinstance(value, Tensor):
            self.values[name] = snapshot(value)
            if value.is_leaf and value.requires_grad:
                self.leaves[name] = id(value)
                self.keep(f"{name}.grad", value.grad)
        elif isinstance(value, float):
            self.values[name] = torch.tensor(value, dtype=torch.float64)
        else:
            for inside, one in members(value):
                self.keep(name + inside, one)


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields what a container or a module holds, each with the expression that reaches it from the container."""
    if isinstance(value, torch.nn.Module):
        yield from ((f".{path}", one) for path, one in value.named_parameters())
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", one) for key, one in list(value.items())[:MEMBERS])
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", one) for place, one in enumerate(value[:MEMBERS]))


def run_trial(program: Program, *, cloned_saves: bool = False, seconds: float) -> TrialRun:
    """Returns what the program computes in plain PyTorch, or with private copies of everything that backward needs.

    The copies show what backward would use if nothing ever wrote into a saved tensor.
    """
    care = ClonedSavesRun() if cloned_saves else None
    trial = TrialRun(cloned_saves=care or Listener())

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        with care.around() if care else contextlib.nullcontext(), names_noted(trial, program):
            yield

    try:
        run = run_once(program, trial, around, seconds=seconds)
    except ProgramError as error:
        trial.error = f"ProgramError: {error}"
        return trial
    if run.error is not None:
        trial.error = f"{type(run.error).__name__}: {run.error} (line {run.line})"
    trial.keep("result", run.returned)
    return trial


@contextlib.contextmanager
def names_noted(trial: TrialRun, program: Program) -> Iterator[None]:
    """Records what names hold when each of the program's own functions returns or raises."""
    previous = sys.getprofile()

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        if (
            event == "return"
            and frame.f_code.co_filename == program.code_file
            and not frame.f_code.co_name.startswith("<l")
        ):
            where = "" if frame.f_code.co_name == "<module>" else frame.f_code.co_qualname + "."
            for name, value in list(frame.f_locals.items()):
                if not name.startswith("__"):
                    trial.keep(where + name, value)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(previous)


def snapshot(tensor: Tensor) -> Tensor:
    """Returns a private copy of the values in float64, or three sums where there are very many."""
    with unheard(), torch.no_grad():
        flat = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
        if flat.numel() > LARGEST:
            flat = torch.stack([flat.sum(), flat.abs().sum(), flat.square().sum()])
        return flat.to("cpu", torch.complex128 if flat.is_complex() else torch.float64, copy=True)


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two snapshots agree up to rounding in single precision."""
    if one.shape != other.shape or one.dtype != other.dtype:  # allclose raises where one is complex and the other real
        return False
    return torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)
