"""The changes of the drawings in a frame: the new class name of a part, or the new words of a text."""

from __future__ import annotations

from autograder.locale.translations import translated
from autograder.tape.recording.schema import BackwardStep, Recording, SavedEdge
from autograder.tape.recording.verdict_types import Place
from autograder.view.playback import ChangeSet, Frame, Playback, lines_named_by_check
from autograder.view.scene.blocks import LONGEST as LONGEST_NAME
from autograder.view.scene.blocks import counter_mark
from autograder.view.scene.memory_lanes import value_columns
from autograder.view.scene.node_graph import NodeGraph
from autograder.view.scene.recording_index import RecordingIndex
from autograder.view.shapes import Key, clip
from autograder.view.text.sentences import Sentences

LONGEST, LONGEST_ALIAS = 28, 22
"""The maximum number of columns of the values in a block, and of the name in the memory pane."""

States = dict[Key, str]


class StateTracker:
    """Follows a playback, and returns the new states after each frame."""

    def __init__(self, recording: Recording, index: RecordingIndex, graph: NodeGraph):
        self.playback, self.index, self.graph = Playback(recording), index, graph
        self.sentences = Sentences(self.playback)
        self.versions: dict[Key, int | None] = {}  # key of a version's text → its count; None without a counter
        self._saved_values: dict[int, str] = {}
        self._programs = {program.file: i for i, program in enumerate(recording.programs)}
        self._line_marks: dict[Key, set[str]] = {}

    def changes(self, frame: Frame, changed: ChangeSet) -> States:
        """Return the state of every part that the frame may have changed."""
        new: States = {}
        for tensor in sorted(changed.tensors):
            new |= self._tensor(tensor)
        for node in sorted(changed.nodes):
            new |= self._node(node)
        for edge in sorted(changed.edges):
            new |= self._edge(self.playback.saved[edge])
        for storage in sorted(changed.storages):
            new |= self._storage(storage, frame)
        if frame.visit:
            new |= self._gradient(frame.visit)
        return new | self._code(frame)

    def line_key(self, place: Place) -> Key:
        """Return the key of a line of code."""
        return Key("line", place.line, program=self._programs.get(place.file, 0))

    def _version(self, key: Key, tensor: int) -> States:
        """Return the version of a part's tensor: the counter's symbol and its value."""
        known = self.playback.tensors[tensor]
        count = self.versions[key.text("version")] = self.playback.versions.get(known.counter)
        mark = counter_mark(self.index.counters[known.counter])
        return {key.text("version"): f"{mark} {'–' if count is None else f'v{count}'}"}

    def _tensor(self, tensor: int) -> States:
        """Return the states of a tensor in the memory pane and, if it has no node, of its own block."""
        state = self.playback.states.get(tensor)
        if state is None:
            return {}
        alias, block = Key("alias", tensor), Key("tensor", tensor)
        name = self.sentences.names.label(tensor)
        is_gone = self.playback.last_names.get(tensor) and tensor not in self.playback.names.values()
        alive = "on gone" if is_gone else "on"
        short = clip(name, LONGEST_ALIAS)
        new = {alias: alive, alias.text("name"): short}
        new |= {alias.text("values"): clip(state.values, value_columns(short))} | self._version(alias, tensor)
        if state.node is None:
            new |= {block: alive + self._visited(self.index.accumulators.get(tensor))}
            new |= {block.text("name"): clip(name, LONGEST_NAME), block.text("values"): clip(state.values, LONGEST)}
            new |= self._version(block, tensor)
        return new

    def _node(self, node: int) -> States:
        """Return the states of a node, of its tensor, and of the folds around it."""
        if node in self.index.leaves:
            leaf = self.index.leaves[node]
            return {Key("tensor", leaf): "on" + self._visited(node)} if leaf in self.playback.states else {}
        made, block = self.playback.made.get(node), Key("node", node)
        state = "on" + self._visited(node)
        new: States = {Key("fold", view): state for view in self.graph.folds_around.get(node, ())}
        if made and (later := self.playback.states[made.tensor].node) != node:
            state += " past"
            name = clip(self.sentences.names.label(made.tensor), LONGEST_NAME // 2)
            other = self.playback.nodes[later].name if later is not None else translated("no node")
            new |= {block.text("name"): "", block.text("values"): clip(f"{name} → {other}", LONGEST)}
        elif made:
            new[block.text("name")] = clip(self.sentences.names.label(made.tensor), LONGEST_NAME)
            new[block.text("values")] = clip(made.values, LONGEST)
            new |= self._version(block, made.tensor)
        return new | {block: state}

    def _visited(self, node: int | None) -> str:
        """Return the state of a node after backward: "", " passed", " wrong" or " raised"."""
        visit = self.playback.visits.get(node) if node is not None else None
        if visit is None:
            return ""
        if visit.status == "raised":
            return " raised"
        return " wrong" if visit.is_wrong else " passed"

    def _edge(self, edge: SavedEdge) -> States:
        """Return the states of a saved tensor: its versions when saved and now, and the change of its values."""
        condition, key = self.playback.condition(edge), Key("saved", edge.id)
        values = self.playback.states[edge.tensor].values if edge.tensor in self.playback.states else ""
        before = self._saved_values.setdefault(edge.id, values)
        new = {key: f"on {condition}".strip(), key.text("versions"): self._versions(edge)}
        if edge.id in self.index.harmed:
            differs = before != values and condition in ("stale", "silent")
            became = {"before": clip(before, 13), "after": clip(values, 13)}
            text = translated("{before} became {after}", **became)
            new[key.text("change")] = text if differs else clip(before, LONGEST)
        return new

    def _versions(self, edge: SavedEdge) -> str:
        """Return the versions of a saved tensor when it was saved and now."""
        if edge.saved_version is None:
            return translated("has no counter")
        if self.playback.condition(edge) == "freed":
            return translated("freed")
        now = self.playback.version_of(edge)
        return translated("saved v{saved}, now v{version}", saved=edge.saved_version, version=now)

    def _storage(self, storage: int, frame: Frame) -> States:
        """Return the states of a storage: whether the frame wrote harmfully into it, and whether a counter counted the write."""
        key = Key("memory", storage)
        writes = [write for write in frame.step.writes if write.storage == storage] if frame.step else []
        tensors = (self.playback.tensors[tensor] for tensor in self.playback.in_storage.get(storage, ()))
        mark = counter_mark(min((self.index.counters[tensor.counter] for tensor in tensors), default=0))
        if any(not write.counters or any(map(self._is_silent, write.harmed)) for write in writes):
            return {key: "on unseen", key.text("note"): translated("bytes changed; {mark} did not count it", mark=mark)}
        if any(write.harmed for write in writes):
            note = translated("written after it was saved; {mark} counted it", mark=mark)
            return {key: "on hit", key.text("note"): note}
        return {key: "on"}

    def _is_silent(self, edge: int) -> bool:
        """Return whether a saved tensor changed without a change of its counter."""
        return self.playback.condition(self.playback.saved[edge]) == "silent"

    def _gradient(self, visit: BackwardStep) -> States:
        """Return backward's gradient at the visited node, and the right one if it differs."""
        got, right = Key("got", visit.node), Key("right", visit.node)
        if visit.status == "raised":
            return {Key("stop", visit.node): translated("backward stops here"), got: "", right: ""}
        fits = self.graph.capacity.get(visit.node, LONGEST)
        if not visit.is_wrong:
            return {got: "", right: clip(translated("grad {got}", got=visit.got), fits)}
        new = {got: clip(translated("got {got}", got=visit.got), fits)}
        return new | {right: clip(translated("right {right}", right=visit.true), fits)}

    def _code(self, frame: Frame) -> States:
        """Return the marks in the code: lines that saved, lines that modified saved tensors, the line that failed."""
        if frame.step is None:
            return {}
        step, error = frame.step, self.playback.recording.verdict.error
        marks = [(self.playback.saved[edge].place or step.place, "saved") for edge in step.saved]
        for write in step.writes:
            if write.harmed:
                marks.append((write.place, "unseen" if any(map(self._is_silent, write.harmed)) else "hit"))
        if error and step is self.playback.recording.steps[-1] and error.is_at(step.place):
            marks.append((step.place, "failed"))
        if named := lines_named_by_check(self.playback.recording).get(step.place):
            marks.append((step.place, named.mark))
        new: States = {}
        for place, mark in marks:
            key = self.line_key(place)
            self._line_marks.setdefault(key, set()).add(mark)
            new[key] = " ".join(sorted(self._line_marks[key]))
        return new
