"""Track which variables of the user's frames refer to tensors, and lines of long loops whose tensors no graph reaches."""

from __future__ import annotations

import dis
import functools
import re
import weakref

import torch

from autograder.tape.internals.entry_points import EXPOSING
from autograder.tape.internals.mode_stack import is_tracing
from autograder.tape.internals.tensor_fields import base_of
from autograder.tape.observe.links import Links
from autograder.tape.observe.memory_watcher import MemoryWatcher
from autograder.tape.observe.names import bindings, path_from_outside
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import ActiveCall
from autograder.tape.observe.tensors import FOREIGN, TrackedTensor
from autograder.tape.observe.untracked import is_custom_forward
from autograder.tape.observe.writes import Writes, written_through
from autograder.tape.recording.schema import NameChange
from autograder.tape.run.graph_walk import autograd_flags
from autograder.tape.run.storages import Memory, address_of


class Variables:
    """Compares the variables of a frame with those after the previous statement."""

    def __init__(self, state: RunState, links: Links, writes: Writes):
        self.state, self.links, self.writes = state, links, writes
        self._out_of_date: dict[str, weakref.ref[torch.Tensor]] = {}

    def is_innermost(self, active_call: ActiveCall) -> bool:
        """Return whether the variables of this call were the last that were read."""
        frames = self.state.thread.frames
        return bool(frames) and frames[-1][0] is active_call

    def leave_out_of_date(self, active_call: ActiveCall) -> None:
        """Note the values of names from an earlier run of a cell that binds them before it reads them. No step reports these."""
        space, first = active_call.frame.f_locals, dict[str, str]()
        for step in dis.get_instructions(active_call.frame.f_code):
            if step.opname.endswith("_NAME"):
                first.setdefault(step.argval, step.opname)
        values = ((name, space.get(name)) for name, does in first.items() if does == "STORE_NAME")
        self._out_of_date = {name: weakref.ref(value) for name, value in values if isinstance(value, torch.Tensor)}

    def read(self, active_call: ActiveCall) -> None:
        """Record the changes in a frame: variables, and tensors that were modified or linked without a function call."""
        before = self._known(active_call)
        if before is None:
            return
        now: dict[str, int] = {}
        rebound: set[str] = set()
        renamed: set[int] = set()
        for name, tensor in bindings(active_call.frame.f_locals, active_call.modules, rebound):
            noted = self._out_of_date.get(name)
            if noted is not None and noted() is tensor and self.state.tensors.get(tensor) is None:
                continue
            tracked = self.links.track(tensor)
            if not self.state.is_under_way(tracked.memory) and self.writes.check(tracked, tensor, ""):
                write = self.state.writes[-1]
                write.operation = written_through(write.place.text)[1]
            tracked = self.links.track(tensor)
            if autograd_flags(tensor)[0]:
                self.links.link(tracked, tensor)
            now[name] = tracked.id
            is_nearer = tracked.name is None or active_call.depth < tracked.name_depth
            is_older = rebound and active_call.depth == tracked.name_depth and tracked.id not in renamed
            module = re.match(r"(\w+)\.", tracked.name or "")
            # The item of a list, such as of an optimizer's parameters, may be gone after the next statement.
            if is_nearer or (is_older and module and module[1] in rebound and re.match(r"\w+\.", name)):
                renamed.add(tracked.id)
                name = path_from_outside(name, tensor, self.state.statements.frames)
                tracked.name, tracked.name_depth = name, active_call.depth
        self._tell(before, now)

    def _tell(self, before: dict[str, int], now: dict[str, int]) -> None:
        gone = [name for name in before if name not in now and "." not in name]
        changes = {name: tracked for name, tracked in now.items() if before.get(name) != tracked} | dict.fromkeys(gone)
        self.state.thread.step.names += [NameChange(*change) for change in changes.items()]
        before.update(now)
        for name in gone:
            del before[name]

    def _known(self, active_call: ActiveCall) -> dict[str, int] | None:
        """Return the previous variables of a frame, or None if it is not the innermost (a generator that was resumed)."""
        frames = self.state.thread.frames
        if self.is_innermost(active_call):
            return frames[-1][1]
        if any(call is active_call for call, _ in frames):
            return None
        # A cell's last expression is a separate code object with the same variables.
        same = frames and frames[-1][0].frame.f_locals is active_call.frame.f_locals
        names = frames.pop()[1] if same else {}
        frames.append((active_call, names))
        return names

    def forget_innermost(self) -> None:
        """Drop the variables of a call and list those of the caller that they hid; those of the program's module stay."""
        frames = self.state.thread.frames
        # An imported module has ended when its text has run; only the outermost one is the program's.
        if len(frames) > 1 or frames[0][0].frame.f_code.co_name != "<module>":
            _, gone = frames.pop()
            outer = frames[-1][1] if frames else {}
            self.state.thread.step.names += [NameChange(name, outer.get(name)) for name in gone]


ROUNDS = 100  # number of rounds that are recorded before the calls of a line are ignored

# Finds functions that modify an argument (two of them without a version counter), or read a gradient.
_changes = functools.cache(
    re.compile(r"[^_]_$| =$|^__(set|i(?!nt__|ndex__|nvert__))|^(batch|instance)_norm$|^_?grad$").search
)


class IgnoredLines:
    """The lines whose calls used only tensors that no graph reaches, or only read tensors while recording was off.

    Their writes are noted before the next other call.
    """

    def __init__(self, state: RunState, watcher: MemoryWatcher):
        self.state, self.watcher = state, watcher
        self._rounds: dict[tuple[str, int], int] = {}
        self._within: dict[tuple[str, int], tuple[str, int]] = {}  # function and depth of a line
        self._others: set[tuple[str, int, bool]] = set()  # by whether recording was on
        self._used: dict[Memory, tuple[str, int]] = {}
        self._unreached: set[TrackedTensor] = set()  # those that no graph reaches, until the next other call

    def is_ignored(self, name: str, inputs: list[torch.Tensor]) -> bool:
        """Return whether to ignore a call. A line that once made another call is never ignored again."""
        if name == "grad" and inputs[0].is_leaf and inputs[0].grad is None and ".grad" not in self.state.here().text:
            return True  # a step without gradients reads them, and changes nothing
        statements, records = self.state.statements, torch.is_grad_enabled()
        frame = statements.frame
        if frame is None:
            return False
        line = statements.line_of(frame)
        if (*line, records) in self._others:
            return False
        only_reads = not (records or _changes(name) or is_custom_forward(frame))
        # Other calls modify only the memory of their arguments.
        is_open = name in EXPOSING or name in FOREIGN or self.watcher.has_foreign()
        is_open = is_open or self.state.thread.engine_depth > 0 or is_tracing()
        memories = None if is_open else self._memories(inputs, only_reads)
        if memories is None:
            self._others.add((*line, records))
            return False
        if self._rounds.setdefault(line, 0) < ROUNDS:
            return False
        for memory in memories:
            self._used[memory] = line
        return True

    def _memories(self, inputs: list[torch.Tensor], only_reads: bool) -> list[Memory] | None:
        """Return the known storages of tensors, or None if a graph reaches one of them and the call may change it."""
        state, memories = self.state, []
        for tensor in inputs:
            tracked, base = state.tensors.get(tensor), base_of(tensor)
            known = state.tensors.get(base) if tracked is None and base is not None else tracked
            if only_reads or (known in self._unreached and not tensor.requires_grad):
                memories += [known.memory] if known is not None else []
                continue
            address = address_of(tensor)
            if address is None or tensor.requires_grad:
                return None
            if tracked is not None and state.flow.cuts.origin([tracked]) is not None:
                return None
            memory = state.memories.at.get(address[0])
            if memory is not None and memory.alive():  # else another storage had this address
                if state.is_reached(memory):
                    return None
                memories.append(memory)
                if tracked is not None:
                    self._unreached.add(tracked)
        return memories

    def count(self, active_call: ActiveCall, complete: bool) -> None:
        """Count an execution of a line."""
        line = active_call.file, active_call.line
        if complete and line in self._rounds:
            self._rounds[line] += 1
            self._within[line] = active_call.function, active_call.depth

    def note_writes(self, writes: Writes) -> None:
        """Record the modifications by ignored calls, each as a step of the last line that used the memory."""
        used, self._used, state = self._used, {}, self.state
        self._unreached.clear()
        for memory, line in used.items():
            state.thread.place = here = state.statements.program.place(*line)
            for tracked in state.tensors.at(memory):
                tensor = tracked.ref()
                if tensor is not None:
                    writes.check(tracked, tensor, written_through(here.text)[1])
            state.thread.place = None
            if state.thread.step.has_effects:
                state.close(here, *self._within[line])
