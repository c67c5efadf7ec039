"""The sentences: what a frame did, and what follows from it, in plain English."""

from __future__ import annotations

from autograder.tape.recording.schema import Recording, SavedEdge, Step
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.playback import Frame, Playback
from autograder.view.shapes import clip
from autograder.view.text.gradient_rows import is_wrong
from autograder.view.text.naming import MOST, TensorNames, few, listed, times
from autograder.view.text.write_sentences import WriteSentences

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


class Sentences:
    """Says what happened in the frame that a playback has just played."""

    def __init__(self, playback: Playback):
        """Reads names, versions and the graph from `playback`."""
        self.now = playback
        self.names = TensorNames(playback)
        self._writes = WriteSentences(self.names)
        self._refused = {visit.step for visit in self.now.recording.backward if visit.status == "raised"}

    def _error(self, most: int) -> str:
        """Returns PyTorch's own message in whole sentences, without its hint about anomaly mode."""
        error = self.now.recording.verdict.error
        said = " ".join(error.message.split(" Hint: ")[0].split()) if error else ""
        whole = said[:most].rpartition(". ")[0] if len(said) > most else ""
        return f"{whole}." if whole else clip(said, most)

    def fact(self, frame: Frame) -> str:
        """Returns what the frame did."""
        if frame.kind == "end":
            return self._verdict()
        if frame.kind == "visit":
            return self._visit(frame)
        assert frame.step
        step = frame.step
        said = [*self._writes.told(step), *self.names.changes(step), self._nodes(step), self._rebased(step)]
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
            f"{self.names.name(s.tensor)} now comes from {self.now.nodes[s.node].name}"
            for s in moved
            if s.node is not None
        ]
        return f"{listed(said)}." if said else ""

    def _kept(self, node: int, step: Step) -> str:
        """Returns what a new node keeps: "d and w2 at version 0", or nothing."""
        edges = [self.now.saved[edge] for edge in step.saved if self.now.saved[edge].node == node]
        return few(list(dict.fromkeys(map(self._thing, edges))))

    def _thing(self, edge: SavedEdge) -> str:
        """Returns a saved tensor with its version, where a counter counts."""
        name = self.names.name(edge.tensor)
        return name if edge.saved_version is None else f"{name} at version {edge.saved_version}"

    def _harm(self, edge: SavedEdge) -> str:
        """Returns what a harmed saved tensor means for backward."""
        keeper = self.now.nodes[edge.node]
        line = f" (line {keeper.place.line})" if keeper.place else ""
        said = f"{keeper.name}{line} keeps {self.names.name(edge.tensor)}"
        version = self.now.version_of(edge)
        if self.now.condition(edge) == "stale":
            return f"{said} from version {edge.saved_version}, and it is now at version {version}: backward will refuse it."
        counted = "no counter counts for it" if version is None else f"its version is still {version}"
        return (
            f"{said}; its values are no longer those that were saved, and {counted}: "
            "the check will pass and the gradient will be wrong."
        )

    def _freed(self, step: Step) -> str:
        """Returns that backward released what the graph kept."""
        if not step.freed:
            return ""
        kept = times(len(step.freed), "saved tensor", "saved tensors")
        if step.index in self._refused:
            return f"Backward begins, lets go of {kept} on its way, and stops."
        return f"Backward runs, and then lets go of {kept}."

    def _visit(self, frame: Frame) -> str:
        """Returns what backward did at a node."""
        assert frame.visit
        visit, node = frame.visit, self.now.nodes[frame.visit.node]
        leaf = node.name.endswith("AccumulateGrad")
        who = self.names.short(node.tensor)
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
            said = (
                f"{self.names.name(e.tensor)} was saved at version {e.saved_version} and is at version {e.version_now}."
                for e in stale
            )
            return " ".join(dict.fromkeys(said))
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
