"""Observe a run: after every function and statement, record new objects, modifications, and invalid saved tensors."""

from __future__ import annotations

import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch

from autograder.tape.internals import entry_points
from autograder.tape.internals.mode_stack import has_scripted_functions, is_tracing
from autograder.tape.internals.module_parts import parameters
from autograder.tape.internals.tensor_fields import is_checkpoint, mode_paused, readable_saved_tensors
from autograder.tape.observe.backward_watcher import BackwardWatcher
from autograder.tape.observe.forecast import UNSEEN
from autograder.tape.observe.links import Links
from autograder.tape.observe.memory_watcher import MemoryWatcher
from autograder.tape.observe.names import names_in
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import ActiveCall, Statements
from autograder.tape.observe.tensors import FOREIGN, TrackedTensor
from autograder.tape.observe.variables import IgnoredLines, Variables
from autograder.tape.observe.writes import Writes
from autograder.tape.recording.schema import Forecast
from autograder.tape.run.child_processes import in_new_threads
from autograder.tape.run.engine import Backward, Listener
from autograder.tape.run.function_mode import Functions, tensors
from autograder.tape.run.programs.program import Program

# These functions modify running statistics without a change of the version counter (torch 2.13).
UNCOUNTED = {"batch_norm", "instance_norm"}
# Number of statements that are always checked; later ones are checked only after a call that was not ignored.
ALWAYS_CHECKED = 2_000
CALLS = 10_000  # number of PyTorch calls that are always processed; a statement may make many in a library
NEVER_CHECKED = -2  # a number of calls that no function mode has
# Number of statements between checks for scripted functions, each of which takes as long as 20 statements.
SCRIPTED = 32
# Number of statements in a row without a call, after which none is traced until the next call.
MAX_IDLE_STATEMENTS = 100


def isolated_from_program(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with isolation from the program: function modes and tracers do not see it, and its errors are stored."""

    @wraps(method)
    def quietly(self: Any, *args: Any) -> Any:
        if self.failure is not None or self.closed:
            return None
        tracer = sys.gettrace()
        sys.settrace(None)  # so that our tracer does not trace our own calls
        try:
            with self.lock, mode_paused():
                return method(self, *args)
        except Exception as error:
            # If the program exhausts the recursion limit, so do we; ctypes wraps that error in another type.
            self.failure = None if "RecursionError" in repr(error) else error
            return None
        finally:
            sys.settrace(tracer)

    return quietly


class Observer(Listener):
    """Observes a run without changing its state, with a function mode, line tracing, and checks of memory.

    Attributes:
        focus: ids of the storages to check after every statement.
        first: number of the backward call whose graph to record; the run is observed from the previous backward call
            on.
    """

    def __init__(self, program: Program, focus: frozenset[int] = frozenset(), first: int = 0):
        self.state = state = RunState()
        self.writes = Writes(state)
        self.watcher = MemoryWatcher(state, self.writes.unreported, focus)
        self.links = Links(state, self.watcher)
        self.variables = Variables(state, self.links, self.writes)
        self.backwards = BackwardWatcher(state, self.links, self.watcher, self.writes)
        handlers = self._statement_done, self._function_left, self._function_called
        self.statements = state.statements = Statements(program, *handlers)
        self.ignored = IgnoredLines(state, self.watcher)
        self.lock = threading.RLock()
        self.failure: Exception | None = None  # the first error of the observer, after which it records nothing more
        self.closed = False  # whether the run is over; threads that still run are no longer observed
        # Number of statements that are checked in any case.
        self._always_checked = math.inf if focus else ALWAYS_CHECKED
        self._seen = NEVER_CHECKED  # number of calls that were not ignored, at the last check
        self._idle_statements = 0  # number of statements since then
        self._first, self._only_counts = first, first > 0

    @contextmanager
    def around(self, program: Program) -> Iterator[None]:
        """Observe the code in the block, in this thread and in those that it starts."""
        functions = Functions(self._before, self._after, self._frozen)
        self._functions = self.state.thread.functions = functions
        functions.only_counts = self._only_counts
        try:
            with (
                readable_saved_tensors(), entry_points.replaced_hooks(self._packing),
                entry_points.around_transforms(self._transform),
                entry_points.around_subclasses(self._wrapped),
                entry_points.noting(torch.utils, "swap_tensors", self._forget_tensors),
                entry_points.noting(torch.nn.Module, "train", self._mode_set),
                entry_points.noting(torch.nn.Module, "__setattr__", self._attribute_set),
                entry_points.noting(torch.optim.Optimizer, "__init__", self._optimizer_made),
                entry_points.noting(torch.set_grad_enabled, "__init__", self._recording_set),
                entry_points.around_optimizer_steps(self._optimizer_steps, self._optimizer_has_stepped),
                in_new_threads(self._thread), functions, functions.recorded_calls(),
                self.statements.traced(begun=not self._only_counts),
            ):  # fmt: skip
                yield
        finally:
            self.closed = True
            self._let_go()

    def _let_go(self) -> None:
        """Drop all objects of the program to free memory for the next run. The recorded data stays."""
        self.state.graph.close()
        for suspect in (*self.state.untracked.pending, *self.state.untracked.used_writes):
            suspect.node = None
        self.state.thread.packed.clear()
        self.state.thread.frames.clear()
        for memory in self.state.memories.all:
            memory.content = None

    def _packing(
        self, pack: entry_points.Hook, unpack: entry_points.Hook
    ) -> tuple[entry_points.Hook, entry_points.Hook]:
        """Return hooks that do the same and note the packed values until the node that saves them is known."""
        if is_checkpoint(unpack):
            return pack, unpack

        def packing(tensor: Any) -> Any:
            self.state.thread.packing += 1
            try:
                packed = pack(tensor)
            finally:
                self.state.thread.packing -= 1
            self.state.thread.packed.append((tensor, packed))
            return packed

        return packing, unpack

    def _mode_set(self, module: torch.nn.Module, mode: bool = True) -> None:
        """Note the line that switches a module to evaluation mode, and a switch to training mode."""
        if mode:
            self.state.flow.modes.enter_training(module)
        else:
            self._isolated(lambda: self.state.flow.modes.leave_training(module, self.statements.here()))

    def _attribute_set(self, module: torch.nn.Module, name: str, value: object) -> None:
        """Note the line that sets `requires_grad` of a module, which its parameters do not read."""
        # A class may have its own attribute, or set it before `super().__init__()`.
        if name != "requires_grad" or hasattr(module, name) or "_parameters" not in vars(module):
            return
        if any(leaf.requires_grad is not value for leaf in parameters(module)):
            self._isolated(lambda: self.state.flow.modes.set_of_module.setdefault(self.statements.here()))

    def _optimizer_made(self, optimizer: torch.optim.Optimizer, *_: object, **__: object) -> None:
        """Note the statement that makes an optimizer. The first one cannot hold parameters that are made later."""
        steps = self.state.flow.steps
        self._isolated(lambda: steps.make(optimizer, self.statements.here()))
        steps.begun = self.state.steps if steps.begun is None and not self._only_counts else steps.begun

    def _recording_set(self, _switch: torch.set_grad_enabled, mode: bool) -> None:
        """Note the line that turns recording off; `no_grad` also calls this."""
        if not mode and torch.is_grad_enabled():
            self._isolated(lambda: self.state.flow.modes.stop_recording(self.statements.here()))

    @isolated_from_program
    def _wrapped(self, value: torch.Tensor, leaf: torch.Tensor) -> None:
        """Track the leaf that `nn.Parameter` makes of a value with a graph. It need not have a name at this line."""
        if value.requires_grad and not is_tracing():
            self.links.track(value)
            self.links.track(leaf)

    @isolated_from_program
    def _forget_tensors(self, *swapped: torch.Tensor) -> None:
        """Drop the weak references to the tensors that `torch.utils.swap_tensors` swaps."""
        for tensor in swapped:
            self.state.tensors.forget(tensor)

    @contextmanager
    def _transform(self) -> Iterator[None]:
        self.state.transforms = True
        yield

    @contextmanager
    def _thread(self) -> Iterator[None]:
        """Observe a thread of the program. Its calls have no numbers, because their order differs between runs."""
        self._always_checked = math.inf  # another thread can modify memory at any time
        functions = self.state.thread.functions = Functions(self._before, lambda *call: self._after(*call[:-1], None))
        with functions, self.statements.traced():
            yield

    def _before(self, name: str, inputs: list[torch.Tensor]) -> bool:
        """Process a call, or return True if its line has worked on tensors that no graph reaches in `ROUNDS` executions."""
        has_many_calls = self._always_checked == ALWAYS_CHECKED and self._functions.counted >= CALLS
        is_long = has_many_calls or self.state.steps >= self._always_checked
        if is_long and self._isolated(self.ignored.is_ignored, name, inputs):
            return True
        self._resume_tracing()
        self._call_begins(name, inputs)
        return False

    def _resume_tracing(self) -> None:
        """Trace statements again."""
        if self.statements.thread.is_paused:
            self.statements.resume(sys._getframe(1))

    @isolated_from_program
    def _frozen(self, leaf: torch.Tensor) -> None:
        """Note the line that sets `requires_grad` of a tensor."""
        self.state.flow.set_requires_grad(leaf, self.statements.here())

    @isolated_from_program
    def _isolated(self, method: Callable[..., Any], *args: Any) -> Any:
        return method(*args)

    @isolated_from_program
    def _call_begins(self, name: str, inputs: list[torch.Tensor]) -> None:
        if is_tracing():
            return  # our reads would become a part of the traced graph
        self.ignored.note_writes(self.writes)
        tracked_inputs = [self.links.track(tensor) for tensor in inputs]
        self.state.flow.begin_call(name, tracked_inputs, self.state.here())
        if self.statements.threads:
            self.state.under_way[threading.get_ident()] = [tracked.memory for tracked in tracked_inputs]
        if name == "backward" and inputs and inputs[0].numel() != 1 and len(inputs) == 1:
            # Without a gradient argument, backward requires a scalar (`Tensor.backward`, PyTorch 2.13).
            self.state.thread.step.forecast = Forecast("raises-backward")

    @isolated_from_program
    def _after(self, name: str, inputs: list[torch.Tensor], result: object, count: int | None) -> None:
        if is_tracing():
            return
        state, was_written, sources = self.state, False, []
        state.under_way.pop(threading.get_ident(), None)
        for tensor in inputs:
            tracked = self.links.track(tensor)
            if name in entry_points.EXPOSING:
                self.watcher.expose(tracked.memory)
                tracked.memory.capsule = tracked.memory.capsule or name == "__dlpack__"
            was_written = self.writes.check(tracked, tensor, name) or was_written
            sources.append(self.links.track(tensor))
            if state.thread.engine_depth:
                state.read_again.setdefault(tracked.memory, state.here())
        if name in UNCOUNTED or (not was_written and name.endswith("_") and not name.startswith("__")):
            for tracked in sources:
                self.writes.silent(tracked, name)
        results = tensors(result)
        written = results or (inputs[:1] if name == "__setitem__" else [])
        for tensor in results:
            tracked = self.links.track(tensor, name, tuple(sources), link=False)
            if tracked.event is None:
                tracked.event = count
            if name in FOREIGN and name != "data":
                self.watcher.expose(tracked.memory)
        for tensor in results:
            tracked = self.links.track(tensor)
            self.links.link(tracked, tensor, tuple(sources))
            state.thread.step.touch(tracked)
        if was_written:
            for tensor, tracked in zip(inputs, sources, strict=True):
                self.links.link(tracked, tensor)
        state.thread.packed.clear()
        if name in entry_points.GRADIENT_GIVEN and len(sources) == 2:
            self._buffer_given(*sources)
        if not state.thread.engine_depth:
            pairs = [(tensor, self.links.track(tensor)) for tensor in written]
            numbers = state.thread.functions.numbers
            state.flow.on_operation(name, inputs, sources, result, pairs, state.here(), numbers)
        if state.untracked.pending:
            state.untracked.used(inputs, written, self.statements.top, state.here(), state.steps)

    def _buffer_given(self, leaf: TrackedTensor, buffer: TrackedTensor) -> None:
        """Record an assignment to `.grad`. Giving two leaves the same bytes is a fault that no counter shows."""
        state, here = self.state, self.statements.here()
        given = state.given.setdefault(buffer.memory, {})
        for other, theirs in given.items():
            if other is not leaf and theirs.start < buffer.stop and buffer.start < theirs.stop:
                state.shared_buffers.append((here, leaf, other))
                state.shared_since = state.steps if state.shared_since is None else state.shared_since
        given[leaf] = buffer
        state.buffers[buffer.memory] = leaf, here

    def _statement_done(self, active_call: ActiveCall, complete: bool) -> None:
        """Check a statement that has run. A check takes 100 µs, a line of Python 0.1 µs."""
        state = self.state
        is_idle = state.steps >= self._always_checked and self._functions.counted == self._seen
        if is_idle and not self._is_modified():
            state.skipped += complete
            self.ignored.count(active_call, complete)
            self._idle_statements += 1
            self.watcher.is_behind = True
            if self._idle_statements >= MAX_IDLE_STATEMENTS and not self._isolated(self.watcher.has_foreign):
                self.statements.pause()
            return
        self._seen, self._idle_statements = self._functions.counted, 0
        self._look(active_call, complete)

    def _is_modified(self) -> bool:
        """Return whether memory is modified without a call through a foreign alias, or may be by a scripted function."""
        if self.state.skipped % SCRIPTED == 0 and has_scripted_functions():
            self._always_checked = math.inf
        return self._always_checked == math.inf or bool(self._isolated(self.watcher.has_changed_foreign))

    @isolated_from_program
    def _look(self, active_call: ActiveCall, complete: bool) -> None:
        if self.state.thread.packing or is_tracing():
            return  # the node that saves is incomplete
        state = self.state
        self.ignored.note_writes(self.writes)
        self.ignored.count(active_call, complete)
        state.thread.place = place = self.statements.place_of(active_call)
        try:
            self.watcher.statement_done()
            self.variables.read(active_call)
            if state.thread.step.has_effects or (complete and not active_call.declares):
                state.close(place, active_call.function, active_call.depth)
        finally:
            state.thread.place = None

    @isolated_from_program
    def _function_called(self, active_call: ActiveCall) -> None:
        """Name the arguments of a function, or the variables of a notebook.

        Earlier modifications, by a check that fills parameters or by earlier cells, are not attributed to any line.
        """
        state = self.state
        if active_call.function == "<module>" and active_call.number > 1:
            return  # a cell's last expression is a separate code object, and its variables come from the cell itself
        if not state.thread.engine_depth:
            state.thread.step.writes.clear()
        if active_call.function != "<module>":
            self.variables.read(active_call)
            return
        self.variables.leave_out_of_date(active_call)
        state.thread.place = self.statements.place_of(active_call)
        self.variables.read(active_call)
        state.thread.step.writes.clear()
        state.inherited, state.thread.place = len(state.graph.nodes), None

    def _function_left(self, active_call: ActiveCall) -> None:
        if self.variables.is_innermost(active_call):
            self._isolated(self.variables.forget_innermost)

    def before_backward(self, call: Backward) -> None:
        """Check the saved tensors that backward will use."""
        self._seen = NEVER_CHECKED
        self._resume_tracing()
        if not self._only_counts:
            self._isolated(self.ignored.note_writes, self.writes)
            self._isolated(self.backwards.begin, call)

    def after_backward(self, call: Backward) -> None:
        """Record the effects of backward, or start to observe if the recorded part of the run begins here."""
        self._resume_tracing()
        if not self._only_counts:
            self._isolated(self.backwards.end, call)
            return
        self.state.calls += 1
        self.state.backward_calls.append(UNSEEN)
        if self.state.calls == self._first:
            self._only_counts = self.state.thread.functions.only_counts = False
            self.statements.resume(sys._getframe())

    def _optimizer_steps(self, optimizer: torch.optim.Optimizer) -> None:
        self.state.flow.steps.stepped_at.add(self.state.flow.steps.made_at.get(id(optimizer)))
        if not self._only_counts:
            self._resume_tracing()
            self._optimizer_begins(optimizer)

    @isolated_from_program
    def _optimizer_begins(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        pairs = [(parameter, self.links.track(parameter)) for parameter in parameters]
        if any(tracked.id not in self.state.flow.optimized for _, tracked in pairs):
            names = names_in(self.statements.frames)
            for parameter, tracked in pairs:
                tracked.name, tracked.name_depth = names.get(id(parameter), tracked.name), 0
        self.state.flow.hold(optimizer, pairs, self.statements.here())
        for _, tracked in pairs:
            self._note_kept(tracked)

    def _note_kept(self, parameter: TrackedTensor) -> None:
        """Note the line of which several tensors without a graph exist in the memory of a parameter."""
        others = [tensor for tensor in self.state.tensors.at(parameter.memory) if not tensor.requires_grad]
        made = {tensor.step: place for tensor in others if (place := self.state.made_at(tensor)) is not None}
        for place, count in Counter(made.values()).items() if len(made) > 1 else ():
            if count > 1:
                self.state.flow.steps.kept[place] = parameter

    @isolated_from_program
    def _optimizer_has_stepped(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._only_counts:
            self.state.flow.end_step(optimizer)

    def inside_engine(self) -> Any:
        """Observe the functions that hooks and custom backwards call."""
        return self.state.thread.functions.enabled_again()
