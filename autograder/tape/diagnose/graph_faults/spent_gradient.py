"""Find a gradient that an update has used and that the next backward adds to."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import name_of
from autograder.tape.observe.graph.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place

KIND = "gradient not cleared"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients of an earlier update, if a later update uses the sum."""
    state, flow = evidence.state, evidence.state.flow
    flow.finish(state.writes)
    leaves: dict[Place, dict[int, TrackedTensor]] = {}
    for place, tracked in flow.used_twice:
        leaves.setdefault(place, {})[tracked.id] = tracked
    for place, those in leaves.items():
        names = name_of(state, those.values(), "a leaf")
        clear = "optimizer.zero_grad()" if flow.optimizer_at else f"{names.partition(' ')[0]}.grad = None"
        yield GraphFault(
            KIND,
            place,
            in_english(
                "backward adds to the gradient of {names} that an earlier update has used already, "
                "and the next update uses the sum.",
                names=names,
            ),
            in_english("Clear it after each update: `{code}`.", code=clear),
        )
