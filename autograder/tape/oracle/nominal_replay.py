"""Replay a program in double precision, with all values that autograd does not track fixed to those of a first run.

Values outside the graph (a detached tensor, a number from `item()`, results under `no_grad`, an optimizer's step) are
intended, and so is a new value assigned to a leaf. Only the values that the graph describes may change, and in-place
modifications that autograd did not record.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import function_name, own_hooks, replaced_apply
from autograder.tape.internals.tensor_fields import map_only, mode_paused, padding_row
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.function_mode import CallMode, input_tensors, tensors
from autograder.tape.run.graph_walk import autograd_flags
from autograder.tape.run.programs.program import Program
from autograder.tape.run.runner import available_bytes
from autograder.tape.run.storages import address_of

# Largest number of bytes to keep of the first run, and its largest share of the available memory; a longer run ends early.
# A run that keeps 150 MiB takes about 7 s of processor time.
HEAVY, SHARE_OF_MEMORY = 1 << 28, 0.25


class NotApplicable(Exception):
    """Finite differences cannot decide for this program. The message gives the reason."""


@dataclass
class NominalRun:
    """The values of the first run."""

    live: frozenset[int]  # numbers of the calls whose results are aliases of an unrecorded modification
    # tensors that exist outside of the program; those with a `grad_fn` keep their dtype, because their graph was recorded
    # in it
    outside: Sequence[torch.Tensor] = ()
    results: dict[int, list[Any]] = field(default_factory=dict)  # results outside the graph, by number of the call
    # state of the generator, by number of the first call that can draw numbers from it
    random: dict[int, torch.Tensor] = field(default_factory=dict)
    # history of each leaf, as pairs of time and value
    leaves: list[list[tuple[int, torch.Tensor]]] = field(default_factory=list)
    # by index of the leaf, 1 for the elements whose gradient is a derivative: that of an embedding's padding is set to 0
    varied: dict[int, torch.Tensor] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)  # loss of each backward
    # gradients of the graph for each backward, by index of the leaf
    gradients: list[dict[int, torch.Tensor]] = field(default_factory=list)
    # the same from a run in double precision: an activation near a kink may be on the other side of it in the first run
    precise: list[dict[int, torch.Tensor]] = field(default_factory=list)
    # indices of the leaves that each backward has as targets, -1 for others
    targets: list[list[int]] = field(default_factory=list)
    bytes: int = 0  # size of the stored values
    is_part: bool = False  # whether the run ended early, because of its time or its memory


class NominalReplay(CallMode, Listener):
    """A run of the program: the first one stores values, later ones restore fixed values and add `shift` to leaves.

    After `seconds`, the first run ends before its next backward call, and so do later ones.
    """

    keeps_graph = True  # the first run has already used it

    def __init__(self, nominal: NominalRun, shift: dict[int, torch.Tensor] | None = None, seconds: float = math.inf):
        super().__init__()
        self.nominal, self.shift = nominal, shift
        self.first, self.ends = shift is None, time.monotonic() + seconds
        self.heavy = int(min(HEAVY, SHARE_OF_MEMORY * available_bytes()))
        self.event = -1
        self.inside = self.unfixed = 0
        self.creates_graph = False
        self.losses: list[float] = []
        self.leaves: list[torch.Tensor] = []
        self.known: dict[int, int] = {}
        self.at: dict[object, int] = {}  # leaves by the address of their memory
        self.alive: dict[int, torch.Tensor] = {}

    @contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Return the context for the program's code."""
        hooks = own_hooks(_unrecorded_copy, lambda copy: copy)
        with ClonedSavesRun().around(program), hooks, replaced_apply(self._inside):
            if not self.first:
                _widen(self.nominal.outside)  # restored when the run ends
            with self, self.recorded_calls():  # as in the observed run, so that both count the same calls
                yield

    def _inside(self, apply: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        # The calls inside a custom forward are not recorded, but they are part of the differentiated function.
        self.inside += 1
        try:
            result = apply(*args, **kwargs)
        finally:
            self.inside -= 1
        for node in {tensor.grad_fn for tensor in tensors(result) if tensor.grad_fn is not None}:
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                node.register_prehook(self._enter_backward)
                node.register_hook(self._leave_backward)
        return result

    # The gradient that a call with create_graph=True returns is also a function of the leaves: all that it is computed from varies.

    def _enter_backward(self, _gradients: tuple[Any, ...]) -> None:
        self.unfixed += self.creates_graph

    def _leave_backward(self, *_gradients: tuple[Any, ...]) -> None:
        self.unfixed -= self.creates_graph

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self.handled():
            self.event += 1
            event, name = self.event, function_name(func)
            self._same_random_numbers(event)
            kwargs = dict(kwargs or {})
            if not self.first:
                args = _in_double(args)
                kwargs = {key: _in_double(value) for key, value in kwargs.items()}
            if self.unfixed:
                return func(*args, **kwargs)
            inputs = input_tensors(name, args, kwargs)
            with mode_paused():
                if not self.first:
                    _widen(inputs)
                self._leaves(2 * event, inputs)
            result = func(*args, **kwargs)
            # aliases and values of a modification that autograd does not track
            if event in self.nominal.live or any(id(tensor) in self.alive for tensor in inputs):
                for tensor in tensors(result):
                    self.alive[id(tensor)] = tensor
            elif name and not self.inside:
                result = self._noted(event, result) if self.first else self._repeated(event, inputs, result)
            with mode_paused():
                self._leaves(2 * event + 1, [*inputs, *tensors(result)])
                if name.startswith("embedding"):
                    self._except_padding(result)
            return result

    def _except_padding(self, result: object) -> None:
        nodes: list[Any] = [tensor.grad_fn for tensor in tensors(result) if tensor.grad_fn is not None]
        for node in nodes:
            weight = getattr(node.next_functions[0][0], "variable", None)
            index = self.known.get(id(weight))
            if weight is not None and index is not None and (row := padding_row(node)) is not None:
                varied = self.nominal.varied.setdefault(index, torch.ones_like(weight, dtype=torch.float64))
                varied[row] = 0

    def _same_random_numbers(self, event: int) -> None:
        """Restore the generator's state of the first run, because an initialization in double precision draws other numbers."""
        states, generator = self.nominal.random, torch.default_generator
        if self.first:
            state = generator.get_state()
            if not states or not torch.equal(state, next(reversed(states.values()))):
                states[event] = state
        elif event in states:
            generator.set_state(states[event])

    def _noted(self, event: int, result: object) -> object:
        values = [None if tensor.requires_grad else self._stored(tensor) for tensor in tensors(result)]
        is_flat = isinstance(result, list) and bool(result) and not isinstance(result[0], list)
        if values:
            self.nominal.results[event] = values
        elif is_flat or isinstance(result, (bool, int, float)):
            self.nominal.results[event] = [result]
        return result

    def _stored(self, tensor: torch.Tensor) -> torch.Tensor:
        self.nominal.bytes += tensor.numel() * tensor.element_size()
        if self.nominal.bytes > self.heavy and not self.nominal.losses:
            text = "replay.too_large|its operations return more than {count} MiB before its first backward call is complete"
            raise NotApplicable(Message(text, count=self.heavy >> 20))
        return tensor.detach().clone()

    def is_enough(self, calls: int) -> bool:
        """Return whether the time or the memory of the first run is spent, or a later run has made as many calls."""
        if not self.first:
            return self.nominal.is_part and calls >= len(self.nominal.losses)
        self.nominal.is_part = calls > 0 and (self.nominal.bytes > self.heavy or time.monotonic() > self.ends)
        return self.nominal.is_part

    def _repeated(self, event: int, inputs: list[torch.Tensor], result: object) -> object:
        values = self.nominal.results.get(event)
        if values is not None and not isinstance(values[0], (torch.Tensor, type(None))):
            return values[0]
        nominal = iter(values or ())

        def nominal_value(tensor: torch.Tensor) -> torch.Tensor:
            value = next(nominal, None)
            if any(tensor is known for known in inputs):
                if value is not None:
                    tensor.data.copy_(value)
                return tensor
            if value is not None:
                return value.double() if value.is_floating_point() else value.clone()
            if not tensor.is_floating_point() or tensor.dtype is torch.float64:
                return tensor
            return tensor.detach().double().requires_grad_() if tensor.is_leaf else tensor.double()

        return map_only(torch.Tensor, nominal_value, result)

    def _leaves(self, event: int, met: list[torch.Tensor]) -> None:
        """Store the value of each leaf that a call uses in the first run. In later runs, set it to that value, plus its shift."""
        used = {}
        for tensor in met:
            index, address = self.known.get(id(tensor)), address_of(tensor)
            if index is None and all(autograd_flags(tensor)):
                index = self.known[id(tensor)] = len(self.leaves)
                self.leaves.append(tensor)
                if self.first:
                    self.nominal.leaves.append([])
            if index is not None and address is not None:
                self.at[address] = index
            index = self.at.get(address) if index is None else index
            if index is not None:
                used[index] = self.leaves[index]
        for index, leaf in used.items():
            if self.first:
                history = self.nominal.leaves[index]
                last = history[-1][1] if history else None
                if last is None or last.device != leaf.device or not torch.equal(last, leaf.detach()):
                    history.append((event, self._stored(leaf)))
            else:
                self._hold(index, leaf, event)

    def _hold(self, index: int, leaf: torch.Tensor, event: int) -> None:
        if index >= len(self.nominal.leaves):
            raise NotApplicable(Message("run.different_paths|two runs of it take different paths"))
        value = next((v for e, v in reversed(self.nominal.leaves[index]) if e <= event), None)
        if value is None or value.shape != leaf.shape:
            return
        wanted = value.to(leaf.device, leaf.dtype)  # `Module.cuda()` moves a leaf after it was created
        if self.shift and index in self.shift:
            wanted = wanted + self.shift[index].to(leaf.device)
        if not torch.equal(leaf.detach(), wanted):
            leaf.data.copy_(wanted)

    def before_backward(self, call: Backward) -> None:
        """Compute the loss, and in the runs without a shift the gradients of the graph."""
        pairs = zip(call.roots, call.weights, strict=True)
        weights = [torch.ones_like(root) if weight is None else weight for root, weight in pairs]
        products = (root.detach().double() * weight.double() for root, weight in zip(call.roots, weights, strict=True))
        loss = sum(float(product.sum()) for product in products)
        (self.nominal.losses if self.first else self.losses).append(loss)
        if self.first:
            self.nominal.targets.append([self.known.get(id(target), -1) for target in call.targets])
            self.nominal.bytes += sum(16 * target.numel() for target in call.targets)
        if not self.shift:
            gradients = self._graph_gradients(call, weights)
            (self.nominal.gradients if self.first else self.nominal.precise).append(gradients)
        self.creates_graph = call.creates_graph

    def _graph_gradients(self, call: Backward, weights: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        targets = {self.known[id(target)]: target for target in call.targets if id(target) in self.known}
        if not targets:
            return {}
        # Replace a weight of one with None, PyTorch's default for a scalar: for other weights PyTorch compares shapes,
        # and for that imports sympy (2.13), which takes 0.4 s.
        handed = [
            None if root.numel() == 1 and not root.is_complex() and float(weight) == 1.0 else weight
            for root, weight in zip(call.roots, weights, strict=True)
        ]
        computed = torch.autograd.grad(call.roots, [*targets.values()], handed, retain_graph=True, allow_unused=True)
        gradients = zip(targets, computed, strict=True)
        return {index: gradient.detach().double() for index, gradient in gradients if gradient is not None}

    def after_backward(self, call: Backward) -> None:
        """Hold all results that autograd does not record, from here on."""
        self.creates_graph, self.unfixed = False, 0

    def inside_engine(self) -> Any:
        """Include the hooks and custom backwards that run in the engine."""
        return self.enabled_again()


def _unrecorded_copy(saved: torch.Tensor) -> torch.Tensor:
    with mode_paused():  # a copy that a backward call makes is neither a leaf nor a fixed value
        return saved.detach().clone()


def _widen(met: Sequence[torch.Tensor]) -> None:
    """Change leaves to double precision, such as those of `torch.Tensor(2, 3)`, which no function mode receives."""
    for tensor in met:
        if tensor.dtype is torch.float32 and tensor.is_leaf:
            tensor.data = tensor.data.double()


def _in_double(value: object) -> object:
    if value is torch.float32:
        return torch.float64
    return type(value)(map(_in_double, value)) if type(value) in (list, tuple) else value  # type: ignore[call-arg,call-overload]
