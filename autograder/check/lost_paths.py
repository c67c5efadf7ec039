"""The line of an answer at which the path from a leaf to the result leaves the graph: `.detach()`, `.item()`, no_grad."""

from __future__ import annotations

from autograder.locale.translations import retold, translated
from autograder.tape.recording.schema import LostHistory, Node, Recording
from autograder.tape.recording.verdict_types import GraphFault


def find_cut(recording: Recording, leaf: str, *, is_missing: bool) -> GraphFault | None:
    """Returns the last line that takes what depends on a leaf out of the graph, and whose values are used again; None for none.

    Args:
        leaf: an argument or parameter, as the check calls it.
        is_missing: no gradient arrived at all, so that a value may have left the graph for good: it was returned.
    """
    named, own = _tensors_named(recording, leaf), {step.place for step in recording.steps}
    nodes = {node.id: node for node in recording.nodes}
    # What the check itself detaches stands at no line that ran.
    above = [lost for lost in recording.lost if lost.place in own and named & _tensors_above(lost, nodes)]
    used = [lost for lost in above if lost.is_used] or (above if is_missing else [])
    return GraphFault("lost history", used[-1].place, used[-1].sentence, "") if used else None


def describe_fault(fault: GraphFault) -> str:
    """Returns the line and what it does with the values; whether it should, the reader has to judge."""
    place, told = fault.place, retold(fault.sentence.removesuffix("."))
    return translated("line {line}: {text} ({told})", line=place.line, text=place.text, told=told)


def _tensors_named(recording: Recording, leaf: str) -> set[int]:
    """Returns the tensors that an argument's name, or a parameter's name behind `self.`, has referred to."""
    changes = [change for step in recording.steps for change in step.names]
    named = [one.tensor for one in changes if one.name == leaf or one.name.endswith(f".{leaf}")]
    return {tensor for tensor in named if tensor is not None}


def _tensors_above(lost: LostHistory, nodes: dict[int, Node]) -> set[int]:
    """Returns the tensors from which the values at a line were computed, with these."""
    found, stack, seen = set(lost.tensors), list(lost.nodes), set()
    while stack:
        node = nodes.get(stack.pop())  # a recording from a student's process may name any
        if node is not None and node.id not in seen:
            seen.add(node.id)
            found |= set() if node.tensor is None else {node.tensor}
            stack.extend(below for below in node.inputs if below is not None)
    return found
