"""Find an optimizer whose parameters are not those that the loss depends on."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.locale.translations import counted_in_english, in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import is_early_copy, leaves_above, name_of, tensors_of
from autograder.tape.recording.verdict_types import GraphFault

KIND = "optimizer of other parameters"


def find(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the step of an optimizer whose parameters no backward reached, if the reached ones belong to no optimizer.

    An optimizer is known from its first step. After an error, nothing is reported, because another optimizer's step may
    have been next.
    """
    if evidence.outcome.startswith("raises"):
        return
    state, flow = evidence.state, evidence.state.flow
    written = {write.memory for write in state.writes if write.changed and write.call > 0 and not write.in_backward}
    thrown = {new.id for _, new in flow.steps.thrown_away}
    idle = [one for number, one in flow.held.items() if number not in thrown and number not in flow.reached]
    missed = [
        one
        for number, one in flow.reached.items()
        if number not in flow.held and one.parameter and one.memory not in written
    ]
    if flow.optimizer_at is None or not idle or not missed:
        return
    cuts = [cut for cut in flow.cuts.values() if cut.joined and not is_early_copy(cut)]
    cut_off = {number for cut in cuts for number in leaves_above(state, cut)}
    if {one.id for one in idle} & cut_off:
        return
    yield GraphFault(
        KIND,
        flow.optimizer_at,
        counted_in_english(
            len(idle),
            "the optimizer updates {count} tensor that no loss depends on, and not {names}, which get gradients.",
            "the optimizer updates {count} tensors that no loss depends on, and not {names}, which get gradients.",
            names=name_of(state, missed, in_english("the parameters")),
        ),
        in_english(
            "Make the optimizer after the model is complete, from the parameters of the model that computes the loss."
        ),
        tensors_of(state, idle) + tensors_of(state, missed),
    )
