"""Finite differences of a whole program: what its losses would have been, had a leaf held other values.

The program runs again in float64 with its leaves moved. What autograd was told not to follow (a detached tensor, a number read
with `item()`, all that is computed under no_grad, an optimizer's step) keeps the values of the first run: a cut branch is a
choice and no fault, and so is a new value given to a leaf. What remains is what the graph claims to describe, and the writes
that it does not know of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.careful import Careful, replaced
from autograder.tape.engine import Backward, Listener, standing
from autograder.tape.functions import Hearing, function_name, tensors
from autograder.tape.program import Program, ProgramError
from autograder.tape.run import run_once

STEP = 1e-6  # of a direction of length 1 in float64: formula and rounding each cost about 1e-10 of the loss
AGREE = (
    1e-4  # two steps, or two runs, that differ by more are not to be trusted: a kink, a jump, a number lost in float32
)
HEAVY = 1 << 24  # bytes of first-run values beyond which this oracle is not tried


class NotApplicable(Exception):
    """Finite differences cannot decide here; the message says why."""


@dataclass
class Nominal:
    """The first run: each call's untracked results, the leaves' values after each call, and each backward's
    loss, the gradients its graph gives, and which leaves they belong to."""

    results: dict[int, list] = field(default_factory=dict)
    leaves: list[list[tuple[int, torch.Tensor]]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    gradients: list[dict[int, torch.Tensor]] = field(default_factory=list)
    targets: list[list[int | None]] = field(default_factory=list)
    bytes: int = 0


class Replay(Hearing, Listener):
    """One run: the first takes notes, each later one repeats what must not move and moves one leaf by `shift`."""

    def __init__(self, nominal: Nominal, live: frozenset[int], shift: dict[int, torch.Tensor] | None = None):
        super().__init__()
        self.nominal, self.live, self.shift = nominal, live, shift
        self.first = shift is None
        self.event = -1
        self.inside = 0
        self.losses: list[float] = []
        self.leaves: list[torch.Tensor] = []
        self.known: dict[int, int] = {}
        self.alive: dict[int, torch.Tensor] = {}

    @contextmanager
    def around(self) -> Iterator[None]:
        """The program's own code runs inside."""

        def apply(cls, *args, **kwargs):
            # What a custom forward computes is not recorded call by call, and yet it is the function that is differentiated.
            self.inside += 1
            try:
                return original(cls, *args, **kwargs)
            finally:
                self.inside -= 1

        with ExitStack() as stack:
            stack.enter_context(Careful().around())
            original = torch.autograd.Function.apply.__func__  # type: ignore[attr-defined]
            stack.enter_context(replaced(torch.autograd.Function, "apply", classmethod(apply)))
            stack.enter_context(self)
            yield

    def __torch_function__(self, func, _types, args=(), kwargs=None):
        with self.handled():
            return self._call(func, args, kwargs)

    def _call(self, func, args, kwargs):
        self.event += 1
        event, name = self.event, function_name(func)
        kwargs = dict(kwargs or {})
        if not self.first:
            args = _in_double(args)
            kwargs = {key: _in_double(value) for key, value in kwargs.items()}
        inputs = [*tensors(args), *tensors(kwargs)]
        result = func(*args, **kwargs)
        if self._lives(event, inputs, result):
            for tensor in tensors(result):
                self.alive[id(tensor)] = tensor
        elif name and not self.inside:
            result = self._noted(event, result) if self.first else self._repeated(event, inputs, result)
        self._leaves(event, [*inputs, *tensors(result)])
        return result

    def _lives(self, event: int, inputs: list[torch.Tensor], result: object) -> bool:
        """Whether a result belongs to a write that autograd does not know of: an alias it goes through, or a value for it."""
        return event in self.live or any(id(tensor) in self.alive for tensor in inputs)

    def _noted(self, event: int, result: object) -> object:
        values = []
        for tensor in tensors(result):
            values.append(None if tensor.requires_grad else tensor.detach().clone())
            self.nominal.bytes += tensor.numel() * tensor.element_size()
        if values:
            self.nominal.results[event] = values
        elif isinstance(result, (bool, int, float)) or (
            isinstance(result, list) and result and not isinstance(result[0], list)
        ):
            self.nominal.results[event] = [result]
        if self.nominal.bytes > HEAVY:
            raise NotApplicable("its first run holds too much to be repeated")
        return result

    def _repeated(self, event: int, inputs: list[torch.Tensor], result: object) -> object:
        values = self.nominal.results.get(event)
        if values is not None and not isinstance(values[0], (torch.Tensor, type(None))):
            return values[0]
        nominal = iter(values or ())

        def one(tensor: torch.Tensor) -> torch.Tensor:
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

        return _mapped(result, one)

    def _leaves(self, event: int, met: list[torch.Tensor]) -> None:
        """Gives each leaf the value it had in the first run after the same call, moved by its shift."""
        for tensor in met:
            if all(standing(tensor)) and id(tensor) not in self.known:
                self.known[id(tensor)] = len(self.leaves)
                self.leaves.append(tensor)
                if self.first:
                    self.nominal.leaves.append([])
        for index, leaf in enumerate(self.leaves):
            if self.first:
                history = self.nominal.leaves[index]
                if not history or not torch.equal(history[-1][1], leaf.detach()):
                    history.append((event, leaf.detach().clone()))
            else:
                self._hold(index, leaf, event)

    def _hold(self, index: int, leaf: torch.Tensor, event: int) -> None:
        if index >= len(self.nominal.leaves):
            raise NotApplicable("it does not take the same way twice")
        value = next((v for e, v in reversed(self.nominal.leaves[index]) if e <= event), None)
        if value is None or value.shape != leaf.shape:
            return
        wanted = value.to(leaf.dtype)
        if self.shift and index in self.shift:
            wanted = wanted + self.shift[index]
        if not torch.equal(leaf.detach(), wanted):
            leaf.data.copy_(wanted)

    def before_backward(self, call: Backward) -> None:
        """Reads the loss, and in the first run what the graph says of it."""
        weights = [
            torch.ones_like(root) if weight is None else weight
            for root, weight in zip(call.roots, call.weights, strict=True)
        ]
        loss = sum(
            float((root.detach().double() * weight.double()).sum())
            for root, weight in zip(call.roots, weights, strict=True)
        )
        (self.nominal.losses if self.first else self.losses).append(loss)
        if self.first:
            self.nominal.targets.append([self.known.get(id(target)) for target in call.targets])
            self.nominal.gradients.append(self._graph_gradients(call, weights))

    def _graph_gradients(self, call: Backward, weights: list[torch.Tensor]) -> dict[int, torch.Tensor]:
        known = [(self.known[id(t)], t) for t in call.targets if id(t) in self.known]
        if not known:
            return {}
        found = torch.autograd.grad(
            call.roots, [t for _, t in known], weights, retain_graph=True, allow_unused=True
        )  # fmt: skip
        return {
            index: gradient.detach().double()
            for (index, _), gradient in zip(known, found, strict=True)
            if gradient is not None
        }

    def keep_graph(self, asked: bool) -> bool:
        """Nothing is freed: the first run has been through the graph already."""
        return True

    def inside_engine(self):
        """Goes on listening: hooks and custom backwards run inside."""
        return self.hearing()


def _in_double(value: object) -> object:
    if value is torch.float32:
        return torch.float64
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(_in_double(item) for item in value) if type(value) in (list, tuple) else value
    return value


def _mapped(result: Any, one: Callable[[torch.Tensor], torch.Tensor]) -> object:
    if isinstance(result, torch.Tensor):
        return one(result)
    if type(result) in (list, tuple):
        return type(result)(_mapped(item, one) for item in result)
    if isinstance(result, tuple):  # a named tuple such as torch.return_types.max
        return type(result)([_mapped(item, one) for item in result])
    return result


class Differences:
    """The slopes of every loss that a program gives to backward."""

    def __init__(self, program: Program, live: frozenset[int], seconds: float, *, seeded: bool = True):
        self.program, self.live, self.seconds, self.seeded = program, live, seconds, seeded
        self.nominal = Nominal()
        first = Replay(self.nominal, live)
        self._run(first)
        self.leaves = first.leaves
        still = self._losses({})
        for one, other in zip(still, self.nominal.losses, strict=True):
            if abs(one - other) > AGREE * max(1.0, abs(other)):
                raise NotApplicable("in double precision its losses are others")

    def _run(self, replay: Replay) -> None:
        try:
            run = run_once(self.program, replay, replay.around, seconds=self.seconds, seeded=self.seeded)
        except ProgramError as error:
            raise NotApplicable(str(error)) from None
        if isinstance(run.error, NotApplicable):
            raise run.error
        if run.error is not None and not self.nominal.losses:
            raise NotApplicable(f"it raised {type(run.error).__name__} when it was repeated")

    def _losses(self, shift: dict[int, torch.Tensor]) -> list[float]:
        replay = Replay(self.nominal, self.live, shift)
        self._run(replay)
        if len(replay.losses) != len(self.nominal.losses):
            raise NotApplicable("it does not take the same way twice")
        return replay.losses

    def slopes(self, direction: dict[int, torch.Tensor], step: float = STEP) -> list[float]:
        """Returns how fast each loss changes when the leaves move along `direction`."""
        above = self._losses({index: tensor * step for index, tensor in direction.items()})
        below = self._losses({index: tensor * -step for index, tensor in direction.items()})
        return [(one - other) / (2 * step) for one, other in zip(above, below, strict=True)]

    def disagreements(self) -> set[tuple[int, int]]:
        """Returns each backward and leaf where the loss's slope along a random direction of the leaf is not what the graph says.

        Raises:
            NotApplicable: a slope depends on the step, as at a kink.
        """
        found = set()
        generator = torch.Generator().manual_seed(0)
        for leaf, history in enumerate(self.nominal.leaves):
            if not any(leaf in gradients for gradients in self.nominal.gradients) or not history:
                continue
            direction = torch.randn(history[0][1].shape, generator=generator, dtype=torch.float64)
            slopes = self.slopes({leaf: direction})
            claimed = [float((g[leaf] * direction).sum()) if leaf in g else 0.0 for g in self.nominal.gradients]
            differs = [abs(s - c) > 1e-3 * max(abs(s), abs(c), 1e-6) for s, c in zip(slopes, claimed, strict=True)]
            if any(differs):
                self._trust(slopes, self.slopes({leaf: direction}, 10 * STEP))
            found |= {
                (call, leaf) for call, wrong in enumerate(differs) if wrong and leaf in self.nominal.gradients[call]
            }
        return found

    def _trust(self, slopes: list[float], coarse: list[float]) -> None:
        if any(abs(one - other) > 10 * AGREE * max(1e-3, abs(one)) for one, other in zip(slopes, coarse, strict=True)):
            raise NotApplicable("its loss has a kink or a jump here")

    def true(self, call: int, leaf: int) -> torch.Tensor:
        """Returns the slope of one backward's loss along each entry of a leaf."""
        shape = self.nominal.leaves[leaf][0][1].shape
        entries = []
        for index in range(shape.numel()):
            unit = torch.zeros(shape.numel(), dtype=torch.float64)
            unit[index] = 1.0
            entries.append(self.slopes({leaf: unit.view(shape)})[call])
        return torch.tensor(entries, dtype=torch.float64).view(shape)
