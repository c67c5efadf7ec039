"""Listen to every call of the autograd engine, by `torch.autograd.backward`, `grad`, and functions that use them."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.internals.entry_points import replaced_engine
from autograder.tape.internals.mode_stack import is_tracing, next_sequence_number, sequence_number
from autograder.tape.internals.tensor_fields import mode_paused, unwrapped
from autograder.tape.run.budget import current_budget
from autograder.tape.run.child_processes import ChildProcesses, in_new_threads, left_threads, report_backward
from autograder.tape.run.graph_walk import leaves_among, nodes_below
from autograder.tape.run.programs.program import Program
from autograder.tape.run.storages import fingerprint


class LastCall(BaseException):
    """Raised to end a run before a backward call that is not needed. It is not an `Exception`, so that the program does not catch it."""


@dataclass
class Backward:
    """A call of the engine by the program."""

    roots: tuple[Any, ...]  # the tensors that it starts from
    # the tensors that receive a gradient: the leaves of the graph, or the `inputs`; emptied when the run ends
    targets: list[torch.Tensor]
    returns: bool  # whether the call returns the gradients (`autograd.grad`) instead of accumulating them in `.grad`
    keeps_graph: bool
    creates_graph: bool
    asked: tuple[torch.Tensor, ...] = ()  # its `inputs`, if any
    weights: tuple[Any, ...] = ()  # gradients of the roots
    numbers: list[int] = field(default_factory=list)  # for each target, an identifier within the run
    # for each target, its shape and values, to find it in another run
    keys: list[tuple[Any, ...]] = field(default_factory=list)
    # copy of each target's gradient after the call (sampled beyond SAMPLED elements); None for a missing one
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    is_summed: bool = False  # whether only sums of its gradients are kept
    nodes: int = 0  # number of nodes in its graph, and in those of nested calls
    oldest: int = 0  # sequence number of the oldest of these nodes
    ended: int = 0  # sequence number of the next node created after the call
    error: BaseException | None = None  # the error that it raised, or None
    # by number, the expressions for targets that no earlier call had, if the run noted them
    names: dict[int, str] = field(default_factory=dict)
    thread: int = 0  # index of its thread: 0 for the thread that runs the program, then in order of their start


class Listener:
    """Base class of listeners to a run. Overridden methods must not change the work of the engine."""

    keeps_graph = False  # whether the engine keeps each graph, because another run uses the same one

    def around(self, program: Program) -> AbstractContextManager[Any]:
        """Return the context in which the program's code runs."""
        return nullcontext()

    def before_backward(self, call: Backward) -> None:
        """Called just before the engine starts."""

    def after_backward(self, call: Backward) -> None:
        """Called after the engine has stopped, even if it raised an error."""

    def ended_early(self) -> None:
        """Called if the run ends because its next backward is not needed."""

    def is_enough(self, calls: int) -> bool:
        """Return whether the run may end before its next backward call, after `calls` calls."""
        return False

    def inside_engine(self) -> AbstractContextManager[Any]:
        """Return the context in which the engine runs."""
        return nullcontext()


# A training loop calls backward thousands of times. To save memory, only evenly spaced elements of large gradients are
# kept, and only sums of the gradients of later calls.
SAMPLED = 4096
EARLY = 32
SUMS = 64


def copied(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Return a copy of a gradient, or of at most SAMPLED of its elements."""
    if gradient is None:
        return None
    dense = _dense(gradient)
    size = dense.numel()
    if size <= SAMPLED:
        return dense.clone()
    step = -(-size // SAMPLED)
    # A common divisor would select the same position of each row or kernel.
    while math.gcd(step, size) > 1:
        step += 1
    return dense.flatten()[::step].clone()


def summed(gradient: torch.Tensor | None, parts: int = SUMS) -> torch.Tensor | None:
    """Return the sums of `parts` parts of a gradient in double precision, or a copy if it has no more elements than that."""
    if gradient is None or gradient.numel() <= parts:
        return copied(gradient)
    flat = _dense(gradient).flatten()
    precise, size = torch.complex128 if flat.is_complex() else torch.float64, flat.numel() // parts
    whole = flat[: parts * size].view(parts, size).sum(1, dtype=precise)
    return torch.cat([whole, flat[parts * size :].sum(dtype=precise)[None]])


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    gradient = unwrapped(gradient).detach()
    return gradient if gradient.layout == torch.strided else gradient.to_dense()


@contextmanager
def watched(
    listener: Listener, most: int | None = None, children: ChildProcesses | None = None
) -> Iterator[list[Backward]]:
    """Yield the list of the program's backward calls in the block. A nested backward belongs to the outer one.

    A forked process only reports its calls. After `most` calls, or when the listener has enough, the next call raises
    LastCall.
    """
    calls: list[Backward] = []
    here, threads, children = _EngineOfThread(), itertools.count(1), children or ChildProcesses()

    @contextmanager
    def numbered() -> Iterator[None]:
        here.thread = next(threads)
        yield

    with replaced_engine(_observed_calls(listener, calls, here, most, children)), in_new_threads(numbered):
        yield calls


class _EngineOfThread(threading.local):
    thread = 0

    def __init__(self) -> None:
        self.running: list[Backward] = []


def _observed_calls(
    listener: Listener, calls: list[Backward], here: _EngineOfThread, most: int | None, children: ChildProcesses
) -> Callable[..., Any]:
    budget = current_budget()

    def run(
        original: Any, outputs: Any, grad_tensors: Any, keep_graph: Any, create_graph: Any, inputs: Any, *args: Any,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        if children.is_child():
            report_backward(children.path)
        if children.is_child() or is_tracing():
            return original(outputs, grad_tensors, keep_graph, create_graph, inputs, *args, **kwargs)
        if threading.current_thread() in left_threads:
            raise SystemExit  # which ends a thread without a message
        keep_graph = keep_graph or listener.keeps_graph
        rest = (grad_tensors, keep_graph, create_graph, inputs, *args)
        if here.running:
            _nest(here.running[-1], tuple(outputs), bool(inputs))
            return original(outputs, *rest, **kwargs)
        if len(calls) == most or listener.is_enough(len(calls)):
            listener.ended_early()
            raise LastCall
        budget.progress(len(calls))
        call = _started(outputs, grad_tensors, keep_graph, create_graph, inputs, kwargs)
        call.thread = here.thread
        calls.append(call)
        here.running.append(call)
        call.is_summed = len(calls) > EARLY
        keep = summed if call.is_summed else copied
        try:
            with mode_paused():
                listener.before_backward(call)
            # A GPU's part of a graph would run in another thread, which no listener observes.
            with listener.inside_engine(), torch.autograd.set_multithreading_enabled(False):
                result = original(outputs, *rest, **kwargs)
            call.gradients = _filled(call, result, keep)
            return result
        except BaseException as error:
            call.error = error
            raise
        finally:
            here.running.pop()
            with mode_paused():
                call.gradients = call.gradients or _filled(call, (), keep)
                listener.after_backward(call)
            call.roots = call.weights = ()  # a reference to a root would keep its whole graph
            call.ended = next_sequence_number()

    return run


def _started(
    outputs: Any, grads: Any, keep_graph: Any, create_graph: Any, inputs: Any, options: dict[Any, Any]
) -> Backward:
    with mode_paused():
        asked = tuple(target for target in inputs if isinstance(target, torch.Tensor))
        returns = not options.get("accumulate_grad", False)
        call = Backward(tuple(outputs), [], returns, keep_graph, create_graph, asked, tuple(grads))
        nodes = nodes_below(call.roots)
        call.nodes, call.oldest = len(nodes), min(map(sequence_number, nodes), default=0)
        _add_targets(call, list(asked) or leaves_among(call.roots, nodes))
        return call


def _nest(call: Backward, roots: tuple[Any, ...], is_asked: bool) -> None:
    """Add the nodes and leaves of a nested call to a call."""
    with mode_paused():
        nodes = nodes_below(roots)
        call.nodes += len(nodes)
        _add_targets(call, [] if is_asked else leaves_among(roots, nodes))


def _add_targets(call: Backward, targets: list[torch.Tensor]) -> None:
    """Add targets to a call; the callers have paused the modes. The nested backward of a checkpoint fills recomputed leaves."""
    present = {id(target) for target in call.targets}
    for target in targets:
        if id(target) not in present:
            call.targets.append(target)
            call.numbers.append(id(target))
            call.keys.append(key_of(target))


def key_of(target: torch.Tensor) -> tuple[Any, ...]:
    """Return the shape and the values of a target in a form for comparison."""
    return tuple(target.shape), target.dtype, target.is_leaf, hash(fingerprint(target))


def _filled(call: Backward, result: tuple[Any, ...], keep: Callable[..., Any]) -> list[torch.Tensor | None]:
    with mode_paused():
        if call.returns:
            return [keep(gradient) for gradient in result]
        return [keep(target.grad) if target.is_leaf or target.retains_grad else None for target in call.targets]
