"""Find a `.grad` that is read and is None because the tensor is not a leaf."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.recording.verdict_types import GraphFault, line_of

KIND = "gradient of a tensor that is not a leaf"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that read the `.grad` of a tensor with a graph."""
    state, told = evidence.state, set()
    for place, tracked in state.flow.missing:
        if place not in told and tracked.node is not None:
            told.add(place)
            name, made = name_of(state, [tracked], "it"), state.graph.nodes[tracked.node].place
            yield GraphFault(
                KIND,
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
