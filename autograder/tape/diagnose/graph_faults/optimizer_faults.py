"""Find parameters that an optimizer does not train: no loss depends on them, or no optimizer holds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import leaves_above, name_of, tensors_of
from autograder.tape.diagnose.graph_faults.program_text import trees_of
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

_INITIAL = re.compile(r"init|normal_|uniform_")


@dataclass(frozen=True)
class FaultKind:
    """A kind of graph fault and the function that finds it, as a module of this folder has them."""

    KIND: str
    find: Callable[[Evidence], Iterator[GraphFault]]


def _without_a_loss(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute with parameters of an optimizer, if no backward call reached these parameters."""
    state, flow = evidence.state, evidence.state.flow
    if evidence.outcome.startswith("raises") or not flow.calls:
        return
    explained = {new.id for _, new in flow.steps.thrown_away}
    explained |= {number for cut in flow.cuts.values() for number in leaves_above(state, cut)}
    explained |= {leaf.id for leaves in state.given.values() for leaf in leaves}
    known = flow.reached.keys() | flow.steps.trained | flow.steps.frozen | explained
    places: dict[Place, list[TrackedTensor]] = {}
    for number, (place, tracked) in flow.steps.used.items():
        if number in flow.held and number not in known:
            places.setdefault(place, []).append(tracked)
    for place, tensors in places.items():
        names = name_of(state, tensors, in_english("a parameter"))
        told = in_english(
            "the result that it computes with {names} reaches no loss: the optimizer updates {names}, but no backward call "
            "computes a gradient for it.",
            names=names,
        )
        change = in_english("Use the result in the loss, or take {names} out of the optimizer.", names=names)
        concerned = tensors_of(state, tensors, read=place)
        yield GraphFault(WITHOUT_A_LOSS.KIND, place, told, change, concerned)


def _unheld(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made parameters which get gradients and which no optimizer holds."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    if evidence.outcome.startswith("raises"):
        return
    # A modification after the first backward may be a step by hand, unless it sets the values of a new parameter.
    written = {(write.memory, write.place) for write in state.writes if write.changed and write.call > 0}
    by_hand = {(memory, place) for memory, place in written if not _INITIAL.search(place.text)}
    used = {
        number
        for number, one in steps.unheld.items()
        if number in steps.read
        or any(memory is one.memory and place != state.made_at(one) for memory, place in by_hand)
    }
    places: dict[Place, list[TrackedTensor]] = {}
    for tracked in steps.unheld.values():
        if (made := state.made_at(tracked)) is not None:
            places.setdefault(made, []).append(tracked)
    for made, tensors in places.items():
        if any(one.id in used or one.id in flow.held for one in tensors):
            continue
        names = name_of(state, tensors, in_english("the parameters"))
        told = in_english(
            "backward fills the gradient of {names}, which is made here, but no optimizer holds it, so it stays at its random "
            "values.",
            names=names,
        )
        change = in_english("Make it once, before the optimizer, and pass its parameters to the optimizer.")
        yield GraphFault(UNHELD.KIND, made, told, change, tensors_of(state, tensors))


def _left_on(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that switched a model to evaluation mode, if a later step trained it in that mode."""
    for place in evidence.state.flow.steps.left_training:
        told = in_english(
            "it switches the model to evaluation mode, and later steps train it in that mode; the steps before were in "
            "training mode."
        )
        change = in_english("Call train() before the next step.")
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


WITHOUT_A_LOSS = FaultKind("parameter that no loss depends on", _without_a_loss)
UNHELD = FaultKind("gradient that no optimizer uses", _unheld)
LEFT_ON = FaultKind("mode left on", _left_on)
STALE_CAST = FaultKind("stale cast", _stale_casts)
