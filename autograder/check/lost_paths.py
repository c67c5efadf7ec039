"""The line of an answer that removes a leaf from the graph or adds a path too many, and custom backwards with a wrong derivative."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from autograder.locale.messages import Message
from autograder.locale.translations import restored
from autograder.tape.recording.schema import Node, Recording
from autograder.tape.recording.verdict_types import NamedLine, Place


def lines_of_forward(recording: Recording) -> set[int]:
    """Return the lines in the forward of each custom Function; autograd does not record there, so no path is cut."""
    return {
        line
        for function in _custom_functions(recording)
        for method in _methods(function)
        if method.name == "forward"
        for line in range(method.lineno, (method.end_lineno or method.lineno) + 1)
    }


def find_wrong_backward(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the return statement of the first custom backward that does not match its forward; None if all match."""
    wrong = [check.question for check in recording.verdict.checks if "custom" in check.oracle and check.answer == "no"]
    for function in _custom_functions(recording):
        nodes = (node for method in _methods(function) if method.name == "backward" for node in ast.walk(method))
        ends = [node for node in nodes if isinstance(node, ast.Return)]
        if ends and any(f" {function.name} " in question for question in wrong):
            program = recording.programs[0]
            text = program.source.splitlines()[ends[-1].lineno - 1].strip()
            message = Message(
                "lost.not_derivative|this is not the derivative of forward, so the gradient of {name} is wrong",
                name=leaf,
            )
            return NamedLine(Place(program.file, ends[-1].lineno, text), message)
    return None


def _custom_functions(recording: Recording) -> Iterator[ast.ClassDef]:
    """Yield the classes that define both a forward and a backward."""
    for node in ast.walk(ast.parse(recording.programs[0].source)):
        if isinstance(node, ast.ClassDef) and {"forward", "backward"} <= {method.name for method in _methods(node)}:
            yield node


def _methods(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (method for method in definition.body if isinstance(method, ast.FunctionDef))


def find_cut(recording: Recording, leaf: str, *, is_missing: bool) -> NamedLine | None:
    """Return the last line that removes a leaf's values from the graph and whose result is used again, or None.

    If the leaf has no gradient at all (`is_missing`), the removed value may also have been returned without further use.
    """
    named, places = _tensors_named(recording, leaf), {step.place for step in recording.steps}
    nodes = {node.id: node for node in recording.nodes}
    # Tensors that the check itself detaches do not belong to a line of the answer.
    silent = lines_of_forward(recording)
    lost = [cut for cut in recording.lost if cut.place in places and cut.place.line not in silent]
    above = [cut for cut in lost if named & (set(cut.tensors) | _tensors_below(cut.nodes, nodes))]
    used = [lost for lost in above if lost.is_used] or (above if is_missing else [])
    return NamedLine(used[-1].place, restored(used[-1].sentence, recording.verdict.messages), "lost") if used else None


def first_use_of_leaf(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the first line whose operation connects a leaf to the graph, or None."""
    named = _tensors_named(recording, leaf)
    ends = {node.id for node in recording.nodes if node.tensor in named and not node.inputs}
    readers = (node.place for node in recording.nodes if node.place and ends.intersection(node.inputs))
    places = {step.place for step in recording.steps}
    place = next((place for place in readers if place in places), None)
    message = Message("lost.reads_with_history|reads {name} with its history", name=leaf)
    return NamedLine(place, message) if place else None


def find_kept_history(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the line of a module's `__init__` whose graph connects a forward to a leaf, or None."""
    named, nodes = _tensors_named(recording, leaf), {node.id: node for node in recording.nodes}
    for step in recording.steps:
        made = [node for node in step.nodes if nodes[node].inputs] if step.function.endswith("__init__") else []
        kept = [node for node in made if named & _tensors_below([node], nodes)]
        if kept and any(set(kept) & {*other.inputs} for other in recording.nodes if other.id not in step.nodes):
            message = Message(
                "lost.history_from_init|runs once, in __init__, and keeps the history that leads to {name}: each "
                "forward adds its gradient",
                name=leaf,
            )
            return NamedLine(step.place, message)
    return None


def line_that_freed(recording: Recording, line: int) -> NamedLine | None:
    """Return the line of the last backward before a line, which freed the graph that this line uses again; or None."""
    steps = [recording.steps[call.step] for call in recording.backward if call.step is not None]
    earlier = [step.place for step in steps if step.place.line != line]
    message = Message(
        "lost.freed_graph|this backward freed the saved tensors of the graph that line {line} uses again", line=line
    )
    return NamedLine(earlier[-1], message) if earlier else None


def find_detached(recording: Recording) -> NamedLine | None:
    """Return the line that detaches a tensor of the graph in place, or None."""
    nodes: dict[int, int] = {}
    for step in recording.steps:
        lost = [state for state in step.states if state.node is None and state.tensor in nodes]
        if lost:
            message = Message(
                "lost.history_replaced|replaces the history of a tensor in place, although the graph uses that tensor"
            )
            return NamedLine(step.place, message, "lost")
        nodes |= {state.tensor: state.node for state in step.states if state.node is not None}
    return None


def _tensors_named(recording: Recording, leaf: str) -> set[int]:
    """Return the tensors to which an argument's name, or a parameter's name after `self.`, has referred."""
    changes = [change for step in recording.steps for change in step.names]
    named = [change.tensor for change in changes if change.name == leaf or change.name.endswith(f".{leaf}")]
    return {tensor for tensor in named if tensor is not None}


def _tensors_below(starts: Iterable[int], nodes: dict[int, Node]) -> set[int]:
    """Return the tensors that backward would reach from these nodes."""
    found, stack, seen = set(), list(starts), set()
    while stack:
        node = nodes.get(stack.pop())  # a recording from a student's process may contain unknown ids
        if node is not None and node.id not in seen:
            seen.add(node.id)
            found |= set() if node.tensor is None else {node.tensor}
            stack.extend(below for below in node.inputs if below is not None)
    return found
