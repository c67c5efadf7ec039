"""Record a program: run it plainly, observed, traced and with cloned saves, and combine the results."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autograder.locale.messages import Message
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
from autograder.tape.diagnose.unknown_outcome import (
    recording_of_error,
    refuse_uncompared,
    refuse_unfollowed,
    refuse_unrepeated,
)
from autograder.tape.internals.mode_stack import eager_random_numbers
from autograder.tape.observe.backward_watcher import BackwardTrace
from autograder.tape.observe.names import LeafNames
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.gradient_comparison import first_difference, gradients_of, loses_gradients, parted_at
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Excerpt, Outcome, Verdict
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.engine import Listener
from autograder.tape.run.finished_run import CompilingTookTooLong, Run, is_out_of_time, time_was_up
from autograder.tape.run.once import SECONDS, run_once
from autograder.tape.run.programs.program import Program, from_file, from_function, from_source
from autograder.tape.run.programs.source_text import ProgramError

# Shares of the remaining time: of the first run, and of the run with private copies after it.
FIRST, SECOND = 0.4, 0.6
PATIENCE = 0.8  # share of the remaining time that a run without a finished backward call gets
# Share of the remaining time; if a run with an error took more, other runs do not continue beyond the error.
SLOW = 0.05
TWO_MORE = 1 / 3  # share of the remaining time; if a run takes more, there is no time for two more
SLOWER = 20  # limit for the ratio of an observed and a plain run (about 10 for small tensors)
BEGINNING = 2.0  # seconds to record of a program that does not end


def record(
    program: str | Callable[..., object],
    *,
    file: str = "<program>",
    names: dict[str, Any] | None = None,
    function: str | None = None,
    seconds: float = SECONDS,
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
    made = (
        from_source(program, file, names, function) if isinstance(program, str) else from_function(program, file, names)
    )
    return record_program(made, seconds)


def outcome_of(source: str, names: dict[str, Any] | None = None) -> Outcome:
    """Return the outcome of running a source text."""
    return record(source, names=names).verdict.outcome


def record_program(program: Program, seconds: float = SECONDS, scope: Scope = WHOLE) -> Recording:
    """Return the recording of a program.

    Args:
        program: the program.
        seconds: time limit of a run.
        scope: the part of a long run to record; its other backward calls are only compared.

    Raises:
        ProgramError: if the program could not be run; after a timeout, the attribute `recording` has its first seconds.
        UnknownOutcomeError: if the outcome is unknown, for example because another process determined it.
    """
    with budget_in_force().in_force() as budget:
        plain = _first_run(program, seconds, scope)
        if not scope.has_steps and (alone := recording_of_error(program, plain)) is not None:
            return alone
        # The other runs are slower than the plain run.
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
        budget.stage = "finding the cause"
        return assemble(program, evidence, cloned_saves)


def _first_run(program: Program, seconds: float, scope: Scope) -> Run:
    budget = budget_in_force()
    budget.stage = "running the program unchanged"
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
    """Return a run that ends at its share of the time, but not before a backward call is complete or its patience ends."""
    left = budget_in_force().left
    limit, patience = min(seconds, FIRST * left), min(seconds, PATIENCE * left)
    return run_once(program, seconds=limit, calls=scope.calls, partial=True, compiles=compiles, patience=patience)


def _evidence(program: Program, plain: Run, seconds: float, scope: Scope) -> tuple[Evidence, ClonedSavesRun]:
    """Return the evidence of the other runs. The run that determines the outcome comes first, because time may be short."""
    budget_in_force().stage = "comparing with copies of the saved tensors"
    cloned_saves, meant = _meant(program, plain, seconds, scope)
    evidence = _recorded(program, plain, meant, seconds, scope)
    parted = parted_at(plain, meant, evidence.limit)
    if parted is not None and not any(save.changed and save.call == parted for save in evidence.state.consumed):
        meant.calls, meant.is_cut, meant.is_parted = meant.calls[:parted], True, True
        evidence = _recorded(program, plain, meant, seconds, scope)
    return evidence, cloned_saves


def _recorded(program: Program, plain: Run, meant: Run, seconds: float, scope: Scope) -> Evidence:
    """Return the evidence of the runs that are recorded and traced."""
    budget = budget_in_force()
    is_excerpt = is_long(plain, scope) or meant.is_parted
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
    return Evidence(plain, observed, meant, observer, effect, trace, excerpt=excerpt)


def _differ(plain: Run, meant: Run) -> bool:
    """Return whether a gradient of a run differs from the run with private copies of saved tensors."""
    return first_difference(gradients_of(plain), gradients_of(meant), UNWITNESSED) is not None


def _meant(program: Program, plain: Run, seconds: float, scope: Scope) -> tuple[ClonedSavesRun, Run]:
    """Return the run with private copies. In a long program it ends after a few backward calls if one of these is harmed."""

    left = budget_in_force().left

    def run(most: int | None, *, keeps_leaves: bool = False) -> tuple[ClonedSavesRun, Run]:
        listener = ClonedSavesRun(LeafNames(program.owns), keeps_leaves=keeps_leaves)
        meant = run_again(
            program, listener, listener.around, min(seconds, SECOND * left), most, patience=min(seconds, left)
        )
        if plain.is_cut and len(meant.calls) == len(plain.calls) and not meant.in_backward:
            meant.error, meant.is_cut = None, True  # the plain run did not get as far as to this error
        if keeps_leaves or not loses_gradients(gradients_of(plain), gradients_of(meant)):
            return listener, meant
        return run(most, keeps_leaves=True)

    if plain.error is not None and plain.took > TWO_MORE * left:
        # The outcome is known, and the time is needed to find the line.
        return ClonedSavesRun(), Run(error=time_was_up())
    if not is_long(plain, scope):
        return run(len(plain.calls) if _is_slow(plain) else calls_beyond_error(plain.error, plain.calls))
    whole = len(plain.calls) if plain.is_cut or plain.error is not None else None
    if scope.shown is None and plain.error is None and len(plain.calls) > FEW:
        beginning = run(FEW)
        if _differ(plain, beginning[1]):
            return beginning
    return run(whole)


def _is_slow(plain: Run) -> bool:
    """Return whether a run ended with an error so late that runs beyond the error would take too long."""
    return plain.error is not None and plain.took > SLOW * budget_in_force().left


def _end(excerpt: Excerpt, plain: Run) -> int | None:
    """Return the number of backward calls after which the recording ends, or None for the end of the run."""
    return None if excerpt.last == excerpt.calls and not plain.is_cut else excerpt.last


def _beside_compiled(program: Program, plain: Run, eager: Evidence, seconds: float, most: int | None) -> Evidence:
    """Return the evidence for a compiled program. If only its random numbers differ, use a run with the eager numbers."""

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
    """Return the observed run, repeated with checks after every statement if the line of a modification is uncertain."""
    observer = Observer(program, first=first)
    observed = run_again(program, observer, observer.watching, seconds, last)
    focus = frozenset(write.memory.id for write in observer.state.writes if not write.exact and write.changed)
    if focus:
        observer = Observer(program, focus, first)
        observed = run_again(program, observer, observer.watching, seconds, last)
    return observer, observed


def record_file(path: str | os.PathLike[str], function: str | None = None, *, seconds: float = SECONDS) -> Recording:
    """Return the recording of a script that runs as `__main__`, or of a function of a module.

    Args:
        path: a Python file; it can import modules from its directory, as when it is run directly.
        function: a function, called without arguments or with the return value of the module's `make()`;
            "Class.method" for a method. If it is None and the script never runs a backward, its function `run` is
            called.
        seconds: time limit of a run; there are at least four runs.

    Raises:
        ProgramError: if the program cannot be run; the message gives the reason and the next step in one sentence.
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
    """Return another run of a program that has run before.

    If it cannot be run now (memory, time), the run has this error. `calls` limits the number of backward calls. At its time
    limit, the run contains the results so far.
    """
    try:
        return run_once(
            program, listener, around, seconds=seconds, calls=calls, partial=True, compiles=compiles, patience=patience
        )
    except ProgramError as error:
        return Run(error=error)


def _beginning(program: Program) -> Recording:
    """Return the recording of the first seconds of a program that does not end. Its verdict is the last forecast."""
    observer = Observer(program)
    run = run_again(program, observer, observer.watching, BEGINNING)
    steps = tuple(step.record(index) for index, step in enumerate(observer.state.finished_steps))
    last = next((step.forecast for step in reversed(steps) if step.forecast), schema.Forecast("correct"))
    verdict = Verdict(
        last.outcome,
        run.problem,
        notes=(
            Message(
                "run.beginning_only|The program did not end; only its first {seconds} seconds were recorded.",
                seconds=f"{BEGINNING:g}",
            ),
        ),
    )
    return freeze(program, observer.state, steps, (), verdict)
