"""The shared state of all open watches of a process: the logs, a listener for each thread, and the wrapped engine."""

from __future__ import annotations

import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Protocol

import torch

from autograder.errors import message_of
from autograder.tape.internals.entry_points import replaced_apply, replaced_engine, replaced_set
from autograder.tape.internals.mode_stack import next_sequence_number, told_of_compiled_calls
from autograder.tape.internals.optimizer_calls import around_zero_grad, told_of_steps
from autograder.tape.internals.saved_variables import FREED, readable_saved_tensors
from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.recording.verdict_types import Harm, Place
from autograder.tape.run.new_threads import in_new_threads
from autograder.tape.watch.call_listener import CallListener
from autograder.tape.watch.call_log import WriteLog
from autograder.tape.watch.call_sites import CallSites, own_frames
from autograder.tape.watch.post_mortem import PostMortem
from autograder.tape.watch.saved_bytes import changed_saves, keep_samples
from autograder.tape.watch.sentences_of_harm import note_of, note_on_freed
from autograder.tape.watch.silent_harm import silent_harms

FREED_CALLS = 1_000
"""Maximum number of backward calls whose lines are stored for each thread."""

KEPT_HARMS = "autograder_harms"
"""Name of the exception's attribute that contains the harms."""


class Watcher(Protocol):
    """The interface of a watch."""

    bytes: bool

    def found(self, harms: tuple[Harm, ...]) -> None:
        """Receive the harms of a backward call."""


class WatchSession:
    """Logs the calls from the first watch that opens to the last that closes."""

    def __init__(self):
        self.watchers: list[Watcher] = []
        self.sites, self.writes = CallSites(), WriteLog()
        self.listeners: dict[int, CallListener] = {}
        # The backward calls of each thread that freed their graph: the next sequence number, and the call site.
        self.freed: dict[int, deque[tuple[int, int]]] = {}
        self._installed = ExitStack()

    def install(self) -> None:
        """Wrap the engine, start listeners in new threads, and pause them in compiled code."""
        enter = self._installed.enter_context
        enter(readable_saved_tensors())
        enter(replaced_apply(self._applied))
        enter(replaced_set(self._set))
        enter(replaced_engine(self._engine))
        enter(told_of_compiled_calls(self._told(CallListener.hide), self._told(CallListener.show)))
        enter(told_of_steps(self._told(CallListener.step_begins), self._told(CallListener.step_ends)))
        enter(around_zero_grad(self._aside))
        enter(in_new_threads(self._new_thread))

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

    def check_bytes(self) -> None:
        """Start to store samples of saved tensors."""
        for listener in self.listeners.values():
            listener.made = keep_samples

    @contextmanager
    def _new_thread(self) -> Iterator[None]:
        """Listen in a new thread until it ends."""
        # Remove the listener of a thread that has ended and had the same identifier.
        self.listeners.pop(threading.get_ident(), None)
        listener = self.listener()
        listener.listen()
        try:
            yield
        finally:
            listener.stop()

    def _told(self, method: Callable[..., None]) -> Callable[..., None]:
        """Return a function that calls a method of the calling thread's listener, if it has one."""

        def tell(*args):
            listener = self.listeners.get(threading.get_ident())
            if listener is not None:
                method(listener, *args)

        return tell

    def _aside(self, call: Callable[[], None]) -> None:
        listener = self.listeners.get(threading.get_ident())
        if listener is None or listener.absent():
            return call()
        listener.hide("zero_grad")
        try:
            return call()
        finally:
            listener.show("zero_grad")

    def _applied(self, original: Callable) -> Callable:
        def apply(function, *args, **kwargs):
            return self._unheard(lambda: original(function, *args, **kwargs), "apply", args, sys._getframe(1))

        return apply

    def _set(self, original: Callable) -> Callable:
        @wraps(original)
        def set_(tensor, *args, **kwargs):
            return self._unheard(lambda: original(tensor, *args, **kwargs), "set_", (tensor,), sys._getframe(1))

        return set_

    def _unheard(self, call: Callable[[], object], name: str, args: tuple, frame: Any) -> object:
        """Run and log a call that function modes do not receive."""
        listener = self.listeners.get(threading.get_ident())
        if listener is None or listener.absent() or torch.compiler.is_compiling():
            return call()
        return listener.around(call, name, args, frame)

    def _engine(self, original: Callable) -> Callable:
        def run(outputs, *args, **kwargs):
            __tracebackhide__ = True
            roots, asked = tuple(outputs), tuple(args[3] if len(args) > 3 else kwargs.get("inputs", ()))
            if any(watcher.bytes for watcher in self.watchers):
                self._silent(roots, asked, sys._getframe(1))
            try:
                with self._hearing():
                    result = original(outputs, *args, **kwargs)
                if len(args) < 2 or not args[1]:
                    self._note_freed(sys._getframe(1))
                return result
            except Exception as error:
                if not hasattr(error, KEPT_HARMS):
                    self._raised(roots, asked, error, sys._getframe(1))
                raise

        return run

    @contextmanager
    def _hearing(self) -> Iterator[None]:
        """Listen to hooks and custom backwards as well. PyTorch removes a mode while it handles `Tensor.backward`."""
        listener = self.listeners.get(threading.get_ident())
        if listener is None or not listener.absent():
            yield
            return
        listener.listen()
        try:
            yield
        finally:
            listener.stop()

    def _note_freed(self, frame: Any) -> None:
        calls = self.freed.setdefault(threading.get_ident(), deque(maxlen=FREED_CALLS))
        calls.append((next_sequence_number(), self.sites.number_of(frame, "backward")))

    def _post_mortem(self, frame: Any) -> PostMortem:
        here = self.listeners.get(threading.get_ident())
        nodes = [one.nodes for one in sorted(self.listeners.values(), key=lambda one: one is not here)]
        return PostMortem(self.sites, nodes, self.writes, own_frames(frame))

    def _raised(self, roots: tuple, asked: tuple, error: Exception, frame: Any) -> None:
        """Add a note on the cause to an error of backward. An error of the watch itself is added as a note and not raised."""
        try:
            with unheard():
                dead = self._post_mortem(frame)
                harms = dead.harms(roots, asked, error)
                freed = self._freed(dead, roots, asked) if FREED in message_of(error) else None
        except Exception as own:
            error.add_note(f"autograder: the error of backward could not be analysed ({own!r}). Please report it.")
            return
        if freed is not None:
            error.add_note(note_on_freed(*freed))
        if harms:
            setattr(error, KEPT_HARMS, harms)
            error.add_note(note_of(harms))
            self._tell(harms)

    def _freed(self, dead: PostMortem, roots: tuple, asked: tuple) -> tuple[Place, Place | None] | None:
        return dead.freed_by(roots, asked, self.freed.get(threading.get_ident(), ()))

    def _silent(self, roots: tuple, asked: tuple, frame: Any) -> None:
        """Warn of saved tensors whose bytes changed although backward will not detect it."""
        with unheard():
            harms = silent_harms(changed_saves(roots, asked), self._post_mortem(frame))
        if harms:
            self._tell(harms)
            place = (own_frames(frame) or [frame])[-1]
            warnings.warn_explicit(note_of(harms), RuntimeWarning, place.f_code.co_filename, place.f_lineno)

    def _tell(self, harms: tuple[Harm, ...]) -> None:
        for watcher in self.watchers:
            watcher.found(harms)
