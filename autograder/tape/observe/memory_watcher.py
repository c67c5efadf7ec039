"""Schedule the checks of memory, which detect modifications through NumPy, DLPack or a raw pointer."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from autograder.tape.observe.state import RunState
from autograder.tape.run.storages import Memory

# Size in bytes up to which the content of every storage is stored; larger ones only after a node saved a tensor in them.
SMALL = 1 << 16
FEW_STORAGES = 128  # while fewer storages are watched, each small one is checked after every statement
PATIENT = 1 << 16  # maximum number of statements between two checks of a storage that does not change
# Number of storages with a foreign alias beyond which graphs that the program has dropped are released, because each
# of these storages is checked after every statement; the next limit is twice the number of the rest.
MANY_FOREIGN = 16

# Checking n storages after each of n statements takes n² checks. A storage that does not change is therefore checked
# after 1, 2, 4, … statements (n·log n in total), unless it is small and few storages exist (on the host: a copy from a
# GPU takes a hundred times as long) or it has a foreign alias. The line of a change that is detected late is uncertain; the run is
# then repeated with that storage in `focus`.


class MemoryWatcher:
    """Counts statements, and reports unannounced changes to `changed(memory, interval, exact)`.

    Attributes:
        is_behind: whether statements were not counted since the last check, because no graph reached a storage with a
            foreign alias.
    """

    def __init__(
        self, state: RunState, changed: Callable[[Memory, tuple[int, int], bool], None], focus: frozenset[int]
    ):
        self.state, self.changed, self.focus = state, changed, focus
        self.clock, self.is_behind = 0, False
        self._due: list[tuple[int, int]] = []
        self._foreign: dict[int, Memory] = {}
        self._most_foreign = MANY_FOREIGN

    @property
    def has_many_foreign(self) -> bool:
        """Whether many storages with a foreign alias are checked after every statement."""
        return len(self._foreign) > self._most_foreign

    def forget_released(self) -> None:
        """Drop the storages with a foreign alias that no graph reaches any more."""
        living = {number: storage for number, storage in self._foreign.items() if storage.alive()}
        self._foreign = {number: storage for number, storage in living.items() if self.state.is_reached(storage)}
        self._most_foreign = max(MANY_FOREIGN, 2 * len(self._foreign))

    def has_foreign(self) -> bool:
        """Return whether a storage that a graph reaches has a foreign alias, through which it may be modified without PyTorch."""
        for memory in list(self._foreign.values()):
            if memory.alive() and self.state.is_reached(memory):
                return True
            del self._foreign[memory.id]
        return False

    def has_changed_foreign(self) -> bool:
        """Return whether a storage that a graph reaches has changed through its foreign alias since the last check."""
        changed = False
        for memory in list(self._foreign.values()):
            if not memory.alive():
                del self._foreign[memory.id]
            elif memory.has_changed():
                changed = changed or self.state.is_reached(memory)
        return changed

    def begin(self, memory: Memory, *, always: bool = False) -> None:
        """Store the content of a storage from now on. A large storage is stored only if `always`, for a saved tensor."""
        if memory.content is None and memory.size and (always or memory.size <= SMALL) and memory.alive():
            memory.look()
            heapq.heappush(self._due, (self.clock, memory.id))

    def expose(self, memory: Memory) -> None:
        """Check a storage after every statement from now on, because it has a foreign alias."""
        self.begin(memory, always=True)
        if not memory.exposed and memory.size:
            memory.exposed, memory.patience, memory.next_look = True, 1, self.clock
            heapq.heappush(self._due, (self.clock, memory.id))
        self.reach(memory)

    def reach(self, memory: Memory) -> None:
        """Process a storage that a graph may reach now. Its content is read if it may have changed before."""
        if memory.exposed and memory.id not in self._foreign:
            self._foreign[memory.id] = memory
            if self.is_behind:
                memory.look()

    def statement_done(self) -> None:
        """Check the storages that are due."""
        self.clock += 1
        while self._due and self._due[0][0] < self.clock:
            _, number = heapq.heappop(self._due)
            memory = self.state.memories.all[number]
            if not memory.alive():
                memory.content = None
                continue
            if memory.next_look >= self.clock:
                continue
            if self.state.is_under_way(memory):  # the thread of that call will report its modification
                heapq.heappush(self._due, (self.clock, number))
                continue
            self.look(memory)
            few = len(self._due) < FEW_STORAGES and memory.size <= SMALL and not memory.on_device
            always = memory.exposed or number in self.focus or few
            memory.patience = 1 if always else min(2 * memory.patience, PATIENT)
            memory.next_look = self.clock + memory.patience - 1
            heapq.heappush(self._due, (memory.next_look, number))
        self.is_behind = False

    def look(self, memory: Memory) -> None:
        """Check a storage now."""
        if memory.content is None:
            return
        interval = memory.look()
        is_old = self.is_behind and memory.exposed and memory.id not in self._foreign
        if interval is not None and not is_old:
            self.changed(memory, interval, memory.patience == 1 or memory.id in self.focus)
