"""Information on a whole run that is needed before drawing: the block of each tensor, and its maximum width."""

from __future__ import annotations

from dataclasses import dataclass, field

from autograder.locale.line_breaks import columns
from autograder.tape.recording.schema import Recording, SavedEdge, TensorState
from autograder.view.playback import Playback
from autograder.view.shapes import Key
from autograder.view.text.naming import TensorNames, layer_names


@dataclass
class RecordingIndex:
    """Look-up tables for a whole recording."""

    playback: Playback  # the playback of the recording
    block_of: dict[int, Key] = field(default_factory=dict)  # saved edge → the block that shows its tensor, if any
    leaves: dict[int, int] = field(default_factory=dict)  # AccumulateGrad node → its leaf
    accumulators: dict[int, int] = field(default_factory=dict)  # leaf → its AccumulateGrad node
    names: dict[Key, str] = field(default_factory=dict)  # block → the longest name that its tensor ever has
    values: dict[Key, int] = field(default_factory=dict)  # block → columns of its longest values
    saved_names: dict[int, str] = field(default_factory=dict)  # saved edge → the name of its tensor when it was saved
    counters: dict[int, int] = field(default_factory=dict)  # version counter → its index in order of appearance
    harmed: set[int] = field(default_factory=set)  # saved edges whose tensor was modified by at least one harmful write
    # the modified saved edges that explain the outcome, the decisive one first, then the other harmed ones
    focus: list[int] = field(default_factory=list)
    # node that backward visited → lines of its gradients, and columns of the longest one
    gradients: dict[int, tuple[int, int]] = field(default_factory=dict)
    # the nodes that some frame shows; nodes that a check creates around an answer do not belong to a step
    shown: set[int] = field(default_factory=set)
    # node → the module whose parameters it uses, such as "critic.0"
    layers: dict[int, str] = field(default_factory=dict)

    @property
    def recording(self) -> Recording:
        """The recording that is drawn."""
        return self.playback.recording


def index_recording(recording: Recording) -> RecordingIndex:
    """Return the index, built from one pass over all frames."""
    index = RecordingIndex(Playback(recording), layers=layer_names(recording))
    for tensor in recording.tensors:
        index.counters.setdefault(tensor.counter, len(index.counters))
    for node in recording.nodes:
        if node.name.endswith("AccumulateGrad") and node.tensor is not None:
            index.leaves[node.id] = node.tensor
            index.accumulators.setdefault(node.tensor, node.id)
    for visit in recording.backward:
        lines, widest = index.gradients.get(visit.node, (1, 0))
        lines = 2 if visit.is_wrong else lines
        index.gradients[visit.node] = (lines, max(widest, columns(visit.got), columns(visit.true)))
    names = TensorNames(index.playback)
    for frame, changed in index.playback.play():
        index.shown |= changed.nodes
        if frame.step is None:
            continue
        for write in frame.step.writes:
            index.harmed.update(write.harmed)
        for number in changed.tensors:
            _add_state(index, index.playback.states.get(number), names)
        for edge in frame.step.saved:
            _add_edge(index, index.playback.saved[edge], names)
    edges = [harm.edge for harm in recording.verdict.harms if harm.edge in index.playback.saved]
    nodes = {edge: index.playback.saved[edge].node for edge in index.harmed}
    reached = sorted(nodes, key=lambda edge: (not index.playback.is_reached(nodes[edge]), edge))
    index.focus = list(dict.fromkeys(edge for edge in [*edges, *reached] if edge is not None))
    return index


def _block_of(state: TensorState) -> Key:
    """Return the block that shows a tensor in this state: that of the node that computed it, or its own."""
    return Key("tensor", state.tensor) if state.node is None else Key("node", state.node)


def _add_state(index: RecordingIndex, state: TensorState | None, names: TensorNames) -> None:
    if state is None:
        return
    block, name = _block_of(state), names.label(state.tensor)
    # The blocks of the nodes that computed the tensor earlier show its name too.
    earlier = (Key("node", node) for node in index.playback.grad_fns_of.get(state.tensor, ()))
    for shown in (block, *earlier):
        if columns(name) >= columns(index.names.get(shown, "")):
            index.names[shown] = name
    index.values[block] = max(index.values.get(block, 0), columns(state.values))


def _add_edge(index: RecordingIndex, edge: SavedEdge, names: TensorNames) -> None:
    """Add the name of a saved tensor, and the block that shows it, at the frame that saved it."""
    index.saved_names[edge.id] = names.label(edge.tensor)
    state = index.playback.states.get(edge.tensor) if edge.tensor is not None else None
    if state is not None:
        index.block_of[edge.id] = _block_of(state)
