"""The tensors of a run, their memory and version counters, and the effects of a statement on them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import torch

from autograder.tape.internals.tensor_fields import base_of, storage_number, version_of
from autograder.tape.observe.nodes import GraphNode, TrackedSave
from autograder.tape.recording.schema import Forecast, NameChange, Step, Tensor, TensorState, Write
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.graph_walk import autograd_flags
from autograder.tape.run.storages import Memories, Memory, address_of, extent_of, is_allocated

# These functions create an alias with a new version counter; other aliases share the counter of their source (torch
# 2.13).
FOREIGN = {"data": "data", "from_dlpack": "dlpack"} | dict.fromkeys(
    ("from_numpy", "as_tensor", "asarray", "frombuffer"), "numpy"
)
LISTED = 12  # maximum number of elements in the text of a tensor's values
STATED = 16  # maximum number of aliases of a storage whose new values are recorded after a modification


@dataclass(eq=False)
class Counter:
    """A version counter, and the saved tensors with this counter that are still valid."""

    id: int
    version: int | None
    valid: list[TrackedSave] = field(default_factory=list)


@dataclass(eq=False)
class TrackedTensor:
    """A tensor object.

    `made` means that an operation created it, `origin` is the tensor and function that it was reached by, `unrecorded`
    means that recording was off when it first appeared.
    """

    id: int
    ref: Callable[[], Any]
    memory: Memory
    start: int
    stop: int
    counter: Counter
    shape: tuple[int, ...]
    dtype: str
    made: bool
    base: TrackedTensor | None = None
    alias_of: str | None = None
    origin: tuple[TrackedTensor, str] | None = None
    parameter: bool = False
    leaf: bool = False
    pointer: int = 0
    step: int = 0
    storage: int = 0
    itemsize: int = 1
    requires_grad: bool = False
    event: int | None = None
    name: str | None = None
    name_depth: int = 1 << 30
    path: str | None = None
    node: int | None = None
    stated: TensorState | None = None
    unrecorded: bool = False
    first: int | None = None  # id of the object's data before it received other memory

    @property
    def object_id(self) -> int:
        """A number of the tensor object, which is the same for all its data."""
        return self.id if self.first is None else self.first

    def record(self) -> Tensor:
        """Return the Tensor record of this object."""
        kind: Literal["parameter", "leaf", "input", "result"] = "result" if self.made else "input"
        if self.leaf:
            kind = "parameter" if self.parameter else "leaf"
        return Tensor(
            self.id, self.shape, self.dtype, self.memory.id, self.start, self.stop, self.counter.id, kind,
            self.base.id if self.base else None, self.alias_of, self.path or msgspec.UNSET,
        )  # fmt: skip

    def state(self, tensor: torch.Tensor) -> TensorState | None:
        """Return the tensor's state if it changed since the last recorded one, or None."""
        requires_grad, is_leaf = autograd_flags(tensor)
        self.leaf = self.leaf or (is_leaf and requires_grad)
        state = TensorState(self.id, version_of(tensor), requires_grad, is_leaf, self.node, values_text(tensor))
        if state == self.stated:
            return None
        self.stated = state
        return state


class Tensors:
    """All tensor objects of a run, in order of first appearance."""

    def __init__(self, memories: Memories):
        self.memories = memories
        self.all: list[TrackedTensor] = []
        self.of: dict[int, TrackedTensor] = {}
        self.counters: list[Counter] = []
        self.living: dict[int, list[TrackedTensor]] = {}

    def get(self, tensor: torch.Tensor) -> TrackedTensor | None:
        """Return the tracked data of this tensor object, or None."""
        return self.of.get(id(tensor))

    def add(
        self, tensor: torch.Tensor, by: str | None = None, sources: tuple[TrackedTensor, ...] = ()
    ) -> TrackedTensor:
        """Return the tracked data of a new tensor. `by` is the function that returned it, called with `sources`."""
        memory = self.memories.of(tensor, foreign=by in FOREIGN)
        neighbours = self.at(memory)
        source = next((s for s in sources if s.memory is memory and memory.size), None)
        alias = FOREIGN.get(by or "") if neighbours else None
        storage = storage_number(tensor) if memory.size else 0
        if neighbours and alias is None and all(tracked.storage != storage for tracked in neighbours):
            # Another storage object with the same bytes was created through NumPy, DLPack or a pointer.
            alias = "dlpack" if memory.capsule else "numpy"
        start, stop = extent_of(tensor) if memory.size else (0, 0)
        if memory.size and alias in ("numpy", "dlpack"):
            # The tensor may start inside the memory of another storage.
            shift = tensor.untyped_storage().data_ptr() - memory.address
            start, stop = start + shift, stop + shift
        base = base_of(tensor)
        known_base = None if base is None else self.get(base) or self.add(base)
        near = (source, neighbours) if alias is None else (None, [])
        counter = known_base.counter if known_base else self._counter(version_of(tensor), *near)
        tracked = TrackedTensor(
            len(self.all), self._reference(tensor), memory, start, stop, counter, tuple(tensor.size()),
            str(tensor.dtype).removeprefix("torch."), by is not None and bool(sources),
            known_base, alias, (source, by) if source and by else None,
            isinstance(tensor, torch.nn.Parameter), all(autograd_flags(tensor)), (address_of(tensor) or (0, 0))[0],
            storage=storage, itemsize=tensor.element_size(), requires_grad=autograd_flags(tensor)[0],
        )  # fmt: skip
        self.all.append(tracked)
        self.of[id(tensor)] = tracked
        self.living.setdefault(memory.id, []).append(tracked)
        return tracked

    def _counter(self, version: int | None, source: TrackedTensor | None, neighbours: list[TrackedTensor]) -> Counter:
        for candidate in ([source] if source else []) + neighbours:
            if candidate.counter.version == version and (source is not None or candidate.alias_of is None):
                return candidate.counter
        return self.new_counter(version)

    def new_counter(self, version: int | None) -> Counter:
        """Return a counter that no known tensor shares."""
        counter = Counter(len(self.counters), version)
        self.counters.append(counter)
        return counter

    def forget(self, tensor: torch.Tensor) -> None:
        """Drop all weak references to a tensor object, because PyTorch does not swap a tensor that has one."""
        tracked = self.of.pop(id(tensor), None)
        if tracked is not None:
            tracked.ref = lambda: None
            tracked.memory.live_tensors[:] = [live for live in tracked.memory.live_tensors if live() is not tensor]

    def moved_to_other_memory(self, tracked: TrackedTensor, tensor: torch.Tensor) -> TrackedTensor:
        """Return the new tracked data of an object that `.data =`, `set_` or `resize_` gave other memory. Its counter stays."""
        del self.of[id(tensor)]
        new = self.add(tensor)
        new.counter, new.made, new.node, new.name = tracked.counter, tracked.made, tracked.node, tracked.name
        new.name_depth, new.first = tracked.name_depth, tracked.object_id
        return new

    def at(self, memory: Memory) -> list[TrackedTensor]:
        """Return the existing tensors in a storage, newest first."""
        if not memory.size:
            return []
        alive = [tracked for tracked in self.living.get(memory.id, ()) if tracked.ref() is not None]
        # A buffer may have ten thousand row views; the oldest and the newest are sufficient.
        if len(alive) > 2 * STATED:
            alive = alive[:STATED] + alive[-STATED:]
        self.living[memory.id] = alive
        return alive[::-1]

    def _reference(self, tensor: torch.Tensor) -> weakref.ref[Any]:
        # A strong reference would keep memory that the program freed; the id of a freed object may be reused.
        key, table = id(tensor), self.of

        def forget(reference: Any) -> None:
            if key in table and table[key].ref is reference:
                del table[key]

        return weakref.ref(tensor, forget)


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


def values_text(tensor: torch.Tensor) -> str:
    """Return a short text of a tensor's values: all if there are at most LISTED, else the first three and the number of the others."""
    if not is_allocated(tensor):
        return ""
    try:
        flat = tensor.detach()
        if flat.numel() <= LISTED:
            return _nested(flat.tolist())
        row = flat if flat.is_contiguous() else flat[(0,) * (flat.dim() - 1)]
        first = row.flatten()[:3].tolist()
        return f"[{', '.join(_number(v) for v in first)}, … {flat.numel() - len(first)} more]"
    except (RuntimeError, NotImplementedError, TypeError):
        return ""


def _nested(value: object) -> str:
    return f"[{', '.join(_nested(v) for v in value)}]" if isinstance(value, list) else _number(value)


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
