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
    """Finds the writes of a function or a statement in the state that it left."""

    def __init__(self, state: RunState):
        self.state = state

    def check(self, tracked: TrackedTensor, tensor: torch.Tensor, operation: str) -> bool:
        """Returns whether a tensor was written since it was last looked at, and records it."""
        moved = self._elsewhere(tracked, tensor, operation)
        version = version_of(tensor)
        if moved is None and version == tracked.counter.version:
            return False
        if moved is not None:
            counters = () if version == tracked.counter.version else (tracked.counter.id,)
            stale = self._stale(tracked, version) if counters else []
            self.note(
                tracked.memory, (tracked.start, tracked.stop), operation, moved, counters, True, stale, swapped=tracked
            )
        else:
            self._counted(tracked, operation, version)
        return True

    def silent(self, tracked: TrackedTensor, operation: str) -> None:
        """Records a write that moved no counter: fused optimizers and inference mode move none (torch 2.13)."""
        memory = tracked.memory
        if memory.content is not None and memory.alive():
            interval = memory.look()
            if interval is not None:
                self.note(memory, interval, operation, tracked, (), True)

    def unreported(self, memory: Memory, interval: Interval, exact: bool) -> None:
        """Records a change that no function reported."""
        text = self.state.here().text
        through, operation = written_through(text)
        for tracked in self.state.tensors.at(memory):
            tensor = tracked.ref()
            if tensor is not None and version_of(tensor) != tracked.counter.version:
                return self._counted(tracked, operation, version_of(tensor), interval)
        return self.note(memory, interval, operation, None, (), True, through=through, exact=exact)

    def _elsewhere(self, tracked: TrackedTensor, tensor: torch.Tensor, operation: str) -> TrackedTensor | None:
        """Returns the new record of an object that now has other memory (`.data =`, `set_`, `resize_`), else None."""
        place = address_of(tensor)
        if place is None or place[0] == tracked.pointer:
            return None
        state, count = self.state, len(self.state.tensors.all)
        fresh = state.tensors.moved_to_other_memory(tracked, tensor)
        for new in state.tensors.all[count:]:
            state.current_step.tensors.append(new.id)
            state.current_step.touch(new)
        return fresh

    def _counted(
        self, tracked: TrackedTensor, operation: str, version: int | None, interval: Interval | None = None
    ) -> None:
        memory = tracked.memory
        known = memory.content is not None and memory.alive()
        if known and interval is None:
            interval = memory.look()
        changed = interval is not None or (memory.size > 0 and not known)
        refused = self._stale(tracked, version)
        self.note(
            memory,
            interval or (tracked.start, tracked.stop),
            operation,
            tracked,
            (tracked.counter.id,),
            changed,
            refused,
        )

    def _stale(self, tracked: TrackedTensor, version: int | None) -> list[TrackedSave]:
        """Returns the saved tensors that backward refuses from now on."""
        counter = tracked.counter
        counter.version = version
        fresh, counter.fresh = counter.fresh, []
        refused = []
        for save in fresh:
            if save.freed:
                continue
            save.version_now = version
            if save.stale:
                refused.append(save)
                self.state.graph.mark_invalid(save, self.state.steps)
            elif not save.checked:
                counter.fresh.append(save)
        return refused

    def note(
        self, memory: Memory, interval: Interval, operation: str, tracked: TrackedTensor | None, counters: tuple[int, ...],
        changed: bool, refused: list[TrackedSave] | None = None, *, swapped: TrackedTensor | None = None, through: str | None = None,
        exact: bool = True,
    ) -> None:  # fmt: skip
        """Records one write."""
        state = self.state
        harmed = list(refused or ()) + (self._corrupted(memory, interval, swapped) if changed else [])
        write = WriteEvent(
            len(state.writes), state.place or state.here(), operation, memory, *self._whole(interval, memory, tracked),
            counters, changed, tracked, through, exact=exact, harmed=harmed, swapped=swapped is not None,
            in_backward=state.engine_depth > 0, call=state.calls,
        )  # fmt: skip
        top = state.statements.top
        if top is not None:
            write.activation = top.number
            node = top.frame.f_locals.get("ctx") if write.in_backward else None
            if isinstance(node, torch.autograd.function.BackwardCFunction):
                write.running = state.graph.of.get(node)
        if tracked is not None:
            write.version = tracked.counter.version
            write.through = through or state.name_of(tracked, look=bool(harmed) or write.in_backward)
        state.writes.append(write)
        state.current_step.writes.append(write)
        neighbours = state.tensors.at(memory)
        for neighbour in neighbours[:STATED] + ([tracked] if tracked else []):
            state.current_step.touch(neighbour)
        if changed:
            state.untracked.note(write, swapped, neighbours)

    def _whole(self, interval: Interval, memory: Memory, tracked: TrackedTensor | None) -> Interval:
        """Returns an interval of whole elements: of a changed float often only some of its bytes differ."""
        near = tracked or next(iter(self.state.tensors.at(memory)), None)
        size = near.itemsize if near else 1
        return interval[0] // size * size, -(-interval[1] // size) * size

    def _corrupted(self, memory: Memory, interval: Interval, swapped: TrackedTensor | None) -> list[TrackedSave]:
        """Returns the saved tensors whose values a write just changed; where no counter moved, backward does not notice."""
        found, still = [], []
        for save in memory.saves:
            if save.freed or save.invalid:
                continue
            if (swapped is None or save.tensor == swapped.id) and save.overlaps(*interval) and save.differs():
                save.changed = True
                self.state.graph.mark_invalid(save, self.state.steps)
                found.append(save)
            else:
                still.append(save)
        memory.saves = still
        return found
