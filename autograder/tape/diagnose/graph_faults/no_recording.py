"""Backward of something that was computed while recording was off, or backward called there."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.recording.verdict_types import GraphFault

KIND = "backward without recording"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yields the calls of backward under no_grad, one for each line."""
    told = set()
    for call in evidence.state.flow.calls:
        if call.recording or call.place in told:
            continue
        told.add(call.place)
        if all(node is None for node in call.nodes):
            follows = in_english(
                "backward is called under no_grad; the loss was computed there too, so it has no history, "
                "and backward has nowhere to go."
            )
        else:
            follows = in_english(
                "backward is called under no_grad; the loss was recorded before, so its gradients are as they would be "
                "outside; nothing of backward is recorded."
            )
        change = in_english("Compute the loss and call backward outside of no_grad; keep only the update inside.")
        yield GraphFault(KIND, call.place, follows, change)
