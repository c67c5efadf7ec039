"""Find calls of backward while recording is off."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import switch_of
from autograder.tape.observe.gradient_flow import NO_GRAD
from autograder.tape.recording.verdict_types import GraphFault, Place

KIND = "backward without recording"


def _with_recording_off(evidence: Evidence, switch: str) -> Iterator[GraphFault]:
    """Yield the faults of a program that turns recording off without `no_grad`."""
    places = {call.place for call in evidence.state.flow.calls if not call.recording}
    change = in_english("Turn recording on again before the loss is computed.")
    for place in sorted(places, key=lambda one: one.line):
        yield GraphFault(KIND, place, in_english("backward is called while {switch}.", switch=switch), change)


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of backward while recording is off, one fault per line."""
    told: set[Place] = set()
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
        yield GraphFault(KIND, call.place, follows, change)
