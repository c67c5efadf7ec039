"""Follows one run: after every function and statement, what is new, what was written, and what that made invalid."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import torch

from autograder.tape.internals.compiler import has_scripted_functions, is_tracing
from autograder.tape.internals.entry_points import around_transforms, replaced_hooks
from autograder.tape.internals.heard_calls import EXPOSING, GRADIENT_GIVEN
from autograder.tape.internals.optimizer_calls import told_of_optimizers
from autograder.tape.internals.saved_variables import is_checkpoint, readable_saved_tensors
from autograder.tape.internals.tensor_fields import unheard
from autograder.tape.observe.backward_watcher import BackwardWatcher
from autograder.tape.observe.graph.links import Links
from autograder.tape.observe.graph.tensors import FOREIGN, TrackedTensor
from autograder.tape.observe.memory.watcher import MemoryWatcher
from autograder.tape.observe.memory.writes import Writes
from autograder.tape.observe.state import Buffer, RunState
from autograder.tape.observe.statements import Activation, Statements
from autograder.tape.observe.variables import Variables
from autograder.tape.recording.schema import Forecast
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.function_mode import Functions, tensors
from autograder.tape.run.new_threads import in_new_threads
from autograder.tape.run.programs.program import Program

# These write running statistics and move no counter (torch 2.13).
UNCOUNTED = {"batch_norm", "instance_norm"}
# Statements that are looked at, whatever they do; after so many, only those in which PyTorch was called.
EACH = 2_000
SCRIPTED = 32  # statements between two questions for scripted functions, which takes as long as 20 of them


def unseen(method: Callable) -> Callable:
    """Returns the method so that neither the function mode nor the program notices it: an error of ours is kept for the verdict."""

    @wraps(method)
    def quietly(self, *args):
        if self.failure is not None or self.closed:
            return None
        tracer = sys.gettrace()
        sys.settrace(None)  # otherwise each of our own calls would go through our own tracer
        try:
            with self.lock, unheard():
                return method(self, *args)
        except Exception as error:
            # Where the program's own recursion is at its end, ours is, too; ctypes gives that error another type.
            self.failure = None if "RecursionError" in repr(error) else error
            return None
        finally:
            sys.settrace(tracer)

    return quietly


class _ObservedThread(threading.local):
    functions: Functions

    def __init__(self) -> None:
        self.packing = 0
        self.backwards = 0
        self.seen = (0, 0)

    def heard(self) -> tuple[int, int]:
        """Return how many calls of PyTorch, and of the engine, were heard in this thread."""
        return self.functions.count, self.backwards


class Observer(Listener):
    """Reads state and changes none: a function mode, line tracing, and looks at memory.

    Attributes:
        focus: storages (by id) to look at after every statement.
        first: the number of the backward call whose graph is to be seen: what came before the call ahead of it is not looked at.
        failure: the first error of our own, after which it looks no further.
        closed: whether the run is over; a thread that still runs is no longer followed.
    """

    def __init__(self, program: Program, focus: frozenset[int] = frozenset(), first: int = 0):
        self.state = state = RunState()
        self.writes = Writes(state)
        self.watcher = MemoryWatcher(self.writes.unreported, state.memories.all, focus, state.is_under_way)
        self.links = Links(state, self.watcher)
        self.variables = Variables(state, self.links, self.writes)
        self.backwards = BackwardWatcher(state, self.links, self.watcher, self.writes)
        self.statements = state.statements = Statements(
            program, self._statement_done, self._function_left, self._function_called
        )
        self.lock, self._here = threading.RLock(), _ObservedThread()
        self.failure: Exception | None = None
        self.closed = False
        self._focus = focus
        self._first, self._is_asleep = first, first > 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the code that runs inside, in this thread and in those that it starts."""
        functions = self._here.functions = Functions(self._before, self._after)
        functions.is_asleep = self._is_asleep
        threads, heard = in_new_threads(self._thread), functions.overhearing()
        optimizers = told_of_optimizers(self._optimizer_steps)
        transforms, hooks = around_transforms(self._transform), replaced_hooks(self._packing)
        traced = self.statements.traced(begun=not self._is_asleep)
        try:
            with readable_saved_tensors(), hooks, transforms, optimizers, threads, functions, heard, traced:
                yield
        finally:
            self.closed = True
            self._let_go()

    def _let_go(self) -> None:
        """Keeps what is known, and nothing that the program made: the next run needs its memory."""
        self.state.graph.close()
        self.state.untracked.close()
        self.state.packed.clear()
        self.variables.close()
        for memory in self.state.memories.all:
            memory.content = None

    def _packing(self, pack: Callable, unpack: Callable) -> tuple[Callable, Callable]:
        """Returns hooks that do the same; what they were given is noted until the node that saves it is known."""
        if is_checkpoint(unpack):
            return pack, unpack

        def packing(tensor):
            self._here.packing += 1
            try:
                packed = pack(tensor)
            finally:
                self._here.packing -= 1
            self.state.packed.append((tensor, packed))
            return packed

        return packing, unpack

    @contextmanager
    def _transform(self) -> Iterator[None]:
        self.state.transforms = True
        yield

    @contextmanager
    def _thread(self) -> Iterator[None]:
        """Follows a thread of the program's. Its calls have no numbers: in the next run they may come in another order."""
        functions = self._here.functions = Functions(self._before, lambda *call: self._after(*call[:-1], None))
        with functions, self.statements.traced():
            yield

    @unseen
    def _before(self, name: str, inputs: list[torch.Tensor]) -> None:
        if is_tracing():
            return  # what we read would become a part of the traced graph
        met = [self.links.meet(tensor) for tensor in inputs]
        if self.statements.threads:
            self.state.under_way[threading.get_ident()] = [tracked.memory for tracked in met]
        if name == "backward" and inputs and inputs[0].numel() != 1 and len(inputs) == 1:
            # Without a gradient argument, backward starts from a single number (`Tensor.backward`, PyTorch 2.13).
            self.state.current_step.forecast = Forecast("raises-backward")

    @unseen
    def _after(self, name: str, inputs: list[torch.Tensor], result: object, count: int | None) -> None:
        if is_tracing():
            return
        state, was_written, sources = self.state, False, []
        state.under_way.pop(threading.get_ident(), None)
        for tensor in inputs:
            tracked = self.links.meet(tensor)
            if name in EXPOSING:
                self.watcher.expose(tracked.memory)
                tracked.memory.capsule = tracked.memory.capsule or name == "__dlpack__"
            was_written = self.writes.check(tracked, tensor, name) or was_written
            sources.append(self.links.meet(tensor))
            if state.engine_depth:
                state.read_again.setdefault(tracked.memory, state.here())
        if name in UNCOUNTED or (not was_written and name.endswith("_") and not name.startswith("__")):
            for tracked in sources:
                self.writes.silent(tracked, name)
        results = list(tensors(result))
        written = results or (inputs[:1] if name == "__setitem__" else [])
        for tensor in results:
            tracked = self.links.meet(tensor, name, tuple(sources), link=False)
            if tracked.event is None:
                tracked.event = count
            if name in FOREIGN and name != "data":
                self.watcher.expose(tracked.memory)
        for tensor in results:
            tracked = self.links.meet(tensor)
            self.links.link(tracked, tensor, tuple(sources))
            state.current_step.touch(tracked)
        if was_written:
            for tensor, tracked in zip(inputs, sources, strict=True):
                self.links.link(tracked, tensor)
        state.packed.clear()
        if name in GRADIENT_GIVEN and len(sources) == 2:
            self._buffer_given(*sources)
        if not state.engine_depth:
            pairs = [(tensor, self.links.meet(tensor)) for tensor in written]
            state.flow.heard(name, inputs, sources, result, pairs, state.here(), self._here.functions.numbers)
        if state.untracked.pending:
            state.untracked.used(inputs, written, self.statements.top, state.graph, state.here(), state.steps)

    def _buffer_given(self, leaf: TrackedTensor, buffer: TrackedTensor) -> None:
        """Records an assignment to `.grad`; bytes given to two leaves are a fault that no counter shows."""
        state, here = self.state, self.statements.here()
        given = state.given.setdefault(buffer.memory, {})
        for other, theirs in given.items():
            if other is not leaf and theirs.start < buffer.stop and buffer.start < theirs.stop:
                state.shared_buffers.append((here, leaf, other))
                state.shared_since = state.steps if state.shared_since is None else state.shared_since
        given[leaf] = buffer
        state.buffers[buffer.memory] = Buffer(leaf, here)

    def _statement_done(self, activation: Activation, complete: bool) -> None:
        """Look at a statement that has run; a look takes 100 µs, a line of Python 0.1 µs."""
        if self.state.steps >= EACH and self._is_unchanged():
            self.state.skipped += complete
            return
        self._here.seen = self._here.heard()
        self._look(activation, complete)

    def _is_unchanged(self) -> bool:
        """Return whether nothing can have changed since the last look: no call of PyTorch was heard, and nobody else can write."""
        here = self._here
        return (
            here.heard() == here.seen
            and not (self._focus or self.statements.threads or self.watcher.has_foreign())
            and (self.state.skipped % SCRIPTED != 0 or not has_scripted_functions())
        )

    @unseen
    def _look(self, activation: Activation, complete: bool) -> None:
        if self._here.packing or is_tracing():
            return  # the node that saves is half made
        state = self.state
        state.place = place = self.statements.place_of(activation)
        try:
            self.watcher.statement_done()
            self.variables.read(activation)
            if state.current_step.has_effects or (complete and not activation.declares):
                state.close(activation, place)
        finally:
            state.place = None

    @unseen
    def _function_called(self, activation: Activation) -> None:
        """Names the arguments, or what a notebook's names hold; what was written before is no line's doing.

        A check fills parameters, and earlier cells wrote.
        """
        state = self.state
        if activation.function == "<module>" and activation.number > 1:
            return  # a cell's last expression, which is a code object of its own: what it finds, the cell itself made
        if not state.engine_depth:
            state.current_step.writes.clear()
        if activation.function != "<module>":
            self.variables.read(activation)
            return
        self.variables.leave_out_of_date(activation)
        state.place = self.statements.place_of(activation)
        self.variables.read(activation)
        state.current_step.writes.clear()
        state.inherited, state.place = len(state.graph.nodes), None

    def _function_left(self, activation: Activation) -> None:
        if self.variables.is_innermost(activation):
            self._forget(activation)

    @unseen
    def _forget(self, activation: Activation) -> None:
        self.variables.forget(activation)

    def before_backward(self, call: Backward) -> None:
        """Looks at what backward is about to use."""
        self._here.backwards += 1
        if not self._is_asleep:
            self._backward_begins(call)

    def after_backward(self, call: Backward) -> None:
        """Looks at what backward did; begins to look where it is time."""
        if not self._is_asleep:
            self._backward_ended(call)
            return
        self.state.skip_call()
        if self.state.calls == self._first:
            self._is_asleep = self._here.functions.is_asleep = False
            self.statements.resume(sys._getframe())

    @unseen
    def _backward_begins(self, call: Backward) -> None:
        self.backwards.begin(call)

    @unseen
    def _backward_ended(self, call: Backward) -> None:
        self.backwards.end(call)

    @unseen
    def _optimizer_steps(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_asleep:
            return
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        self.state.flow.hold([(one, self.links.meet(one)) for one in parameters], self.statements.here())

    def inside_engine(self):
        """Follows the functions that hooks and custom backwards call."""
        return self._here.functions.hearing()
