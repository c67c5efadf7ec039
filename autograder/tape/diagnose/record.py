"""A program → a Recording: run plainly, observed, traced, and with cloned saves; then the evidence of all runs together."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from autograder.tape.diagnose.assembly import assemble, freeze
from autograder.tape.diagnose.compiled_evidence import CompiledEvidence
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.internals.compiler import eager_random_numbers
from autograder.tape.observe.backward_trace import BackwardTrace
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome, Verdict
from autograder.tape.run.engine import Listener
from autograder.tape.run.once import SECONDS, Run, run_once
from autograder.tape.run.program import Program, from_file, from_function, from_source
from autograder.tape.run.source_text import ProgramError
from autograder.tape.run.time_limit import TimeUp

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
    """Returns what happens when this text runs, in one of the four words."""
    return record(source, names=names).verdict.outcome


def record_program(program: Program, seconds: float = SECONDS) -> Recording:
    """Returns the recording of a program.

    Raises:
        ProgramError: it could not be run; where it did not end in time, `recording` holds its first seconds.
    """
    try:
        plain = run_once(program, seconds=seconds, compiles=True)
    except ProgramError as error:
        if isinstance(error.__cause__, TimeUp):
            error.recording = _beginning(program)
        raise
    # A plain run that ended in time is followed by slower ones.
    patience = SLOWER * seconds
    observer, observed = _observe(program, patience)
    trace, cloned_saves = BackwardTrace(), ClonedSavesRun()
    run_again(program, trace, nullcontext, patience)
    meant = run_again(program, cloned_saves, cloned_saves.around, patience)
    eager = run_again(program, Listener(), nullcontext, patience) if plain.compiled else plain
    effect = effect_of_untracked_writes(program, observer, patience) if eager.error is None else UntrackedEffect()
    evidence = Evidence(eager, observed, meant, observer, effect, trace)
    if plain.compiled:
        evidence = _beside_compiled(program, plain, evidence, patience)
    return assemble(program, evidence, cloned_saves)


def _beside_compiled(program: Program, plain: Run, eager: Evidence, seconds: float) -> Evidence:
    """Returns the evidence of a compiled program; where only its random numbers are others, of a run with those of the eager one."""

    def beside(run: Run) -> CompiledEvidence:
        return CompiledEvidence(
            run, eager.observed, eager.cloned_saves, eager.observer, eager.untracked_effect, eager.trace, eager
        )

    evidence = beside(plain)
    if evidence.outcome != "silently-wrong":
        return evidence
    with eager_random_numbers():
        same_numbers = beside(run_again(program, Listener(), nullcontext, seconds, compiles=True))
    return same_numbers if same_numbers.outcome == "correct" else evidence


def _observe(program: Program, seconds: float) -> tuple[Observer, Run]:
    """Returns the observed run; where a write's line is uncertain, the run is repeated and looks at that memory after every statement."""
    observer = Observer(program)
    observed = run_again(program, observer, observer.watching, seconds)
    focus = frozenset(write.memory.id for write in observer.state.writes if not write.exact and write.changed)
    if focus:
        observer = Observer(program, focus)
        observed = run_again(program, observer, observer.watching, seconds)
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
    *,
    compiles: bool = False,
) -> Run:
    """Returns one more run of a program that has run before; if it cannot be run now (memory, time), that is the run's error."""
    try:
        return run_once(program, listener, around, seconds=seconds, compiles=compiles)
    except ProgramError as error:
        return Run(error=error)


def _beginning(program: Program) -> Recording:
    """Returns the recording of the first seconds of a program that does not end; its verdict is the last forecast."""
    observer = Observer(program)
    run = run_again(program, observer, observer.watching, BEGINNING)
    steps = tuple(step.record(index) for index, step in enumerate(observer.state.finished_steps))
    last = next((step.forecast for step in reversed(steps) if step.forecast), schema.Forecast("correct"))
    verdict = Verdict(
        last.outcome, run.problem, notes=(f"The program did not end; this is its first {BEGINNING:g} seconds.",)
    )
    return freeze(program, observer.state, steps, (), verdict)
