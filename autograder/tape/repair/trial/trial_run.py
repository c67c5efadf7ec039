"""Run a program and store its results, to compare two versions of it."""

from __future__ import annotations

import collections
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
from autograder.tape.internals.module_parts import named_tensors
from autograder.tape.internals.tensor_fields import is_transformed, mode_paused
from autograder.tape.oracle.excerpt import BEYOND
from autograder.tape.recording.verdict_types import Problem
from autograder.tape.run.engine import Backward, Listener, copied, summed
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.runner import Runner
from autograder.tape.run.storages import is_allocated

LARGEST = 100_000  # largest number of elements that are compared one by one; larger tensors are compared by sums
PART = 1 << 22  # number of elements of a large tensor that are summed at once
ROUNDS = 100  # number of returns of a function that are all stored
MEMBERS = 100  # maximum number of items of a list or dictionary that are compared


@dataclass
class CallValues:
    """The results of a backward call."""

    losses: list[Tensor]  # values of the roots
    # gradients that it added to each target's `.grad` or returned for it, with the `id` of the target
    given: list[tuple[int, Tensor]] = field(default_factory=list)
    raised: bool = False  # whether it raised an error

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients without the ids of their targets."""
        return [gradient for _, gradient in self.given]


@dataclass
class TrialRun(Listener):
    """The results of a run."""

    error: str | None = None  # text of the exception, or None
    problem: Problem | None = None  # the exception
    in_backward: bool = False  # whether a backward call raised it
    calls: list[CallValues] = field(default_factory=list)  # losses and gradients of each backward
    # tensors of the variables when their function returned, by "name" or "function.name", and the result
    values: dict[str, Tensor] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)  # the variables that are a float, until the run has ended
    # names of the leaves that require grad, each with the leaf's `id`
    leaves: dict[str, int] = field(default_factory=dict)
    parameters: dict[str, int] = field(default_factory=dict)  # names of parameters, each with its `id`
    unreached: set[str] = field(default_factory=set)  # the names of those that no backward reached
    trained: list[Tensor] = field(default_factory=list)  # values at the end of the leaves that a backward reached
    left: list[Tensor] = field(default_factory=list)  # `.grad` of these leaves at the end
    # the same without those of the last call of a run that ended early, which the program may have scaled afterwards
    settled: list[Tensor] = field(default_factory=list)
    reached: dict[int, Tensor] = field(default_factory=dict)
    held: dict[int, Tensor | None] = field(default_factory=dict)
    running: int = 0  # number of active backward calls, which may be nested
    most: int | None = None  # number of backward calls after which the run ends
    is_cut: bool = False  # whether it ended early
    # ids of the leaves of a run that ended early, whose updates may be moved
    cut: set[int] = field(default_factory=set)
    starts: list[list[Tensor]] = field(default_factory=list)  # values of the leaves before each of the last calls
    # minimum number of backward calls and time (of `time.monotonic`) after which the run may end
    least: int = 0
    until: float = math.inf

    def is_enough(self, calls: int) -> bool:
        """Return whether the run may end before its next backward call, because its time limit is reached."""
        return calls >= self.least and time.monotonic() > self.until

    def before_backward(self, call: Backward) -> None:
        """Store the losses that backward starts from."""
        self.running += 1
        if self.most is not None and len(self.calls) >= self.most - BEYOND:
            self.starts.append([snapshot(leaf) for leaf in self.reached.values()])
        self.calls.append(CallValues([snapshot(root) for root in call.roots if isinstance(root, Tensor)]))
        keep = summed if call.is_summed else copied  # as the engine keeps the gradients after the call
        self.held = {} if call.returns else {id(target): keep(target.grad) for target in call.targets if target.is_leaf}

    def after_backward(self, call: Backward) -> None:
        """Store the gradients of the call."""
        self.running -= 1
        self.calls[-1].raised = call.error is not None
        self.calls[-1].given = [(id(target), self.added(target, gradient)) for target, gradient in self.given(call)]
        self.reached |= {id(target): target for target in call.targets if target.is_leaf}

    def given(self, call: Backward) -> list[tuple[Tensor, Tensor]]:
        """Return the targets of a call with their gradients."""
        pairs = zip(call.targets, call.gradients, strict=False)
        return [(target, gradient) for target, gradient in pairs if gradient is not None]

    def added(self, target: Tensor, gradient: Tensor) -> Tensor:
        """Return the gradient that the call added to a target."""
        before = self.held.get(id(target))
        return snapshot(gradient) if before is None else snapshot(gradient) - snapshot(before)

    def ended_early(self) -> None:
        """Note that the program was not run to its end."""
        self.is_cut = True

    def counts(self, leaf: Tensor) -> bool:
        """Return whether a fix must keep the leaf's `.grad` at the end."""
        return True

    @contextlib.contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Return the context for the program's code. At its end, before values are restored, it stores the leaves."""
        with names_noted(self, program):
            yield
        # In a run that ended early, perhaps before an update that a fix moves, the last call's loss shows its leaves' values.
        shown = {leaf for leaf, _ in self.calls[-1].given} if self.is_cut and self.calls else set()
        self.trained = [snapshot(leaf) for key, leaf in self.reached.items() if key not in shown]
        given = {key: leaf.grad for key, leaf in self.reached.items() if leaf.grad is not None and self.counts(leaf)}
        left = {key: snapshot(gradient) for key, gradient in given.items()}
        self.left, self.settled = list(left.values()), [value for key, value in left.items() if key not in shown]
        self.cut = set(self.reached) if self.is_cut else set()
        self.unreached = {name for name, parameter in self.parameters.items() if parameter not in self.reached}
        self.reached = {}

    def keep(self, name: str, value: Any, outer: tuple[int, ...] = ()) -> None:
        """Store the tensors of a value, also those in containers and modules, and gradients. Those of `vmap` are invalid outside it.

        A container may contain itself, so those of the containers `outer`, given by their `id`, are not stored again.
        """
        if isinstance(value, Tensor) and is_transformed(value):
            return
        if isinstance(value, Tensor):
            self.numbers.pop(name, None)
            self.values[name] = snapshot(value)
            if isinstance(value, torch.nn.Parameter):
                self.parameters[name] = id(value)
            if value.is_leaf and value.requires_grad:
                self.leaves[name] = id(value)
                self.keep(f"{name}.grad", value.grad)
        elif isinstance(value, float):
            self.values.pop(name, None)
            # Converted to a tensor at the end of the run, because a function may return it a million times.
            self.numbers[name] = value
        elif id(value) not in outer:
            for inside, member in members(value):
                self.keep(name + inside, member, (*outer, id(value)))


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a container or parameters of a module, each with the expression that reaches it."""
    if isinstance(value, torch.nn.Module):
        yield from ((f".{path}", parameter) for path, parameter in named_tensors(value))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", item) for key, item in list(value.items())[:MEMBERS])
    elif isinstance(value, list | tuple):
        yield from ((f"[{place}]", item) for place, item in enumerate(value[:MEMBERS]))


def run_trial(runner: Runner, trial: TrialRun) -> TrialRun:
    """Run the program, and return `trial` with the results."""
    try:
        run = runner.run(trial)
    except ProgramError as error:
        trial.error = f"ProgramError: {error}"
        return trial
    if run.error is not None:
        trial.error = f"{type(run.error).__name__}: {message_of(run.error)} (line {run.line})"
        trial.problem, trial.in_backward = run.problem, run.in_backward
    trial.keep("result", run.returned)
    trial.values |= {name: torch.tensor(value, dtype=torch.float64) for name, value in trial.numbers.items()}
    return trial


@contextlib.contextmanager
def names_noted(trial: TrialRun, program: Program) -> Iterator[None]:
    """Store the values of variables when a function of the program returns or raises.

    Of a function with more than `ROUNDS` returns, the values at the last of 128, 256, 512, … returns are compared, because
    storing takes about 90 µs. The losses and gradients of all calls are compared in any case.

    Recomputation in a checkpoint during backward is skipped: the intended run keeps the saved tensors and computes them
    once.
    """
    previous, returns = sys.getprofile(), collections.Counter[types.CodeType]()

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        is_function = code.co_filename == program.code_file and not code.co_name.startswith("<l")
        if event == "return" and is_function and not (trial.running and is_in_checkpoint(frame)):
            returns[code] += 1
            if returns[code] > ROUNDS and returns[code].bit_count() > 1:
                return
            where = "" if code.co_name == "<module>" else code.co_qualname + "."
            with mode_paused():
                for name, value in list(frame.f_locals.items()):
                    if not name.startswith("__"):
                        trial.keep(where + name, value)

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(previous)


def snapshot(tensor: Tensor) -> Tensor:
    """Return a private copy of the values in float64, or three sums if the tensor is large; nothing if it has lost its memory."""
    if not is_allocated(tensor):
        return torch.empty(0, dtype=torch.float64)
    with mode_paused(), torch.no_grad():
        flat = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
        if flat.numel() > LARGEST:
            parts = flat.flatten().split(PART)  # to avoid a copy of the tensor
            flat = sum(torch.stack([part.sum(), part.abs().sum(), part.square().sum()]) for part in parts)  # type: ignore[assignment]
        return flat.to("cpu", torch.complex128 if flat.is_complex() else torch.float64, copy=True)


def same(left: Tensor, right: Tensor, *, near: bool = False) -> bool:
    """Return whether two snapshots agree up to float32 rounding, or up to the error of finite differences."""
    if left.shape != right.shape or left.dtype != right.dtype:  # allclose raises if only one is complex
        return False
    relative, absolute = (2e-3, 1e-4) if near else (1e-4, 1e-6)
    return torch.allclose(left, right, rtol=relative, atol=absolute, equal_nan=True)
