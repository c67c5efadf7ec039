"""Suggest a change of the source for each graph fault. Each is run before it is offered, unless there is no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import structs

from autograder.tape.oracle.excerpt import Scope
from autograder.tape.recording.verdict_types import GraphFault, Verdict
from autograder.tape.repair import graph_changes, optimizer_changes
from autograder.tape.repair.candidates import is_python
from autograder.tape.repair.code_reader import unbound_names
from autograder.tape.repair.edits import EditableSource, Edits, as_diff
from autograder.tape.repair.repairs import compared_part, factory_in
from autograder.tape.repair.search import Prove
from autograder.tape.repair.trial.program_factory import ProgramFactory
from autograder.tape.run.budget import current_budget
from autograder.tape.run.programs.program import Program

TRIED = 8  # maximum number of changes that are run for a fault
FAULTS = 3  # maximum number of faults for which changes are searched
CHANGES = graph_changes.CHANGES | optimizer_changes.CHANGES
Proof = Callable[[Program], Verdict]


def with_suggestions(verdict: Verdict, factory: ProgramFactory, scope: Scope, prove: Prove | None) -> Verdict:
    """Return the verdict with a diff for each graph fault whose change is text. Without `prove`, it is the first change, not run."""
    if not verdict.graph_faults or factory.obstacle:
        return verdict
    part = compared_part(verdict) if verdict.excerpt else scope
    proof = (lambda program: prove(program, part)) if prove else None
    first, rest = verdict.graph_faults[:FAULTS], verdict.graph_faults[FAULTS:]
    faults = tuple(_with_diff(fault, factory, verdict, proof) for fault in first)
    return structs.replace(verdict, graph_faults=faults + rest, runs=current_budget().runs)


def _with_diff(fault: GraphFault, factory: ProgramFactory, verdict: Verdict, prove: Proof | None) -> GraphFault:
    holder = factory_in(factory, fault.place.file)
    if holder is None:
        return fault
    of_kind = (other for other in verdict.graph_faults if other.kind == fault.kind)
    alike = [other for other in of_kind if other.place.file == fault.place.file]
    for text in islice(_changed_texts(EditableSource(holder.source), fault, alike), TRIED):
        seen = None if prove is None or current_budget().is_spent else prove(holder.make(text))
        is_run = seen is not None and _fixes_fault(seen, fault, verdict)
        is_refuted = seen and (
            any(other.kind == fault.kind for other in seen.graph_faults)
            or (seen.error and seen.error.line and not _has_own_error(seen, fault, verdict))
        )
        if seen is None or is_run or (current_budget().is_spent and not is_refuted):
            diff = as_diff(holder.written(holder.source), holder.written(text), holder.file)
            code = as_diff(holder.source, text, holder.file) if holder.notebook else ""
            return structs.replace(fault, diff=diff, was_run=is_run, code=code)
    # The first fix explains an error without a change of its own.
    fix = next(iter(verdict.fixes), None) if verdict.error else None
    return structs.replace(fault, diff=fix.diff, was_run=True) if fix else fault


def _fixes_fault(seen: Verdict, fault: GraphFault, verdict: Verdict) -> bool:
    """Return whether the changed program is correct, without this kind of fault and without a new one."""
    part = verdict.excerpt
    if seen.excerpt and (seen.excerpt.last < part.last if part else not seen.excerpt.ended):
        return False  # the time limit ended the run before the part that shows the fault
    untrained = {tensor.name for other in seen.graph_faults for tensor in other.tensors if tensor.is_untrained}
    others = {other.kind for other in verdict.graph_faults} - {fault.kind}
    # A step that did not run before may show parameters that had no gradient before, either.
    reached = {name for name, gradient in verdict.gradients.items() if gradient.got is not None}
    is_known = all(
        other.kind in others or (other.tensors and reached.isdisjoint(tensor.name for tensor in other.tensors))
        for other in seen.graph_faults
    )
    is_right = seen.outcome == "correct" or _has_own_error(seen, fault, verdict)
    return is_right and is_known and not untrained & {tensor.name for tensor in fault.tensors}


def _has_own_error(seen: Verdict, fault: GraphFault, verdict: Verdict) -> bool:
    """Return whether the changed program ends with an error of the original's other lines, which has nothing to do with autograd."""
    raised, error = seen.error, verdict.error
    if raised is None or error is None or (error.type, error.message) != (raised.type, raised.message):
        return False
    is_apart = error.type != "RuntimeError" and not error.is_at(fault.place)
    return is_apart and seen.outcome == verdict.outcome == "raises-forward"


def _changed_texts(source: EditableSource, fault: GraphFault, alike: list[GraphFault]) -> Iterator[str]:
    """Yield the changed sources for a fault, the smallest change first; then those for all faults of its kind together.

    If all of them keep the same tensors from their gradients, those come first.
    """
    change, seen = CHANGES.get(fault.kind), {source.text}
    if change is None:
        return

    def edits_for(fault: GraphFault) -> list[Edits]:
        return [edits for at in source.statements_at(fault.place.line) for edits in change(source, at, fault)]

    joint = [sum(edits, ()) for edits in zip(*map(edits_for, alike), strict=False)] if len(alike) > 1 else []
    names = [{tensor.name for tensor in other.tensors} for other in alike]
    is_shared = names[1:] == names[:-1]  # each line takes a part of the gradient
    unbound = unbound_names(source.text)
    for edits in (*joint, *edits_for(fault)) if is_shared else (*edits_for(fault), *joint):
        text = source.apply(edits)
        if text is not None and text not in seen and is_python(text):
            seen.add(text)
            # A message may name a tensor by a variable of another function or file.
            if unbound_names(text) <= unbound:
                yield text
