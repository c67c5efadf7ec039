"""One run of a program, and the values it computed, so that two versions of it can be compared."""

from __future__ import annotations

import contextlib
import math
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autograder.errors import message_of
from autograder.tape.internals.entry_points import is_in_checkpoint
from autograder.tape.internals.tensor_fields import is_transformed, unheard
from autograder.tape.run.engine import Backward, Listener, copied
from autograder.tape.run.once import run_once
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError

LARGEST = 100_000  # elements of a tensor that are compared one by one; larger ones are compared by sums
PART = 1 << 22  # elements of a large tensor that are summed at once
MEMBERS = 100  # of a list or dictionary that are compared


@dataclass
class CallValues:
    """The numbers of one backward call.

    Attributes:
        losses: what it started from.
        given: what it added to each target's gradient, or returned for it, with the `id` of the target.
        raised: whether it was refused or stopped with an error.
    """

    losses: list[Tensor]
    given: list[tuple[int, Tensor]] = field(default_factory=list)
    raised: bool = False

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients that it gave."""
        return [gradient for _, gradient in self.given]


@dataclass
class TrialRun(Listener):
    """What one run computed.

    Attributes:
        error: the exception's text, or None.
        calls: what each backward started from and gave.
        values: the tensors that names held when their function returned, keyed "name" or "function.name"; and the results.
        numbers: the fractions among them, until the run has ended.
        leaves: the names among them that held a leaf which requires grad, each with the leaf's `id`.
        trained: the values at the end of every leaf that a backward reached; `left` what is in their `.grad` then.
        least, until: after so many backward calls, and that time (by `time.monotonic`), the run may end.
        running: how many backward calls are under way, one inside another.
    """

    error: str | None = None
    calls: list[CallValues] = field(default_factory=list)
    values: dict[str, Tensor] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    leaves: dict[str, int] = field(default_factory=dict)
    trained: list[Tensor] = field(default_factory=list)
    left: list[Tensor] = field(default_factory=list)
    reached: dict[int, Tensor] = field(default_factory=dict)
    held: dict[int, Tensor | None] = field(default_factory=dict)
    running: int = 0
    least: int = 0
    until: float = math.inf

    def is_enough(self, calls: int) -> bool:
        """Whether the time for further backward calls is over."""
        return calls >= self.least and time.monotonic() > self.until

    def before_backward(self, call: Backward) -> None:
        """Records the numbers that backward starts from."""
        self.running += 1
        self.calls.append(CallValues([snapshot(root) for root in call.roots if isinstance(root, Tensor)]))
        self.held = (
            {} if call.returns else {id(target): copied(target.grad) for target in call.targets if target.is_leaf}
        )

    def after_backward(self, call: Backward) -> None:
        """Records the gradients that it gave."""
        self.running -= 1
        self.calls[-1].raised = call.error is not None
        self.calls[-1].given = [(id(target), self.added(target, gradient)) for target, gradient in self.given(call)]
        self.reached |= {id(target): target for target in call.targets if target.is_leaf}

    def given(self, call: Backward) -> list[tuple[Tensor, Tensor]]:
        """Returns the targets of a call with the gradients that count."""
        pairs = zip(call.targets, call.gradients, strict=False)
        return [(target, gradient) for target, gradient in pairs if gradient is not None]

    def added(self, target: Tensor, gradient: Tensor) -> Tensor:
        """Returns the part of a target's gradient that was not there before the call."""
        before = self.held.get(id(target))
        return snapshot(gradient) if before is None else snapshot(gradient) - snapshot(before)

    def counts(self, leaf: Tensor) -> bool:
        """Whether what a leaf's `.grad` holds at the end is to be kept by a repair."""
        return True

    @contextlib.contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """The context of the program's own code; at its end, before anything is restored, the leaves are noted."""
        with names_noted(self, program):
            yield
        self.trained = [snapshot(leaf) for leaf in self.reached.values()]
        self.left = [
            snapshot(leaf.grad) for leaf in self.reached.values() if leaf.grad is not None and self.counts(leaf)
        ]
        self.reached = {}

    def keep(self, name: str, value: Any) -> None:
        """Keeps the tensors in a value: its own, those in lists and dictionaries, a module's parameters, and their gradients.

        What `vmap` maps over has no values outside of it.
        """
        if isinstance(value, Tensor) and is_transformed(value):
            return
        if isinstance(value, Tensor):
            self.numbers.pop(name, None)
            self.values[name] = snapshot(value)
            if value.is_leaf and value.requires_grad:
                self.leaves[name] = id(value)
                self.keep(f"{name}.grad", value.grad)
        elif isinstance(value, float):
            self.values.pop(name, None)
            self.numbers[name] = value  # made a tensor at the end: a function may return it a million times
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


def run_trial(program: Program, trial: TrialRun, *, calls: int | None = None) -> TrialRun:
    """Returns `trial` with what the program computed; with `calls`, until so many backward calls were made."""
    try:
        run = run_once(program, trial, lambda: trial.around(program), calls=calls)
    except ProgramError as error:
        trial.error = f"ProgramError: {error}"
        return trial
    if run.error is not None:
        trial.error = f"{type(run.error).__name__}: {message_of(run.error)} (line {run.line})"
    trial.keep("result", run.returned)
    trial.values |= {name: torch.tensor(value, dtype=torch.float64) for name, value in trial.numbers.items()}
    return trial


@contextlib.contextmanager
def names_noted(trial: TrialRun, program: Program) -> Iterator[None]:
    """Records what names hold when each of the program's own functions returns or raises.

    What a checkpointed block computes again during backward is left out: the run as meant keeps it, and computes it once.
    """
    previous = sys.getprofile()

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        if (
            event == "return"
            and frame.f_code.co_filename == program.code_file
            and not frame.f_code.co_name.startswith("<l")
            and not (trial.running and is_in_checkpoint(frame))
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
            flat = _sums(flat)
        return flat.to("cpu", torch.complex128 if flat.is_complex() else torch.float64, copy=True)


def _sums(tensor: Tensor) -> Tensor:
    """Returns three sums of a large tensor, taken part by part: they need no copy of it."""
    parts = tensor.flatten().split(PART)
    return sum(torch.stack([part.sum(), part.abs().sum(), part.square().sum()]) for part in parts)  # type: ignore[return-value]


def same(one: Tensor, other: Tensor, *, near: bool = False) -> bool:
    """Whether two snapshots agree up to rounding in single precision, or up to the step of finite differences."""
    if one.shape != other.shape or one.dtype != other.dtype:  # allclose raises where one is complex and the other real
        return False
    relative, absolute = (2e-3, 1e-4) if near else (1e-4, 1e-6)
    return torch.allclose(one, other, rtol=relative, atol=absolute, equal_nan=True)
