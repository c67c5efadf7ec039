"""Compute the intended results of a broken program: runs in which no in-place modification affects backward or raises an error.

The backward of a generator's loss also reaches the discriminator, and the next `zero_grad()` clears this gradient
before a step uses it. A fix need not reproduce it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from autograder.errors import message_of
from autograder.tape.diagnose.rule_errors import FOR_NUMPY
from autograder.tape.internals.mode_stack import next_sequence_number, sequence_number
from autograder.tape.internals.tensor_fields import is_view, mode_paused
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.recording.verdict_types import Place
from autograder.tape.repair.trial.trial_run import TrialRun
from autograder.tape.run.engine import Backward, key_of
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import leaves_among, nodes_below
from autograder.tape.run.programs.program import Program
from autograder.tape.run.storages import is_zero

REFUSED = "leaf Variable that requires grad is being used in an in-place operation"  # PyTorch 2.13 and 2.15
# PyTorch 2.6 to 2.15 refuse to modify these views.
REFUSED_VIEWS = re.compile("a view of a leaf Variable|is a view and is being modified|Can't detach views")
FEW = 8  # number of operations in a moving average of two parameters


class PermittedLeafWrites(TorchFunctionMode):
    """A function mode that executes the in-place operations on leaves which PyTorch forbids.

    If the new value itself requires grad, it is not written under `no_grad`, because its graph would be lost and with
    it the intended computation. A leaf that is not a parameter is first replaced with a copy that has a `grad_fn`. For a
    parameter (such as in the inner step of MAML), the error is raised.

    It also gives NumPy the values of a tensor that requires grad. This is intended only if no later loss depends on
    them, so `refused` is the error that the next backward call of the run raises.
    """

    refused: RuntimeError | None = None

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return func(*args, **(kwargs or {}))
        except RuntimeError as error:
            if args and isinstance(args[0], torch.Tensor) and message_of(error).startswith(FOR_NUMPY):
                self.refused = error
                return func(args[0].detach(), *args[1:], **(kwargs or {}))
            if args and isinstance(args[0], torch.Tensor) and may_be_copied(args[0], message_of(error)):
                return _write_into_copy(func, error, *args, **(kwargs or {}))
            if REFUSED not in message_of(error):
                raise
            written, *others = tensors([args, kwargs or {}])
            # `view[0] += 1` ends with an assignment of the view to itself, which adds no new input to its graph.
            needing = [tensor for tensor in others if tensor.requires_grad and not shares_memory(written, tensor)]
            if needing and not is_average(written, needing):
                if isinstance(written, torch.nn.Parameter) or not written.is_leaf:
                    raise
                # The leaf becomes the result of a copy of a new leaf, which receives the gradient.
                origin = written.detach().clone().requires_grad_()
                written.requires_grad_(False).copy_(origin)
                return func(*args, **(kwargs or {}))
            with torch.no_grad():
                return func(*args, **(kwargs or {}))


class SingleViews(TorchFunctionMode):
    """A function mode that replaces views that PyTorch refuses to modify with single views, taken while recording is on.

    These are the views of multi-output functions (`split`, `chunk`, `unbind`, iteration), and views taken under `no_grad`.
    A modification of a single view of the same elements reaches the base and its graph (torch 2.13, docs "Tensor Views").
    """

    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__iter__:
            return iter(self.__torch_function__(torch.Tensor.unbind, (), args))
        result = func(*args, **(kwargs or {}))
        parts = [result] if isinstance(result, torch.Tensor) and not torch.is_grad_enabled() else result
        if not isinstance(parts, list | tuple) or not all(isinstance(part, torch.Tensor) for part in parts):
            return result
        split, asked = next(iter(tensors([args, kwargs or {}])), None), torch.is_grad_enabled()
        refused = [part for part in parts if is_view(part) and (part.requires_grad or not asked)]
        if split is None or len(refused) < len(parts) or not all(shares_memory(split, part) for part in parts):
            return result
        with torch.enable_grad():
            single = [split.as_strided(part.shape, part.stride(), part.storage_offset()) for part in parts]
        return single[0] if parts is not result else type(result)(single)


def is_average(written: torch.Tensor, values: list[torch.Tensor]) -> bool:
    """Return whether a parameter receives values that were computed in a few operations from parameters of its shape only."""
    nodes = nodes_below(tuple(values))
    leaves = leaves_among(tuple(values), nodes)
    of_parameters = all(isinstance(leaf, torch.nn.Parameter) and leaf.shape == written.shape for leaf in leaves)
    return isinstance(written, torch.nn.Parameter) and of_parameters and len(nodes) - len(leaves) <= FEW


def shares_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors share a storage."""
    return left is right or left.untyped_storage().data_ptr() == right.untyped_storage().data_ptr()


def may_be_copied(view: torch.Tensor, message: str) -> bool:
    """Return whether a copy of a refused view has the meaning of the modification, which cannot reach its base."""
    is_expanded = any(size > 1 and not stride for size, stride in zip(view.shape, view.stride(), strict=True))
    return REFUSED_VIEWS.search(message) is not None and (is_expanded or "of a leaf" not in message)


def _write_into_copy(
    func: Callable[..., Any], error: RuntimeError, view: torch.Tensor, *args: Any, **options: Any
) -> torch.Tensor:
    """Modify a copy of a view, and let the program's object refer to the copy."""
    copy = view.clone()
    func(copy, *args, **options)
    try:
        torch.utils.swap_tensors(view, copy)
    except RuntimeError:
        raise error from None
    return view


@dataclass(frozen=True)
class EarlierCall:
    """A backward call of the run, with the state that later calls are compared with."""

    line: Place
    number: int  # sequence number of the next node that was created
    keys: dict[int, tuple[Any, ...]]  # keys of its targets by `id`, to notice a later modification
    outdated: set[int]  # ids of the leaves that received a gradient of older values


class UnusedGradients:
    """Finds the gradients that a program clears before a step uses them, of parameters that other gradients train."""

    def __init__(self) -> None:
        self.unused: set[tuple[int, int]] = set()  # such a gradient, as the index of its call and the `id` of its leaf
        # the line of a call and the `id` of a leaf that a step then modified
        self._used: set[tuple[Place, int]] = set()
        # by id, the leaves with a gradient, each with its key and the calls that added to the gradient
        self._waiting: dict[int, tuple[Tensor, tuple[Any, ...], list[int]]] = {}
        self._calls: list[EarlierCall] = []

    def before_backward(self, call: Backward, line: Place) -> None:
        """Note a call, and the leaves that receive a gradient of older values from it."""
        keys = dict(zip(map(id, call.targets), call.keys, strict=False))
        self._settle(keys)
        outdated = set() if call.returns else set(self._older(call))
        self._calls.append(EarlierCall(line, next_sequence_number(), keys, outdated))

    def after_backward(self, call: Backward) -> None:
        """Start to track the gradients of the call."""
        for leaf, key in zip(call.targets, call.keys, strict=True) if not call.returns else ():
            if leaf.is_leaf:
                self._waiting.setdefault(id(leaf), (leaf, key, []))[2].append(len(self._calls) - 1)
            if isinstance(leaf, torch.nn.Parameter) and leaf.grad is not None and is_zero(leaf.grad):
                self._used.add((self._calls[-1].line, id(leaf)))  # a step leaves the values as they are

    def end(self, is_cut: bool) -> set[int]:
        """Return the ids of the leaves whose last gradients the program would have cleared, as it did after earlier calls of the lines.

        If the run was cut, a gradient of older values counts as cleared, because it is not known whether it would be used.
        """
        with mode_paused():
            self._settle({number: key_of(leaf) for number, (leaf, *_) in self._waiting.items()})
        trained = {leaf for _, leaf in self._used}
        self.unused = {(call, leaf) for call, leaf in self.unused if leaf in trained}
        cleared = {(self._calls[call].line, leaf) for call, leaf in self.unused} - self._used
        ended = set()
        for leaf, (_, _, calls) in self._waiting.items():
            added = [self._calls[call] for call in calls]
            if all((call.line, leaf) in cleared or (is_cut and leaf in call.outdated) for call in added):
                self.unused |= {(call, leaf) for call in calls}
                ended.add(leaf)
        return ended

    def _settle(self, keys: dict[int, tuple[Any, ...]]) -> None:
        """Check whether the tracked gradients of these leaves, which have these keys now, were used or cleared."""
        for number in keys.keys() & self._waiting.keys():
            leaf, key, calls = self._waiting[number]
            if keys[number] != key:
                self._used |= {(self._calls[call].line, number) for call in calls}
                del self._waiting[number]
            elif leaf.grad is None or is_zero(leaf.grad):
                self.unused |= {(call, number) for call in calls}
                del self._waiting[number]

    def _older(self, call: Backward) -> Iterable[int]:
        """Yield the ids of the leaves that were modified since an earlier call, after this call's graph had read them."""
        first_read = reads(call)
        for leaf, key in zip(call.targets, call.keys, strict=False):
            since = (earlier for earlier in self._calls if first_read.get(id(leaf), earlier.number) < earlier.number)
            if any(earlier.keys.get(id(leaf), key) != key for earlier in since):
                yield id(leaf)


def reads(call: Backward) -> dict[int, int]:
    """Return the sequence number of the first node in this graph that read each leaf, by the `id` of the leaf."""
    numbers: dict[int, int] = {}
    for node in nodes_below(call.roots):
        for below, _ in node.next_functions:
            if hasattr(below, "variable"):
                key, number = id(below.variable), sequence_number(node)
                numbers[key] = min(number, numbers.get(key, number))
    return numbers


@dataclass
class IntendedRun(TrialRun):
    """A run with private copies of all values that backward needs, and with the modifications of leaves that PyTorch forbids.

    If the program calls backward twice through one graph, the graph is kept. A leaf that was modified between the two
    calls receives no gradient from the part of the graph that both calls share, which would be that of its old value.
    """

    keeps_graph: bool = False  # whether the graph is kept for a second call
    # whether each view of a multi-output function is replaced with a single view, which may be modified
    takes_views_singly: bool = False
    # number of leaves that end with a gradient that the program would have cleared
    cleared_unused: int = 0
    _later: UnusedGradients = field(default_factory=UnusedGradients)
    _cleared: set[int] = field(default_factory=set)
    _walked: list[tuple[set[Any], dict[int, tuple[Any, ...]]]] = field(default_factory=list)
    _before: dict[int, tuple[Tensor, Tensor | None]] = field(default_factory=dict)
    _cuts: list[RemovableHandle] = field(default_factory=list)
    _copies: ClonedSavesRun = field(default_factory=ClonedSavesRun)
    _writes: PermittedLeafWrites = field(default_factory=PermittedLeafWrites)

    @contextlib.contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Return the context for the program's code."""
        views = SingleViews() if self.takes_views_singly else contextlib.nullcontext()
        self._program = program
        with self._copies.around(program), self._writes, views, super().around(program):
            yield
            self._cleared = self._later.end(self.is_cut)
        for number, call in enumerate(self.calls):
            call.given = [(leaf, value) for leaf, value in call.given if (number, leaf) not in self._later.unused]
        self._walked, self._later = [], UnusedGradients()

    def before_backward(self, call: Backward) -> None:
        """Note the gradients of the leaves that this backward will not reach."""
        if self._writes.refused is not None:
            raise self._writes.refused
        self._copies.before_backward(call)
        super().before_backward(call)
        self._later.before_backward(call, self._program.here())
        if self.keeps_graph:
            given = ((leaf, leaf.grad) for leaf in self._stale(call))
            self._before = {id(leaf): (leaf, grad if grad is None else grad.detach().clone()) for leaf, grad in given}

    def after_backward(self, call: Backward) -> None:
        """Remove the gradients of old values."""
        self._copies.after_backward(call)
        while self._cuts:
            self._cuts.pop().remove()
        with mode_paused():
            for leaf, gradient in self._before.values():
                leaf.grad = gradient
        super().after_backward(call)
        self._later.after_backward(call)

    def given(self, call: Backward) -> list[tuple[Tensor, Tensor]]:
        """Return the gradients of a call, without those of old values."""
        return [(leaf, gradient) for leaf, gradient in super().given(call) if id(leaf) not in self._before]

    def counts(self, leaf: Tensor) -> bool:
        """Return whether the program would have kept the leaf's gradient at the end."""
        self.cleared_unused += id(leaf) in self._cleared
        return id(leaf) not in self._cleared

    def _stale(self, call: Backward) -> list[Tensor]:
        """Return the leaves that were modified since an earlier call, and which only the part of both graphs reads.

        If the other part also reads such a leaf, such as the state of a recurrent network, let no gradient into the
        common part.
        """
        # The AccumulateGrad node of a leaf exists as long as the leaf and is part of every graph.
        nodes = {node for node in nodes_below(call.roots) if not hasattr(node, "variable")}
        pairs = list(zip(call.targets, call.keys, strict=False))
        earlier = [(walked & nodes, seen) for walked, seen in self._walked if walked & nodes]
        self._walked.append((nodes, {id(leaf): key for leaf, key in pairs}))
        # A call since then, for example for an inner gradient of the same iteration, has walked a part that is to count.
        is_old = (any(seen.get(id(leaf), key) != key for leaf, key in pairs) for _, seen in earlier)
        common = set[Any]().union(*(walked for (walked, _), old in zip(earlier, is_old, strict=True) if old))
        below = {following for node in nodes - common for following, _ in node.next_functions}
        # A leaf that only the new part reads, as the discriminator's between two losses of a GAN, has its present value.
        modified = [leaf for leaf, key in pairs if any(seen.get(id(leaf), key) != key for _, seen in earlier)]
        followers = [following for node in common for following, _ in node.next_functions]
        read_by_both = set(map(id, leaves_among((), followers)))
        stale = [leaf for leaf in modified if id(leaf) in read_by_both]
        read = set(map(id, leaves_among((), below)))
        only_common = [leaf for leaf in stale if id(leaf) not in read]
        if len(only_common) < len(stale):
            self._cuts = [node.register_prehook(_zeros) for node in below & common]
        return only_common


def _zeros(gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    with mode_paused():
        return tuple(None if gradient is None else torch.zeros_like(gradient) for gradient in gradients)
