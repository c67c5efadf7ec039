"""Explain a program or a notebook cell: record it, and add proven fixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec import structs

from autograder.errors import message_of
from autograder.locale.messages import CLAUSES, Message, join_messages
from autograder.tape.diagnose.cell_recording import record_cell
from autograder.tape.diagnose.excerpt import WHOLE, Scope
from autograder.tape.diagnose.optimizer_faults import UNUSED_TARGET
from autograder.tape.diagnose.record import record_program
from autograder.tape.diagnose.unknown_outcome import is_foreign_error
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Problem, Verdict
from autograder.tape.repair.repairs import find_repairs
from autograder.tape.repair.search import slopes_differ
from autograder.tape.repair.suggestions import with_suggestions
from autograder.tape.repair.trial.program_factory import ProgramFactory, factory_of_cell
from autograder.tape.run.budget import SECONDS, Budget, budget_in_force
from autograder.tape.run.programs.notebook_text import place_in_cell
from autograder.tape.run.programs.program import Program, from_cell
from autograder.tape.run.snapshot import Snapshot

NOTE = Message(
    "note.before_error|Before this error, a backward call gave a wrong gradient without an error; the explanation is "
    "about that gradient."
)


def recording_before_error(
    factory: ProgramFactory, recording: Recording, scope: Scope
) -> tuple[Recording, ProgramFactory] | None:
    """Return the recording of a program up to its error, and a factory whose changed programs also end there.

    Return None if the program did not end with an error outside backward, or if all gradients before the error are
    correct.
    """
    error = recording.verdict.error
    if error is None or recording.verdict.outcome != "raises-forward" or not recording.backward:
        return None
    until = _until(factory, error)
    seen = record_program(until.original, scope=scope)
    return (seen, until) if seen.verdict.outcome == "silently-wrong" and seen.verdict.harms else None


def with_its_error(recording: Recording, error: Problem) -> Recording:
    """Return the recording with the outcome and the error of the unmodified program, and a note."""
    verdict = recording.verdict
    notes = (NOTE, *verdict.notes)
    told = structs.replace(verdict, outcome="raises-forward", error=error, notes=notes)
    return structs.replace(recording, verdict=told)


def _until(factory: ProgramFactory, error: Problem) -> ProgramFactory:
    def cut(program: Program) -> Program:
        def call(backwards: Callable[[], int]) -> object:
            try:
                return program.call(backwards)
            except Exception as raised:
                if (type(raised).__name__, message_of(raised)) != (error.type, error.message):
                    raise
                return None

        return replace(program, call=call)

    return replace(factory, original=cut(factory.original), make=lambda text: cut(factory.make(text)))


def note_on_cells(factory: ProgramFactory, verdict: Verdict) -> tuple[str, ...]:
    """Return a sentence with the cells of the most important lines of the verdict, or () if the program is not a notebook."""
    lines = sorted({line for line in _lines(factory, verdict) if line})
    if factory.notebook is None or not lines:
        return ()
    each = [
        Message("notebook.line_is|line {line} = {place}", line=line, place=place_in_cell(factory.source, line))
        for line in lines
    ]
    named = join_messages(each, CLAUSES)
    return (Message("notebook.lines_count|Lines count through all code cells: {named}.", named=named),)


def _lines(factory: ProgramFactory, verdict: Verdict) -> list[int | None]:
    own = factory.original.file
    places = [place for harm in verdict.harms[:1] for place in (*harm.mutated_at[:2], harm.saved_at)]
    places += [fault.place for fault in verdict.graph_faults[:1]]
    error = verdict.error
    raised = [error.line] if error and error.is_in(own) else []
    return [
        *(place.line for place in places if place.file == own),
        *raised,
        *(fix.line for fix in verdict.fixes[:1] if not fix.file),
    ]


def explain_program(
    factory: ProgramFactory,
    *,
    repair: bool = True,
    budget: Budget | None = None,
    scope: Scope = WHOLE,
    first: Callable[[Recording], None] | None = None,
) -> Recording:
    """Return the recording of a program, with fixes and notes on them in its verdict.

    Args:
        factory: the program, and a constructor for its changed versions.
        repair: whether to search for fixes if the outcome is not "correct".
        budget: time limit for the whole call, one minute by default; the result contains everything known when it is
            spent.
        scope: which backward call of a long run to record.
        first: called with the recording before the search for fixes.

    Raises:
        ProgramError: if the program cannot be run; the message gives the reason and the next step in one sentence.
    """
    with (budget or Budget(SECONDS)).in_force():
        recording = record_program(factory.original, scope=replace(scope, has_steps=False))
        error, part = None, factory
        if earlier := recording_before_error(factory, recording, scope):
            error, (recording, part) = recording.verdict.error, earlier

        def told(found: Recording) -> Recording:
            return _with_cells(factory, with_its_error(found, error) if error else found)

        has_repairs = repair and recording.verdict.outcome != "correct" and not _is_beyond_search(recording)
        if first is not None and (has_repairs or (repair and recording.verdict.graph_faults)):
            first(told(recording))
        return told(with_changes(recording, part, scope, run=repair, has_repairs=has_repairs))


def _with_cells(factory: ProgramFactory, recording: Recording) -> Recording:
    """Return the recording with a note on the notebook cells of its lines."""
    verdict = recording.verdict
    notes = (*note_on_cells(factory, verdict), *verdict.notes)
    return structs.replace(recording, verdict=structs.replace(verdict, notes=notes))


def _is_beyond_search(recording: Recording) -> bool:
    """Return whether no change of the modifications can help: the error has another cause, or a gradient without a harm is wrong."""
    verdict = recording.verdict
    is_unused = not verdict.harms and any(fault.kind == UNUSED_TARGET.name for fault in verdict.graph_faults)
    is_of_a_formula = verdict.outcome == "silently-wrong" and slopes_differ(verdict) and not verdict.harms
    return is_unused or is_of_a_formula or is_foreign_error(recording)


def with_changes(
    recording: Recording, factory: ProgramFactory, scope: Scope, *, has_repairs: bool, run: bool = True
) -> Recording:
    """Return the recording with the fixes of its program, the changes for its graph faults, and the notes on them.

    Args:
        recording: the recording.
        factory: the program, and a constructor for its changed versions.
        scope: the length of each run of a change for a graph fault.
        has_repairs: whether to search for fixes.
        run: whether to run the changes for graph faults.
    """
    if not has_repairs:
        return with_suggestions(recording, factory, scope, run=run)
    found = find_repairs(factory, recording.verdict)
    notes, runs = (*recording.verdict.notes, *found.notes), budget_in_force().runs
    verdict = structs.replace(recording.verdict, fixes=found.fixes, notes=notes, runs=runs)
    known = with_suggestions(structs.replace(recording, verdict=verdict), factory, scope, run=run)
    # A change for a graph fault that was run is a fix: a note that no fix was found would be false.
    if not found.reason or any(fault.was_run for fault in known.verdict.graph_faults):
        return known
    return structs.replace(known, verdict=structs.replace(known.verdict, notes=(*notes, found.reason)))


def explain_cell(source: str, space: dict[Any, Any], *, repair: bool = True) -> tuple[Recording, object]:
    """Return the recording of a notebook cell with its fixes, and the value of the cell's last expression.

    The cell runs once in `space`, with all its effects. Every other run starts from the state before the cell and is
    undone.

    Raises:
        ProgramError: if the source is not valid Python.
    """
    with Budget(SECONDS).in_force():
        return _explain_cell(source, space, repair=repair)


def _explain_cell(source: str, space: dict[Any, Any], *, repair: bool) -> tuple[Recording, object]:
    done = record_cell(source, space)
    verdict = done.recording.verdict
    if not repair or (verdict.outcome == "correct" and not verdict.graph_faults):
        return done.recording, done.value
    after = Snapshot((*done.roots, *from_cell(source, space).roots), space)
    done.before.restore()
    try:
        factory = factory_of_cell(source, space)
        has_repairs = verdict.outcome != "correct"
        return with_changes(done.recording, factory, WHOLE, has_repairs=has_repairs), done.value
    finally:
        after.restore()
