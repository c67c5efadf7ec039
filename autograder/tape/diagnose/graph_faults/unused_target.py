"""Find the reason why the graph of a value does not contain the tensor whose gradient `autograd.grad` was to return."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.errors import message_of
from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import change_of, how_it_cuts, leaves_above, name_of
from autograder.tape.diagnose.graph_faults.graph_cut import NO_HISTORY
from autograder.tape.observe.gradient_flow import Slope, StartedBackward
from autograder.tape.observe.graph.nodes import GraphNode
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.observe.state import RunState
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

KIND = "target not in the graph"
UNUSED = re.compile(r"ifferentiated Tensors? .*appears? to not have been used in the graph")  # PyTorch 2.6 to 2.15


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cause of a backward call that raised because its root has no graph, or none that contains the target."""
    state, error = evidence.state, message_of(evidence.plain.error)
    if not evidence.plain.in_backward or not state.flow.calls:
        return
    call = state.flow.calls[-1]
    if NO_HISTORY in error and call.recording and call.of is not None and all(node is None for node in call.nodes):
        if not call.of.call.creates_graph:
            yield _without_graph(state, call, call.of)
        elif not call.of.gradient.requires_grad and call.of.target is not None:
            yield _constant(state, call, call.of, call.of.target)
    elif UNUSED.search(error):
        reached, nodes = _below(state, call)
        target = next((one for one in call.asked if one.id not in reached), None)
        if target is not None:
            yield _unused(state, call, target, reached, nodes)


def _below(state: RunState, call: StartedBackward) -> tuple[set[int], list[GraphNode]]:
    """Return the ids of the tensors in the graph of a call's roots, and its nodes, nearest to the roots first."""
    stack, nodes = [node for node in call.nodes if node is not None], {}
    while stack:
        number = stack.pop(0)
        if number not in nodes:
            nodes[number] = state.graph.nodes[number]
            stack.extend(below for below in nodes[number].inputs if below is not None)
    tensors = {one.id for one in state.tensors.all if one.node in nodes}
    return tensors | {node.tensor for node in nodes.values() if node.tensor is not None}, list(nodes.values())


def _unused(
    state: RunState, call: StartedBackward, target: TrackedTensor, reached: set[int], nodes: list[GraphNode]
) -> GraphFault:
    name = _plain_name(state, target, in_english("the input"))
    made = [state.tensors.all[node.tensor] for node in nodes if node.tensor is not None and node.inputs]
    named = (_plain_name(state, one) for one in (*call.roots, *made))
    root = next(filter(None, named), in_english("the output"))
    slope = call.of
    cuts = [cut for cut in state.flow.cuts.values() if cut.joined and target.id in leaves_above(state, cut)]
    if cuts:
        clause, place = how_it_cuts(cuts[-1], state), cuts[-1].place
        told = in_english(
            "{clause}; so {name}, which {place} asks for, is not in the graph of {root}.",
            clause=clause, name=name, place=line_of(call.place, place.file), root=root,
        )  # fmt: skip
        return GraphFault(KIND, place, told, change_of(cuts[-1], state))
    is_custom = any(node.is_custom for node in state.graph.nodes)
    is_second = slope is not None and slope.target is target and slope.call.creates_graph and not is_custom
    if slope is not None and is_second and (slope.gradient.id in reached or not slope.gradient.requires_grad):
        return _constant(state, call, slope, target)
    base = state.tensors.all[target.base] if target.base is not None else target.origin and target.origin[0]
    if base is not None and base.id in reached and (of := _plain_name(state, base)):
        told = in_english(
            "it asks for the gradient of a new tensor that was made from {base}, but {root} was computed from {base} itself.",
            base=of, root=root,
        )  # fmt: skip
        return GraphFault(KIND, call.place, told, in_english("Ask for the gradient of {base}, and index it.", base=of))
    told = in_english("{root} was computed without {name}, so its graph does not contain it.", root=root, name=name)
    change = in_english("Compute it from {name}, or pass allow_unused=True, which gives None for {name}.", name=name)
    return GraphFault(KIND, call.place, told, change)


def _constant(state: RunState, call: StartedBackward, first: Slope, target: TrackedTensor) -> GraphFault:
    """Return the fault of a second derivative of something linear."""
    known: dict[str, object] = {
        "slope": name_of(state, [first.gradient], in_english("the gradient")),
        "name": name_of(state, [target], in_english("the input")),
        "earlier": _of_line(first.call.place, call.place),
    }
    told = in_english(
        "{slope}, which {earlier} computed, is the derivative of something linear (or piecewise linear) in {name}: it does "
        "not depend on {name}.", **known,
    )  # fmt: skip
    change = in_english(
        "If a second derivative of zero is right, pass materialize_grads=True (it gives zeros) or allow_unused=True (it "
        "gives None)."
    )
    if all(node is None for node in call.nodes):
        change = in_english("If a second derivative of zero is right, use zeros instead of this call.")
    return GraphFault(KIND, call.place, told, change)


def _without_graph(state: RunState, call: StartedBackward, slope: Slope) -> GraphFault:
    known: dict[str, object] = {
        "slope": name_of(state, [slope.gradient], in_english("the gradient")),
        "later": _of_line(call.place, slope.call.place),
    }
    told = in_english("it computes {slope} without a graph, and {later} differentiates it again.", **known)
    return GraphFault(KIND, slope.call.place, told, in_english("Pass create_graph=True here."))


def _of_line(place: Place, other: Place) -> str:
    """Return the line of a call, or "another call of this line" if it is the same line as `other`."""
    return in_english("another call of this line") if place == other else line_of(place, other.file)


def _plain_name(state: RunState, tracked: TrackedTensor, other: str = "") -> str:
    """Return a tensor's name as it is in the program, or `other` if it has only the description of an expression."""
    name = state.name_of(tracked) or other
    return other if "…" in name else name
