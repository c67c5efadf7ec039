"""Writes: who wrote where, which counters moved, and which saved tensors are no longer what was saved."""

from __future__ import annotations

import torch

from autograder.tape.internals.tensor_fields import version_of
from autograder.tape.observe.graph.nodes import TrackedSave
from autograder.tape.observe.graph.tensors import STATED, TrackedTensor
from autograder.tape.observe.memory.write_text import written_through
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.run.storages import Memory, address_of

Interval = tuple[int, int]


class Writes:
    """Finds writes in what a function or a statement left behind."""

    def __init__(self, state: RunState):
        self.state = state

    def check(self, seen: TrackedTensor, tensor: torch.Tensor, operation: str) -> bool:
        """Returns whether a tensor was written since it was last looked at, and takes note of it."""
        moved = self._elsewhere(seen, tensor, operation)
        version = version_of(tensor)
        if moved is None and version == seen.counter.version:
            return False
        if moved is not None:
            counters = () if version == seen.counter.version else (seen.counter.id,)
            stale = self._stale(seen, version) if counters else []
            self.note(seen.memory, (seen.start, seen.stop), operation, moved, counters, True, stale, swapped=seen)
        else:
            self._counted(seen, operation, version)
        return True

    def silent(self, seen: TrackedTensor, operation: str) -> None:
        """Takes note of a write that moved no counter: fused optimizers and inference mode move none (torch 2.13)."""
        memory = seen.memory
        if memory.content is not None and memory.alive():
            interval = memory.look()
            if interval is not None:
                self.note(memory, interval, operation, seen, (), True)

    def unreported(self, memory: Memory, interval: Interval, exact: bool) -> None:
        """Takes note of a change that no function reported."""
        text = self.state.here().text
        through, operation = written_through(text)
        for seen in self.state.tensors.at(memory):
            tensor = seen.ref()
            if tensor is not None and version_of(tensor) != seen.counter.version:
                return self._counted(seen, operation, version_of(tensor), interval)
        return self.note(memory, interval, operation, None, (), True, through=through, exact=exact)

    def _elsewhere(self, seen: TrackedTensor, tensor: torch.Tensor, operation: str) -> TrackedTensor | None:
        """Returns the new record of an object that now has other memory (`.data =`, `set_`, `resize_`), else None."""
        place = address_of(tensor)
        if place is None or place[0] == seen.pointer:
            return None
        state, count = self.state, len(self.state.tensors.all)
        fresh = state.tensors.moved_to_other_memory(seen, tensor)
        for new in state.tensors.all[count:]:
            state.draft.tensors.append(new.id)
            state.draft.touch(new)
        return fresh

    def _counted(
        self, seen: TrackedTensor, operation: str, version: int | None, interval: Interval | None = None
    ) -> None:
        memory = seen.memory
        known = memory.content is not None and memory.alive()
        if known and interval is None:
            interval = memory.look()
        changed = interval is not None or (memory.size > 0 and not known)
        spoilt = self._stale(seen, version)
        self.note(memory, interval or (seen.start, seen.stop), operation, seen, (seen.counter.id,), changed, spoilt)

    def _stale(self, seen: TrackedTensor, version: int | None) -> list[TrackedSave]:
        """Returns the saved tensors that backward refuses from now on."""
        counter = seen.counter
        counter.version = version
        fresh, counter.fresh = counter.fresh, []
        spoilt = []
        for kept in fresh:
            if kept.freed:
                continue
            kept.version_now = version
            if kept.stale:
                spoilt.append(kept)
                self.state.graph.spoil(kept, self.state.steps)
            elif not kept.checked:
                counter.fresh.append(kept)
        return spoilt

    def note(
        self, memory: Memory, interval: Interval, operation: str, seen: TrackedTensor | None, counters: tuple[int, ...],
        changed: bool, spoilt: list[TrackedSave] | None = None, *, swapped: TrackedTensor | None = None, through: str | None = None,
        exact: bool = True,
    ) -> None:  # fmt: skip
        """Takes note of one write."""
        state = self.state
        harmed = list(spoilt or ()) + (self._corrupted(memory, interval, swapped) if changed else [])
        wrote = WriteEvent(
            len(state.wrote), state.place or state.here(), operation, memory, *self._whole(interval, memory, seen),
            counters, changed, seen, through, exact=exact, harmed=harmed, swapped=swapped is not None,
            in_backward=state.engine_depth > 0, call=state.calls,
        )  # fmt: skip
        top = state.statements.top
        if top is not None:
            wrote.activation = top.number
            node = top.frame.f_locals.get("ctx") if wrote.in_backward else None
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                wrote.running = state.graph.of.get(node)
        if seen is not None:
            wrote.version = seen.counter.version
            wrote.through = through or state.name_of(seen, look=bool(harmed) or wrote.in_backward)
        state.wrote.append(wrote)
        state.draft.writes.append(wrote)
        neighbours = state.tensors.at(memory)
        for neighbour in neighbours[:STATED] + ([seen] if seen else []):
            state.draft.touch(neighbour)
        if changed:
            state.untracked.note(wrote, swapped, neighbours)

    def _whole(self, interval: Interval, memory: Memory, seen: TrackedTensor | None) -> Interval:
        """Returns an interval of whole elements: of a changed float often only some of its bytes differ."""
        near = seen or next(iter(self.state.tensors.at(memory)), None)
        size = near.itemsize if near else 1
        return interval[0] // size * size, -(-interval[1] // size) * size

    def _corrupted(self, memory: Memory, interval: Interval, swapped: TrackedTensor | None) -> list[TrackedSave]:
        """Returns the saved tensors whose values a write just changed; where no counter moved, backward does not know."""
        found, still = [], []
        for kept in memory.kept:
            if kept.freed or kept.spoilt:
                continue
            if (swapped is None or kept.tensor == swapped.id) and kept.overlaps(*interval) and kept.differs():
                kept.changed = True
                self.state.graph.spoil(kept, self.state.steps)
                found.append(kept)
            else:
                still.append(kept)
        memory.kept = still
        return found
