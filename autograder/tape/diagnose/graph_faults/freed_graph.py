"""A graph that backward goes through a second time, after the first call has freed it."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.observe.graph.nodes import GraphNode
from autograder.tape.recording.verdict_types import GraphFault

KIND = "graph used again"
FREED = "backward through the graph a second time"  # PyTorch 2.6 to 2.15


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yields the line whose part of the graph was freed by an earlier call."""
    state, calls = evidence.state, evidence.state.flow.calls
    if FREED not in str(evidence.plain.error) or len(calls) < 2:
        return
    last, earlier = calls[-1], calls[:-1]
    again = {node for node in last.nodes if node is not None}
    visited = [set(nodes) for nodes in state.visited]
    first = next((call for call, nodes in zip(earlier, visited, strict=False) if nodes & visited[-1]), earlier[-1])
    if any(again & set(call.nodes) for call in earlier):
        name, made = name_of(state, last.roots, "The loss"), state.graph.nodes[min(again)].place
        yield GraphFault(
            KIND,
            made,
            f"{name} is computed here once, and line {last.place.line} calls backward on it more than once.",
            "Compute it again before each backward.",
        )
        return
    shared = _youngest_shared([state.graph.nodes[number] for number in visited[-1]], visited[:-1])
    if shared is None:
        return
    name = name_of(
        state, [state.tensors.all[shared.tensor]] if shared.tensor is not None else [], "a part of the graph"
    )
    sentence = f"{name} is computed here and used by the backward of line {first.place.line}, which frees its graph; "
    if first.place == last.place:
        sentence += "a later round of the loop uses it again."
        state_name = name if name.isidentifier() else "state"
        change = f"Detach what one round hands to the next: `{state_name} = {state_name}.detach()`."
    else:
        sentence += f"the backward of line {last.place.line} needs it again."
        change = (
            "Add the losses and call backward once, detach it for the loss that is not to reach it, "
            f"or pass retain_graph=True at line {first.place.line}."
        )
    yield GraphFault(KIND, shared.place, sentence, change)


def _youngest_shared(nodes: list[GraphNode], before: list[set[int]]) -> GraphNode | None:
    """Returns the last node that an earlier call went through, too."""
    known = set().union(*before)
    shared = [node for node in nodes if node.id in known and node.inputs]
    return max(shared, key=lambda node: node.id, default=None)
