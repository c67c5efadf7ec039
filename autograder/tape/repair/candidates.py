"""All kinds of fix in order of preference, and the selection of proposed changes to run. The docstring of a kind describes the change."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from autograder.locale.messages import Message, id_of
from autograder.tape.diagnose.graph_reuse import BETWEEN_LOSSES
from autograder.tape.repair.broken_program import BrokenProgram, Candidate, Kind
from autograder.tape.repair.code_reader import called_in, unread_loop_variables
from autograder.tape.repair.kinds import aliases, autograd_functions, carried_state, clones, leaves, order, out_of_place

# Kinds that can fix an optimizer's step between a forward pass and its backward; tried first if a step is the cause.
DETACHED: tuple[Kind, ...] = (carried_state.detach_state, carried_state.detach_shared)
AROUND_A_STEP: tuple[Kind, ...] = (
    carried_state.recompute_cached,
    *DETACHED,
    order.only_for_its_step,
    order.both_losses_first,
    order.inline_both_updates,
    order.repeat_forward,
    order.repeat_forward_each_time,
    order.compute_in_closure,
    order.move_write_later,
)

KINDS: tuple[Kind, ...] = (
    out_of_place.expand_augmented_assignment,
    out_of_place.rebind_item,
    out_of_place.call_without_underscore,
    out_of_place.rebind_filled,
    out_of_place.rebind_masked,
    out_of_place.rebind_result,
    out_of_place.pass_out_of_place,
    out_of_place.switch_off_inplace,
    out_of_place.rebuild_list,
    leaves.write_under_no_grad,
    leaves.update_average,
    autograd_functions.mark_dirty,
    autograd_functions.return_from_hook,
    clones.clone_operand,
    clones.clone_result,
    aliases.copy_alias,
    clones.clone_view,
    clones.clone_target,
    clones.clone_base,
    clones.clone_argument,
    clones.separate_views,
    autograd_functions.save_for_backward,
    autograd_functions.save_copy,
    leaves.clone_gradient,
    leaves.drop_gradient,
    aliases.write_tracked,
    aliases.keep_attached,
    aliases.require_grad_earlier,
    aliases.remove_no_grad,
    aliases.replace_inference_mode,
    aliases.detach_for_numpy,
    out_of_place.stack_rows,
    leaves.write_into_copy,
    *AROUND_A_STEP,
    leaves.retain_graph,
    leaves.sum_before_backward,
    carried_state.recompute_shared,
    leaves.restore_random_state,
    order.move_write_earlier,
)


CANDIDATES = 90  # maximum number of changes that are tried for a source


def changed_texts(program: BrokenProgram) -> Iterator[tuple[int, Candidate, str]]:
    """Yield up to `CANDIDATES` proposed changes, with the rank of their kind and the changed source.

    Skip changes that are not valid Python, or that add a loop variable whose value is never read.
    """
    source = program.source
    unread = len(unread_loop_variables(source.text))
    for rank, candidate in in_order_of_trial(program)[:CANDIDATES]:
        changed = source.apply(candidate.edits)
        if changed and is_python(changed) and len(unread_loop_variables(changed)) <= unread:
            yield rank, candidate, changed


def in_order_of_trial(program: BrokenProgram) -> list[tuple[int, Candidate]]:
    """Return all proposed changes with the ranks of their kinds, most likely first.

    If two losses share a value of one iteration, it is detached first. If an optimizer's step is the cause, or a graph was
    used twice, kinds for several backward calls come first, those that detach a value last unless a graph was used twice.
    Within these groups, changes in the code blocks of the verdict come first.
    """
    proposed = [(rank, candidate) for rank, kind in enumerate(KINDS) for candidate in proposals(kind, program)]
    steps = any("step" in called_in(statement) for statement in program.suspects)
    is_reused = "second time" in program.verdict.error_message
    steps = steps or is_reused
    around = map(program.source.block, [*program.suspects, *(saver for saver, _ in program.saving_statements)])
    spans = [program.source.span(statement) for block in around for statement in block]

    is_shared = any(id_of(fault.sentence) == BETWEEN_LOSSES for fault in program.verdict.graph_faults)

    def unlikely(pair: tuple[int, Candidate]) -> tuple[bool, ...]:
        is_suspect = any(start <= edit.start <= stop for edit in pair[1].edits for start, stop in spans)
        kind = KINDS[pair[0]]
        is_other = is_shared and kind is not carried_state.detach_shared
        return (
            is_other,
            steps and kind not in AROUND_A_STEP,
            steps and not is_reused and kind in DETACHED,
            not is_suspect,
        )

    return sorted(dict.fromkeys([*join_by_kind(program, proposed), *proposed]), key=unlikely)


def proposals(kind: Kind, program: BrokenProgram) -> list[Candidate]:
    """Return the proposals of a kind, or [] with a note if the kind itself fails on this program."""
    try:
        return list(kind(program))
    except Exception as error:
        text = "fix.stopped|The kind of fix {kind} stopped early: {error}. Please report it with this program."
        program.failures.append(Message(text, kind=kind.__name__, error=repr(error)))
        return []


def join_by_kind(program: BrokenProgram, proposed: list[tuple[int, Candidate]]) -> Iterator[tuple[int, Candidate]]:
    """Yield all changes of a kind in suspect statements as one change, if there are several and they do not overlap."""
    spans = [program.source.span(statement) for statement in program.suspects]
    groups: dict[tuple[int, str], list[Candidate]] = {}
    for rank, candidate in proposed:
        if any(start <= edit.start <= stop for edit in candidate.edits for start, stop in spans):
            groups.setdefault((rank, candidate.kind), []).append(candidate)
    for (rank, kind), some in groups.items():
        edits: set[Any] = set()
        for candidate in some:
            if program.source.apply([*edits, *candidate.edits]) is not None:
                edits |= set(candidate.edits)
        if len(some) > 1:
            yield rank, Candidate(kind, tuple(sorted(edits)), some[0].changes, some[0].may_change)


def is_python(text: str) -> bool:
    """Return whether the source compiles."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "candidate", "exec")
    except (SyntaxError, ValueError):
        return False
    return True
