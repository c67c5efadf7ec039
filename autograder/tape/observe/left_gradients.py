"""Find gradients that another loss left, and that a step uses as well, and parameters that have no gradient in any step."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.weak import WeakIdKeyDictionary

from autograder.tape.internals.entry_points import around_optimizer_steps
from autograder.tape.internals.tensor_fields import mode_paused
from autograder.tape.observe.names import names_in
from autograder.tape.observe.optimizer_steps import KEPT, is_empty
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.engine import Backward
from autograder.tape.run.programs.program import Program
from autograder.tape.run.storages import fingerprint


@dataclass(frozen=True)
class FirstUse:
    """The first step after a backward call that used its gradients: its line, its parameters, and the calls before it."""

    place: Place
    parameters: set[int]
    calls: int


@dataclass
class FirstStep:
    """The first step of an optimizer for a parameter."""

    # number of backward calls before the step of an optimizer before it, and before this one
    before: int
    calls: int
    position: int  # that of the parameter in the optimizer
    values: bytes | int = 0  # fingerprint of the parameter's values, if it had no gradient in this step
    filled: bool = False  # whether it had a gradient in this step or in a later one
    # whether the program itself changes its values, as for a target network, or puts another parameter in its place
    is_updated: bool = False


@dataclass
class LeftGradient:
    """Gradients of the backward at `first`, which `used` used, and to which that at `second` added before `update`."""

    first: Place
    used: Place
    second: Place
    update: Place
    names: list[str] = field(default_factory=list)


class LeftGradients:
    """Follows the backward calls whose gradients each leaf contains, and the steps that use them, in a run of any length."""

    program: Program

    def __init__(self) -> None:
        self.found: dict[Place, LeftGradient] = {}
        self._calls: list[Place] = []
        self._inside: dict[int, list[int]] = {}  # by id of a leaf, the numbers of the calls that its gradient contains
        self._uses: dict[int, FirstUse] = {}
        self._first_steps: MutableMapping[torch.Tensor, FirstStep] = WeakIdKeyDictionary()
        self._empty: list[FirstStep] = []
        self._replaced: MutableMapping[torch.Tensor, bool] = WeakIdKeyDictionary()  # those that left their module
        # number of calls, those of autograd.grad included, and that before the last step
        self._started = self._before = 0

    @property
    def without_gradient(self) -> list[FirstStep]:
        """The first steps of parameters that had no gradient in any step of their optimizer."""
        return [step for step in self._empty if not step.filled]

    @contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Follow the steps of optimizers in the block."""
        self.program = program
        handle = register_module_parameter_registration_hook(self._replace)
        try:
            with around_optimizer_steps(self._step, lambda _: None):
                yield
        finally:
            handle.remove()

    def _replace(self, module: torch.nn.Module, name: str, parameter: torch.Tensor) -> None:
        old = vars(module)["_parameters"].get(name)
        if old is not None and old is not parameter:
            self._replaced[old] = True

    def before_backward(self, call: Backward) -> None:
        """Note the leaves to whose gradients a call adds."""
        self._started += 1
        if call.returns:
            return
        for leaf in call.targets:
            if leaf.is_leaf:
                inside = [] if is_empty(leaf.grad) else self._inside.get(id(leaf), [])
                self._inside[id(leaf)] = [*inside[-KEPT:], len(self._calls)]
        self._calls.append(self.program.here())

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        with mode_paused():
            parameters = [one for group in optimizer.param_groups for one in group.get("params", ())]
            filled = [id(one) for one in parameters if one.grad is not None]
            self._note_first_steps(parameters)
            inside = {leaf: self._inside[leaf] for leaf in filled if leaf in self._inside}
            for leaf, (*earlier, last) in inside.items():
                first = next((call for call in earlier if self._is_left(leaf, call, last)), None)
                if first is not None:
                    # Several calls may add before the step: the gradient has to be cleared before the first of them.
                    self._add(leaf, first, next(call for call in (*earlier, last) if call >= self._uses[first].calls))
            new = {call for calls in inside.values() for call in calls} - self._uses.keys()
            if new:
                self._uses |= dict.fromkeys(new, FirstUse(self.program.here(), set(inside), len(self._calls)))
                self._uses = dict(list(self._uses.items())[-KEPT:])

    def _note_first_steps(self, parameters: list[torch.Tensor]) -> None:
        for position, parameter in enumerate(parameters):
            step = self._first_steps.get(parameter)
            if step is None and parameter.requires_grad:
                step = self._first_steps[parameter] = FirstStep(self._before, self._started, position)
                if parameter.grad is None:
                    step.values = fingerprint(parameter)
                    self._empty.append(step)
            if step is not None and not step.filled:
                step.filled = parameter.grad is not None
                is_changed = parameter in self._replaced or fingerprint(parameter) != step.values
                step.is_updated |= not step.filled and is_changed
        self._before = self._started

    def _is_left(self, leaf: int, call: int, last: int) -> bool:
        """Return whether a step for other parameters used the gradients of a call before `last`, a call of another line."""
        use = self._uses.get(call)
        is_used = use is not None and leaf not in use.parameters and use.calls <= last
        return is_used and self._calls[call] != self._calls[last]

    def _add(self, leaf: int, first: int, last: int) -> None:
        second, update = self._calls[last], self.program.here()
        left = LeftGradient(self._calls[first], self._uses[first].place, second, update)
        left = self.found.setdefault(second, left)
        name = names_in(list(self.program.frames())[::-1]).get(leaf) if left.update == update else None
        if name is not None and name not in left.names:
            left.names.append(name)
