"""Find a leaf's name that is bound to a new tensor, and a `.grad` that is None because its tensor is not a leaf."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import FaultKind, name_of, statement_at
from autograder.tape.diagnose.graph_faults.program_text import trees_of
from autograder.tape.observe.state import RunState
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

KIND = "leaf lost"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that bind a leaf's name to an updated tensor, which is not a leaf that requires grad."""
    trees, told = trees_of(evidence), set()
    for name, place, regained in _rebound(evidence.state):
        statement = statement_at(trees, place)
        if place in told or regained or not _is_step(statement, name):
            continue
        told.add(place)
        yield _fault(trees, name, place, statement)


def _rebound(state: RunState) -> Iterator[tuple[str, Place, bool]]:
    """Yield the names of leaves that were bound to another tensor, the line, and whether that tensor became a leaf later."""
    bound: dict[tuple[str, str], int] = {}
    for step in state.finished_steps:
        for change in step.names:
            key = (step.function, change.name)
            old, new = bound.get(key), change.tensor
            if new is not None:
                bound[key] = new
            if old is not None and new is not None and step.place is not None and state.tensors.all[old].leaf:
                yield change.name, step.place, state.tensors.all[new].leaf


def _is_step(statement: ast.stmt | None, name: str) -> bool:
    """Return whether a statement is `w = w - … w.grad …` without a `detach`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
        return False
    if [ast.unparse(one) for one in statement.targets] != [name] or not isinstance(
        statement.value.op, ast.Sub | ast.Add
    ):
        return False
    text = ast.unparse(statement.value)
    descends = isinstance(statement.value.op, ast.Sub) and f"{name}.grad" in text
    return descends and "detach" not in text and ast.unparse(statement.value.left) in (name, f"{name}.data")


def _fault(trees: dict[str, ast.Module], name: str, place: Place, statement: ast.stmt | None) -> GraphFault:
    step = (
        ast.unparse(statement.value.right)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp)
        else "…"
    )
    if _is_loop_variable(trees.get(place.file), name, place.line):
        told = in_english(
            "the loop's name {name} is bound to a new tensor, and the leaf itself keeps its old values.", name=name
        )
    else:
        told = in_english(
            "{name} is then another tensor, which is not a leaf that requires grad: the next backward call "
            "computes no gradient for it.",
            name=name,
        )
    change = in_english("Modify the leaf in place, under torch.no_grad(): `{name} -= {step}`.", name=name, step=step)
    return GraphFault(KIND, place, told, change)


def _is_loop_variable(tree: ast.Module | None, name: str, line: int) -> bool:
    loops = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.For)]
    inside = [loop for loop in loops if loop.lineno <= line <= (loop.end_lineno or loop.lineno)]
    return any(isinstance(one, ast.Name) and one.id == name for loop in inside for one in ast.walk(loop.target))


def _missing(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that read the `.grad` of a tensor with a graph."""
    state, told = evidence.state, set()
    for place, tracked in state.flow.missing:
        if place not in told and tracked.node is not None:
            told.add(place)
            name, made = name_of(state, [tracked], "it"), state.graph.nodes[tracked.node].place
            yield GraphFault(
                MISSING.KIND,
                place,
                in_english(
                    "{name}.grad is None: {name} is not a leaf, because {place} computed it; backward fills only the "
                    ".grad of leaves.",
                    name=name,
                    place=line_of(made, place.file),
                ),
                in_english(
                    "Make {name} itself the leaf (requires_grad_() after that computation), "
                    "or call {name}.retain_grad() before backward.",
                    name=name,
                ),
            )


MISSING = FaultKind("gradient of a tensor that is not a leaf", _missing)
