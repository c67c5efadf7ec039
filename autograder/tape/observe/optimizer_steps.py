"""Follow the parameters of optimizers from their creation to each step: gradients that they got, lost, or never had."""

from __future__ import annotations

import functools
import gc
import re
import weakref
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass

import torch
from torch.utils.weak import WeakIdKeyDictionary

from autograder.tape.internals.module_parts import members, parameters, parts
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memory, elements_of, fingerprint

# Finds functions that draw random numbers. It is called after each function of the program.
_is_random = functools.cache(re.compile(r"rand|normal|uniform|orthogonal|kaiming|xavier").search)
_ATTRIBUTES = ("grad", "data", "detach", "zeros_like", "clone")
_OVERWRITES = ("copy_", "data =", "set_")
_MODE_LAYERS = (
    torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm, torch.nn.AlphaDropout,
    torch.nn.Dropout, torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d,
)  # fmt: skip
Parameters = list[tuple[torch.Tensor, TrackedTensor]]
PASSES = 4  # maximum number of searches among all objects, each of which takes about 50 ms


@dataclass(frozen=True)
class IdleStep:
    """A step that left every parameter as it was, although a gradient was not zero."""

    place: Place  # the line that computed with a parameter during the step, or the line that called it
    parameters: list[TrackedTensor]
    has_rate: bool  # whether a learning rate is not zero
    is_rounded: bool  # whether the learning rate is so small that rounding explains it


class IdleSteps:
    """Compares the parameters before and after each step, until a step of their optimizer has changed one."""

    def __init__(self) -> None:
        # by id of an optimizer, its steps so far if none of them changed a parameter, else None
        self.found: dict[int, list[IdleStep] | None] = {}
        self._step: tuple[Place, Parameters, list[bytes | int]] | None = None
        self._computed_at: Place | None = None

    def begin(self, optimizer: torch.optim.Optimizer, parameters: Parameters, here: Place) -> None:
        """Process the start of a step."""
        if self.found.get(id(optimizer), []) is not None:
            self._step, self._computed_at = (here, parameters, [fingerprint(tensor) for tensor, _ in parameters]), None

    def compute(self, here: Place) -> None:
        """Process a line that computes, perhaps during a step."""
        if self._step is not None and here != self._step[0]:
            self._computed_at = here

    def end(self, optimizer: torch.optim.Optimizer) -> None:
        """Process the end of a step."""
        if self._step is None:
            return
        (here, parameters, before), self._step = self._step, None
        if 0 in before or [fingerprint(tensor) for tensor, _ in parameters] != before:  # 0 is an unknown content
            self.found[id(optimizer)] = None
            return
        groups = [(leaf, float(group.get("lr", 1))) for group in optimizer.param_groups for leaf in group["params"]]
        filled = [(tensor, rate) for tensor, rate in groups if not is_empty(tensor.grad)]
        steps = self.found.setdefault(id(optimizer), [])
        if filled and steps is not None and not _has_converged(optimizer):
            asked = [tracked for tensor, tracked in parameters if not is_empty(tensor.grad)]
            has_rate = any(rate for _, rate in filled)
            is_rounded = has_rate and all(_is_rounded(*pair) for pair in filled)
            steps.append(IdleStep(self._computed_at or here, asked, has_rate, is_rounded))


class OptimizerSteps:
    """The parameters at each step of an optimizer, and those with a gradient that no optimizer holds."""

    def __init__(self) -> None:
        self.filled: dict[int, TrackedTensor] = {}  # ids of the leaves with a gradient that no step has used
        self.trained: set[int] = set()  # ids of the parameters that had a gradient at a step
        self.frozen: set[int] = set()  # ids of the parameters that did not require grad at a step
        # ids of the parameters that a line computed with while they did not require grad
        self.constant: set[int] = set()
        # by id of a parameter, the last line that computed with it and with another tensor
        self.used: dict[int, tuple[Place, TrackedTensor]] = {}
        # a parameter with an unused gradient, and the parameter that replaced it in its optimizer
        self.replaced: list[tuple[TrackedTensor, TrackedTensor]] = []
        # parameters with random values, and leaves of one value or of a module whose gradient is filled before several
        # steps: those that neither an optimizer contains nor, unless they alone are missing, a module with a held parameter
        self.unoptimized: dict[int, TrackedTensor] = {}
        # by line of a step, the parameters with a gradient that no optimizer holds, in a module with a held parameter
        self.beside: dict[Place, list[TrackedTensor]] = {}
        self.attributes: set[int] = set()  # ids of those that are attributes of a module, but no parameters of it
        self.wrapped: dict[int, TrackedTensor] = {}  # by id of a leaf that no function returned, the tensor in it
        self.read: set[int] = set()  # ids of the tensors whose `.grad` a line of the user used
        # for each step, the number of backward calls before it, and its parameters
        self.calls: list[tuple[int, list[TrackedTensor]]] = []
        self.idle = IdleSteps()
        self.begun: int | None = None  # number of statements before the first optimizer was made; None if not recorded
        self.made_at: dict[int, Place] = {}  # by id of an optimizer, the line that made it
        self._made: list[tuple[Place, weakref.ref[torch.optim.Optimizer]]] = []  # these lines, with the optimizers
        # the lines that made optimizers of which no parameter required grad when a backward call without a graph began,
        # with the number of optimizers that the line had made before
        self.frozen_optimizers: list[tuple[Place, int]] = []
        self.stepped_at: set[Place | None] = set()  # lines that made an optimizer that has stepped
        # by line, a parameter whose memory several tensors share that this line kept in different iterations
        self.kept: dict[Place, TrackedTensor] = {}
        # by id of a parameter, an earlier one of the same optimizer in the same memory, which it also updates, and this one
        self.tied: dict[int, tuple[TrackedTensor, TrackedTensor]] = {}
        # the line of a step that updated the parameters that another optimizer had just updated
        self.doubled_at: Place | None = None
        self._doubled: set[int] = set()
        # the line of a step that has not ended: an optimizer inside another one holds the same parameters
        self.running_at: Place | None = None
        self._stepped: dict[int, list[TrackedTensor]] = {}
        self._random: set[Memory] = set()
        self._passes, self._searched = 0, set[int]()
        self._rounds = self._rounds_before = 0  # number of steps, and of backward calls in their closures
        self._filled_before: dict[int, set[int]] = {}  # by id of a leaf, that number at each backward that filled it

    def make(self, optimizer: torch.optim.Optimizer, here: Place) -> None:
        """Note the line that makes an optimizer."""
        self.made_at[id(optimizer)] = here
        self._made.append((here, weakref.ref(optimizer)))

    def find_frozen(self) -> None:
        """Find the optimizers of which no parameter requires grad."""
        for number, (place, reference) in enumerate(self._made):
            optimizer = reference()
            groups = optimizer.param_groups if optimizer is not None else []
            if groups and not any(leaf.requires_grad for group in groups for leaf in group["params"]):
                position = [made_at for made_at, _ in self._made[:number]].count(place)
                self.frozen_optimizers.append((place, position))

    def on_operation(self, name: str, sources: list[TrackedTensor], results: list[TrackedTensor], here: Place) -> None:
        """Note values that come from a random generator."""
        if name not in _ATTRIBUTES and len(results) == 1:
            self.idle.compute(here)
        if name in _OVERWRITES and len(sources) > 1:
            written, read = [sources[0]], sources[1:]
        else:
            written, read = results, sources
        is_random = _is_random(name) is not None
        for tensor in () if is_random else read:
            is_random = is_random or tensor.memory in self._random
        change = self._random.add if is_random else self._random.discard
        for tensor in written:
            change(tensor.memory)

    def note_read(self, leaf: TrackedTensor) -> None:
        """Note that a line uses the gradient of a tensor; not an empty one, as `.to(device)` does."""
        if leaf.id in self._filled_before:
            self.read.add(leaf.id)

    def is_random(self, tracked: TrackedTensor) -> bool:
        """Return whether a tensor's memory holds values that come from a random generator."""
        return tracked.memory in self._random

    def wrap(self, leaf: TrackedTensor, value: TrackedTensor) -> None:
        """Note a leaf that no function returned and that has the values of a tensor, as `nn.Parameter(torch.randn(2))`."""
        if self.is_random(value):
            self._random.add(leaf.memory)
        self.wrapped[leaf.id] = value

    def use(self, sources: list[TrackedTensor], here: Place) -> None:
        """Note the parameters that a recorded computation combines with another tensor."""
        if any(not source.parameter for source in sources):
            self.used |= {source.id: (here, source) for source in sources if source.parameter}

    def fill(self, targets: Parameters) -> None:
        """Note the leaves with a gradient that is finite and not zero."""
        self._rounds += self.running_at is not None
        for tensor, tracked in targets:
            gradient = tensor.grad if tensor.is_leaf else None
            if gradient is not None and not is_empty(gradient) and _is_finite(gradient):
                self.filled[tracked.id] = tracked
                self._filled_before.setdefault(tracked.id, set()).add(self._rounds)

    def step(self, optimizer: torch.optim.Optimizer, parameters: Parameters, calls: int, here: Place) -> None:
        """Process the parameters that an optimizer is about to update, after `calls` backward calls."""
        now, before = [tracked for _, tracked in parameters], self._stepped.get(id(optimizer), [])
        if len(now) == len(before):
            for old, (tensor, new) in zip(before, parameters, strict=True):
                if old.ref() is not tensor and old.id in self.filled and is_empty(tensor.grad):
                    self.replaced.append((old, new))
        self.trained |= {tracked.id for tensor, tracked in parameters if tensor.grad is not None}
        self.frozen |= {tracked.id for tensor, tracked in parameters if not tensor.requires_grad}
        gone, used = {target.id for target in before}, {id(tensor) for tensor, _ in parameters}
        self.filled = {key: leaf for key, leaf in self.filled.items() if key not in gone and id(leaf.ref()) not in used}
        # An optimizer with the same parameters, whose step comes before this one, after the same backward call or in turn.
        last = self.calls[-1] if self.calls and self.running_at is None else None
        self.running_at = here
        is_same = last is not None and {leaf.id for leaf in last[1]} == {leaf.id for leaf in now}
        if last and is_same and self.doubled_at is None and last[1] is not before and (last[0] == calls or before):
            self.doubled_at, self._doubled, self._searched, self._passes = here, used, set(), 0
        self._stepped[id(optimizer)] = now
        self._find_tied(optimizer, parameters)
        self.idle.begin(optimizer, parameters, here)
        self._find_unoptimized(here)
        self.calls.append((calls, now))
        self._rounds = self._rounds_before = self._rounds + 1

    def end_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Process the end of a step."""
        here, self.running_at = self.running_at, None
        self.idle.end(optimizer)
        # A closure may be called several times, as by LBFGS.
        if here is not None and self._rounds > self._rounds_before + 1:
            self._find_unoptimized(here)

    def _find_tied(self, optimizer: torch.optim.Optimizer, parameters: Parameters) -> None:
        """Note parameters in the memory of others. Without a state, as in plain SGD, their updates are right: they add up."""
        first: dict[tuple[Memory, int], TrackedTensor] = {}
        for tensor, tracked in parameters:
            if tensor.grad is not None and optimizer.state.get(tensor):
                owner = first.setdefault((tracked.memory, tracked.start), tracked)
                if owner is not tracked:
                    self.tied[tracked.id] = owner, tracked

    def _find_unoptimized(self, here: Place) -> None:
        """Search all optimizers and modules for the parameters with a gradient, to find those that no optimizer holds."""
        if self._passes == PASSES:
            return
        asked = {
            id(tensor): tracked
            for tracked in self.filled.values()
            if tracked.id not in self._searched and (tensor := tracked.ref()) is not None
            if self.outlives(tracked) or self._is_initial(tracked)
        }
        if not asked:
            return
        self._passes += 1
        living = [item for item in gc.get_objects() if issubclass(type(item), torch.optim.Optimizer | torch.nn.Module)]
        optimizers = [item for item in living if isinstance(item, torch.optim.Optimizer)]
        groups = [group for optimizer in optimizers for group in vars(optimizer).get("param_groups", ())]
        held = frozenset(id(tensor) for group in groups for tensor in group["params"])
        modules = [item for item in living if isinstance(item, torch.nn.Module) and "_parameters" in vars(item)]
        inside = [_ids(parameters(module)) for module in modules]
        owned = held.union(*(ids for ids in inside if ids & held and not ids & self._doubled))
        owned -= {number for module in modules for number in _forgotten(module, held)}
        # A module whose other parameters are held may be trained in part, unless a part of it is made later.
        if self.begun is not None:
            owned -= {number for number, leaf in asked.items() if leaf.parameter and leaf.step > self.begun} - held
        self.beside.setdefault(here, []).extend(tracked for number, tracked in asked.items() if number in owned - held)
        if not any(leaf.parameter for stepped in self._stepped.values() for leaf in stepped):
            # Steps that update an image train no model that is in evaluation mode.
            owned = owned.union(*(_ids(parameters(module)) for module in modules if not module.training))
        self._searched |= {tracked.id for tracked in asked.values()}
        trained = [module for module in modules if _ids(parameters(module)) & held]
        attributes = {number for module in trained for part in parts(module).values() for number in _attributes(part)}
        for number, tracked in ((number, tracked) for number, tracked in asked.items() if number not in owned):
            if number in attributes and not tracked.parameter:
                self.attributes.add(tracked.id)
            elif not self._is_initial(tracked) and not (self.outlives(tracked) and _is_uniform(tracked)):
                continue
            self.unoptimized[tracked.id] = tracked

    def is_filled_late(self, tracked: TrackedTensor) -> bool:
        """Return whether a parameter was a constant, and its gradient was first filled after the first step."""
        return tracked.id in self.constant and min(self._filled_before.get(tracked.id, {0})) > 0

    def outlives(self, tracked: TrackedTensor) -> bool:
        """Return whether the gradient of a leaf is filled before several steps, so that no step makes it anew."""
        return len(self._filled_before[tracked.id]) > 1

    def _is_initial(self, tracked: TrackedTensor) -> bool:
        """Return whether a parameter has the values of an initialization: random ones, or the same one everywhere."""
        return tracked.parameter and (self.is_random(tracked) or _is_uniform(tracked))


class ModeSwitches:
    """The lines that turned recording off, or a module's training mode, after the first step of an optimizer."""

    def __init__(self) -> None:
        # the lines that switched a module to evaluation mode, if a later step trained it in that mode
        self.left_training: dict[Place, None] = {}
        # the lines that set `requires_grad` of a module, if its parameters have another value
        self.set_of_module: dict[Place, None] = {}
        # the lines that turned recording off after a step, if a backward call followed while it was off
        self.left_recording: list[Place] = []
        self._steps = 0
        # by module, the number of steps before its last call of train()
        self._entered: MutableMapping[torch.nn.Module, int] = WeakIdKeyDictionary()
        self._switched: list[tuple[weakref.ref[torch.nn.Module], Place]] = []
        self._off_at: Place | None = None

    def stop_recording(self, here: Place) -> None:
        """Process a line that turns recording off. A `with` statement turns it on again."""
        is_block = here.text.startswith(("with ", "async with "))
        self._off_at = here if self._steps and not is_block else None

    def go_on_without_recording(self) -> None:
        """Process a backward call of a loss that was computed while recording is off."""
        if self._off_at is not None and self._off_at not in self.left_recording:
            self.left_recording.append(self._off_at)

    def enter_training(self, module: torch.nn.Module) -> None:
        """Process a switch to training mode."""
        self._entered[module] = self._steps
        self._switched = [(reference, place) for reference, place in self._switched if reference() is not module]

    def leave_training(self, module: torch.nn.Module, here: Place) -> None:
        """Process a switch to evaluation mode. A layer without children is frozen intentionally, and a part directly after train()."""
        if self._steps > self._entered.get(module, 0) and module.training and members(module, "_modules"):
            self._switched.append((weakref.ref(module), here))

    def step(self, updated: set[int]) -> None:
        """Process a step of an optimizer that updates the parameters with these ids."""
        self._steps += 1
        for reference, place in self._switched:
            module = reference()
            if module is None or module.training:
                continue
            depends = any(isinstance(module, _MODE_LAYERS) and not module.training for module in parts(module).values())
            if depends and any(id(parameter) in updated for parameter in parameters(module)):
                self.left_training[place] = None


def _ids(tensors: Iterable[torch.Tensor]) -> set[int]:
    return {id(tensor) for tensor in tensors}


def _is_uniform(tracked: TrackedTensor) -> bool:
    """Return whether a leaf has one value, as `torch.zeros(1, requires_grad=True)`. Data has several."""
    values = elements_of(tracked.ref())
    return values.layout == torch.strided and bool((values == values.flatten()[0]).all())


def _attributes(module: torch.nn.Module) -> set[int]:
    """Return the ids of the objects that are attributes or buffers of a module, or items of an attribute."""
    values = list(vars(module).values())
    items = [item for value in values if isinstance(value, list | tuple) for item in value]
    items += [item for value in values if isinstance(value, dict) for item in value.values()]  # `_buffers` is one
    return {id(value) for value in (*values, *items)}


def _forgotten(module: torch.nn.Module, held: frozenset[int]) -> set[int]:
    """Return the ids of a module's own parameters that are not held, if all parameters of its children are.

    If a child is not held either, the program may train a part of the module intentionally.
    """
    of_children = _ids(
        leaf for child in members(module, "_modules").values() for leaf in parameters(child) if leaf.requires_grad
    )
    is_whole = bool(of_children) and of_children <= held
    return _ids(members(module, "_parameters").values()) - held if is_whole else set()


def _has_converged(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether gradients are too small for LBFGS to step with them (torch 2.13, torch/optim/lbfgs.py)."""
    group = optimizer.param_groups[0]
    if "tolerance_grad" not in group:
        return False
    squares = sum(float(leaf.grad.square().sum()) for leaf in group["params"] if leaf.grad is not None)
    return squares < max(group["tolerance_grad"] ** 2, group["tolerance_change"])


def _is_rounded(parameter: torch.Tensor, rate: float) -> bool:
    """Return whether a step of this learning rate along the gradient, or along its sign, is below the last bit."""
    gradient, value = elements_of(parameter.grad), parameter.detach()  # type: ignore[arg-type]
    if gradient.shape != value.shape:
        return False
    return any(torch.equal(value - rate * update.to(value.dtype), value) for update in (gradient, gradient.sign()))


def _is_finite(gradient: torch.Tensor) -> bool:
    elements = elements_of(gradient)
    return elements.layout == torch.strided and bool(elements.isfinite().all())


def is_empty(gradient: torch.Tensor | None) -> bool:
    """Return whether a gradient is None or zero."""
    if gradient is None:
        return True
    elements = elements_of(gradient)
    return elements.layout == torch.strided and not bool(elements.any())
