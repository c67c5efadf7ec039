"""The sentences of a frame: what happened, and what that means for backward."""

from __future__ import annotations

from autograder.tape.recording.schema import Recording, SavedEdge, Step
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.playback import Frame, Playback
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import is_wrong, short_values
from autograder.view.text.headline import headline
from autograder.view.text.naming import MOST, TensorNames, count_noun, join_few, join_names
from autograder.view.text.write_sentences import WriteSentences

FORECAST: dict[Outcome, str] = {
    "raises-forward": "raises",
    "raises-backward": "raises",
    "correct": "right",
    "silently-wrong": "silently wrong",
}


class Sentences:
    """The sentences about the frame that a playback has just played."""

    def __init__(self, playback: Playback):
        """Reads names, versions and the graph from `playback`."""
        self.playback = playback
        self.names = TensorNames(playback)
        self._writes = WriteSentences(self.names)
        self._refused = {visit.step for visit in self.playback.recording.backward if visit.status == "raised"}

    def _error(self, most: int) -> str:
        """Returns PyTorch's message without its hint at anomaly mode, cut to `most` characters at the end of a sentence."""
        error = self.playback.recording.verdict.error
        message = " ".join(error.message.split(" Hint: ")[0].split()) if error else ""
        whole = message[:most].rpartition(". ")[0] if len(message) > most else ""
        return f"{whole}." if whole else clip(message, most)

    def describe(self, frame: Frame) -> str:
        """Returns what happened in the frame."""
        if frame.kind == "end":
            return self._verdict()
        if frame.kind == "visit":
            return self._visit(frame)
        assert frame.step
        step = frame.step
        parts = [
            *self._writes.describe(step),
            *self.names.describe_changes(step),
            self._nodes(step),
            self._rebased(step),
        ]
        parts = [part for part in [*parts, self._freed(step)] if part]
        return " ".join([f"Line {frame.step.place.line} runs.", *parts] if parts else [self._nothing(frame.step)])

    def describe_effect(self, frame: Frame) -> str:
        """Returns what a harmful write means for backward; a learner who predicts does not see it. "" for other frames."""
        if frame.kind != "step" or not frame.step:
            return ""
        hurt = dict.fromkeys(edge for write in frame.step.writes for edge in write.harmed)
        parts = list(dict.fromkeys(self._harm(self.playback.saved[edge]) for edge in hurt))
        more = [f"The same holds for {len(parts) - MOST} more."] if len(parts) > MOST else []
        return " ".join(parts[:MOST] + more)

    def _nothing(self, step: Step) -> str:
        """Returns the sentence about a statement that changed no tensor."""
        error = self.playback.recording.verdict.error
        if error and error.line == step.place.line and step is self.playback.recording.steps[-1]:
            return f"Line {step.place.line} stops: {self._error(240)}"
        return f"Line {step.place.line} runs. No tensor changes."

    def _nodes(self, step: Step) -> str:
        """Returns the sentence about new nodes and what they saved for backward."""
        nodes = [node for node in step.nodes if not self.playback.nodes[node].name.endswith("AccumulateGrad")]
        kept = {node: self._kept(node, step) for node in nodes}
        keeping = [f"{self.playback.nodes[node].name} keeps {things}" for node, things in kept.items() if things]
        if len(nodes) == 1:
            name, things = self.playback.nodes[nodes[0]].name, kept[nodes[0]]
            return f"{name} joins the graph and keeps {things or 'no tensor'}{' for backward' if things else ''}."
        if not nodes:
            return ""
        if not keeping and len(nodes) <= MOST:
            return (
                f"{join_names([self.playback.nodes[node].name for node in nodes])} join the graph and keep no tensor."
            )
        rest = [f"{len(keeping) - MOST} more keep tensors too"] if len(keeping) > MOST else []
        without = (
            [count_noun(len(nodes) - len(keeping), "keeps", "keep") + " no tensor"] if len(keeping) < len(nodes) else []
        )
        return f"{len(nodes)} nodes join the graph: {'; '.join([*keeping[:MOST], *rest, *without])}."

    def _rebased(self, step: Step) -> str:
        """Returns the sentence about tensors whose history an in-place write rebased: they have another `grad_fn` now."""
        moved = [s for s in step.states if s.node in step.nodes and s.tensor not in step.tensors and s.node is not None]
        parts = [
            f"{self.names.name(s.tensor)} now comes from {self.playback.nodes[s.node].name}"
            for s in moved
            if s.node is not None
        ]
        return f"{join_names(parts)}." if parts else ""

    def _kept(self, node: int, step: Step) -> str:
        """Returns what a new node saved: "d at version 0 and w2 at version 0"; "" for nothing."""
        edges = [self.playback.saved[edge] for edge in step.saved if self.playback.saved[edge].node == node]
        return join_few(list(dict.fromkeys(map(self._thing, edges))))

    def _thing(self, edge: SavedEdge) -> str:
        """Returns a saved tensor's name, with its version where it has a counter."""
        name = self.names.name(edge.tensor)
        return name if edge.saved_version is None else f"{name} at version {edge.saved_version}"

    def _harm(self, edge: SavedEdge) -> str:
        """Returns the sentence about a harmed saved tensor."""
        keeper = self.playback.nodes[edge.node]
        line = f" (line {keeper.place.line})" if keeper.place else ""
        sentence = f"{keeper.name}{line} keeps {self.names.name(edge.tensor)}"
        version = self.playback.version_of(edge)
        if self.playback.condition(edge) == "stale":
            return f"{sentence} from version {edge.saved_version}, and it is now at version {version}: backward will refuse it."
        counted = "it has no version counter" if version is None else f"its version is still {version}"
        return (
            f"{sentence}; its values are no longer those that were saved, and {counted}: "
            "the check will pass and the gradient will be wrong."
        )

    def _freed(self, step: Step) -> str:
        """Returns the sentence about saved tensors that backward freed."""
        if not step.freed:
            return ""
        freed = count_noun(len(step.freed), "saved tensor", "saved tensors")
        if step.index in self._refused:
            return f"Backward starts, frees {freed}, and stops with an error."
        return f"Backward runs, and then frees {freed}."

    def _visit(self, frame: Frame) -> str:
        """Returns the sentence about backward's visit to a node."""
        assert frame.visit
        visit, node = frame.visit, self.playback.nodes[frame.visit.node]
        leaf = node.name.endswith("AccumulateGrad")
        who = self.names.short(node.tensor)
        if visit.status == "raised":
            return f"Backward reaches {node.name} and stops. {self._refusal(visit.node)}".strip()
        sentence = (
            f"Backward arrives at {who}: {who}.grad gets" if leaf else f"Backward reaches {node.name} and passes on"
        )
        if visit.got == visit.true or not visit.true:
            return f"{sentence} {visit.got or 'nothing'}."
        return f"{sentence} {visit.got or 'nothing'}; right is {visit.true}."

    def _refusal(self, node: int) -> str:
        """Returns why backward stops at a node: the saved tensor at another version, else PyTorch's message."""
        stale = [
            e for e in self.playback.recording.saved if e.node == node and e.id in self.playback.edges and e.is_stale
        ]
        if stale:
            parts = (
                f"{self.names.name(e.tensor)} was saved at version {e.saved_version} and is at version {e.version_now}."
                for e in stale
            )
            return " ".join(dict.fromkeys(parts))
        return self._error(240)

    def _verdict(self) -> str:
        """Returns the outcome, the error, the wrong gradients and a repair."""
        verdict = self.playback.recording.verdict
        parts = [f"Outcome: {verdict.outcome}, {headline(verdict)}."]
        if verdict.error:
            parts.append(f"{verdict.error.type}: {self._error(220)}")
        for name, gradient in verdict.gradients.items():
            if gradient.got is not None and is_wrong(gradient):
                parts.append(f"{name}.grad is {short_values(gradient.got)}; right is {short_values(gradient.true)}.")
        proven = next((fix for fix in verdict.fixes if fix.proven), None)
        if proven:
            parts.append(f"A proven repair, line {proven.line}: {clip(proven.after, 90)}")
        return " ".join(parts)


def decisive_frame(recording: Recording, frames: list[Frame]) -> int:
    """Returns the number of the frame of the last harmful write, else of the error in forward, else of the verdict."""
    writes = [f for f in frames if f.kind == "step" and f.step and f.step.writes]
    harmful = [f.number for f in writes if f.step and any(w.harmed for w in f.step.writes)]
    # A write that autograd never learned of harms no saved tensor; the verdict still names its line.
    places = {place for harm in recording.verdict.harms for place in harm.mutated_at}
    if harmful := harmful or [f.number for f in writes if f.place in places]:
        return harmful[-1]
    if recording.verdict.outcome == "raises-forward" and len(frames) > 1:
        return frames[-2].number
    return frames[-1].number
