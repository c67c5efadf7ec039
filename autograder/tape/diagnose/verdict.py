"""Combine the evidence of several runs to a verdict, with the graph faults in the order of the report."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from autograder.locale.messages import counted_message, join_messages
from autograder.tape.diagnose import (
    backward_errors,
    graph_cut,
    graph_reuse,
    missing_gradients,
    modes,
    optimizer_faults,
    rule_errors,
    unoptimized,
    updates,
)
from autograder.tape.diagnose.evidence import CompiledEvidence, Evidence
from autograder.tape.diagnose.harms import find_harms
from autograder.tape.diagnose.notes import notes_on_compilation, notes_on_run
from autograder.tape.diagnose.shown_gradients import checks_of, rename_targets, shown_gradients
from autograder.tape.recording.verdict_types import Excerpt, GraphFault, Verdict, note_on_line
from autograder.tape.run.budget import current_budget
from autograder.tape.run.finished_run import is_out_of_time

# In the order of the report: first the kinds that read an error's own message.
KINDS = (
    rule_errors.refused_tensor,
    rule_errors.broken_rule,
    missing_gradients.lost_leaf,
    graph_reuse.freed_graph,
    missing_gradients.missing_gradient,
    missing_gradients.empty_gradient,
    modes.left_on,
    modes.not_read,
    modes.not_recorded,
    backward_errors.unused_target,
    backward_errors.custom_backward,
    backward_errors.withheld_gradient,
    rule_errors.nothing_required,
    graph_cut.graph_cut,
    modes.stale_cast,
    missing_gradients.not_finite,
    missing_gradients.own_target,
    missing_gradients.recorded_target,
    missing_gradients.flat_derivative,
    missing_gradients.normalized_twice,
    missing_gradients.without_logarithm,
    optimizer_faults.not_called,
    unoptimized.foreign_optimizer,
    unoptimized.unoptimized_gradient,
    unoptimized.without_a_loss,
    optimizer_faults.cleared_gradient,
    optimizer_faults.clipped_gradient,
    optimizer_faults.scaled_gradient,
    updates.without_effect,
    updates.used_up,
    updates.not_added,
    updates.copied_onto_themselves,
    updates.shared_memory,
    updates.tied,
    optimizer_faults.used_again,
    optimizer_faults.left_gradient,
    modes.registered_again,
    modes.without_result,
)


def find_graph_faults(evidence: Evidence) -> tuple[GraphFault, ...]:
    """Return the graph faults of a run, starting with the line that explains an error, one fault per line."""
    faults: dict[Any, Any] = {}
    for kind in KINDS:
        is_asked = kind.after_error or not evidence.outcome.startswith("raises")
        for fault in kind.found(evidence) if is_asked else ():
            faults.setdefault(fault.place, _of_part(fault, evidence.runs.excerpt))
    return tuple(faults.values())


def _of_part(fault: GraphFault, excerpt: Excerpt | None) -> GraphFault:
    """Return a fault that needs the whole run with the number of the backward calls that ran, if only a part was recorded."""
    if excerpt is None or not any(tensor.is_untrained for tensor in fault.tensors):
        return fault
    message = counted_message(
        excerpt.calls, "fault.in_steps.one|{told} This is so in the one backward call that ran.",
        "fault.in_steps|{told} This is so in the {count} backward calls that ran.",
        told=fault.sentence,
    )  # fmt: skip
    return replace(fault, sentence=message)


def note_of(fault: GraphFault, file: str) -> str:
    """Return the note on a graph fault. `file` is the program's own file."""
    return note_on_line(fault.place, file, join_messages((fault.sentence, fault.change)))


def verdict_of(evidence: Evidence) -> Verdict:
    """Return the verdict without fixes: the outcome, its harms, and each gradient with the correct one."""
    rename_targets(evidence)
    # A recording that ended before a backward call contains neither the modification nor the node that raised.
    is_blind = evidence.outcome == "correct" or is_out_of_time(evidence.runs.observed.error)
    harms = () if is_blind else find_harms(evidence.explaining)
    faults, gradients = find_graph_faults(evidence), shown_gradients(evidence)
    notes = (
        *(notes_on_compilation(evidence) if isinstance(evidence, CompiledEvidence) else ()),
        *(note_of(fault, evidence.file) for fault in faults),
        *notes_on_run(evidence, harms, gradients),
    )
    return Verdict(
        evidence.outcome, evidence.runs.plain.problem, harms, gradients, notes, checks=tuple(checks_of(evidence)),
        graph_faults=faults, runs=current_budget().runs, excerpt=evidence.runs.excerpt,
    )  # fmt: skip
