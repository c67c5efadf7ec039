"""The line of an answer at which the path from a leaf to the result is lost (`.detach()`, `.item()`, no_grad), or one too many begins."""

from __future__ import annotations

from collections.abc import Iterable

from autograder.check.custom_backward import lines_of_forward
from autograder.locale.translations import in_english
from autograder.tape.recording.schema import LostHistory, Node, Recording
from autograder.tape.recording.verdict_types import NamedLine


def find_cut(recording: Recording, leaf: str, *, is_missing: bool) -> NamedLine | None:
    """Returns the last line that takes what depends on a leaf out of the graph, and whose values are used again; None for none.

    Args:
        leaf: an argument or parameter, as the check calls it.
        is_missing: no gradient arrived at all, so that a value may have left the graph for good: it was returned.
    """
    named, own = _tensors_named(recording, leaf), {step.place for step in recording.steps}
    nodes = {node.id: node for node in recording.nodes}
    # What the check itself detaches stands at no line that ran.
    silent = lines_of_forward(recording)
    lost = [one for one in recording.lost if one.place in own and one.place.line not in silent]
    above = [one for one in lost if named & _tensors_above(one, nodes)]
    used = [lost for lost in above if lost.is_used] or (above if is_missing else [])
    return NamedLine(used[-1].place, used[-1].sentence, "lost") if used else None


def find_reader(recording: Recording, leaf: str) -> NamedLine | None:
    """Returns the first line that reads a leaf with its history; None for none."""
    named = _tensors_named(recording, leaf)
    ends = {node.id for node in recording.nodes if node.tensor in named and not node.inputs}
    readers = (node.place for node in recording.nodes if node.place and ends.intersection(node.inputs))
    own = {step.place for step in recording.steps}
    place = next((place for place in readers if place in own), None)
    return NamedLine(place, in_english("reads {name} with its history", name=leaf)) if place else None


def find_kept_history(recording: Recording, leaf: str) -> NamedLine | None:
    """Returns the line of a module's `__init__` whose history reaches from a forward back to a leaf; None for none."""
    named, nodes = _tensors_named(recording, leaf), {node.id: node for node in recording.nodes}
    for step in recording.steps:
        made = [node for node in step.nodes if nodes[node].inputs] if step.function.endswith("__init__") else []
        kept = [node for node in made if named & _tensors_below([node], nodes)]
        if kept and any(set(kept) & {*other.inputs} for other in recording.nodes if other.id not in step.nodes):
            told = in_english(
                "runs once, in __init__, and keeps the history that leads to {name}: each forward adds its slope",
                name=leaf,
            )
            return NamedLine(step.place, told)
    return None


def find_detached(recording: Recording) -> NamedLine | None:
    """Returns the line that takes the history of a tensor which the graph holds, in place; None for none."""
    nodes: dict[int, int] = {}
    for step in recording.steps:
        lost = [state for state in step.states if state.node is None and state.tensor in nodes]
        if lost:
            told = in_english("takes the history of a tensor in place, and the graph holds that tensor")
            return NamedLine(step.place, told, "lost")
        nodes |= {state.tensor: state.node for state in step.states if state.node is not None}
    return None


def _tensors_named(recording: Recording, leaf: str) -> set[int]:
    """Returns the tensors that an argument's name, or a parameter's name behind `self.`, has referred to."""
    changes = [change for step in recording.steps for change in step.names]
    named = [one.tensor for one in changes if one.name == leaf or one.name.endswith(f".{leaf}")]
    return {tensor for tensor in named if tensor is not None}


def _tensors_above(lost: LostHistory, nodes: dict[int, Node]) -> set[int]:
    """Returns the tensors from which the values at a line were computed, with these."""
    return set(lost.tensors) | _tensors_below(lost.nodes, nodes)


def _tensors_below(starts: Iterable[int], nodes: dict[int, Node]) -> set[int]:
    """Returns the tensors that backward would reach from some nodes."""
    found, stack, seen = set(), list(starts), set()
    while stack:
        node = nodes.get(stack.pop())  # a recording from a student's process may name any
        if node is not None and node.id not in seen:
            seen.add(node.id)
            found |= set() if node.tensor is None else {node.tensor}
            stack.extend(below for below in node.inputs if below is not None)
    return found
