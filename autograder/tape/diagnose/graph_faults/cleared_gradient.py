"""Find gradients that are cleared between backward and the optimizer's step, so that the step has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of, tensors_of
from autograder.tape.recording.verdict_types import GraphFault

KIND = "gradient cleared before the step"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the optimizer steps before which all gradients of a backward were cleared, one fault per line."""
    state, told = evidence.state, set()
    for old, new in state.flow.steps.thrown_away:
        made = state.made_at(new)
        if made is not None and made not in told:
            told.add(made)
            names = name_of(state, [new, old], "the parameter")
            yield GraphFault(
                KIND,
                made,
                in_english(
                    "{names} is replaced by a new parameter without a gradient, after backward filled the gradient of the old one: "
                    "the next step of the optimizer does not use it.",
                    names=names,
                ),
                in_english("Replace parameters after the step and before the next backward, or copy the gradient."),
                tensors_of(state, [old, new], lost=made),
            )
    for place, leaves in evidence.state.flow.cleared:
        if place not in told:
            told.add(place)
            names = name_of(evidence.state, leaves, "its parameters")
            yield GraphFault(
                KIND,
                place,
                in_english(
                    "the step changes nothing: backward filled the gradient of {names}, "
                    "and it was cleared before this line.",
                    names=names,
                ),
                in_english("Clear gradients before backward or after the step, not between them."),
                tensors_of(evidence.state, leaves, lost=place),
            )
