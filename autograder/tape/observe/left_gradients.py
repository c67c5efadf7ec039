"""Find gradients that another loss or an earlier update left, that are cleared unused, and parameters that never have one."""

from __future__ import annotations

import weakref
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.weak import WeakIdKeyDictionary

from autograder.tape.internals.entry_points import around_optimizer_steps
from autograder.tape.internals.mode_stack import next_sequence_number, sequence_number
from autograder.tape.internals.tensor_fields import mode_paused
from autograder.tape.observe.names import names_in
from autograder.tape.observe.optimizer_steps import Parameters, is_empty
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import leaves_among, nodes_below
from autograder.tape.run.programs.program import Program
from autograder.tape.run.storages import fingerprint

KEPT = 64  # number of backward calls to remember of each leaf


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
    # whether the program itself changes its values, such as for a target network, or puts another parameter in its place
    is_updated: bool = False


@dataclass
class LeftGradient:
    """Gradients of the backward at `first`, to which that at `second` added before `update`.

    `used` is the step of other parameters that used them; None if they were cleared for the other parameters of `second`.
    """

    first: Place
    used: Place | None
    second: Place
    update: Place
    names: list[str] = field(default_factory=list)


class UsedGradients:
    """Finds the gradients that two updates use, because they were not cleared between these."""

    def __init__(self) -> None:
        # by id of a leaf whose gradient an update has used, the line of the first backward call that added to it since, or None
        self._added: dict[int, Place | None] = {}

    def clear(self, leaf: int) -> None:
        """Process a leaf whose gradient is cleared."""
        self._added.pop(leaf, None)

    def fill(self, leaf: int, here: Place, *, is_first: bool) -> None:
        """Process a leaf to whose gradient a backward call will add. `is_first` means that the gradient is empty."""
        if is_first:
            self.clear(leaf)
        elif self._added.get(leaf, here) is None:
            self._added[leaf] = here

    def use(self, leaf: int) -> Place | None:
        """Process an update with a leaf's gradient. Return the line that added to it after another update had used it, or None."""
        added, self._added[leaf] = self._added.get(leaf), None
        return added


@dataclass
class ReusedGradient:
    """Gradients that an earlier step had used and that the one at `update` used again."""

    update: Place
    steps: list[FirstStep]  # the first steps of their parameters
    names: list[str]  # expressions that reach these parameters at the step


class DerivativeGraphs:
    """Finds the lines with `create_graph=True` through the graph of whose gradients no later call goes."""

    def __init__(self) -> None:
        # by line with `create_graph=True`, whether no later call goes through the graph of its gradients of parameters or of
        # tensors that are computed from some
        self.unvisited: dict[Place, bool] = {}
        # calls of these lines, each with the sequence number of the first node that it creates
        self._calls: list[tuple[int, Backward, Place]] = []

    def visit(self, call: Backward) -> None:
        """Process the start of a call, which may go through the graphs of earlier calls."""
        numbers = sorted(map(sequence_number, nodes_below(call.roots))) if self._calls else []
        for begun, earlier, here in self._calls:
            at = bisect_left(numbers, begun)
            if at < len(numbers) and numbers[at] < earlier.ended:
                self.unvisited[here] = False
        self._calls = [entry for entry in self._calls[-KEPT:] if self.unvisited[entry[2]]]

    def add(self, call: Backward, here: Place) -> None:
        """Process a call that creates a graph of its gradients."""
        is_second = call.creates_graph and call.thread == 0 and _is_trained(tuple(call.targets))
        if is_second and self.unvisited.setdefault(here, True):
            self._calls.append((next_sequence_number(), call, here))


class FirstSteps:
    """Follows the first step of an optimizer for each parameter, and whether the parameter has a gradient then or later."""

    def __init__(self) -> None:
        self.of: MutableMapping[torch.Tensor, FirstStep] = WeakIdKeyDictionary()
        self.empty: list[FirstStep] = []  # those of parameters that had no gradient
        # by parameter that left its module, the module and its name there
        self._replaced: MutableMapping[torch.Tensor, tuple[weakref.ref[torch.nn.Module], str]] = WeakIdKeyDictionary()

    def replace(self, module: torch.nn.Module, name: str, parameter: torch.Tensor) -> None:
        """Process the registration of a parameter, which may take the place of another one."""
        old = vars(module)["_parameters"].get(name)
        if old is not None and old is not parameter:
            self._replaced[old] = weakref.ref(module), name

    def _is_replaced(self, parameter: torch.Tensor) -> bool:
        """Return whether another parameter is in its place which has no gradient, as codes that are a moving average."""
        reference, name = self._replaced.get(parameter, (None, ""))
        module = reference() if reference is not None else None
        new = vars(module)["_parameters"].get(name) if module is not None else None
        return reference is not None and (new is None or new.grad is None)

    def step(self, parameters: list[torch.Tensor], before: int, calls: int) -> None:
        """Process a step after this number of backward calls; `before` is the number before the step before it."""
        for position, parameter in enumerate(parameters):
            step = self.of.get(parameter)
            if step is None and parameter.requires_grad:
                step = self.of[parameter] = FirstStep(before, calls, position)
                if parameter.grad is None:
                    step.values = fingerprint(parameter)
                    self.empty.append(step)
            if step is not None and not step.filled:
                step.filled = parameter.grad is not None
                is_changed = self._is_replaced(parameter) or fingerprint(parameter) != step.values
                step.is_updated |= not step.filled and is_changed


def _is_trained(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Return whether tensors are parameters or are computed from some."""
    return any(isinstance(leaf, torch.nn.Parameter) for leaf in leaves_among(tensors, nodes_below(tensors)))


class LeftGradients:
    """Follows the backward calls whose gradients each leaf contains, and the steps that use them, in a run of any length."""

    program: Program

    def __init__(self) -> None:
        self.found: dict[Place, LeftGradient] = {}
        self.reused: dict[Place, ReusedGradient] = {}  # by line of the call that added to the used gradients
        self._calls: list[Place] = []
        self._inside: dict[int, list[int]] = {}  # by id of a leaf, the numbers of the calls that its gradient contains
        self._uses: dict[int, FirstUse] = {}
        self._used = UsedGradients()
        self.graphs, self._first_steps = DerivativeGraphs(), FirstSteps()
        # number of calls, those of autograd.grad included, and that before the last step
        self._started = self._before = 0
        # By line of a step, its steps, counted by the number of calls whose gradients were cleared before the step and by
        # the line of these calls and of the one whose gradients it uses.
        self.cleared: dict[Place, Counter[tuple[int, Place]]] = {}
        # by line of a step without any gradient, the names of the leaves whose gradient was cleared since the last step
        self.emptied: dict[Place, list[str]] = {}
        self._cleared: dict[int, int] = {}  # by id of a leaf, the same number since the last step
        # by number of a call, the ids of the parameters whose gradients of it were cleared before a step
        self._unused: dict[int, set[int]] = {}
        self._first_after_step = 0  # number of the first call after the last step
        self._is_inside = False  # whether a step has not ended, whose closure may call backward
        # number of calls before the first one that returns gradients of a model for data, without a graph, and up to the
        # next one that fills gradients
        self.before_derivative: int | None = None
        self.derivative_used = 0
        # by leaf with a gradient, the gradient's values after a step for others, or None before one
        self._left: MutableMapping[torch.Tensor, bytes | int | None] = WeakIdKeyDictionary()
        # For each leaf that may be trained and has a gradient, the number of calls before the last step and of steps before
        # its first gradient; None once `_note_without_step` has handled it.
        self._fills: MutableMapping[torch.Tensor, tuple[int, int] | None] = WeakIdKeyDictionary()
        self._steps = 0
        # the calls from the first gradient of such a leaf to the step after the next one, if both steps were for others,
        # with whether it is no parameter
        self._without_step: list[tuple[bool, int, int]] = []

    @property
    def without_gradient(self) -> list[FirstStep]:
        """The first steps of parameters that had no gradient in any step of their optimizer that has ended."""
        unended = self._before if self._is_inside else -1
        return [step for step in self._first_steps.empty if not step.filled and step.calls != unended]

    @property
    def without_step(self) -> list[tuple[int, int]]:
        """The calls around the first two steps that could have used the gradient of a leaf; those of parameters come first."""
        return [(before, calls) for _, before, calls in sorted(self._without_step)]

    @contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Follow the steps of optimizers in the block."""
        self.program = program
        handle = register_module_parameter_registration_hook(self._first_steps.replace)
        try:
            with around_optimizer_steps(self._step, self._end_step):
                yield
        finally:
            handle.remove()

    def before_backward(self, call: Backward) -> None:
        """Note the leaves to whose gradients a call adds."""
        self._started += 1
        self.graphs.visit(call)
        here = self.program.here()
        self.graphs.add(call, here)
        if call.returns:
            is_first = not call.creates_graph and self.before_derivative is None
            if is_first and _is_trained(call.roots) and not all(_is_trained((target,)) for target in call.targets):
                self.before_derivative = self._started - 1
            return
        if self.before_derivative is not None and not self.derivative_used:
            self.derivative_used = self._started
        for leaf in call.targets:
            if leaf.is_leaf:
                earlier = self._inside.get(id(leaf), [])
                content = self._left.get(leaf)
                # A program that changes such a gradient itself, as `p.grad.neg_()`, uses the sum.
                is_changed = leaf.grad is not None and content not in (None, fingerprint(leaf.grad))
                is_new = is_changed or is_empty(leaf.grad)
                # Gradients of another line, as of an attack, are for another use.
                is_cleared = is_new and earlier and earlier[-1] >= self._first_after_step
                if is_cleared and not is_changed and isinstance(leaf, torch.nn.Parameter):
                    self._unused.setdefault(earlier[-1], set()).add(id(leaf))
                is_alike = is_cleared and self._calls[earlier[-1]] == here
                self._cleared[id(leaf)] = self._cleared.get(id(leaf), 0) + 1 if is_alike else 0
                self._used.fill(id(leaf), here, is_first=is_new)
                self._inside[id(leaf)] = [*([] if is_new else earlier[-KEPT:]), len(self._calls)]
                if self._is_inside and leaf in self._first_steps.of:
                    self._first_steps.of[leaf].filled = True
                if isinstance(leaf, torch.nn.Parameter) or leaf.numel() == 1:
                    self._fills.setdefault(leaf, (self._before, self._steps))
                self._left[leaf] = None
        self._calls.append(here)

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        with mode_paused():
            self._is_inside = True
            parameters = [leaf for group in optimizer.param_groups for leaf in group.get("params", ())]
            filled = [id(leaf) for leaf in parameters if leaf.grad is not None]
            for leaf, content in list(self._left.items()):
                if content is None and leaf.grad is not None and id(leaf) not in filled:
                    self._left[leaf] = fingerprint(leaf.grad)
            self._first_steps.step(parameters, self._before, self._started)
            self._before = self._started
            self._note_without_step()
            here = self.program.here()
            self._note_cleared(filled, here)
            # A gradient of zeros may be computed, but backward leaves none that is None.
            lost = [] if filled else [number for number in map(id, parameters) if self._is_filled_since_step(number)]
            if lost and here not in self.emptied:
                names = names_in(list(self.program.frames())[::-1])
                self.emptied[here] = [names[leaf] for leaf in lost if leaf in names]
            self._note_reused(parameters, here)
            inside = {leaf: self._inside[leaf] for leaf in filled if leaf in self._inside}
            for number, (*earlier, last) in inside.items():
                first = next((call for call in earlier if self._is_left(number, call, last, inside)), None)
                if first is not None:
                    # Several calls may add before the step: the gradient has to be cleared before the first of them.
                    later = self._uses[first].calls if first in self._uses else last
                    self._add(number, first, next(call for call in (*earlier, last) if call >= later))
            new = {call for calls in inside.values() for call in calls} - self._uses.keys()
            if new:
                self._uses |= dict.fromkeys(new, FirstUse(here, set(inside), len(self._calls)))
                self._uses = dict(list(self._uses.items())[-KEPT:])
            self._unused = dict(list(self._unused.items())[-KEPT:])

    def _is_filled_since_step(self, leaf: int) -> bool:
        return leaf in self._inside and self._inside[leaf][-1] >= self._first_after_step

    def _note_cleared(self, filled: list[int], here: Place) -> None:
        """Note the smallest number of calls whose gradients of a parameter were cleared before this step."""
        last = {leaf: self._calls[self._inside[leaf][-1]] for leaf in filled if leaf in self._inside}
        counts = [(self._cleared.get(leaf, 0), call) for leaf, call in last.items()]
        if counts:
            self.cleared.setdefault(here, Counter())[min(counts, key=lambda count: count[0])] += 1

    def _note_reused(self, parameters: list[torch.Tensor], here: Place) -> None:
        """Note the parameters whose gradients contain that of a call which a step for them has used, and of a later call."""
        used = [(leaf, self._used.use(id(leaf))) for leaf in parameters if leaf.grad is not None]
        twice = [] if self.reused else [(leaf, added) for leaf, added in used if added is not None]
        names = names_in(list(self.program.frames())[::-1]) if twice else {}
        for parameter, added in twice:
            reused = self.reused.setdefault(added, ReusedGradient(here, [], []))
            reused.steps += [self._first_steps.of[parameter]] if parameter in self._first_steps.of else []
            reused.names += [names[id(parameter)]] if id(parameter) in names else []

    def _end_step(self, _: torch.optim.Optimizer) -> None:
        """Forget the calls so far, also those that a closure made during the step."""
        self._cleared, self._first_after_step, self._is_inside = {}, len(self._calls), False

    def _note_without_step(self) -> None:
        """Note the leaves whose gradients two steps, this one among them, could have used, and which no step was for."""
        for leaf, fill in list(self._fills.items()):
            if fill is not None and fill[1] < self._steps and self._is_filled_since_step(id(leaf)):
                self._fills[leaf] = None
                if leaf not in self._first_steps.of:
                    self._without_step.append((not isinstance(leaf, torch.nn.Parameter), fill[0], self._started))
        self._steps += 1

    def _is_left(self, leaf: int, call: int, last: int, stepped: Collection[int]) -> bool:
        """Return whether the gradients of a call before `last`, of another line, were for other parameters, or only for this leaf.

        Either a step for other parameters used them, or they were cleared for parameters of which `last` computes gradients
        and which this step is not for.
        """
        use, unused = self._uses.get(call), self._unused.get(call, set())
        if self._calls[call] == self._calls[last]:
            return False
        if use is not None:
            return leaf not in use.parameters and use.calls <= last
        return leaf not in unused and any(self._inside[other][-1] == last for other in unused.difference(stepped))

    def _add(self, leaf: int, first: int, last: int) -> None:
        second, update = self._calls[last], self.program.here()
        used = self._uses[first].place if first in self._uses else None
        entry = LeftGradient(self._calls[first], used, second, update)
        entry = self.found.setdefault(second, entry)
        name = names_in(list(self.program.frames())[::-1]).get(leaf) if entry.update == update else None
        if name is not None and name not in entry.names:
            entry.names.append(name)


@dataclass(eq=False)
class Filling:
    """A backward call that filled gradients, and the first line that read one of a leaf that is not a parameter."""

    place: Place
    calls: int  # number of backward calls before it
    leaf: TrackedTensor | None = None  # that leaf, such as the noise that an adversarial loss varies
    used_at: Place | None = None  # that line
    used_after: int = 0  # number of backward calls before that line


class ReadGradients:
    """Follows the backward calls whose gradients each leaf contains, and the lines that read the gradient of data."""

    def __init__(self) -> None:
        # by line of a backward call, the call whose gradients it added to after their use, the step that used the sum,
        # and its parameters by id
        self.left: dict[Place, tuple[Filling, Place, dict[int, TrackedTensor]]] = {}
        self._begun = 0  # number of backward calls
        self._inside: dict[int, list[Filling]] = {}  # by id of a leaf, the calls that its gradient contains

    def read(self, leaf: TrackedTensor, here: Place) -> None:
        """Process a line that uses the gradient of a tensor. The first one after a call is noted."""
        inside = None if leaf.parameter else self._inside.get(leaf.id)
        if inside and inside[-1].leaf is None:
            inside[-1].leaf, inside[-1].used_at, inside[-1].used_after = leaf, here, self._begun

    def begin(self, call: Filling, leaf: TrackedTensor, *, is_first: bool) -> None:
        """Process a leaf to whose gradient a backward call will add. `is_first` means that the gradient is empty."""
        self._begun = call.calls + 1
        self._inside[leaf.id] = [*([] if is_first else self._inside.get(leaf.id, [])[-KEPT:]), call]

    def step(self, parameters: Parameters, here: Place) -> None:
        """Find the parameters of a step whose gradient contains that of a call made for another leaf, and of a later call."""
        for tensor, tracked in parameters:
            inside = self._inside.get(tracked.id, ())
            if not inside or is_empty(tensor.grad):
                continue
            last = inside[-1]
            used = (call for call in inside if call.leaf is not None and call.used_after <= last.calls)
            if (first := next((call for call in used if call.place != last.place), None)) is not None:
                self.left.setdefault(last.place, (first, here, {}))[2][tracked.id] = tracked
