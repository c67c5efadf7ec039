"""A program → a Recording: run it plainly, run it observed, run it with care, and put the three together."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from msgspec import structs

from autograder.tape import recording as form
from autograder.tape.careful import Careful
from autograder.tape.doubt import Doubt, doubt_of
from autograder.tape.engine import Listener
from autograder.tape.findings import Outcome
from autograder.tape.forecast import with_hindsight
from autograder.tape.ledger import Ledger
from autograder.tape.observer import Observer
from autograder.tape.program import Program as Runnable
from autograder.tape.program import ProgramError, from_cell, from_function, from_source
from autograder.tape.recording import Recording
from autograder.tape.run import SECONDS, Run, TimeUp, run_live, run_once
from autograder.tape.verdict import Evidence, verdict_of
from autograder.tape.walks import Walk, told
from autograder.tape.world import World

SLOWER = 20  # how much longer an observed run may take than a plain one (about 10 times, where the tensors are small)
BEGINNING = 2.0  # seconds of a program without end that are recorded


def record(
    program: str | Callable,
    *,
    file: str = "<program>",
    names: dict | None = None,
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


def outcome_of(source: str, names: dict | None = None) -> Outcome:
    """Returns what happens when this text runs, in one of the four words."""
    return record(source, names=names).verdict.outcome


def record_program(program: Runnable, seconds: float = SECONDS) -> Recording:
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
    focus = frozenset(w.memory.id for w in observer.ledger.wrote if not w.exact and w.changed)
    if focus:
        observer = Observer(program, focus)
        observed = _again(program, observer, observer.watching, patience)
    walk, careful = Walk(), Careful()
    _again(program, walk, nullcontext, patience)
    done = _again(program, careful, careful.around, patience)
    doubt = doubt_of(program, observer, patience) if plain.error is None else Doubt()
    evidence = Evidence(plain, observed, done, observer, doubt, walk)
    return assembled(program, evidence, careful)


def _again(
    program: Runnable,
    listener: Listener,
    around: Callable[[], AbstractContextManager],
    seconds: float,
    *,
    seeded: bool = True,
) -> Run:
    """Returns one more run of a program that could be run; where it now cannot (memory, time), that is its error."""
    try:
        return run_once(program, listener, around, seconds=seconds, seeded=seeded)
    except ProgramError as error:
        return Run(error=error)


def _beginning(program: Runnable) -> Recording:
    """Returns what the first seconds of a program that does not end look like; its verdict is what was forecast last."""
    observer = Observer(program)
    run = _again(program, observer, observer.watching, BEGINNING)
    steps = tuple(draft.record(index) for index, draft in enumerate(observer.ledger.drafts))
    last = next((step.forecast for step in reversed(steps) if step.forecast), form.Forecast("correct"))
    verdict = form.Verdict(
        last.outcome, run.problem, notes=(f"The program did not end; this is its first {BEGINNING:g} seconds.",)
    )
    return _frozen(program, observer.ledger, steps, (), verdict)


def record_cell(source: str, space: dict, seconds: float = SECONDS) -> tuple[Recording, object]:
    """Returns the recording of a notebook cell, and the value of its last expression.

    The cell runs once for all to see, in `space`; the run with copies comes before it and leaves no trace.

    Raises:
        ProgramError: the text is not Python.
    """
    program, walk, careful = from_cell(source, space), Walk(keep_graph=True), Careful(keep_graph=True)
    before = World(program.roots, program.space)
    _again(program, walk, nullcontext, seconds, seeded=False)
    done = _again(program, careful, careful.around, seconds, seeded=False)
    observer = Observer(program)
    live = run_live(program, observer, observer.watching)
    if isinstance(live.error, (KeyboardInterrupt, SystemExit)):
        raise live.error
    doubt = Doubt()
    if live.error is None and observer.ledger.untracked.used_writes:
        after = World(program.roots, program.space)
        before.restore()
        doubt = doubt_of(program, observer, seconds, seeded=False)
        after.restore()
    return assembled(program, Evidence(live, live, done, observer, doubt, walk), careful), live.returned


def settled(steps: tuple[form.Step, ...], evidence: Evidence, verdict: form.Verdict) -> tuple[form.Step, ...]:
    """Returns the steps with forecasts that know what the oracles found.

    Whether a changed value matters, whether a gradient is spoilt on its way, and whether a backward of the user's own raises,
    shows only when it has run: a saved tensor that was overwritten may not be needed in the end.
    """
    right, known = form.Forecast("correct"), form.Forecast(verdict.outcome)
    if verdict.outcome == "correct":
        feared = {step.index for step in steps if step.forecast and step.forecast.outcome == "silently-wrong"}
        return tuple(structs.replace(step, forecast=right) if step.index in feared else step for step in steps)
    calls = [prospect.call for prospect in evidence.observer.ledger.prospects]
    number = evidence.wrong_call if verdict.outcome == "silently-wrong" else len(calls) - 1
    if number is None or not 0 <= number < len(calls):
        return steps
    at = calls[number]
    return tuple(structs.replace(s, forecast=known) if s.index == at and s.forecast == right else s for s in steps)


def assembled(program: Runnable, evidence: Evidence, careful: Careful) -> Recording:
    """Returns the frozen form of all that was seen, and the verdict."""
    ledger, verdict = evidence.observer.ledger, verdict_of(evidence)
    steps = tuple(draft.record(index) for index, draft in enumerate(ledger.drafts))
    steps = settled(with_hindsight(steps, ledger.prospects), evidence, verdict)
    return _frozen(program, ledger, steps, told(evidence.walk, careful.walk, ledger), verdict)


def _frozen(
    program: Runnable,
    ledger: Ledger,
    steps: tuple[form.Step, ...],
    walk: tuple[form.BackwardStep, ...],
    verdict: form.Verdict,
) -> Recording:
    return Recording(
        version=form.VERSION,
        torch=str(torch.__version__),
        programs=(form.Program(program.file, program.source), *_other_programs(program, ledger)),
        steps=steps,
        tensors=tuple(seen.record() for seen in ledger.tensors.all),
        storages=tuple(form.Storage(memory.id, memory.size) for memory in ledger.memories.all),
        nodes=tuple(form.Node(n.id, n.name, n.inputs, n.tensor, n.place, n.scope) for n in ledger.graph.nodes),
        saved=tuple(kept.record() for kept in ledger.graph.kept if kept.record_id is not None),
        backward=walk,
        verdict=verdict,
    )


def _other_programs(program: Runnable, ledger: Ledger) -> list[form.Program]:
    """Returns the other files of the user's that ran, such as a module that the program imports."""
    return [
        form.Program(program.shown(file), "".join(linecache.getlines(file)))
        for file in ledger.statements.files
        if file != program.code_file
    ]
