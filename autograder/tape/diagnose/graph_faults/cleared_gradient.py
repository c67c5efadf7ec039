"""Find gradients that are cleared between backward and the optimizer's step, so that the step has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.recording.verdict_types import GraphFault

KIND = "gradient cleared before the step"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the optimizer steps before which all gradients of a backward were cleared, one fault per line."""
    told = set()
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
            )
