"""Find values that carry the graph of an earlier backward call into a later one: freed, modified, or older than a step."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import fault_kind, name_of, variables_at
from autograder.tape.internals.tensor_fields import FREED
from autograder.tape.observe.gradient_flow import StartedBackward
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import WriteEvent
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

MODIFIED = "modified by an inplace operation"  # in PyTorch's message, 2.6 to 2.15
BETWEEN_LOSSES = "backward.freed_between_losses"  # id of the sentence on a value of two losses in one iteration


@fault_kind("graph used again")
def freed_graph(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the value or line that brings the graph of an earlier call into a call that raised an error."""
    error = evidence.error_message
    if MODIFIED in error:
        yield from _modified_graph(evidence)
    elif FREED in error:
        yield from _freed_graph(evidence)
    elif evidence.outcome == "correct":
        yield from _stale_graphs(evidence.state)


def _stale_graphs(state: RunState) -> Iterator[GraphFault]:
    """Yield the values whose graph a line's backward calls visit before and after a step that updated parameters below them."""
    calls, steps = state.flow.calls, state.flow.steps.calls
    for place in dict.fromkeys(call.place for call in calls):
        numbers = [number for number, call in enumerate(calls) if call.place == place]
        for first, later in zip(numbers, numbers[1:], strict=False):
            updated = {tracked.id for step, held in steps if first < step <= later for tracked in held}
            shared = _youngest_shared(state, calls[later], [calls[first]]) if updated else None
            if shared and updated & state.graph.leaves_below([shared.id]):
                yield _carried_fault(state, shared, place, STALE)
                break


def _freed_graph(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that created the part of the graph that an earlier call freed."""
    state, calls = evidence.state, evidence.state.flow.calls
    freeing = [call for call in calls[:-1] if not call.keeps_graph]
    if not freeing:
        return
    last = calls[-1]
    again = {node for node in last.nodes if node is not None}
    if any(again & set(call.nodes) for call in freeing):
        made = state.graph.nodes[min(again)].place
        yield freed_graph.at(
            made,
            "backward.called_again|{name} is computed here once, and {place} calls backward on it again.",
            "backward.compute_before_each|Compute it again before each backward.",
            name=name_of(state, last.roots, Message("backward.the_loss|The loss")), place=line_of(last.place, made.file),
        )  # fmt: skip
        return
    shared = _youngest_shared(state, last, freeing)
    if shared is None:
        return
    first = next(call for call in freeing if shared.id in call.graph.visited)
    begun = first.graph.step
    # Of losses that were all computed before, such as in `for loss in losses: loss.backward()`, no iteration passes on a value.
    is_carried = any(shared.step <= step <= begun for step in _rounds(state, last.place))
    if is_carried and any(state.graph.nodes[node].step > begun for node in again):
        visited = set[int]().union(*(call.graph.visited for call in freeing)).intersection(last.graph.visited)
        for node in _carried_nodes(state, [state.graph.nodes[number] for number in visited]) or [shared]:
            yield _carried_fault(state, node, first.place, FREED_IN_LOOP)
    else:
        yield _freed_between_losses(state, shared, first, last)


def _freed_between_losses(
    state: RunState, shared: GraphNode, first: StartedBackward, last: StartedBackward
) -> GraphFault:
    """Return the fault of two losses that use a node, whose graph the backward of the first one freed."""
    made, write = _named_at(state, shared), _modified_below(state, shared)
    if last.of is not None and last.of.call is first:
        return freed_graph.at(
            first.place,
            "backward.slope_freed|it frees the graph of {name}, and the backward of {last}, whose loss is computed from "
            "the result of this line, needs it again.",
            "target.graph|Pass create_graph=True here.",
            name=_name_of_node(state, shared), last=line_of(last.place, first.place.file),
        )  # fmt: skip
    change = (
        "backward.add_losses|Add the losses and call backward once, detach it in the loss that must not reach it, "
        "or pass retain_graph=True at {place}."
    )
    if write is not None:
        change = (
            "change.freed_graph.modified|Compute it again after {line}, which modified a tensor that its graph saved, or "
            "detach it in the loss that must not reach it."
        )
    return freed_graph.at(
        made,
        "backward.freed_between_losses|{name} is computed here and used by the backward of {place}, which frees its "
        "graph; the backward of {last} needs it again.",
        change,
        name=_name_of_node(state, shared), place=line_of(first.place, made.file), last=line_of(last.place, made.file),
        line=line_of(write.place, made.file) if write else "",
    )  # fmt: skip


def _named_at(state: RunState, node: GraphNode) -> Place:
    """Return the statement that called the function with a node's line and gave its tensor the outermost name, else that line."""
    tensor = state.tensors.all[node.tensor] if node.tensor is not None else None
    if tensor is not None:
        steps = (step for step in state.finished_steps[node.step :] if step.depth <= tensor.name_depth)
        caller = next(steps, None)
        if caller and caller.place and any(change.tensor == tensor.id for change in caller.names):
            return caller.place
    return node.place


def _modified_below(state: RunState, top: GraphNode) -> WriteEvent | None:
    """Return the last modification of a tensor that the graph of a node saved, which a kept graph would raise an error for."""
    below = state.graph.below([top.id])
    saved = [save for save in state.graph.saves if save.node.id in below]
    later = ((save, write) for save in saved for write in state.writes[save.writes_before :])
    modified = (write for save, write in later if save.counter in write.counters)
    return max(modified, key=lambda write: write.index, default=None)


def _modified_graph(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the value that carries the graph of an earlier iteration, if backward raised an error at a modified tensor of it."""
    state, calls = evidence.state, evidence.state.flow.calls
    call = _last_round(state)
    if call < 0:
        return
    repeated = {node.place for node in state.graph.nodes if node.step > call}  # lines of the loop, and not above it
    for node in [state.graph.nodes[number] for number in evidence.raised_nodes if number is not None]:
        write, carried = _modified_below(state, node), _carried_node(state, node) or node
        # Another network of the same class may run the node's line in the loop.
        if node.step <= call and {node.place, carried.place} <= repeated and write is not None:
            yield _carried_fault(state, node, calls[-1].place, MODIFIED_IN_LOOP, write.place)


STALE = (
    "backward.stale_in_loop|{name} is computed here, and the backward of {place} visits its graph again after a step: this "
    "part of the gradient belongs to the parameters before the step."
)
MODIFIED_IN_LOOP = (
    "backward.modified_in_loop|{name} is computed here, and the backward of {place} uses it again in a later iteration "
    "of the loop, after {write} has modified a tensor that its graph saved."
)
FREED_IN_LOOP = (
    "backward.freed_in_loop|{name} is computed here, and a later iteration of the loop uses it again, after the backward of "
    "{place} has freed its graph."
)


def _carried_fault(
    state: RunState, shared: GraphNode, at: Place, effect: str, write: Place | None = None
) -> GraphFault:
    """Return the fault of a loop: the value that an iteration passes to the next, which need not be the shared node itself."""
    carried = shared if effect == STALE else _carried_node(state, shared) or shared
    name = _name_of_node(state, carried)
    names = variables_at(state, carried.place.file, carried.place.line)
    change = "backward.compute_in_round|Compute it again in each iteration, or detach it before the next one."
    rounds = sum(step.place == carried.place for step in state.finished_steps)
    if effect == STALE and rounds == 1:
        change = "backward.compute_before_each|Compute it again before each backward."
    elif re.fullmatch(r"[\w.]+", name) and name.partition(".")[0] in names and not _is_bound_anew(state, carried):
        change = (
            "backward.compute_or_detach|Compute it again in each iteration, or cut its history before the next one: "
            "`{name} = {name}.detach()`."
        )
        below = state.graph.below([carried.id])
        nodes = state.graph.nodes
        visited = set(state.flow.calls[-1].graph.visited)
        beside = {number for node in visited - below.keys() for number in nodes[node].inputs}
        is_older = all(step.place != carried.place for step in state.finished_steps[_rounds(state, at)[0] :])
        if is_older and all(nodes[number].inputs for number in beside if number is not None):
            # No leaf is left without its history.
            change = "backward.compute_or_keep|Compute it again before each backward, or keep its graph: `retain_graph=True`."
        elif is_older:
            change = (
                "backward.compute_or_detach_before|Compute it again in each iteration, or cut its history before the first one: "
                "`{name} = {name}.detach()`."
            )
    file, write = carried.place.file, write or at
    return freed_graph.at(carried.place, effect, change, name=name, place=line_of(at, file), write=line_of(write, file))


def _carried_nodes(state: RunState, freed: list[GraphNode]) -> list[GraphNode]:
    """Return the nodes of earlier iterations that this iteration uses, one for each line, the newest first."""
    used = [node for node in sorted(freed, key=lambda node: node.id) if node.inputs and _is_carried(state, node)]
    carried = [_carried_node(state, node) or node for node in {node.place: node for node in used}.values()]
    return sorted({node.place: node for node in carried}.values(), key=lambda node: -node.id)


def _is_carried(state: RunState, node: GraphNode) -> bool:
    """Return whether the loss of this iteration uses the result of a node; the last one may compute with it after backward."""
    reached = state.flow.calls[-1].graph.visited
    return any(consumer.step > _last_round(state) and consumer.id in reached for consumer in node.consumers)


def _is_bound_anew(state: RunState, carried: GraphNode) -> bool:
    """Return whether the line of a carried value ran again before this iteration used it, so that not its name, but a list holds it."""
    last, steps = _last_round(state), state.finished_steps
    uses = [consumer.step for consumer in carried.consumers if consumer.step > last]
    return any(step.place == carried.place for step in steps[last + 1 : min(uses, default=0)])


def _rounds(state: RunState, at: Place) -> list[int]:
    """Return the steps of the recorded backward calls in a line."""
    return [call.graph.step for call in state.flow.calls if call.place == at]


def _last_round(state: RunState) -> int:
    """Return the step of the last earlier backward call in the line of the last one, else -1."""
    calls = state.flow.calls
    return next((call.graph.step for call in reversed(calls[:-1]) if call.place == calls[-1].place), -1)


def _carried_node(state: RunState, shared: GraphNode) -> GraphNode | None:
    """Return the newest node of an earlier iteration that this iteration uses and that leads to `shared`."""
    before = _last_round(state)
    stack, seen, carried = [shared], {shared}, []
    while stack:
        node = stack.pop()
        if _is_carried(state, node):
            carried.append(node)
        stack += [consumer for consumer in node.consumers if consumer.step <= before and consumer not in seen]
        seen.update(node.consumers)
    return max(carried, key=lambda node: node.id, default=None)


def _name_of_node(state: RunState, node: GraphNode) -> str:
    """Return the name of a node's tensor, unless only a function that the node's line calls has a variable of this name."""
    tensors = [state.tensors.all[node.tensor]] if node.tensor is not None else []
    if any(tensor.name is not None and tensor.name_depth > state.finished_steps[node.step].depth for tensor in tensors):
        tensors = []
    return name_of(state, tensors, Message("backward.part_of_graph|a part of the graph"))


def _youngest_shared(state: RunState, call: StartedBackward, before: list[StartedBackward]) -> GraphNode | None:
    """Return the newest node of a call that an earlier call also visited."""
    visited = set[int]().union(*(earlier.graph.visited for earlier in before))
    shared = [number for number in visited.intersection(call.graph.visited) if state.graph.nodes[number].inputs]
    return state.graph.nodes[max(shared)] if shared else None
