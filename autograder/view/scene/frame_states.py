"""What a frame changes in the drawings: key → class name, or the text of a text element.

The keys: n node, t tensor without a node, f fold, e saved edge, m tensor in memory, s piece of memory, b and r backward's
gradient that came and the right one, x where it stops, l line of code. A letter after the number is a text inside: n name,
v values, c counter, t versions, w what became of the values.
"""

from __future__ import annotations

from autograder.tape.recording.schema import Recording, SavedEdge
from autograder.view.playback import Frame, Playback, Touched
from autograder.view.scene.blocks import Facts, mark
from autograder.view.scene.memory_lanes import room
from autograder.view.scene.node_graph import NodeGraph
from autograder.view.shapes import clip
from autograder.view.text.sentences import Sentences

LONGEST = 28


class States:
    """Follows a playback and says after each frame what looks different."""

    def __init__(self, recording: Recording, facts: Facts, graph: NodeGraph):
        """Starts before the first frame."""
        self.now, self.facts, self.graph = Playback(recording), facts, graph
        self.words = Sentences(self.now)
        self._saved_values: dict[int, str] = {}
        self._lines = {program.file: i for i, program in enumerate(recording.programs)}
        self._marks: dict[str, set[str]] = {}
        self._leaf_nodes = {leaf: node for node, leaf in facts.fills.items()}

    def changes(self, frame: Frame, touched: Touched) -> dict[str, str]:
        """Returns the new state of every key that the frame touched."""
        new: dict[str, str] = {}
        for tensor in sorted(touched.tensors):
            new |= self._tensor(tensor)
        for node in sorted(touched.nodes):
            new |= self._node(node)
        for edge in sorted(touched.edges):
            new |= self._edge(self.now.saved[edge])
        for storage in sorted(touched.storages):
            new |= self._storage(storage, frame)
        if frame.visit:
            new |= self._gradient(frame)
        return new | self._code(frame)

    def _version(self, tensor: int) -> str:
        """Returns a counter as drawn: its mark and its count."""
        known = self.now.tensors[tensor]
        version = self.now.versions.get(known.counter)
        return f"{mark(self.facts.family(known))} {'–' if version is None else f'v{version}'}"

    def _tensor(self, tensor: int) -> dict[str, str]:
        """Returns the state of a tensor, in memory and in its own block or its node's."""
        state = self.now.states.get(tensor)
        if state is None:
            return {}
        shown = self.words.names.label(tensor)
        gone = "on" if self.now.alive(tensor) or not self.now.called.get(tensor) else "on gone"
        new = {
            f"m{tensor}": gone,
            f"m{tensor}n": clip(shown, 22),
            f"m{tensor}v": clip(state.values, room(clip(shown, 22))),
            f"m{tensor}c": self._version(tensor),
        }
        if state.node is None:
            block = f"t{tensor}"
            new |= {block: gone + self._visited(self._leaf_nodes.get(tensor)), f"{block}n": clip(shown, 24)}
            new |= {f"{block}v": clip(state.values, LONGEST), f"{block}c": self._version(tensor)}
        return new

    def _node(self, node: int) -> dict[str, str]:
        """Returns the state of a node, its tensor, and the folds around it."""
        if node in self.facts.fills:
            leaf = self.facts.fills[node]
            return {f"t{leaf}": "on" + self._visited(node)} if leaf in self.now.states else {}
        made = self.now.made.get(node)
        block = f"n{node}"
        state = "on" + self._visited(node)
        new: dict[str, str] = {f"f{fold}": state for fold in self.graph.inside.get(node, ())}
        if made:
            latest = self.now.states[made.tensor]
            state += "" if latest.node == node else " past"
            new |= {f"{block}n": clip(self.words.names.label(made.tensor), 24)}
            new |= {f"{block}v": clip(made.values, LONGEST), f"{block}c": self._version(made.tensor)}
        return new | {block: state}

    def _visited(self, node: int | None) -> str:
        """Returns how backward left a node: "", " passed", " wrong" or " raised"."""
        visit = self.now.visits.get(node) if node is not None else None
        if visit is None:
            return ""
        if visit.status == "raised":
            return " raised"
        return " wrong" if visit.true and visit.got != visit.true else " passed"

    def _edge(self, edge: SavedEdge) -> dict[str, str]:
        """Returns the state of a saved tensor: the versions then and now, and what became of the values."""
        condition, key = self.now.condition(edge), f"e{edge.id}"
        values = self.now.states[edge.tensor].values if edge.tensor in self.now.states else ""
        before = self._saved_values.setdefault(edge.id, values)
        said = f"saved v{edge.saved_version}, now v{self.now.version_of(edge)}"
        if edge.saved_version is None:
            said = "has no counter"
        elif condition == "freed":
            said = "let go"
        new = {key: f"on {condition}".strip(), f"{key}t": said}
        if edge.id in self.facts.harmed:
            changed = before != values and condition in ("stale", "silent")
            new[f"{key}w"] = f"{clip(before, 13)} became {clip(values, 13)}" if changed else clip(before, LONGEST)
        return new

    def _storage(self, storage: int, frame: Frame) -> dict[str, str]:
        """Returns the state of a piece of memory: written, and whether a counter saw it."""
        new = {f"s{storage}": "on"}
        writes = [write for write in frame.step.writes if write.storage == storage] if frame.step else []
        sign = mark(
            min((self.facts.family(self.now.tensors[t]) for t in self.now.in_storage.get(storage, ())), default=0)
        )
        if any(not w.counters or any(map(self._silent, w.harmed)) for w in writes):
            return {f"s{storage}": "on unseen", f"s{storage}t": f"bytes changed; {sign} did not count it"}
        if any(write.harmed for write in writes):
            return {f"s{storage}": "on hit", f"s{storage}t": f"written after it was saved; {sign} counted it"}
        return new

    def _silent(self, edge: int) -> bool:
        """Returns whether a saved tensor changed without a trace."""
        return self.now.condition(self.now.saved[edge]) == "silent"

    def _gradient(self, frame: Frame) -> dict[str, str]:
        """Returns backward's gradient at the node it visits, and the right one where it differs."""
        assert frame.visit
        visit = frame.visit
        if visit.status == "raised":
            return {f"x{visit.node}": "backward stops here", f"b{visit.node}": "", f"r{visit.node}": ""}
        wrong = bool(visit.true) and visit.got != visit.true
        fits = min(self.graph.room.get(visit.node, LONGEST), LONGEST + 6)
        new = {f"b{visit.node}": clip(f"got {visit.got}", fits) if wrong else ""}
        return new | {f"r{visit.node}": clip(f"right {visit.true}" if wrong else f"grad {visit.got}", fits)}

    def _code(self, frame: Frame) -> dict[str, str]:
        """Returns the marks in the code: lines that saved, and lines that wrote what was saved."""
        new: dict[str, str] = {}
        if frame.kind != "step" or not frame.step:
            return new
        error = self.now.recording.verdict.error
        stops = error and frame.step is self.now.recording.steps[-1] and error.line == frame.step.place.line
        for place, said in [
            *([(frame.step.place, "failed")] if stops else []),
            *((self.now.saved[e].place or frame.step.place, "saved") for e in frame.step.saved),
            *(
                (w.place, "unseen" if any(map(self._silent, w.harmed)) else "hit")
                for w in frame.step.writes
                if w.harmed
            ),
        ]:
            key = f"l{self._lines.get(place.file, 0)}.{place.line}"
            self._marks.setdefault(key, set()).add(said)
            new[key] = " ".join(sorted(self._marks[key]))
        return new
