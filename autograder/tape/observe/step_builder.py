"""Collect the effects of a statement."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.tape.observe.nodes import GraphNode, TrackedSave
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.schema import Forecast, NameChange, Step, TensorState, Write
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.storages import Memory


@dataclass(eq=False)
class WriteEvent:
    """A modification of existing memory, of the bytes [start, stop)."""

    index: int
    place: Place
    operation: str
    memory: Memory
    start: int
    stop: int
    counters: tuple[int, ...]
    changed: bool
    tracked: TrackedTensor | None
    through: str | None = None
    version: int | None = None
    # whether `place` is certainly the line of the modification, not only the line after which it was detected
    exact: bool = True
    harmed: list[TrackedSave] = field(default_factory=list)
    swapped: bool = False  # whether the object received other memory, so that the old memory is unchanged
    in_backward: bool = False  # whether a hook or a custom backward did it while the engine ran
    active_call: int | None = None  # number of the active call of a user's function
    running: GraphNode | None = None  # node of the custom Function whose backward did it, or None
    call: int = -1  # number of the backward call, if any
    shared: bool = False  # whether no function reported it, and other processes can write there

    def record(self) -> Write:
        """Return the Write record of this event."""
        return Write(
            self.place, self.operation, self.memory.id, self.start, self.stop, self.counters, self.changed,
            self.tracked.id if self.tracked else None, self.through, 
            tuple(save.record_id for save in self.harmed if save.record_id is not None),
        )  # fmt: skip


@dataclass(eq=False)
class StepBuilder:
    """The effects of a statement, as ids."""

    place: Place | None = None
    function: str = "<module>"
    depth: int = 0
    names: list[NameChange] = field(default_factory=list)
    tensors: list[int] = field(default_factory=list)
    touched: dict[int, TrackedTensor] = field(default_factory=dict)
    states: list[TensorState] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    saved: list[TrackedSave] = field(default_factory=list)
    writes: list[WriteEvent] = field(default_factory=list)
    freed: list[TrackedSave] = field(default_factory=list)
    forecast: Forecast | None = None

    @property
    def has_effects(self) -> bool:
        """Whether there are effects that a recording lists."""
        return bool(self.tensors or self.nodes or self.writes or self.freed or self.names or self.forecast)

    def touch(self, tracked: TrackedTensor) -> None:
        """Mark a tensor whose state is read again after the statement."""
        self.touched[tracked.id] = tracked

    def record(self, index: int) -> Step:
        """Return the Step record of this statement."""
        assert self.place is not None
        return Step(
            index, self.place, self.function, self.depth, tuple(self.names), tuple(self.tensors), tuple(self.states),
            tuple(self.nodes), tuple(k.record_id for k in self.saved if k.record_id is not None),
            tuple(write.record() for write in self.writes),
            tuple(k.record_id for k in self.freed if k.record_id is not None), self.forecast,
        )  # fmt: skip
