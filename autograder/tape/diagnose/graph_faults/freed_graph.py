"""Find the cause of a second backward through a graph that the first call has freed."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.errors import message_of
from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.internals.saved_variables import FREED
from autograder.tape.observe.graph.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

KIND = "graph used again"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that created the part of the graph that an earlier call freed."""
    state, calls = evidence.state, evidence.state.flow.calls
    if FREED not in message_of(evidence.plain.error) or len(calls) < 2:
        return
    last, earlier = calls[-1], calls[:-1]
    again = {node for node in last.nodes if node is not None}
    visited = [set(nodes) for nodes in state.visited]
    if any(again & set(call.nodes) for call in earlier):
        name, made = name_of(state, last.roots, in_english("The loss")), state.graph.nodes[min(again)].place
        yield GraphFault(
            KIND,
            made,
            in_english(
                "{name} is computed here once, and {place} calls backward on it more than once.",
                name=name,
                place=line_of(last.place, made.file),
            ),
            in_english("Compute it again before each backward."),
        )
        return
    shared = _youngest_shared([state.graph.nodes[number] for number in visited[-1]], visited[:-1])
    if shared is None:
        return
    first = next((call for call, nodes in zip(earlier, visited, strict=False) if shared.id in nodes), earlier[-1])
    if first.place == last.place:
        yield _carried_fault(state, shared, first.place)
        return
    known: dict[str, object] = {
        "name": _name_of_node(state, shared),
        "place": line_of(first.place, shared.place.file), "last": line_of(last.place, shared.place.file),
    }  # fmt: skip
    sentence = in_english(
        "{name} is computed here and used by the backward of {place}, which frees its graph; "
        "the backward of {last} needs it again.", **known,
    )  # fmt: skip
    change = in_english(
        "Add the losses and call backward once, detach it in the loss that must not reach it, "
        "or pass retain_graph=True at {place}.", **known,
    )  # fmt: skip
    yield GraphFault(KIND, shared.place, sentence, change)


def _carried_fault(state: RunState, shared: GraphNode, at: Place) -> GraphFault:
    """Return the fault of a loop: the value that an iteration passes to the next, which need not be the freed node itself."""
    carried = _handed_on(state, shared) or shared
    name = _name_of_node(state, carried)
    sentence = in_english(
        "{name} is computed here, and a later round of the loop uses it again, after the backward of {place} has freed "
        "its graph.", name=name, place=line_of(at, carried.place.file),
    )  # fmt: skip
    change = in_english("Compute it again in each round, or detach it before the next one.")
    if name.replace(".", "_").isidentifier():
        change = in_english(
            "Compute it again in each round, or cut its history before the next one: `{name} = {name}.detach()`.",
            name=name,
        )
    return GraphFault(KIND, carried.place, sentence, change)


def _handed_on(state: RunState, shared: GraphNode) -> GraphNode | None:
    """Return the newest node of an earlier iteration that this iteration uses and that leads to `shared`."""
    before = state.backward_calls[-2].call if len(state.backward_calls) > 1 else -1
    stack, seen, found = [shared], {shared}, []
    while stack:
        node = stack.pop()
        if any(one.step > before for one in node.consumers):
            found.append(node)
        stack += [one for one in node.consumers if one.step <= before and one not in seen]
        seen.update(node.consumers)
    return max(found, key=lambda node: node.id, default=None)


def _name_of_node(state: RunState, node: GraphNode) -> str:
    return name_of(
        state, [state.tensors.all[node.tensor]] if node.tensor is not None else [], in_english("a part of the graph")
    )


def _youngest_shared(nodes: list[GraphNode], before: list[set[int]]) -> GraphNode | None:
    """Return the newest node that an earlier call also visited."""
    known = set().union(*before)
    shared = [node for node in nodes if node.id in known and node.inputs]
    return max(shared, key=lambda node: node.id, default=None)
