"""All kinds of fix in order of preference, and the selection of proposed changes to run. The docstring of a kind describes the change."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator
from typing import Any

from autograder.locale.messages import Message
from autograder.tape.repair.broken_program import BrokenProgram, Candidate, Kind
from autograder.tape.repair.inplace_finder import called, calls
from autograder.tape.repair.kinds import (
    aliases,
    autograd_functions,
    carried_state,
    clones,
    leaves,
    lists,
    order,
    out_of_place,
)
from autograder.tape.repair.kinds.order import names_bound, names_loaded

# Kinds that can fix an optimizer's step between a forward pass and its backward; tried first if a step is the cause.
AROUND_A_STEP: tuple[Kind, ...] = (
    carried_state.recompute_cached,
    carried_state.detach_state,
    carried_state.detach_shared,
    order.both_losses_first,
    order.both_calls_apart,
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
    lists.rebuild_list,
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
    lists.stack_rows,
    leaves.write_into_copy,
    *AROUND_A_STEP,
    leaves.retain_graph,
    leaves.sum_before_backward,
    leaves.restore_random_state,
    order.move_write_earlier,
)


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
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

    If an optimizer's step is the cause, or a graph was used twice, kinds for several backward calls come first. Within
    these groups, changes in the code blocks of the verdict come first.
    """
    proposed = [(rank, candidate) for rank, kind in enumerate(KINDS) for candidate in proposals(kind, program)]
    steps = any("step" in {called(call) for call in calls(statement)} for statement in program.suspects)
    steps = steps or "second time" in program.verdict.error_message
    spans = [program.source.span(statement) for blamed in blamed_blocks(program) for statement in blamed]

    def unlikely(pair: tuple[int, Candidate]) -> tuple[bool, bool]:
        is_blamed = any(start <= edit.start <= stop for edit in pair[1].edits for start, stop in spans)
        return steps and KINDS[pair[0]] not in AROUND_A_STEP, not is_blamed

    return sorted(dict.fromkeys([*join_by_kind(program, proposed), *proposed]), key=unlikely)


def proposals(kind: Kind, program: BrokenProgram) -> list[Candidate]:
    """Return the proposals of a kind, or [] with a note if the kind itself fails on this program."""
    try:
        return list(kind(program))
    except Exception as error:
        program.failures.append(
            Message(
                "fix.stopped|The kind of fix {kind} stopped early: {error}. Please report it with this program.",
                kind=kind.__name__,
                error=repr(error),
            )
        )
        return []


def blamed_blocks(program: BrokenProgram) -> list[list[ast.stmt]]:
    """Return the code blocks with the statements that modified or saved the tensor."""
    statements = [*program.suspects, *(saver for saver, _ in program.saving_statements)]
    return [program.source.block(statement) for statement in statements]


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


def unread_loop_variables(text: str) -> list[str]:
    """Return the loop variables that are assigned in their function or at the top level and not read afterwards.

    A change that adds one assigns the update to a loop variable, and the update reaches no tensor.
    """
    scopes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Module | FUNCTIONS)]
    return [name for scope in scopes for name in unread_in(scope)]


def unread_in(scope: ast.AST) -> list[str]:
    """Return the variables of the scope's loops that a statement assigns and no later statement reads."""
    nodes = list(inside(scope))
    loop_names = set().union(*(names_bound(node.target) for node in nodes if isinstance(node, ast.For)))
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    found = []
    for statement in statements:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if bound := {ast.unparse(target) for target in targets} & loop_names:
            below = [other for other in statements if other.lineno > (statement.end_lineno or statement.lineno)]
            found += sorted(bound - set().union(*map(names_loaded, below)))
    return found


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those inside nested functions."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, FUNCTIONS):
            yield from inside(node)


def is_python(text: str) -> bool:
    """Return whether the source compiles."""
    try:
        compile(text, "candidate", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def unbound_names(text: str) -> set[str]:
    """Return the names that a source reads and binds neither where it reads them nor at the top level."""
    table = symtable.symtable(text, "candidate", "exec")
    bound = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
    read = {one.get_name() for one in _symbols(table) if one.is_global() and one.is_referenced()}
    return read - bound - set(dir(builtins))


def _symbols(table: symtable.SymbolTable) -> Iterator[symtable.Symbol]:
    yield from table.get_symbols()
    for child in table.get_children():
        yield from _symbols(child)
