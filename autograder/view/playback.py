"""Playback of a Recording, frame by frame, with the state after each frame: names, versions, graph, saved tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from autograder.tape.recording.schema import BackwardStep, Recording, SavedEdge, Step, TensorState, Write, nodes_below
from autograder.tape.recording.verdict_types import NamedLine, Place


@dataclass(frozen=True)
class Frame:
    """One step of the reader: a statement that ran, a node that backward visited, or the verdict at the end."""

    number: int  # the number that the reader sees, from 1
    kind: Literal["step", "visit", "end"]  # the kind of step
    place: Place | None  # the running line; None outside of the user's code
    step: Step | None = None  # the statement; None for a visit and for the verdict
    visit: BackwardStep | None = None  # the visit of backward


@dataclass
class ChangeSet:
    """The ids of the parts that a frame changed; other parts need not be drawn again."""

    tensors: set[int] = field(default_factory=set)
    nodes: set[int] = field(default_factory=set)
    edges: set[int] = field(default_factory=set)
    storages: set[int] = field(default_factory=set)


def find_backward(recording: Recording) -> int | None:
    """Return the index of the step that first called backward, or None."""
    if not recording.backward or not recording.steps:
        return None
    if recording.backward[0].step is not None:
        return recording.backward[0].step
    return next((step.index for step in recording.steps if step.freed), recording.steps[-1].index)


def lines_named_by_check(recording: Recording) -> dict[Place, NamedLine]:
    """Return the lines that a check names for a rejected program, although they do not break a saved tensor."""
    return {named.place: named for named in recording.verdict.named}


def list_frames(recording: Recording) -> list[Frame]:
    """Return the frames: statements in order, backward's visits after the statement that called it, the verdict last."""
    frames: list[Frame] = []
    caller, refused = find_backward(recording), lines_named_by_check(recording)
    for step in recording.steps:
        # An import or a `def` changes no tensor, no name and not the graph.
        changes = step.names or step.tensors or step.states or step.nodes or step.saved or step.writes or step.freed
        if changes or step is recording.steps[-1] or step.index == caller or step.place in refused:
            frames.append(Frame(len(frames) + 1, "step", step.place, step))
        for visit in recording.backward:
            if step.index == (caller if visit.step is None else visit.step):
                frames.append(Frame(len(frames) + 1, "visit", step.place, visit=visit))
    frames.append(Frame(len(frames) + 1, "end", frames[-1].place if frames else None))
    return frames


class Playback:
    """The state of the program after the last played frame."""

    def __init__(self, recording: Recording):
        self.recording = recording
        self.tensors = {tensor.id: tensor for tensor in recording.tensors}
        self.nodes = {node.id: node for node in recording.nodes}
        self.saved = {edge.id: edge for edge in recording.saved}
        self.frames = list_frames(recording)
        self.names: dict[str, int] = {}  # variable → tensor
        self.last_names: dict[int, str] = {}  # tensor → its current names, or the last ones that it had
        self.states: dict[int, TensorState] = {}  # tensor → its latest state
        self.versions: dict[int, int | None] = {}  # version counter → its count
        self.edges: set[int] = set()  # the saved edges that exist
        self.harmed: dict[int, list[Write]] = {}  # saved edge → the writes that have harmed it
        self.freed: dict[int, int | None] = {}  # saved edge that backward has freed → its version at that time
        self.visits: dict[int, BackwardStep] = {}  # node → the visit of backward
        # node → the last state of its tensor before another node replaced it (an in-place write rebases the history)
        self.made: dict[int, TensorState] = {}
        self.grad_fns_of: dict[int, set[int]] = {}  # tensor → all nodes that have computed it
        self.tensors_of_counter: dict[int, set[int]] = {}  # version counter → its tensors
        self.in_storage: dict[int, set[int]] = {}  # storage → its tensors
        self._saved_by_counter: dict[int, set[int]] = {}
        self._stated = {state.tensor for step in recording.steps for state in step.states}

    def play(self) -> Iterator[tuple[Frame, ChangeSet]]:
        """Yield each frame after applying it, with the changed ids."""
        for frame in self.frames:
            changed = ChangeSet()
            if frame.step:
                self._apply_step(frame.step, changed)
            elif frame.visit:
                self.visits[frame.visit.node] = frame.visit
                changed.nodes.add(frame.visit.node)
            yield frame, changed

    def _apply_step(self, step: Step, changed: ChangeSet) -> None:
        for tensor in step.tensors:
            facts = self.tensors[tensor]
            self.tensors_of_counter.setdefault(facts.counter, set()).add(tensor)
            self.in_storage.setdefault(facts.storage, set()).add(tensor)
        for state in step.states:
            self._apply_state(state, changed)
        self._apply_names(step, changed)
        changed.nodes.update(step.nodes)
        for edge in step.freed:
            self.freed.setdefault(edge, self.version_of(self.saved[edge]))
            changed.edges.add(edge)
        for edge in step.saved:
            self.edges.add(edge)
            self._saved_by_counter.setdefault(self._counter(self.saved[edge]), set()).add(edge)
            changed.edges.add(edge)
        for write in step.writes:
            self._apply_alias(write, step, changed)
            changed.storages.add(write.storage)
            for edge in write.harmed:
                self.harmed.setdefault(edge, []).append(write)
                changed.edges.add(edge)
        changed.storages.update(self.tensors[tensor].storage for tensor in changed.tensors)
        changed.nodes.update(node for tensor in changed.tensors for node in self.grad_fns_of.get(tensor, ()))

    def _apply_state(self, state: TensorState, changed: ChangeSet) -> None:
        """Apply one tensor's new state, and store it for the node that computed the tensor."""
        before = self.states.get(state.tensor)
        self.states[state.tensor] = state
        counter = self.tensors[state.tensor].counter
        if self.versions.get(counter) != state.version:
            self.versions[counter] = state.version
            changed.tensors |= self.tensors_of_counter.get(counter, set())
            changed.edges |= self._saved_by_counter.get(counter, set())
        changed.tensors.add(state.tensor)
        changed.nodes.update(node for node in (state.node, before.node if before else None) if node is not None)
        if state.node is not None:
            self.made[state.node] = state
            self.grad_fns_of.setdefault(state.tensor, set()).add(state.node)

    def _apply_alias(self, write: Write, step: Step, changed: ChangeSet) -> None:
        """Set the state of an alias through which a write went and which existed in one statement only (`d.data[:] = 1`)."""
        if write.tensor not in self.tensors or write.tensor in self._stated:
            return
        alias = self.tensors[write.tensor]
        same = (self.states[t] for t in self.in_storage[alias.storage] if t in self.states and t != alias.id)
        values = next((s.values for s in same if self.tensors[s.tensor].shape == alias.shape), "")
        counted = any(self.tensors[state.tensor].counter == alias.counter for state in step.states)
        count = (self.versions.get(alias.counter) or 0) + (alias.counter in write.counters and not counted)
        self._apply_state(TensorState(alias.id, count, False, True, None, values), changed)

    def _apply_names(self, step: Step, changed: ChangeSet) -> None:
        for change in step.names:
            old = self.names.pop(change.name, None)
            if change.tensor is not None:
                self.names[change.name] = change.tensor
            for tensor in (old, change.tensor):
                if tensor is not None:
                    held = [name for name, holds in self.names.items() if holds == tensor]
                    self.last_names[tensor] = ", ".join(held) or self.last_names.get(tensor, "")
                    changed.tensors.add(tensor)

    @cached_property
    def _reached(self) -> set[int]:
        """The nodes that some backward of this run visited, and those below them, which an error may have prevented it from visiting."""
        starts = (visit.node for visit in self.recording.backward)
        return {node.id for node in nodes_below(starts, self.nodes)}

    def _counter(self, edge: SavedEdge) -> int:
        """Return the version counter of a saved tensor; -1 if the tensor never had a name."""
        return self.tensors[edge.tensor].counter if edge.tensor in self.tensors else -1

    def version_of(self, edge: SavedEdge) -> int | None:
        """Return the current version of a saved tensor, or the one at which backward freed it."""
        if edge.id in self.freed:
            return self.freed[edge.id]
        counter = self._counter(edge)
        if counter in self.versions:
            return self.versions[counter]
        return edge.version_now if edge.id in self.harmed else edge.saved_version

    def is_reached(self, node: int) -> bool:
        """Return whether backward reaches the node in this run; True if the run does not call backward."""
        return not self.recording.backward or node in self._reached

    def condition(self, edge: SavedEdge) -> Literal["", "stale", "silent", "freed"]:
        """Return the condition of a saved tensor.

        "" means unchanged; "stale" is at another version, so that backward raises an error; "silent" has other values
        at the same version; "freed" was freed by backward.
        """
        if self.version_of(edge) != edge.saved_version:
            return "stale"
        if any(write.bytes_changed for write in self.harmed.get(edge.id, ())):
            return "silent"
        return "freed" if edge.id in self.freed else ""
