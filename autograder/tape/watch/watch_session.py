"""`autograder.watch()`, and the shared state of all open watches of a process: logs, listeners of threads, the wrapped engine."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, ExitStack, nullcontext
from typing import Any, Literal, Self, get_args

import torch

from autograder.errors import InputError, message_of
from autograder.tape.diagnose.harms import UNCOUNTED_WRITE
from autograder.tape.internals.entry_points import around_optimizer_steps, replaced_apply, replaced_engine, wrapping
from autograder.tape.internals.mode_stack import (
    FIRST,
    dispatch_modes,
    next_sequence_number,
    on_compiled_calls,
    push_mode,
    sequence_number,
)
from autograder.tape.internals.tensor_fields import FREED, has_values, is_read, mode_paused, readable_saved_tensors
from autograder.tape.observe.links import kept_by
from autograder.tape.recording.verdict_types import Harm
from autograder.tape.run.child_processes import in_new_threads
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import node_of, nodes_below
from autograder.tape.run.storages import elements_of
from autograder.tape.watch.call_listener import CallListener, CallSites, WriteLog, own_frames
from autograder.tape.watch.post_mortem import PostMortem, note_of, note_on_freed

Check = Literal["versions", "bytes"]

_lock = threading.RLock()
_open: list[WatchSession] = []  # at most one session, which all watches of the process share


class JobWatch(ContextDecorator):
    """The return value of `autograder.watch()`: a context manager, also usable as a decorator.

    Attributes:
        harms: the saved tensors that were modified in place before backward, with the lines of the modifications. They
            come from errors of backward and, with `check="bytes"`, also from modifications that backward does not
            detect.
    """

    def __init__(self, check: Check):
        self.bytes = check == "bytes"
        self.harms: tuple[Harm, ...] = ()
        self._entered: list[tuple[CallListener, int]] = []

    def __enter__(self) -> Self:
        with _lock:
            if not _open:
                session = WatchSession()
                session.install()
                _open.append(session)
            session = _open[0]
            session.watchers.append(self)
            listener = session.listener()
            if self.bytes:
                for other in session.listeners.values():
                    other.made = keep_samples
            if listener.absent():
                push_mode(listener)
            listener.users += 1
            self._entered.append((listener, threading.get_ident()))
        return self

    def __exit__(self, *_: object) -> None:
        with _lock:
            listener, thread = self._entered.pop()
            listener.users -= 1
            if not listener.users and thread == threading.get_ident():
                listener.stop()
            session = _open[0]
            session.watchers.remove(self)
            if not session.watchers:
                _open.clear()
                session.remove()


def watch(check: Check = "versions") -> JobWatch:
    """Return a context that explains errors of backward in a running job.

    Use it around forward and backward of a step, or around a whole loop. It does not change the computation. An error
    of backward is raised as usual, with a note that names the line of the in-place modification, the alias it went
    through, and the line that needed the old values. `autograder.explain(error)` returns the same as data.

    Args:
        check: "versions" costs about as much time as PyTorch's own function modes, and about 30 bytes per call. "bytes"
            also keeps up to 4,096 elements of each saved tensor and warns, before backward, if one changed although its
            version counter did not (`.data`, NumPy). It does not detect a modification between the sampled elements.

    Raises:
        InputError: if `check` has another value.
    """
    if check not in get_args(Check):
        text = 'watch.unknown_check|{given} is not known here. Write "versions" or "bytes".'
        raise InputError.of(text, given=f"check={check!r}")
    return JobWatch(check)


SAMPLED = 4096
"""Maximum number of sampled elements of a saved tensor.

Larger tensors are sampled on an even grid, with gaps in the detection.
"""
_KEY = "autograder: samples of what was saved"


def keep_samples(result: object, before: int) -> None:
    """Store samples of the tensors that a call's new nodes saved. Nodes older than `before` already have samples.

    The samples are in the `metadata` of the node, so they are freed with it, and they are copies.
    """
    if dispatch_modes():
        return
    with mode_paused(), torch.no_grad():
        for node in _new_nodes(result, before):
            node.metadata[_KEY] = {name: sampled(tensor) for name, tensor in _kept(node)}


def _new_nodes(result: object, before: int) -> Iterator[Any]:
    stack = [node for tensor in tensors(result) if (node := node_of(tensor)) is not None]
    while stack:
        node = stack.pop()
        if before <= sequence_number(node) < FIRST and _KEY not in node.metadata:
            yield node
            stack += [below for below, _ in node.next_functions if below is not None]


def _kept(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the elements of the saved tensors that backward will read, including those of hooks and of custom Functions.

    Values that a pack hook converted to another type are skipped, and so are tensors without data. A warning names a
    layout that is skipped.
    """
    for name, read, _, _ in kept_by(node):
        tensor = read() if is_read(node, name) else None
        if tensor is None or not has_values(tensor):
            continue
        elements = elements_of(tensor)
        if elements.layout == torch.strided:
            yield name, elements
        else:
            layout = str(tensor.layout)
            warnings.warn(f'watch(check="bytes") does not compare saved tensors of layout {layout}', stacklevel=2)


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy, on the same device, of at most SAMPLED elements, evenly spaced in each dimension."""
    steps = [1] * tensor.dim()
    sizes = list(tensor.shape)
    while torch.Size(sizes).numel() > SAMPLED:
        widest = max(range(len(sizes)), key=sizes.__getitem__)
        steps[widest] *= 2
        sizes[widest] = -(-tensor.shape[widest] // steps[widest])
    grid = tensor.detach()[tuple(slice(None, None, step) for step in steps)]
    return grid.clone(memory_format=torch.contiguous_format)


def changed_saves(roots: tuple[Any, ...], asked: tuple[Any, ...]) -> Iterator[tuple[Any, str]]:
    """Yield the node and the name of each saved tensor whose sampled elements changed after it was saved."""
    if dispatch_modes():
        return
    with mode_paused(), torch.no_grad():
        for node in nodes_below(roots, asked):
            kept: dict[str, torch.Tensor] = node.metadata.get(_KEY, {}) if sequence_number(node) < FIRST else {}
            for name, tensor in _kept(node) if kept else ():
                if name in kept and not _equal(kept[name], sampled(tensor)):
                    yield node, name


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether two tensors are bitwise equal, so that NaN equals NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return torch.equal(left.reshape(-1).view(torch.uint8), right.reshape(-1).view(torch.uint8))


FREED_CALLS = 1_000
"""Maximum number of backward calls whose lines are stored for each thread."""

KEPT_HARMS = "autograder_harms"
"""Name of the exception's attribute that contains the harms."""


class WatchSession:
    """Logs the calls from the first watch that opens to the last that closes."""

    def __init__(self) -> None:
        self.watchers: list[JobWatch] = []
        self.sites, self.writes = CallSites(), WriteLog()
        self.listeners: dict[int, CallListener] = {}
        # The backward calls of each thread that freed their graph: the next sequence number, and the call site.
        self.freed: dict[int, deque[tuple[int, int]]] = {}
        self._installed = ExitStack()

    def install(self) -> None:
        """Wrap the engine, start listeners in new threads, and pause them in compiled code. Undo all of it on Ctrl-C."""
        with ExitStack() as stack:
            enter, here = stack.enter_context, self._for_this_thread
            begins, ends = here(CallListener.step_begins), here(CallListener.step_ends)
            enter(readable_saved_tensors())
            enter(replaced_apply(self._applied))
            enter(wrapping(torch.Tensor, "set_", self._set))
            enter(replaced_engine(self._engine))
            enter(on_compiled_calls(here(CallListener.hide), here(CallListener.show)))
            enter(around_optimizer_steps(begins, ends, with_closures=False))
            enter(wrapping(torch.optim.Optimizer, "zero_grad", self._zero_grad))
            enter(in_new_threads(self._new_thread))
            self._installed = stack.pop_all()

    def remove(self) -> None:
        """Undo `install`, and deactivate the listeners of other threads."""
        self._installed.close()
        for listener in self.listeners.values():
            listener.open = False

    def listener(self) -> CallListener:
        """Return the listener of this thread."""
        here = threading.get_ident()
        if here not in self.listeners:
            made = keep_samples if any(watcher.bytes for watcher in self.watchers) else None
            self.listeners[here] = CallListener(self.sites, self.writes, made)
        return self.listeners[here]

    def _new_thread(self) -> AbstractContextManager[None]:
        """Return the context of a new thread, which listens until the thread ends."""
        # Remove the listener of a thread that has ended and had the same identifier.
        self.listeners.pop(threading.get_ident(), None)
        return self.listener().listening()

    def _for_this_thread(self, method: Callable[..., None]) -> Callable[..., None]:
        """Return a function that calls a method of the calling thread's listener, if it has one."""

        def tell(*args: Any) -> None:
            listener = self.listeners.get(threading.get_ident())
            if listener is not None:
                method(listener, *args)

        return tell

    def _zero_grad(self, original: Callable[..., None], optimizer: Any, set_to_none: Any = True) -> None:
        """Pause the listener during a call of `zero_grad`, unless it writes zeros to the gradients."""
        listener = None if torch.compiler.is_compiling() else self.listeners.get(threading.get_ident())
        if listener is None or not set_to_none or listener.absent():
            return original(optimizer, set_to_none)
        listener.hide("zero_grad")
        try:
            return original(optimizer, set_to_none)
        finally:
            listener.show("zero_grad")

    def _applied(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        return self._logged(lambda: original(function, *args, **kwargs), "apply", args, sys._getframe(1))

    def _set(self, original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """Log a call of `set_`, which no function mode receives (2.13)."""
        return self._logged(lambda: original(tensor, *args, **kwargs), "set_", (tensor,), sys._getframe(1))

    def _logged(self, call: Callable[[], object], name: str, args: tuple[Any, ...], frame: Any) -> object:
        """Run and log a call that function modes do not receive."""
        listener = self.listeners.get(threading.get_ident())
        if listener is None or listener.absent() or torch.compiler.is_compiling():
            return call()
        return listener.around(call, name, args, frame)

    def _engine(self, original: Callable[..., Any], outputs: Any, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        roots, asked = tuple(outputs), tuple(args[3] if len(args) > 3 else kwargs.get("inputs", ()))
        if any(watcher.bytes for watcher in self.watchers):
            self._silent(roots, asked, sys._getframe(1))
        try:
            with self._enabled_again():
                result = original(outputs, *args, **kwargs)
            if len(args) < 2 or not args[1]:
                calls = self.freed.setdefault(threading.get_ident(), deque(maxlen=FREED_CALLS))
                calls.append((next_sequence_number(), self.sites.number_of(sys._getframe(1), "backward")))
            return result
        except Exception as error:
            if not hasattr(error, KEPT_HARMS):
                self._raised(roots, asked, error, sys._getframe(1))
            raise

    def _enabled_again(self) -> AbstractContextManager[None]:
        """Listen to hooks and custom backwards as well. PyTorch removes a mode while it handles `Tensor.backward`."""
        listener = self.listeners.get(threading.get_ident())
        return nullcontext() if listener is None or not listener.absent() else listener.listening()

    def _post_mortem(self, frame: Any) -> PostMortem:
        here = self.listeners.get(threading.get_ident())
        listeners = sorted(self.listeners.values(), key=lambda listener: listener is not here)
        nodes = [listener.nodes for listener in listeners]
        return PostMortem(self.sites, nodes, self.writes, own_frames(frame))

    def _raised(self, roots: tuple[Any, ...], asked: tuple[Any, ...], error: Exception, frame: Any) -> None:
        """Add a note on the cause to an error of backward. An error of the watch itself is added as a note and not raised."""
        try:
            with mode_paused():
                post_mortem, calls = self._post_mortem(frame), self.freed.get(threading.get_ident(), ())
                graph = nodes_below(roots, asked)
                harms = post_mortem.harms(graph, error)
                freed = post_mortem.freed_by(graph, calls) if FREED in message_of(error) else None
        except Exception as failure:
            error.add_note(f"autograder: the error of backward could not be analysed ({failure!r}). Please report it.")
            return
        if freed is not None:
            error.add_note(note_on_freed(*freed))
        if harms:
            setattr(error, KEPT_HARMS, harms)
            error.add_note(note_of(harms))
            self._tell(harms)

    def _silent(self, roots: tuple[Any, ...], asked: tuple[Any, ...], frame: Any) -> None:
        """Warn of saved tensors whose bytes changed although backward will not detect it."""
        __tracebackhide__ = True
        with mode_paused():
            post_mortem = self._post_mortem(frame)
            changed = [(kept, name) for node, name in changed_saves(roots, asked) for kept in post_mortem.kept(node)]
            silent = [kept for kept, name in changed if kept.name == name and not kept.is_stale]
            harms = tuple(dict.fromkeys(post_mortem.harm(kept, UNCOUNTED_WRITE) for kept in silent))
        if harms:
            self._tell(harms)
            place = (own_frames(frame) or [frame])[-1]
            # With the registry of the module, Python's default filter shows a finding once, and not in each step.
            registry = place.f_globals.setdefault("__warningregistry__", {})
            file, line = place.f_code.co_filename, place.f_lineno
            warnings.warn_explicit(note_of(harms), RuntimeWarning, file, line, registry=registry)

    def _tell(self, harms: tuple[Harm, ...]) -> None:
        for watcher in self.watchers:
            watcher.harms = tuple(dict.fromkeys((*watcher.harms, *harms)))
