"""Find the lines of long loops whose tensors no graph reaches, such as `counts[i, j] += 1`, and count their rounds."""

from __future__ import annotations

import torch

from autograder.tape.internals.compiler import is_tracing
from autograder.tape.internals.heard_calls import EXPOSING
from autograder.tape.observe.graph.tensors import FOREIGN
from autograder.tape.observe.memory.watcher import MemoryWatcher
from autograder.tape.observe.memory.write_text import written_through
from autograder.tape.observe.memory.writes import Writes
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import Activation, place
from autograder.tape.run.graph_walk import standing
from autograder.tape.run.storages import Memory, address_of

ROUNDS = 100  # number of rounds that are recorded before the calls of a line are ignored


class LinesApart:
    """The lines whose calls used only tensors apart from every graph. Their writes are noted before the next other call."""

    def __init__(self, state: RunState, watcher: MemoryWatcher):
        self.state, self.watcher = state, watcher
        self._rounds: dict[tuple[str, int], int] = {}
        self._used: dict[Memory, tuple[str, int, str, int]] = {}

    def is_ignored(self, name: str, inputs: list[torch.Tensor]) -> bool:
        """Return whether to ignore a call. A line that once used another tensor is never ignored again."""
        top = self.state.statements.top
        if top is None or self._rounds.get((top.file, top.line), 0) < 0:
            return False
        memories = self._memories(inputs) if self._is_plain(name) else None
        if memories is None:
            self._rounds[top.file, top.line] = -1
            return False
        if self._rounds.setdefault((top.file, top.line), 0) < ROUNDS:
            return False
        for memory in memories:
            self._used[memory] = top.file, top.line, top.function, top.depth
        return True

    def _is_plain(self, name: str) -> bool:
        """Return whether a call can only modify the memory of its arguments, and no earlier modification has to be followed."""
        state = self.state
        is_open = name in EXPOSING or name in FOREIGN or self.watcher.has_foreign()
        return not (is_open or state.engine_depth or state.untracked.pending or is_tracing())

    def _memories(self, inputs: list[torch.Tensor]) -> list[Memory] | None:
        """Return the known storages of tensors that no graph reaches, or None if a graph reaches one of them."""
        state, found = self.state, []
        for tensor in inputs:
            address = address_of(tensor)
            if address is None or tensor.requires_grad:
                return None
            memory, tracked = state.memories.at.get(address[0]), state.tensors.get(tensor)
            if tracked is not None and state.flow.origin([tracked]) is not None:
                return None
            if memory is not None:
                living = (one.ref() for one in state.tensors.at(memory))
                if memory.saves or any(one is not None and standing(one)[0] for one in living):
                    return None
                found.append(memory)
        return found

    def count(self, activation: Activation, complete: bool) -> None:
        """Count a round of a line."""
        line = activation.file, activation.line
        if complete and line in self._rounds and self._rounds[line] >= 0:
            self._rounds[line] += 1

    def note_writes(self, writes: Writes) -> None:
        """Record the modifications by ignored calls, each as a step of the last line that used the memory."""
        used, self._used = self._used, {}
        state = self.state
        for memory, (file, line, function, depth) in used.items():
            state.place = here = place(state.statements.program, file, line)
            for tracked in state.tensors.at(memory):
                tensor = tracked.ref()
                if tensor is not None:
                    writes.check(tracked, tensor, written_through(here.text)[1])
            state.place = None
            if state.current_step.has_effects:
                state.close(here, function, depth)
