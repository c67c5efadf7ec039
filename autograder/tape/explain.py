"""Explain a program: run it, derive the evidence and the verdict from the runs, and add proven fixes.

`record_program` is the way from a program to its recording, `explain_program` the whole way; each stage receives the
results of the stages before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from autograder.errors import message_of
from autograder.locale.messages import CLAUSES, Message, id_of, join_messages, values_of
from autograder.tape.diagnose import unknown_outcome
from autograder.tape.diagnose.assembly import assemble, recording_of_beginning
from autograder.tape.diagnose.backward_errors import custom_backward, unused_target
from autograder.tape.diagnose.evidence import CompiledEvidence, Evidence
from autograder.tape.diagnose.rule_errors import broken_rule, nothing_required
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.all_runs import Runs, all_runs, beginning_of, cell_runs, compiled_again, first_run, repeated
from autograder.tape.oracle.excerpt import WHOLE, Scope
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome, Problem, Verdict
from autograder.tape.run.budget import SECONDS, Budget, current_budget
from autograder.tape.run.finished_run import is_out_of_time
from autograder.tape.run.programs.notebook_text import note_on_other_code, place_in_cell
from autograder.tape.run.programs.program import Program, from_cell, from_file_text, from_function, from_source
from autograder.tape.run.programs.source_text import ProgramError, read_source
from autograder.tape.run.runner import SECONDS as RUN_SECONDS
from autograder.tape.run.runner import Runner
from autograder.tape.run.snapshot import Snapshot

if TYPE_CHECKING:
    # The sandbox hides `repair`, and submissions record programs: what needs it imports it late.
    from autograder.tape.repair.trial.program_factory import ProgramFactory

NOTED = 3  # number of notes whose lines are among the most important ones
# Kinds of graph faults that no change of an in-place operation fixes.
BEYOND_SEARCH = {kind.name for kind in (unused_target, custom_backward, broken_rule, nothing_required)}
# Changes for graph faults that are tried before a search, which would leave these faults: it would offer
# `retain_graph=True`, or move an update out of its loop.
CHANGED_FIRST = {"target.graph", "leaf.make_leaf"}

NOTE = Message(
    "note.before_error|Before this error, a backward call gave a wrong gradient without an error; the explanation is about that gradient."
)


def explain_program(
    factory: ProgramFactory,
    *,
    repair: bool = True,
    budget: Budget | None = None,
    scope: Scope = WHOLE,
    first: Callable[[Recording], None] | None = None,
    compared: Callable[[Recording], None] | None = None,
) -> Recording:
    """Return the recording of a program, with fixes and notes on them in its verdict.

    Args:
        factory: the program, and a constructor for its changed versions.
        repair: whether to search for fixes if the outcome is not "correct".
        budget: time limit for the whole call, one minute by default; the result contains everything known when it is
            spent.
        scope: which backward call of a long run to record.
        first: called with the recording before the search for fixes.
        compared: called before a recording that may exceed the time, with the verdict of the comparison alone.

    Raises:
        ProgramError: if the program cannot be run; the message gives the reason and the next step in one sentence.
    """
    with (budget or Budget(SECONDS)).active():
        recording = record_program(factory.original, scope=replace(scope, has_steps=False), compared=compared)
        raised, error, changed = recording.verdict.error, None, factory
        has_calls = bool(recording.backward or recording.verdict.excerpt)
        if raised and recording.verdict.outcome == "raises-forward" and has_calls:
            part = factory.until(raised)
            earlier = record_program(part.original, scope=scope)
            if earlier.verdict.outcome == "silently-wrong" and earlier.verdict.harms:
                recording, error, changed = earlier, raised, part
            elif unknown_outcome.is_foreign_error(recording):
                changed = part
                if earlier.verdict.outcome == "correct":
                    recording = _with_comparison(recording, earlier)

        def with_notes(recording: Recording) -> Recording:
            return _with_notes(factory, recording, error)

        has_repairs = repair and recording.verdict.outcome != "correct" and not _is_beyond_search(recording)
        if first is not None and (has_repairs or (repair and recording.verdict.graph_faults)):
            first(with_notes(recording))
        return with_notes(_with_fixes(recording, changed, scope, run=repair, has_repairs=has_repairs))


def explain_cell(source: str, space: dict[Any, Any], *, repair: bool = True) -> tuple[Recording, object]:
    """Return the recording of a notebook cell with its fixes, and the value of the cell's last expression.

    The cell runs once in `space`, with all its effects. Every other run starts from the state before the cell and is
    undone.

    Raises:
        ProgramError: if the source is not Python, or changes tensors that the graph of an earlier cell saved, so that
            the outcome is unknown.
    """
    from autograder.tape.repair.trial.program_factory import factory_of_cell

    with Budget(SECONDS).active():
        program = from_cell(source, space)
        before = Snapshot(program.roots, program.space)
        runs = cell_runs(Runner(program), before)
        evidence = Evidence(runs)
        unknown_outcome.refuse_inherited(evidence)
        recording = assemble(program, evidence)
        verdict, value = recording.verdict, runs.plain.returned
        if not repair or (verdict.outcome == "correct" and not verdict.graph_faults):
            return recording, value
        with Snapshot((*program.roots, *from_cell(source, space).roots), space):
            before.restore()
            factory = factory_of_cell(source, space)
            return _with_fixes(recording, factory, WHOLE, has_repairs=verdict.outcome != "correct"), value


def record_program(
    program: Program,
    seconds: float = RUN_SECONDS,
    scope: Scope = WHOLE,
    compared: Callable[[Recording], None] | None = None,
) -> Recording:
    """Return the recording of a program: the state of autograd during the run, and the verdict without fixes.

    Of a long run, the part `scope` is recorded; its other backward calls are only compared. If the comparison took much
    of the time, `compared` receives its verdict first.

    Raises:
        ProgramError: if the program could not be run; after a timeout, the attribute `recording` has its first seconds.
        UnknownOutcomeError: if the outcome is unknown, for example because another process determined it.
    """
    with current_budget().active() as budget:
        runner, observer = Runner(program, seconds), Observer(program) if scope.has_run else None
        try:
            plain = first_run(runner, scope, observer)
        except ProgramError as error:
            if is_out_of_time(error):
                error.recording = recording_of_beginning(program, *beginning_of(runner))
            raise
        if not scope.has_steps and (alone := unknown_outcome.recording_of_error(program, plain)) is not None:
            return alone

        def only_compared(runs: Runs) -> None:
            if compared is not None and (evidence := Evidence(runs)).outcome == "correct":
                with suppress(unknown_outcome.UnknownOutcomeError):
                    compared(assemble(program, _known(evidence)))

        evidence = _known(_evidence(runner, all_runs(runner, plain, scope, observer, only_compared)))
        if unknown_outcome.is_unexplained(evidence):
            unknown_outcome.refuse_unrepeated(evidence, repeated(runner, plain, compiles=plain.compiled))
        budget.stage = "finding the cause"
        return assemble(program, evidence)


def _known(evidence: Evidence) -> Evidence:
    """Return the evidence if no other process determined the outcome and a reference computed the gradients.

    Raises:
        UnknownOutcomeError: otherwise.
    """
    unknown_outcome.refuse_unfollowed(evidence)
    unknown_outcome.refuse_uncompared(evidence)
    return evidence


def _evidence(runner: Runner, runs: Runs) -> Evidence:
    """Return the evidence of runs. If only the random numbers of a compiled run differ, use one with the eager numbers."""
    if runs.eager is None:
        return Evidence(runs)
    eager = Evidence(replace(runs, plain=runs.eager, eager=None))
    evidence = CompiledEvidence(runs, eager)
    if evidence.outcome != "silently-wrong":
        return evidence
    same_numbers = CompiledEvidence(compiled_again(runner, runs), eager)
    return same_numbers if same_numbers.outcome == "correct" else evidence


def _with_comparison(recording: Recording, earlier: Recording) -> Recording:
    """Return the recording of an error with the notes on the comparison of the calls before it, as in a run that ends there."""
    notes = list(recording.verdict.notes)
    at = next((at for at, note in enumerate(notes) if id_of(note) == "excerpt.none_compared"), None)
    if at is not None:
        shown = values_of(notes[at])["shown"]
        notes[at : at + 1] = [
            note.with_values(shown=shown) if "shown" in values_of(note) else note
            for note in earlier.verdict.notes if isinstance(note, Message) and note.id.startswith("excerpt.")
        ]  # fmt: skip
    return structs.replace(recording, verdict=structs.replace(recording.verdict, notes=tuple(notes)))


def _with_notes(factory: ProgramFactory, recording: Recording, error: Problem | None) -> Recording:
    """Return the recording with the cells of its lines, and with the error of the whole program if it shows an earlier fault."""
    verdict = recording.verdict
    if error:
        verdict = structs.replace(verdict, outcome="raises-forward", error=error, notes=(NOTE, *verdict.notes))
    if factory.notebook is None:
        return structs.replace(recording, verdict=verdict)
    if note := note_on_other_code(factory.notebook, factory.file, factory.source):
        verdict = structs.replace(verdict, notes=(note, *verdict.notes))
    lines = sorted({line for line in _lines(factory.original.file, verdict) if line})
    if lines:
        places = {line: place_in_cell(factory.source, line) for line in lines}
        each = [Message("notebook.line_is|line {line} = {place}", line=line, place=places[line]) for line in lines]
        named = join_messages(each, CLAUSES)
        note = Message("notebook.lines_count|Lines count through all code cells: {named}.", named=named)
        verdict = structs.replace(verdict, notes=(note, *verdict.notes))
    return structs.replace(recording, verdict=verdict)


def _lines(script: str, verdict: Verdict) -> list[int | None]:
    """Return the most important lines of the verdict in the program's own file."""
    places = [place for harm in verdict.harms[:1] for place in (*harm.mutated_at[:2], harm.saved_at)]
    places += [fault.place for fault in verdict.graph_faults[:1]]
    error = verdict.error
    raised = [error.line] if error and error.is_in(script) else []
    lines = [place.line for place in places if place.file == script]
    lines += [values_of(note)["line"] for note in verdict.notes[:NOTED] if id_of(note) == "note.of_line"]
    return [*lines, *raised, *(fix.line for fix in verdict.fixes[:1] if not fix.file)]


def _is_beyond_search(recording: Recording) -> bool:
    """Return whether no change of the modifications can help: the error has another cause, or a gradient without a harm is wrong."""
    from autograder.tape.repair.search import derivatives_answer

    verdict = recording.verdict
    is_unused = not verdict.harms and any(fault.kind in BEYOND_SEARCH for fault in verdict.graph_faults)
    is_of_a_formula = verdict.outcome == "silently-wrong" and derivatives_answer(verdict) == "no" and not verdict.harms
    return is_unused or is_of_a_formula or unknown_outcome.is_foreign_error(recording)


def _with_fixes(
    recording: Recording, factory: ProgramFactory, scope: Scope, *, has_repairs: bool, run: bool = True
) -> Recording:
    """Return the recording with the fixes of its program, the changes for its graph faults, and the notes on them.

    `scope` is the length of each run of a change for a graph fault, and `run` whether to run these changes at all.
    """
    from autograder.tape.repair.repairs import find_repairs
    from autograder.tape.repair.suggestions import with_suggestions

    def suggested(verdict: Verdict) -> Verdict:
        return with_suggestions(verdict, factory, scope, prove if run else None)

    verdict, reason = recording.verdict, None
    if not verdict.harms and any(id_of(fault.change) in CHANGED_FIRST for fault in verdict.graph_faults):
        verdict = suggested(verdict)
    is_mended = any(fault.was_run for fault in verdict.graph_faults)
    if has_repairs and not is_mended:
        repairs = find_repairs(factory, verdict, prove)
        notes, reason = (*verdict.notes, *repairs.notes), repairs.reason
        verdict = structs.replace(verdict, fixes=repairs.fixes, notes=notes, runs=current_budget().runs)
    verdict = verdict if is_mended else suggested(verdict)
    # A change for a graph fault that was run is a fix: a note that no fix was found would be false.
    is_explained = bool(verdict.graph_faults) and id_of(reason or "").startswith("fix.other_error")
    if reason and not is_explained and not any(fault.was_run for fault in verdict.graph_faults):
        verdict = structs.replace(verdict, notes=(*verdict.notes, reason))
    return structs.replace(recording, verdict=verdict)


def prove(program: Program, scope: Scope) -> Verdict:
    """Return the verdict on a changed program, which is "raises-forward" if it cannot be run."""
    try:
        return record_program(program, scope=replace(scope, is_proof=True)).verdict
    except ProgramError as error:
        return Verdict("raises-forward", Problem(type(error).__name__, message_of(error), None))


def record(
    program: str | Callable[..., object],
    *,
    file: str = "<program>",
    names: dict[str, Any] | None = None,
    function: str | None = None,
    seconds: float = RUN_SECONDS,
) -> Recording:
    """Return the recording of `program`: the state of autograd during the run, and the verdict without fixes.

    Args:
        program: source text, or a function; it runs several times with the same seeds, and its output is discarded.
        file: file name in the report.
        names: initial values, as globals of the text or keyword arguments of the function; each run receives copies.
        function: name of a function in the text to call after the text has run; None for the text alone.
        seconds: time limit of a run.

    Raises:
        ProgramError: if the program could not be run; the message gives the reason in one sentence.
    """
    if isinstance(program, str):
        return record_program(from_source(program, file, names, function), seconds)
    return record_program(from_function(program, file, names), seconds)


def record_file(
    path: str | os.PathLike[str], function: str | None = None, *, seconds: float = RUN_SECONDS
) -> Recording:
    """Return the recording of a script that runs as `__main__`, or of a function of a module.

    Args:
        path: a Python file; it can import modules from its directory, as when it is run directly.
        function: a function, called without arguments or with the return value of the module's `make()`;
            "Class.method" for a method. If it is None and the script never runs a backward, its function `run` is
            called.
        seconds: time limit of a run; there are at least three runs.

    Raises:
        ProgramError: if the program cannot be run; the message gives the reason and the next step in one sentence.
    """
    return record_program(from_file_text(read_source(path), path, function), seconds)


def outcome_of(source: str, names: dict[str, Any] | None = None) -> Outcome:
    """Return the outcome of running a source text."""
    return record(source, names=names).verdict.outcome
