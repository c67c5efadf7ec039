"""Finite differences: derivatives of the losses of a whole program, and of single calls at one point in double precision."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import function_name
from autograder.tape.internals.tensor_fields import map_only
from autograder.tape.oracle.nominal_replay import NominalReplay, NominalRun, NotApplicable
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.engine import Listener
from autograder.tape.run.finished_run import is_out_of_time
from autograder.tape.run.function_mode import CallMode, tensors
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.runner import Runner
from autograder.tape.run.snapshot import Snapshot


def weighted_sum(pairs: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Return the real scalar whose gradients equal those of `backward` with these cotangents. Shapes must be equal.

    For cotangents, `backward` compares shapes and imports sympy for that (PyTorch 2.13), which adds 0.4 s to the first
    check of a process.
    """
    with torch.enable_grad():
        return torch.stack([(output * cotangent.conj()).sum().real for output, cotangent in pairs]).sum()


FINE, COARSE = 1e-6, 1e-4  # step sizes along a direction of norm about 1, in float64
# Tolerances of torch.autograd.gradcheck (2.13); it is not called, because it imports sympy, which takes 0.4 s.
ABSOLUTE, RELATIVE = 1e-5, 1e-3
# Largest relative difference of the two step sizes; more indicates a kink, a jump, or rounding to float32.
TRUSTED = 1e-2
NEARBY = 1e-2  # distance of other points, to distinguish a kink at the point from a wrong formula
POINTS = 2


@dataclass(frozen=True)
class DerivativeAnswer:
    """The result of comparing a function's derivative with finite differences."""

    # "derivative" if both agree; "choice" if the function is constant or returns its input but defines another
    # derivative, as straight-through estimators and gradient reversals do; "wrong" if they differ at the point and near
    # it; "unknown" if finite differences cannot decide
    answer: Literal["derivative", "choice", "wrong", "unknown"]
    forward: float = 0.0  # directional derivative along a random direction, by finite differences
    backward: float = 0.0  # the same directional derivative, by backward


def examine(function: Callable[..., Any], inputs: Sequence[Tensor]) -> DerivativeAnswer:
    """Compare the derivative of a function with finite differences. `inputs` are float64 leaves that require grad."""
    try:
        if _agrees(function, inputs):
            return DerivativeAnswer("derivative")
        pairs = zip(_outputs(function, inputs), _outputs(function, inputs), strict=True)
        if not all(torch.equal(first, other) for first, other in pairs):
            return DerivativeAnswer("unknown")
        forward, backward = _derivatives(function, inputs, FINE)
        coarse, _ = _derivatives(function, inputs, COARSE)
        if not abs(forward - coarse) <= TRUSTED * max(abs(forward), abs(coarse), 1e-6):  # NaN: log of a tiny number
            return DerivativeAnswer("unknown")
        if _is_choice(function, inputs):
            return DerivativeAnswer("choice", forward, backward)
        generator = torch.Generator().manual_seed(1)
        for _ in range(POINTS):
            moved = (value.detach() + NEARBY * _random_like(value, generator) for value in inputs)
            if _agrees(function, [value.requires_grad_() for value in moved]):
                return DerivativeAnswer("unknown", forward, backward)
        return DerivativeAnswer("wrong", forward, backward)
    except Exception:  # the function does not support double precision, or cannot run alone
        return DerivativeAnswer("unknown")


def examine_twice(function: Callable[..., Any], inputs: Sequence[Tensor]) -> DerivativeAnswer:
    """Compare the derivative of a function's gradient, as `create_graph=True` computes it, with finite differences."""
    generator = torch.Generator().manual_seed(2)
    try:
        outputs = _outputs(function, inputs)
    except Exception:  # as in `examine`
        return DerivativeAnswer("unknown")
    weights = [_random_like(output, generator).requires_grad_() for output in outputs]

    def gradient(*values: Tensor) -> list[Tensor]:
        leaves = [value if value.requires_grad else value.clone().requires_grad_() for value in values]
        points, ways = leaves[: len(inputs)], leaves[len(inputs) :]
        gradients = torch.autograd.grad(_outputs(function, points), points, ways, create_graph=True, allow_unused=True)
        return [gradient for gradient in gradients if gradient is not None]

    return examine(gradient, [*inputs, *weights])


def _agrees(function: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    forward, backward = _derivatives(function, inputs, FINE)
    return abs(forward - backward) <= ABSOLUTE + RELATIVE * abs(forward)


def _outputs(function: Callable[..., Any], inputs: Sequence[Tensor]) -> list[Tensor]:
    result = function(*inputs)
    outputs = [result] if isinstance(result, Tensor) else [output for output in result if isinstance(output, Tensor)]
    return [output for output in outputs if output.is_floating_point() and output.requires_grad]


def _derivatives(function: Callable[..., Any], inputs: Sequence[Tensor], step: float) -> tuple[float, float]:
    """Return a directional derivative of a random linear combination of the outputs, by finite differences and by backward."""
    generator = torch.Generator().manual_seed(0)
    outputs = _outputs(function, inputs)
    weights = [_random_like(output, generator) for output in outputs]
    directions = [_random_like(value, generator) for value in inputs]
    total = weighted_sum(zip(outputs, weights, strict=True))
    gradients = torch.autograd.grad(total, list(inputs), allow_unused=True)
    pairs = zip(gradients, directions, strict=True)
    # A wrong backward may return a tensor with a graph.
    claimed = sum(float((gradient.detach() * way).sum()) for gradient, way in pairs if gradient is not None)

    def value(side: float) -> float:
        moved = [(value.detach() + side * way).requires_grad_() for value, way in zip(inputs, directions, strict=True)]
        weighted = zip(_outputs(function, moved), weights, strict=True)
        return sum(float((output.detach() * weight).sum()) for output, weight in weighted)

    return (value(step) - value(-step)) / (2 * step), claimed


def _is_choice(function: Callable[..., Any], inputs: Sequence[Tensor]) -> bool:
    """Return whether the function returns an input, or is constant along an input that has a gradient."""
    outputs = _outputs(function, inputs)
    if any(output.shape == other.shape and torch.equal(output, other) for output in outputs for other in inputs):
        return True
    for place, varied in enumerate(inputs):
        others = [value.detach() for value in inputs]

        def along(value: Tensor, place: int = place, others: list[Tensor] = others) -> Any:
            return function(*(value if at == place else other for at, other in enumerate(others)))

        forward, backward = _derivatives(along, [varied], FINE)
        if abs(forward) < 1e-9 < abs(backward):
            return True
    return False


def _random_like(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return random numbers in double precision with a tensor's shape and device, the same ones on each device."""
    return torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor.device)


def in_double(argument: object) -> object:
    """Return a copy of an argument in double precision, as a leaf that requires grad if the argument does."""
    if isinstance(argument, list | tuple) and type(argument) in (list, tuple):
        return type(argument)(in_double(item) for item in argument)
    if not isinstance(argument, Tensor):
        return argument
    copy = argument.detach().clone()
    return copy.double().requires_grad_(argument.requires_grad) if copy.is_floating_point() else copy


CALLS = 2  # of the same operation that are compared
LARGEST = 1 << 12  # largest number of elements in the arguments of a compared call
# Functions written in Python call these, and may be estimators on purpose, as `gumbel_softmax(hard=True)` is.
BUILT_IN = ("builtin_function_or_method", "method_descriptor", "wrapper_descriptor")


@dataclass(frozen=True)
class _OperationCall:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    place: Place


class _Noting(CallMode, Listener):
    """A function mode that stores the arguments of each operation that autograd records."""

    def __init__(self, program: Program):
        super().__init__()
        self.program = program
        self.calls: dict[str, list[_OperationCall]] = defaultdict(list)

    def around(self, program: Program) -> AbstractContextManager[Any]:
        """Return this mode."""
        return self

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, function_name(func) if type(func).__name__ in BUILT_IN else ""
        given = [*tensors(args), *tensors(kwargs)]
        is_small = sum(value.numel() for value in given) <= LARGEST and not any(value.is_complex() for value in given)
        is_recorded = torch.is_grad_enabled() and any(value.requires_grad for value in given)
        if not (name and is_small and is_recorded) or len(self.calls[name]) == CALLS:
            return func(*args, **kwargs)
        copies = {key: in_double(value) for key, value in kwargs.items()}
        call = _OperationCall(func, tuple(in_double(argument) for argument in args), copies, self.program.here())
        result = func(*args, **kwargs)
        if any(tensor.requires_grad for tensor in tensors(result)):
            self.calls[name].append(call)
        return result


def wrong_operations(runner: Runner) -> list[tuple[str, Place]]:
    """Return the operations of a program whose derivative disagrees with finite differences, each with the line of its first call."""
    noting = _Noting(runner.program)
    runner.run(noting)
    wrong = {name: next(filter(_is_wrong, noted), None) for name, noted in noting.calls.items()}
    return [(name, call.place) for name, call in wrong.items() if call is not None]


def _is_wrong(call: _OperationCall) -> bool:
    varied = [tensor for tensor in (*tensors(call.arguments), *tensors(call.keywords)) if tensor.requires_grad]

    def alone(*values: Tensor) -> Any:
        new = dict(zip(map(id, varied), values, strict=True))

        def copied(tensor: Tensor) -> Tensor:
            return new.get(id(tensor), tensor).clone()

        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            arguments, keywords = map_only(Tensor, copied, (call.arguments, call.keywords))
            return call.function(*arguments, **keywords)

    return examine(alone, varied).answer == "wrong"


# Length of a step in float64, with which few activations cross a kink. Truncation and rounding errors are about 1e-10 of
# the loss each.
STEP = 1e-6
NOISE = 1e-5  # relative to the largest derivative of the same loss
AGREE = 1e-4  # largest relative difference between two steps or two runs; more indicates a kink, a jump, or rounding to float32


class FiniteDifferences:
    """Derivatives of the losses of a program's backward calls: those in the first `seconds`. `each` is the duration of a run."""

    def __init__(self, runner: Runner, live: frozenset[int], seconds: float = math.inf):
        self.runner = runner
        self.nominal = NominalRun(live, Snapshot(runner.program.roots, runner.program.space).tensors)
        began = time.monotonic()
        self._run(NominalReplay(self.nominal, seconds=seconds))
        still = self._losses({})
        self.each = (time.monotonic() - began) / 2
        for loss, nominal in zip(still, self.nominal.losses, strict=True):
            if abs(loss - nominal) > AGREE * max(1.0, abs(nominal)):
                raise NotApplicable(Message("differences.double_precision|its losses differ in double precision"))

    def _run(self, replay: NominalReplay) -> None:
        try:
            run = self.runner.run(replay)
        except ProgramError as error:
            if is_out_of_time(error):
                raise
            raise NotApplicable(str(error)) from None
        if isinstance(run.error, NotApplicable):
            raise run.error
        reached = self.nominal.losses if replay.first else replay.losses
        if run.error is not None and (not reached or len(reached) < len(self.nominal.losses)):
            name = type(run.error).__name__
            raise NotApplicable(Message("differences.raised|it raised {error} when it was repeated", error=name))

    def _losses(self, shift: dict[int, torch.Tensor]) -> list[float]:
        replay = NominalReplay(self.nominal, shift)
        self._run(replay)
        if len(replay.losses) != len(self.nominal.losses):
            raise NotApplicable(Message("run.different_paths|two runs of it take different paths"))
        return replay.losses

    def derivatives(self, direction: dict[int, torch.Tensor], step: float = STEP) -> list[float]:
        """Return the directional derivative of each loss when the leaves move along `direction`."""
        step /= max(1.0, math.sqrt(sum(float(tensor.square().sum()) for tensor in direction.values())))
        above = self._losses({index: tensor * step for index, tensor in direction.items()})
        below = self._losses({index: tensor * -step for index, tensor in direction.items()})
        return [(after - before) / (2 * step) for after, before in zip(above, below, strict=True)]

    def disagreements(self) -> set[tuple[int, int]]:
        """Return the wrong gradients, by number of the backward and of its target.

        The directional derivative of the loss along a random direction of each leaf is compared with the gradient of
        the graph. Raise NotApplicable if a derivative depends on the step size, as at a kink.
        """
        directions = self._directions()
        compared = {leaf: self._compared({leaf: way}) for leaf, way in directions.items()}
        pairs_of_calls = zip(*compared.values(), strict=True)
        largest = [max(abs(derivative) for pair in pairs for derivative in pair) for pairs in pairs_of_calls]
        differing = set()
        for leaf, pairs in compared.items():
            wrong = {call for call, pair in enumerate(pairs) if _differ(*pair, largest[call])}
            if wrong:
                self._trust(pairs, {leaf: directions[leaf]})
            reached = [call for call in wrong if leaf in self.nominal.gradients[call]]
            differing |= {(call, self.nominal.targets[call].index(leaf)) for call in reached}
        return differing

    def disagreements_together(self) -> set[tuple[int, int]]:
        """Return all gradients of the backward calls with a wrong one, by number of the backward and of its target.

        The directional derivative of the loss along one random direction of all leaves is compared, which takes four
        runs for any number of leaves. Raise NotApplicable as `disagreements` does.
        """
        directions = self._balanced(self._directions())
        pairs = self._compared(directions)
        self._trust(pairs, directions)
        wrong = [call for call, pair in enumerate(pairs) if _differ(*pair, abs(pair[0]))]
        known = ((call, number, leaf) for call in wrong for number, leaf in enumerate(self.nominal.targets[call]))
        return {(call, number) for call, number, leaf in known if leaf in self.nominal.precise[call]}

    def _directions(self) -> dict[int, torch.Tensor]:
        """Return a random direction for each leaf that a backward reached."""
        generator, reached = torch.Generator().manual_seed(0), set().union(*self.nominal.gradients)
        leaves = ((leaf, history[-1][1]) for leaf, history in enumerate(self.nominal.leaves) if history)
        ways = {leaf: _random_like(value, generator) for leaf, value in leaves if leaf in reached}
        return {leaf: way * self.nominal.varied.get(leaf, 1) for leaf, way in ways.items()}

    def _balanced(self, directions: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Return the directions, shorter for leaves with large gradients, which would hide the others in a sum."""
        sizes = {
            leaf: max(abs(float((given[leaf] * way).sum())) for given in self.nominal.precise if leaf in given)
            for leaf, way in directions.items()
        }
        typical = statistics.median_low([size for size in sizes.values() if size] or [1.0])
        return {leaf: way * (typical / max(typical, sizes[leaf])) for leaf, way in directions.items()}

    def _compared(self, directions: dict[int, torch.Tensor]) -> list[tuple[float, float]]:
        """Return, for each backward, the derivative along directions by finite differences and by the gradients of the graph."""
        claimed = [
            sum(float((gradient * directions[leaf]).sum()) for leaf, gradient in given.items() if leaf in directions)
            for given in self.nominal.precise
        ]
        return list(zip(self.derivatives(directions), claimed, strict=True))

    def _trust(self, pairs: list[tuple[float, float]], directions: dict[int, torch.Tensor]) -> None:
        """Raise NotApplicable if a derivative depends on the step size."""
        finer = zip(pairs, self.derivatives(directions, STEP / 10), strict=True)
        if any(abs(value - fine) > 10 * AGREE * max(1e-3, abs(value)) for (value, _), fine in finer):
            raise NotApplicable(Message("differences.kink|its loss has a kink or a jump here"))

    def true(self, leaf: int) -> list[torch.Tensor]:
        """Return the gradient of each backward's loss with respect to a leaf, by finite differences for each element."""
        nominal = self.nominal.leaves[leaf][-1][1]
        units = torch.eye(nominal.numel(), dtype=torch.float64, device=nominal.device)
        units *= self.nominal.varied.get(leaf, units.new_ones(nominal.shape)).flatten()
        entries = [self.derivatives({leaf: unit.view(nominal.shape)}) for unit in units]
        return [units.new_tensor(derivatives).view(nominal.shape) for derivatives in zip(*entries, strict=True)]


def _differ(derivative: float, claimed: float, largest: float) -> bool:
    # The bias before a batch norm has derivative 0; its gradient is the rounding error of the other gradients.
    return abs(derivative - claimed) > max(1e-3 * max(abs(derivative), abs(claimed)), NOISE * max(largest, 1e-4))
