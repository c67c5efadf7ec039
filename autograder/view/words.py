"""The sentences: what a frame did, and what follows from it, in plain English."""

from __future__ import annotations

from autograder.tape.recording import Outcome, Recording, SavedEdge, Step, Write
from autograder.view.gradients import is_wrong
from autograder.view.playback import Frame, Playback
from autograder.view.shapes import clip

MEANING: dict[Outcome, str] = {
    "raises-forward": "a line of the program stops with an error",
    "raises-backward": "backward() stops with an error",
    "correct": "the gradients are right",
    "silently-wrong": "no error, but a gradient is wrong",
}

FORECAST: dict[Outcome, str] = {
    "raises-forward": "raises",
    "raises-backward": "raises",
    "correct": "right",
    "silently-wrong": "silently wrong",
}

MOST = 3
"""Harmed saved tensors that one sentence names."""

NAMELESS = "a tensor without a name"


def listed(things: list[str]) -> str:
    """Returns "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def times(count: int, one: str, many: str) -> str:
    """Returns the count with its noun."""
    return f"{count} {one if count == 1 else many}"


class Words:
    """Says what happened in the frame that a playback has just played."""

    def __init__(self, playback: Playback):
        """Reads names, versions and the graph from `playback`."""
        self.now = playback

    def name(self, tensor: int | None) -> str:
        """Returns what the learner calls a tensor."""
        if tensor is None or tensor not in self.now.tensors:
            return NAMELESS
        if self.now.called.get(tensor):
            return self.now.called[tensor]
        known = self.now.tensors[tensor]
        near = sorted(self.now.in_storage.get(known.storage, ()))
        owner = next((self.now.called[other] for other in near if self.now.called.get(other)), None)
        if owner:
            return f"{owner}.data" if known.alias_of == "data" else f"a view of {owner}"
        return NAMELESS

    def _error(self, most: int) -> str:
        """Returns PyTorch's own message without its hint about anomaly mode."""
        error = self.now.recording.verdict.error
        return clip(error.message.split(" Hint: ")[0], most) if error else ""

    def called(self, tensor: int | None) -> str:
        """Returns the name as a label: "(no name)" where there is none."""
        name = self.name(tensor)
        return "(no name)" if name == NAMELESS else name

    def fact(self, frame: Frame) -> str:
        """Returns what the frame did."""
        if frame.kind == "end":
            return self._verdict()
        if frame.kind == "visit":
            return self._visit(frame)
        assert frame.step
        step = frame.step
        said = [self._made(step), *map(self._write, step.writes), self._nodes(step), self._rebased(step)]
        said = [part for part in [*said, self._freed(step)] if part]
        return " ".join([f"Line {frame.step.place.line} runs.", *said] if said else [self._nothing(frame.step)])

    def effect(self, frame: Frame) -> str:
        """Returns what follows for backward; hidden while the learner predicts."""
        if frame.kind != "step" or not frame.step:
            return ""
        hurt = dict.fromkeys(edge for write in frame.step.writes for edge in write.harmed)
        said = list(dict.fromkeys(self._harm(self.now.saved[edge]) for edge in hurt))
        more = [f"So do {len(said) - MOST} more."] if len(said) > MOST else []
        return " ".join(said[:MOST] + more)

    def _nothing(self, step: Step) -> str:
        """Returns the sentence of a statement that changed no tensor."""
        error = self.now.recording.verdict.error
        if error and error.line == step.place.line and step is self.now.recording.steps[-1]:
            return f"Line {step.place.line} stops: {self._error(240)}"
        return f"Line {step.place.line} runs. No tensor changes."

    def _made(self, step: Step) -> str:
        """Returns who got a name, which node remembers it, and what that node keeps."""
        said = []
        for change in step.names:
            if change.tensor is None:
                said.append(f"{change.name} no longer names a tensor; what the graph holds stays.")
                continue
            state = self.now.states.get(change.tensor)
            new = change.tensor in step.tensors
            said.append(f"{change.name} {'is' if new else 'now names'} {state.values if state else 'a tensor'}.")
            said.append(self._shares(change.name, change.tensor) if new else "")
        return " ".join(filter(None, said))

    def _shares(self, name: str, tensor: int) -> str:
        """Returns whose memory and whose counter a new tensor shares."""
        known = self.now.tensors[tensor]
        others = [other for other in self.now.names if other != name and self._lies_in(other, known.storage)]
        if not others:
            return ""
        same = [other for other in others if self.now.tensors[self.now.names[other]].counter == known.counter]
        if same:
            return f"It shares memory and version counter with {listed(same)}."
        return f"It shares memory with {listed(others)}, but has a version counter of its own."

    def _lies_in(self, name: str, storage: int) -> bool:
        """Returns whether a variable's tensor lies in a piece of memory."""
        return self.now.tensors[self.now.names[name]].storage == storage

    def _nodes(self, step: Step) -> str:
        """Returns which nodes joined the graph, and what they keep."""
        nodes = [node for node in step.nodes if not self.now.nodes[node].name.endswith("AccumulateGrad")]
        kept = {node: self._kept(node, step) for node in nodes}
        told = [f"{self.now.nodes[node].name} keeps {things}" for node, things in kept.items() if things]
        if len(nodes) == 1:
            name, things = self.now.nodes[nodes[0]].name, kept[nodes[0]]
            return f"{name} joins the graph and keeps {things or 'no tensor'}{' for backward' if things else ''}."
        if not nodes:
            return ""
        if not told and len(nodes) <= MOST:
            return f"{listed([self.now.nodes[node].name for node in nodes])} join the graph and keep no tensor."
        rest = [f"{len(told) - MOST} more keep tensors too"] if len(told) > MOST else []
        silent = [times(len(nodes) - len(told), "keeps", "keep") + " no tensor"] if len(told) < len(nodes) else []
        return f"{len(nodes)} nodes join the graph: {'; '.join([*told[:MOST], *rest, *silent])}."

    def _rebased(self, step: Step) -> str:
        """Returns which tensors an in-place write gave another maker: their history was rebased."""
        moved = [s for s in step.states if s.node in step.nodes and s.tensor not in step.tensors and s.node is not None]
        said = [
            f"{self.name(s.tensor)} now comes from {self.now.nodes[s.node].name}" for s in moved if s.node is not None
        ]
        return f"{listed(said)}." if said else ""

    def _kept(self, node: int, step: Step) -> str:
        """Returns what a new node keeps: "d and w2 at version 0", or nothing."""
        edges = [self.now.saved[edge] for edge in step.saved if self.now.saved[edge].node == node]
        things = dict.fromkeys(f"{self.name(edge.tensor)}{self._at(edge.saved_version)}" for edge in edges)
        return listed(list(things))

    def _at(self, version: int | None) -> str:
        """Returns " at version 0", or nothing where no counter counts."""
        return "" if version is None else f" at version {version}"

    def _write(self, write: Write) -> str:
        """Returns what a write did to bytes and counters."""
        target = write.through or self.name(write.tensor)
        owners = [name for name in self._names_in(write.storage) if name != target]
        said = f"It writes into {target}" + (f", the same memory as {listed(owners)}" if owners else "") + "."
        if not write.counters:
            return f"{said} The bytes change, but no version counter moves: autograd cannot see this write."
        counted = [f"{name} is now at version {version}" for name, version in self._counts(write)]
        said = f"{said} {listed(counted)}." if counted else said
        blind = [edge for edge in write.harmed if self.now.condition(self.now.saved[edge]) == "silent"]
        if blind:
            return f"{said} That is another counter than the one that autograd checks: it cannot see this write."
        return (
            said
            if write.bytes_changed
            else f"{said} No value is different, but the counter counts writes, not changes."
        )

    def _names_in(self, storage: int) -> list[str]:
        """Returns the variables whose tensors lie in a piece of memory."""
        return [name for name in self.now.names if self._lies_in(name, storage)]

    def _counts(self, write: Write) -> list[tuple[str, int | None]]:
        """Returns one name and the count for each counter that a write moved."""
        found = []
        for counter in write.counters:
            called = [self.name(tensor) for tensor in sorted(self.now.family.get(counter, ()))]
            named = [name for name in called if not name.startswith("a ")] or [write.through or "it"]
            found.append((named[0], self.now.versions.get(counter)))
        return found

    def _harm(self, edge: SavedEdge) -> str:
        """Returns what a harmed saved tensor means for backward."""
        keeper = self.now.nodes[edge.node]
        line = f" (line {keeper.place.line})" if keeper.place else ""
        said = f"{keeper.name}{line} keeps {self.name(edge.tensor)}"
        version = self.now.version_of(edge)
        if self.now.condition(edge) == "stale":
            return f"{said} from version {edge.saved_version}, and it is now at version {version}: backward will refuse it."
        return (
            f"{said}; its values are no longer those that were saved, and its version is still {version}: "
            "the check will pass and the gradient will be wrong."
        )

    def _freed(self, step: Step) -> str:
        """Returns that backward released what the graph kept."""
        if not step.freed:
            return ""
        return f"Backward runs, and then lets go of {times(len(step.freed), 'saved tensor', 'saved tensors')}."

    def _visit(self, frame: Frame) -> str:
        """Returns what backward did at a node."""
        assert frame.visit
        visit, node = frame.visit, self.now.nodes[frame.visit.node]
        leaf = node.name.endswith("AccumulateGrad")
        who = self.name(node.tensor)
        if visit.status == "raised":
            return f"Backward reaches {node.name} and stops. {self._refusal(visit.node)}".strip()
        said = f"Backward arrives at {who}: {who}.grad gets" if leaf else f"Backward reaches {node.name} and passes on"
        if visit.got == visit.true or not visit.true:
            return f"{said} {visit.got or 'nothing'}."
        return f"{said} {visit.got or 'nothing'}; right is {visit.true}."

    def _refusal(self, node: int) -> str:
        """Returns why a node refused, or PyTorch's own words."""
        stale = [e for e in self.now.recording.saved if e.node == node and e.id in self.now.edges and e.is_stale]
        if stale:
            return " ".join(
                f"{self.name(e.tensor)} was saved at version {e.saved_version} and is at version {e.version_now}."
                for e in stale
            )
        return self._error(240)

    def _verdict(self) -> str:
        """Returns the outcome, with the leaves whose gradient is wrong."""
        verdict = self.now.recording.verdict
        said = [f"Outcome: {verdict.outcome}, {MEANING[verdict.outcome]}."]
        if verdict.error:
            said.append(f"{verdict.error.type}: {self._error(220)}")
        for name, gradient in verdict.gradients.items():
            if gradient.got is not None and is_wrong(gradient):
                said.append(f"{name}.grad is {clip(str(gradient.got), 60)}; right is {clip(str(gradient.true), 60)}.")
        proven = next((fix for fix in verdict.fixes if fix.proven), None)
        if proven:
            said.append(f"A repair that was run and proven, line {proven.line}: {clip(proven.after, 90)}")
        return " ".join(said)


def telling(recording: Recording, film: list[Frame]) -> int:
    """Returns the number of the frame that shows the point: the last write that harmed, the error, or the verdict."""
    harmful = [f.number for f in film if f.kind == "step" and f.step and any(w.harmed for w in f.step.writes)]
    if harmful:
        return harmful[-1]
    if recording.verdict.outcome == "raises-forward" and len(film) > 1:
        return film[-2].number
    return film[-1].number
