"""Find modes that a program left on: evaluation, no_grad, autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import FaultKind, name_of, switch_of, tensors_of
from autograder.tape.diagnose.graph_faults.program_text import trees_of
from autograder.tape.observe.gradient_flow import NO_GRAD
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of


def _left_on(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that switched a model to evaluation mode, if a later step trained it in that mode."""
    for place in evidence.state.flow.steps.left_training:
        told = in_english(
            "it switches the model to evaluation mode, and later steps train it in that mode; the steps before were in "
            "training mode."
        )
        change = in_english("Call train() before the next step.")
        yield GraphFault(LEFT_ON.KIND, place, told, change)
    for place in evidence.state.flow.steps.left_recording:
        told = in_english(
            "it turns recording off after a step, and the loss of a later step is computed while it is off."
        )
        change = in_english("Turn recording on again before the next step: `torch.set_grad_enabled(True)`.")
        yield GraphFault(LEFT_ON.KIND, place, told, change)


def _stale_casts(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the `autocast` blocks in which a step changed a weight whose cast copy was used again."""
    state, trees, told = evidence.state, trees_of(evidence), set()
    steps = state.flow.steps.calls
    for node in state.graph.nodes:
        leaf = (
            state.graph.nodes[node.inputs[0]].tensor
            if node.name == "ToCopyBackward0" and node.inputs[0] is not None
            else None
        )
        if leaf not in state.flow.held:
            continue
        calls = [number for number, visited in enumerate(state.visited) if node.id in visited]
        if not any(first < step <= later for first, later in zip(calls, calls[1:], strict=False) for step in steps):
            continue
        place = _autocast_around(trees.get(node.place.file), node.place) or node.place
        if place not in told:
            told.add(place)
            sentence = in_english(
                "one autocast contains several steps: its cache keeps the cast copy of {names} that {place} made, so later "
                "losses are computed with the values before the step.",
                names=name_of(state, [state.flow.held[leaf]]), place=line_of(node.place, place.file),
            )  # fmt: skip
            change = in_english("Open autocast around the forward of each step, or pass cache_enabled=False.")
            yield GraphFault(STALE_CAST.KIND, place, sentence, change, tensors_of(state, [state.flow.held[leaf]]))


def _autocast_around(tree: ast.Module | None, place: Place) -> Place | None:
    """Return the innermost `with … autocast …` statement around a line."""
    blocks = [node for node in (ast.walk(tree) if tree else ()) if isinstance(node, ast.With)]
    around = [
        node
        for node in blocks
        if node.lineno <= place.line <= (node.end_lineno or node.lineno)
        and any("autocast" in ast.unparse(item.context_expr) for item in node.items)
    ]
    if not around:
        return None
    inner = max(around, key=lambda node: node.lineno)
    text = "with " + ", ".join(ast.unparse(item) for item in inner.items) + ":"
    return Place(place.file, inner.lineno, text)


def _with_recording_off(evidence: Evidence, switch: str) -> Iterator[GraphFault]:
    """Yield the faults of a program that turns recording off without `no_grad`."""
    places = {call.place for call in evidence.state.flow.calls if not call.recording}
    change = in_english("Turn recording on again before the loss is computed.")
    for place in sorted(places, key=lambda one: one.line):
        yield GraphFault(
            NOT_RECORDED.KIND, place, in_english("backward is called while {switch}.", switch=switch), change
        )


def _not_recorded(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of backward while recording is off, one fault per line."""
    told: set[Place] = set()
    if evidence.state.flow.steps.left_recording:
        return  # the line that left it off is named
    switch = switch_of(evidence.state)
    if switch != NO_GRAD:
        yield from _with_recording_off(evidence, switch)
        return
    for call in evidence.state.flow.calls:
        if call.recording or call.place in told:
            continue
        told.add(call.place)
        if all(node is None for node in call.nodes):
            follows = in_english(
                "backward is called under no_grad; the loss was also computed there, so it has no history and "
                "backward raises an error."
            )
        else:
            follows = in_english(
                "backward is called under no_grad; the loss was recorded before, so its gradients are as they would be "
                "outside; nothing of backward is recorded."
            )
        change = in_english("Compute the loss and call backward outside of no_grad; keep only the update inside.")
        yield GraphFault(NOT_RECORDED.KIND, call.place, follows, change)


LEFT_ON = FaultKind("mode left on", _left_on)
STALE_CAST = FaultKind("stale cast", _stale_casts)
NOT_RECORDED = FaultKind("backward without recording", _not_recorded)
