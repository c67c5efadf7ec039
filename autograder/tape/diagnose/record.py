"""A program → a Recording: run it plainly, run it observed, run it with care, and put the three together."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.verdict import verdict_of
from autograder.tape.observe.backward_trace import BackwardTrace, told
from autograder.tape.observe.forecast import with_hindsight
from autograder.tape.observe.observer import Observer
from autograder.tape.observe.state import RunState
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.oracle.untracked_writes import UntrackedEffect, effect_of_untracked_writes
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome, Verdict
from autograder.tape.run.engine import Listener
from autograder.tape.run.once import SECONDS, Run, run_live, run_once
from autograder.tape.run.program import Program, ProgramError, from_cell, from_file, from_function, from_source
from autograder.tape.run.snapshot import Snapshot
from autograder.tape.run.time_limit import TimeUp

SLOWER = 20  # how much longer an observed run may take than a plain one (about 10 times, where the tensors are small)
BEGINNING = 2.0  # seconds of a program without end that are recorded


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
        program: source text, or a function; it runs several times, each time from the same seed and printing nothing.
        file: what the reader sees as the program's file.
        function: which function of the text is run once the text is loaded; None: the text alone.
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
        plain = run_once(program, seconds=seconds)
    except ProgramError as error:
        if isinstance(error.__cause__, TimeUp):
            error.recording = _beginning(program)
        raise
    # A plain run that ended in time is followed by slower ones.
    patience = SLOWER * seconds
    observer = Observer(program)
    observed = _again(program, observer, observer.watching, patience)
    focus = frozenset(w.memory.id for w in observer.state.wrote if not w.exact and w.changed)
    if focus:
        observer = Observer(program, focus)
        observed = _again(program, observer, observer.watching, patience)
    walk, cloned_saves = BackwardTrace(), ClonedSavesRun()
    _again(program, walk, nullcontext, patience)
    done = _again(program, cloned_saves, cloned_saves.around, patience)
    untracked_effect = (
        effect_of_untracked_writes(program, observer, patience) if plain.error is None else UntrackedEffect()
    )
    evidence = Evidence(plain, observed, done, observer, untracked_effect, walk)
    return assembled(program, evidence, cloned_saves)


def explain_file(path: str | os.PathLike[str], function: str | None = None, *, seconds: float = SECONDS) -> Recording:
    """Returns the recording of a script that is run as `__main__`, or of one function of a module.

    Args:
        path: a Python file; its neighbours can be imported as when it is run by itself.
        function: a function that needs no argument, or what the module's `make()` returns; a method as "Class.method". Where none
            is named and the script itself never runs a backward, its `run` is called.
        seconds: how long one run may take; there are at least three.

    Raises:
        ProgramError: it cannot be run; the message says in one sentence what was seen and what to do.
    """
    return record_program(from_file(path, function), seconds)


def _again(
    program: Program,
    listener: Listener,
    around: Callable[[], AbstractContextManager[None]],
    seconds: float,
    *,
    seeded: bool = True,
) -> Run:
    """Returns one more run of a program that could be run; where it now cannot (memory, time), that is its error."""
    try:
        return run_once(program, listener, around, seconds=seconds, seeded=seeded)
    except ProgramError as error:
        return Run(error=error)


def _beginning(program: Program) -> Recording:
    """Returns what the first seconds of a program that does not end look like; its verdict is what was forecast last."""
    observer = Observer(program)
    run = _again(program, observer, observer.watching, BEGINNING)
    steps = tuple(draft.record(index) for index, draft in enumerate(observer.state.drafts))
    last = next((step.forecast for step in reversed(steps) if step.forecast), schema.Forecast("correct"))
    verdict = Verdict(
        last.outcome, run.problem, notes=(f"The program did not end; this is its first {BEGINNING:g} seconds.",)
    )
    return _frozen(program, observer.state, steps, (), verdict)


def record_cell(source: str, space: dict[str, Any], seconds: float = SECONDS) -> tuple[Recording, object]:
    """Returns the recording of a notebook cell, and the value of its last expression.

    The cell runs once for all to see, in `space`; the run with copies comes before it and leaves no trace.

    Raises:
        ProgramError: the text is not Python.
    """
    program, walk, cloned_saves = (
        from_cell(source, space),
        BackwardTrace(keep_graph=True),
        ClonedSavesRun(keep_graph=True),
    )
    before = Snapshot(program.roots, program.space)
    _again(program, walk, nullcontext, seconds, seeded=False)
    done = _again(program, cloned_saves, cloned_saves.around, seconds, seeded=False)
    observer = Observer(program)
    live = run_live(program, observer, observer.watching)
    if isinstance(live.error, (KeyboardInterrupt, SystemExit)):
        raise live.error
    untracked_effect = UntrackedEffect()
    if live.error is None and observer.state.untracked.used_writes:
        after = Snapshot(program.roots, program.space)
        before.restore()
        untracked_effect = effect_of_untracked_writes(program, observer, seconds, seeded=False)
        after.restore()
    return assembled(program, Evidence(live, live, done, observer, untracked_effect, walk), cloned_saves), live.returned


def settled(steps: tuple[schema.Step, ...], evidence: Evidence, verdict: Verdict) -> tuple[schema.Step, ...]:
    """Returns the steps with forecasts that know what the oracles found.

    Whether a changed value matters, whether a gradient is spoilt on its way, and whether a backward of the user's own raises,
    shows only when it has run: a saved tensor that was overwritten may not be needed in the end.
    """
    right, known = schema.Forecast("correct"), schema.Forecast(verdict.outcome)
    if verdict.outcome == "correct":
        feared = {step.index for step in steps if step.forecast and step.forecast.outcome == "silently-wrong"}
        return tuple(structs.replace(step, forecast=right) if step.index in feared else step for step in steps)
    calls = [backward_call.call for backward_call in evidence.observer.state.backward_calls]
    number = evidence.wrong_call if verdict.outcome == "silently-wrong" else len(calls) - 1
    if number is None or not 0 <= number < len(calls):
        return steps
    at = calls[number]
    return tuple(structs.replace(s, forecast=known) if s.index == at and s.forecast == right else s for s in steps)


def assembled(program: Program, evidence: Evidence, cloned_saves: ClonedSavesRun) -> Recording:
    """Returns the frozen form of all that was seen, and the verdict."""
    state, verdict = evidence.observer.state, verdict_of(evidence)
    steps = tuple(draft.record(index) for index, draft in enumerate(state.drafts))
    steps = settled(with_hindsight(steps, state.backward_calls), evidence, verdict)
    return _frozen(program, state, steps, told(evidence.trace, cloned_saves.walk, state), verdict)


def _frozen(
    program: Program,
    state: RunState,
    steps: tuple[schema.Step, ...],
    walk: tuple[schema.BackwardStep, ...],
    verdict: Verdict,
) -> Recording:
    return Recording(
        version=schema.VERSION,
        torch=str(torch.__version__),
        programs=(schema.SourceFile(program.file, program.source), *_other_programs(program, state)),
        steps=steps,
        tensors=tuple(seen.record() for seen in state.tensors.all),
        storages=tuple(schema.Storage(memory.id, memory.size) for memory in state.memories.all),
        nodes=tuple(schema.Node(n.id, n.name, n.inputs, n.tensor, n.place, n.scope) for n in state.graph.nodes),
        saved=tuple(kept.record() for kept in state.graph.kept if kept.record_id is not None),
        backward=walk,
        verdict=verdict,
    )


def _other_programs(program: Program, state: RunState) -> list[schema.SourceFile]:
    """Returns the other files of the user's that ran, such as a module that the program imports."""
    return [
        schema.SourceFile(program.shown(file), "".join(linecache.getlines(file)))
        for file in state.statements.files
        if file != program.code_file
    ]
