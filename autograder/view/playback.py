"""Plays a Recording frame by frame and knows, after each, what is true: names, versions, graph, saved tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from autograder.tape.recording.schema import BackwardStep, Recording, SavedEdge, Step, TensorState, Write
from autograder.tape.recording.verdict_types import Place


@dataclass(frozen=True)
class Frame:
    """One picture of the film: a statement that ran, a node that backward visited, or the verdict at the end.

    Attributes:
        number: 1-based, as the reader counts.
        place: the line that is lit; None where no line of the user's ran.
    """

    number: int
    kind: Literal["step", "visit", "end"]
    place: Place | None
    step: Step | None = None
    visit: BackwardStep | None = None


@dataclass
class Touched:
    """Ids of what a frame changed: only these are drawn anew."""

    tensors: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    edges: set[int] = field(default_factory=set)
    storages: set[int] = field(default_factory=set)


def changes_something(step: Step) -> bool:
    """Returns whether the step did anything to a tensor, a name or the graph; an import or a `def` did not."""
    return bool(step.names or step.tensors or step.states or step.nodes or step.saved or step.writes or step.freed)


def backward_step(recording: Recording) -> int | None:
    """Returns the index of the step that called backward; None where none did."""
    if not recording.backward or not recording.steps:
        return None
    if recording.backward[0].step is not None:
        return recording.backward[0].step
    return next((step.index for step in recording.steps if step.freed), recording.steps[-1].index)


def frames(recording: Recording) -> list[Frame]:
    """Returns the film: statements in order, backward's visits after the statement that called it, the verdict last."""
    film: list[Frame] = []
    walk = backward_step(recording)
    for step in recording.steps:
        if changes_something(step) or step is recording.steps[-1] or step.index == walk:
            film.append(Frame(len(film) + 1, "step", step.place, step))
        for visit in recording.backward:
            if step.index == (walk if visit.step is None else visit.step):
                film.append(Frame(len(film) + 1, "visit", step.place, step, visit))
    film.append(Frame(len(film) + 1, "end", film[-1].place if film else None))
    return film


class Playback:
    """What is true after the frame that was played last.

    Attributes:
        names: variable → tensor; `called`: tensor → the names it has now, or the last that it had.
        states: tensor → its latest state; `versions`: counter family → its count.
        edges: saved edges in sight; `harmed`: edge → the writes that hit it so far;
        freed: edges that backward released, with their counter then.
        visits: node → what backward did there.
        made: node → the state of its tensor while the node was its maker; `makers`: tensor → the nodes that made it, in turn.
        family: counter → its tensors; `in_storage`: piece of memory → its tensors.
    """

    def __init__(self, recording: Recording):
        """Starts before the first statement."""
        self.recording = recording
        self.tensors = {tensor.id: tensor for tensor in recording.tensors}
        self.nodes = {node.id: node for node in recording.nodes}
        self.saved = {edge.id: edge for edge in recording.saved}
        self.frames = frames(recording)
        self.names: dict[str, int] = {}
        self.called: dict[int, str] = {}
        self.states: dict[int, TensorState] = {}
        self.versions: dict[int, int | None] = {}
        self.edges: set[int] = set()
        self.harmed: dict[int, list[Write]] = {}
        self.freed: dict[int, int | None] = {}
        self.visits: dict[int, BackwardStep] = {}
        self.made: dict[int, TensorState] = {}
        self.makers: dict[int, set[int]] = {}
        self.family: dict[int, set[int]] = {}
        self.in_storage: dict[int, set[int]] = {}
        self._kept: dict[int, set[int]] = {}
        self._stated = {state.tensor for step in recording.steps for state in step.states}

    def play(self) -> Iterator[tuple[Frame, Touched]]:
        """Yields each frame after it happened, with what it changed."""
        for frame in self.frames:
            touched = Touched()
            if frame.kind == "step" and frame.step:
                self._run(frame.step, touched)
            elif frame.visit:
                self.visits[frame.visit.node] = frame.visit
                touched.nodes.add(frame.visit.node)
            yield frame, touched

    def _run(self, step: Step, touched: Touched) -> None:
        """Takes one statement's changes."""
        for tensor in step.tensors:
            known = self.tensors[tensor]
            self.family.setdefault(known.counter, set()).add(tensor)
            self.in_storage.setdefault(known.storage, set()).add(tensor)
        for state in step.states:
            self._see(state, touched)
        self._rename(step, touched)
        touched.nodes.update(step.nodes)
        for edge in step.freed:
            self.freed.setdefault(edge, self.version_of(self.saved[edge]))
            touched.edges.add(edge)
        for edge in step.saved:
            self.edges.add(edge)
            self._kept.setdefault(self._counter(self.saved[edge]), set()).add(edge)
            touched.edges.add(edge)
        for write in step.writes:
            self._alias(write, step, touched)
            touched.storages.add(write.storage)
            for edge in write.harmed:
                self.harmed.setdefault(edge, []).append(write)
                touched.edges.add(edge)
        touched.storages.update(self.tensors[tensor].storage for tensor in touched.tensors)
        touched.nodes.update(node for tensor in touched.tensors for node in self.makers.get(tensor, ()))

    def _see(self, state: TensorState, touched: Touched) -> None:
        """Takes one tensor's new state, and shows it at the node that made it."""
        before = self.states.get(state.tensor)
        self.states[state.tensor] = state
        family = self.tensors[state.tensor].counter
        if self.versions.get(family) != state.version:
            self.versions[family] = state.version
            touched.tensors |= self.family.get(family, set())
            touched.edges |= self._kept.get(family, set())
        touched.tensors.add(state.tensor)
        touched.nodes.update(node for node in (state.node, before.node if before else None) if node is not None)
        if state.node is not None:
            self.made[state.node] = state
            self.makers.setdefault(state.tensor, set()).add(state.node)

    def _alias(self, write: Write, step: Step, touched: Touched) -> None:
        """Gives a state to the object that a write went through, where that lived for one statement only (`d.data[:] = 1`)."""
        if write.tensor not in self.tensors or write.tensor in self._stated:
            return
        alias = self.tensors[write.tensor]
        same = (self.states[t] for t in self.in_storage[alias.storage] if t in self.states and t != alias.id)
        values = next((s.values for s in same if self.tensors[s.tensor].shape == alias.shape), "")
        counted = any(self.tensors[state.tensor].counter == alias.counter for state in step.states)
        count = (self.versions.get(alias.counter) or 0) + (alias.counter in write.counters and not counted)
        self._see(TensorState(alias.id, count, False, True, None, values), touched)

    def _rename(self, step: Step, touched: Touched) -> None:
        """Takes the step's new names."""
        for change in step.names:
            old = self.names.pop(change.name, None)
            if change.tensor is not None:
                self.names[change.name] = change.tensor
            for tensor in (old, change.tensor):
                if tensor is not None:
                    held = [name for name, holds in self.names.items() if holds == tensor]
                    self.called[tensor] = ", ".join(held) or self.called.get(tensor, "")
                    touched.tensors.add(tensor)

    def _counter(self, edge: SavedEdge) -> int:
        """Returns the counter family of what an edge keeps; -1 where no variable ever named it."""
        return self.tensors[edge.tensor].counter if edge.tensor in self.tensors else -1

    def alive(self, tensor: int) -> bool:
        """Returns whether a variable holds the tensor now."""
        return tensor in self.names.values()

    def version_of(self, edge: SavedEdge) -> int | None:
        """Returns the counter that backward would find now, or found when it let go, for what an edge keeps."""
        if edge.id in self.freed:
            return self.freed[edge.id]
        counter = self._counter(edge)
        if counter in self.versions:
            return self.versions[counter]
        return edge.version_now if edge.id in self.harmed else edge.saved_version

    def condition(self, edge: SavedEdge) -> Literal["", "stale", "silent", "freed"]:
        """Returns how a saved tensor is now: as saved, refused by the counter, changed without a trace, or released."""
        if self.version_of(edge) != edge.saved_version:
            return "stale"
        if any(write.bytes_changed for write in self.harmed.get(edge.id, ())):
            return "silent"
        return "freed" if edge.id in self.freed else ""
