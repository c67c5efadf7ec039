"""A program → a Recording: run plainly, observed, traced, and with cloned saves; then the evidence of all runs together."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autograder.locale.translations import in_english
from autograder.tape.diagnose.assembly import assemble, freeze
from autograder.tape.diagnose.compiled_evidence import CompiledEvidence
from autograder.tape.diagnose.evidence import UNWITNESSED, Evidence
from autograder.tape.diagnose.excerpt import (
    FEW,
    WHOLE,
    Scope,
    calls_beyond_error,
    excerpt_of,
    is_long,
)
from autograder.tape.diagnose.foreign_errors import recording_of_error
from autograder.tape.diagnose.unknown_outcome import refuse_uncompared, refuse_unfollowed, refuse_unrepeated
from autograder.tape.internals.compiler import eager_random_numbers
from autograder.tape.observe.backward_trace import BackwardTrace
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.gradient_comparison import first_difference, gradients_of
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Excerpt, Outcome, Verdict
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.engine import Listener
from autograder.tape.run.finished_run import Run
from autograder.tape.run.once import SECONDS, run_once
from autograder.tape.run.programs.program import Program, from_file, from_function, from_source
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.refused_runs import CompilingTookTooLong, is_out_of_time, time_was_up

# Of the time that is left, the first run may take so much, and the one with private copies so much of what is left then.
FIRST, SECOND = 0.4, 0.6
PATIENCE = 0.8  # of the time that is left, for a run in which no backward call has ended
SLOW = 0.05  # of the time that is left: a run that took more is not gone beyond in others
TWO_MORE = 1 / 3  # of the time: where a run takes more of it, there is no time for another two
SLOWER = 20  # how much longer an observed run may take than a plain one (about 10 times, where the tensors are small)
BEGINNING = 2.0  # seconds that are recorded of a program that does not end


def record(
    program: str | Callable[..., object],
    *,
    file: str = "<program>",
    names: dict[str, Any] | None = None,
    function: str | None = None,
    seconds: float = SECONDS,
) -> Recording:
    """Returns everything autograd held while `program` ran, and the verdict, without repairs.

    Args:
        program: source text, or a function; it runs several times, each time from the same seed, and prints nothing.
        file: the file name shown to the reader.
        function: which function of the text to run after the text itself; None for the text alone.
        names: values it starts from, as globals of the text or keyword arguments of the function; each run gets copies.
        seconds: how long one run may take.

    Raises:
        ProgramError: it could not be run; the message says why in one sentence.
    """
    made = (
        from_source(program, file, names, function) if isinstance(program, str) else from_function(program, file, names)
    )
    return record_program(made, seconds)


def outcome_of(source: str, names: dict[str, Any] | None = None) -> Outcome:
    """Return the outcome of running this text, as one of the four words."""
    return record(source, names=names).verdict.outcome


def record_program(program: Program, seconds: float = SECONDS, scope: Scope = WHOLE) -> Recording:
    """Returns the recording of a program.

    Args:
        seconds: how long one run may take.
        scope: what of a long run is asked for; its other backward calls are only compared.

    Raises:
        ProgramError: it could not be run; where it did not end in time, `recording` holds its first seconds.
        UnknownOutcomeError: what decides the outcome happened in another process.
    """
    with budget_in_force().in_force() as budget:
        plain = _first_run(program, seconds, scope)
        if not scope.has_steps and (alone := recording_of_error(program, plain)) is not None:
            return alone
        # A plain run that ended in time is followed by slower ones.
        patience, most = SLOWER * seconds, len(plain.calls) if plain.is_cut else None
        eager = run_again(program, Listener(), nullcontext, patience, most) if plain.compiled else plain
        evidence, cloned_saves = _evidence(program, eager, patience, scope)
        if plain.compiled:
            evidence = _beside_compiled(program, plain, evidence, patience, most)
        refuse_unfollowed(program.file, evidence)
        refuse_uncompared(program.file, evidence)
        refuse_unrepeated(
            program.file,
            evidence,
            lambda: run_again(program, Listener(), nullcontext, patience, most, compiles=plain.compiled),
        )
        budget.stage = "telling the cause"
        return assemble(program, evidence, cloned_saves)


def _first_run(program: Program, seconds: float, scope: Scope) -> Run:
    budget = budget_in_force()
    budget.stage = "running as it is"
    try:
        return _patient_run(program, seconds, scope, compiles=True)
    except CompilingTookTooLong:
        pass
    except ProgramError as error:
        if is_out_of_time(error):
            error.recording = _beginning(program)
        raise
    run = _patient_run(program, seconds, scope)
    run.gave_up_compiling = True
    return run


def _patient_run(program: Program, seconds: float, scope: Scope, *, compiles: bool = False) -> Run:
    """Returns a run that ends when its share of the time is up, but hardly before a backward call is complete."""
    left = budget_in_force().left
    limit, patience = min(seconds, FIRST * left), min(seconds, PATIENCE * left)
    return run_once(program, seconds=limit, calls=scope.calls, partial=True, compiles=compiles, patience=patience)


def _evidence(program: Program, plain: Run, seconds: float, scope: Scope) -> tuple[Evidence, ClonedSavesRun]:
    """Return the evidence of the other runs; the run that decides the outcome comes first, because time may be short."""
    budget, is_excerpt = budget_in_force(), is_long(plain, scope)
    budget.stage = "comparing with private copies of what is saved"
    cloned_saves, meant = _meant(program, plain, seconds, scope)
    excerpt = excerpt_of(plain, meant, scope) if is_excerpt else None
    first, last = (excerpt.first - 1, _end(excerpt, plain)) if excerpt else (0, None)
    budget.stage = "recording"
    observer, observed = _observe(program, seconds, first, last)
    trace = BackwardTrace(first=first)
    run_again(program, trace, nullcontext, seconds, last)
    effect = UntrackedEffect()
    if plain.error is None and not (scope.knows_gradients and _differ(plain, meant)):
        budget.stage = "taking finite differences"
        asked, corrected = scope.check_gradients, not scope.is_proof
        effect = effect_of_untracked_writes(program, observer, seconds, last, asked=asked, corrected=corrected)
    return Evidence(plain, observed, meant, observer, effect, trace, excerpt=excerpt), cloned_saves


def _differ(plain: Run, meant: Run) -> bool:
    """Whether a gradient of a run is not that of the run with private copies of what is saved."""
    return first_difference(gradients_of(plain), gradients_of(meant), UNWITNESSED) is not None


def _meant(program: Program, plain: Run, seconds: float, scope: Scope) -> tuple[ClonedSavesRun, Run]:
    """Returns the run with private copies; of a long program it ends after a few backward calls where one of these was harmed."""

    left = budget_in_force().left

    def run(most: int | None) -> tuple[ClonedSavesRun, Run]:
        listener = ClonedSavesRun()
        return listener, run_again(
            program, listener, listener.around, min(seconds, SECOND * left), most, patience=min(seconds, left)
        )

    if plain.error is not None and plain.took > TWO_MORE * left:
        return ClonedSavesRun(), Run(error=time_was_up())  # the outcome is known, and the line is wanted more
    if not is_long(plain, scope):
        return run(len(plain.calls) if _is_slow(plain) else calls_beyond_error(plain.error, plain.calls))
    whole = len(plain.calls) if plain.is_cut or plain.error is not None else None
    if scope.shown is None and plain.error is None and len(plain.calls) > FEW:
        beginning = run(FEW)
        if _differ(plain, beginning[1]):
            return beginning
    return run(whole)


def _is_slow(plain: Run) -> bool:
    """Whether a run ended with an error so late that a run beyond it would take the time of all others."""
    return plain.error is not None and plain.took > SLOW * budget_in_force().left


def _end(excerpt: Excerpt, plain: Run) -> int | None:
    """Returns after how many backward calls nothing more is recorded; None where that is the end of the run."""
    return None if excerpt.last == excerpt.calls and not plain.is_cut else excerpt.last


def _beside_compiled(program: Program, plain: Run, eager: Evidence, seconds: float, most: int | None) -> Evidence:
    """Returns the evidence of a compiled program; where only its random numbers are others, of a run with those of the eager one."""

    def beside(run: Run) -> CompiledEvidence:
        return CompiledEvidence(
            run, eager.observed, eager.cloned_saves, eager.observer, eager.untracked_effect, eager.trace, eager,
            excerpt=eager.excerpt,
        )  # fmt: skip

    evidence = beside(plain)
    if evidence.outcome != "silently-wrong":
        return evidence
    with eager_random_numbers():
        same_numbers = beside(run_again(program, Listener(), nullcontext, seconds, most, compiles=True))
    return same_numbers if same_numbers.outcome == "correct" else evidence


def _observe(program: Program, seconds: float, first: int = 0, last: int | None = None) -> tuple[Observer, Run]:
    """Returns the observed run; where a write's line is uncertain, the run is repeated and looks at that memory after every statement."""
    observer = Observer(program, first=first)
    observed = run_again(program, observer, observer.watching, seconds, last)
    focus = frozenset(write.memory.id for write in observer.state.writes if not write.exact and write.changed)
    if focus:
        observer = Observer(program, focus, first)
        observed = run_again(program, observer, observer.watching, seconds, last)
    return observer, observed


def record_file(path: str | os.PathLike[str], function: str | None = None, *, seconds: float = SECONDS) -> Recording:
    """Returns the recording of a script that is run as `__main__`, or of one function of a module.

    Args:
        path: a Python file; its neighbours can be imported as when it is run by itself.
        function: a function that needs no argument, or what the module's `make()` returns; a method as "Class.method". Where none
            is named and the script itself never runs a backward, its `run` is called.
        seconds: how long one run may take; there are at least four.

    Raises:
        ProgramError: it cannot be run; the message says in one sentence what was seen and what to do.
    """
    return record_program(from_file(path, function), seconds)


def run_again(
    program: Program,
    listener: Listener,
    around: Callable[[], AbstractContextManager[None]],
    seconds: float,
    calls: int | None = None,
    *,
    compiles: bool = False,
    patience: float = 0.0,
) -> Run:
    """Returns one more run of a program that has run before; if it cannot be run now (memory, time), that is the run's error.

    With `calls` it ends after so many backward calls; where its time is up, it is what it did until then.
    """
    try:
        return run_once(
            program, listener, around, seconds=seconds, calls=calls, partial=True, compiles=compiles, patience=patience
        )
    except ProgramError as error:
        return Run(error=error)


def _beginning(program: Program) -> Recording:
    """Returns the recording of the first seconds of a program that does not end; its verdict is the last forecast."""
    observer = Observer(program)
    run = run_again(program, observer, observer.watching, BEGINNING)
    steps = tuple(step.record(index) for index, step in enumerate(observer.state.finished_steps))
    last = next((step.forecast for step in reversed(steps) if step.forecast), schema.Forecast("correct"))
    verdict = Verdict(
        last.outcome,
        run.problem,
        notes=(in_english("The program did not end; this is its first {seconds} seconds.", seconds=f"{BEGINNING:g}"),),
    )
    return freeze(program, observer.state, steps, (), verdict)
