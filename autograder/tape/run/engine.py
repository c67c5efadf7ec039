"""Every call of the engine: `torch.autograd.backward`, `grad`, and whatever is built on them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from autograder.tape.internals.compiler import is_tracing
from autograder.tape.internals.entry_points import replaced_engine
from autograder.tape.internals.mode_stack import next_sequence_number, sequence_number
from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.child_processes import ChildProcesses, tell_of_backward
from autograder.tape.run.graph_walk import leaves_among, leaves_below, nodes_below
from autograder.tape.run.new_threads import in_new_threads
from autograder.tape.run.storages import fingerprint


class LastCall(BaseException):
    """Ends a run before the backward call that need not be run; no `Exception`, so that the program does not swallow it."""


@dataclass
class Backward:
    """One call of the engine by the program.

    Attributes:
        roots: the tensors it starts from; `asked` the `inputs` it stops at, if any; `weights` the gradients at the roots.
        targets: the tensors it has a gradient for: the leaves it reaches, or the `inputs` it was asked for; let go when the run ends.
        numbers: for each target, a number that tells it from the others of the run.
        returns: whether the gradients come back as values (`autograd.grad`) and not in `.grad`.
        keys: for each target, its shape and values now: what finds it again in another run.
        gradients: each target's gradient right after the call, copied (sampled beyond SAMPLED elements); None for a missing one.
        is_summed: whether only sums of its gradients are kept.
        nodes: how many nodes its graph has; `oldest` is the sequence number of the one made first, `ended` that of the next node
            made after the call.
        error: what it raised.
        thread: which thread it was in: 0 the one that runs the program, then in the order in which they were started.
    """

    roots: tuple
    targets: list[torch.Tensor]
    returns: bool
    keeps_graph: bool
    creates_graph: bool
    asked: tuple[torch.Tensor, ...] = ()
    weights: tuple = ()
    numbers: list[int] = field(default_factory=list)
    keys: list[tuple] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    is_summed: bool = False
    nodes: int = 0
    oldest: int = 0
    ended: int = 0
    error: BaseException | None = None
    thread: int = 0


class Listener:
    """What a run does around each backward; every method may be overridden, none may change what the engine does."""

    def before_backward(self, call: Backward) -> None:
        """Called just before the engine starts."""

    def after_backward(self, call: Backward) -> None:
        """Called when the engine has stopped, even if it raised."""

    def ended_early(self) -> None:
        """Called where the run ends because its next backward need not be run."""

    def is_enough(self, calls: int) -> bool:
        """Returns whether the run may end before its next backward call, after so many."""
        return False

    def keep_graph(self, asked: bool) -> bool:
        """Returns whether the engine keeps the graph; `asked` is what the program asked for."""
        return asked

    @contextmanager
    def inside_engine(self) -> Iterator[None]:
        """The context in which the engine runs."""
        yield


# A training loop calls backward thousands of times. Of a large gradient some evenly spread entries are kept, and of those of
# later calls only sums, so that what is kept of all calls stays small beside the program.
SAMPLED = 4096
EARLY = 32
SUMS = 64


def copied(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """Returns a copy that no later write changes, of at most SAMPLED entries."""
    if gradient is None:
        return None
    gradient = _dense(gradient)
    return (
        gradient.flatten()[:: -(-gradient.numel() // SAMPLED)].clone()
        if gradient.numel() > SAMPLED
        else gradient.clone()
    )


def summed(gradient: torch.Tensor | None, parts: int = SUMS) -> torch.Tensor | None:
    """Returns the sums of so many parts of a gradient, in double precision; a copy of one that has not more entries."""
    if gradient is None or gradient.numel() <= parts:
        return copied(gradient)
    flat = _dense(gradient).flatten()
    precise, size = torch.complex128 if flat.is_complex() else torch.float64, flat.numel() // parts
    whole = flat[: parts * size].view(parts, size).sum(1, dtype=precise)
    return torch.cat([whole, flat[parts * size :].sum(dtype=precise)[None]])


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    gradient = gradient.detach()
    return gradient if gradient.layout == torch.strided else gradient.to_dense()


@contextmanager
def watched(
    listener: Listener, most: int | None = None, children: ChildProcesses | None = None
) -> Iterator[list[Backward]]:
    """Yields the list of backward calls that the program makes inside; a backward inside a backward belongs to the outer one.

    A fork of this process only leaves word. After `most` calls, or when the listener has enough, the next raises LastCall.
    """
    calls: list[Backward] = []
    here, threads, children = _EngineOfThread(), itertools.count(1), children or ChildProcesses()

    @contextmanager
    def numbered() -> Iterator[None]:
        here.thread = next(threads)
        yield

    def replacement(original: Callable) -> Callable:
        return _only_here(_told(listener, calls, here, original, most), original, children)

    with replaced_engine(replacement), in_new_threads(numbered):
        yield calls


def _only_here(run: Callable, original: Callable, children: ChildProcesses) -> Callable:
    def in_this_process(*args, **options):
        if not children.is_child():
            return run(*args, **options)
        tell_of_backward(children.path)
        return original(*args, **options)

    return in_this_process


class _EngineOfThread(threading.local):
    thread = 0

    def __init__(self) -> None:
        self.running: list[Backward] = []


def _told(
    listener: Listener, calls: list[Backward], here: _EngineOfThread, original: Callable, most: int | None
) -> Callable:
    budget = budget_in_force()

    def run(outputs, grad_tensors, keep_graph, create_graph, inputs, *args, **kwargs):
        if is_tracing():
            return original(outputs, grad_tensors, keep_graph, create_graph, inputs, *args, **kwargs)
        keep_graph = listener.keep_graph(keep_graph)
        rest = (grad_tensors, keep_graph, create_graph, inputs, *args)
        if here.running:
            _add_targets(here.running[-1], [] if inputs else leaves_below(tuple(outputs)))
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
            with unheard():
                listener.before_backward(call)
            with listener.inside_engine():
                result = original(outputs, *rest, **kwargs)
            call.gradients = _filled(call, result, keep)
            return result
        except BaseException as error:
            call.error = error
            raise
        finally:
            here.running.pop()
            with unheard():
                call.gradients = call.gradients or _filled(call, (), keep)
                listener.after_backward(call)
            call.roots = call.weights = ()  # a kept root would keep its whole graph
            call.ended = next_sequence_number()

    return run


def _started(outputs, grads, keep_graph, create_graph, inputs, options: dict) -> Backward:
    with unheard():
        asked = tuple(target for target in inputs if isinstance(target, torch.Tensor))
        call = Backward(
            tuple(outputs), [], not options.get("accumulate_grad", False), keep_graph, create_graph, asked, tuple(grads)
        )
        nodes = nodes_below(call.roots)
        call.nodes, call.oldest = len(nodes), min(map(sequence_number, nodes), default=0)
        _add_targets(call, list(asked) or leaves_among(call.roots, nodes))
        return call


def _add_targets(call: Backward, targets: list[torch.Tensor]) -> None:
    """Adds what a backward fills; checkpoint's own backward, inside another, fills the leaves of the part that it recomputes."""
    with unheard():
        known = {id(target) for target in call.targets}
        for target in targets:
            if id(target) not in known:
                call.targets.append(target)
                call.numbers.append(id(target))
                call.keys.append((tuple(target.shape), target.dtype, target.is_leaf, hash(fingerprint(target))))


def _filled(call: Backward, result: tuple, keep: Callable) -> list[torch.Tensor | None]:
    with unheard():
        if call.returns:
            return [keep(gradient) for gradient in result]
        return [keep(target.grad) if target.is_leaf or target.retains_grad else None for target in call.targets]
