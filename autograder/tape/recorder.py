"""A program → a Recording: run it plainly, run it observed, run it with care, and put the three together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from msgspec import structs

from autograder.tape import recording as form
from autograder.tape.careful import Careful
from autograder.tape.doubt import Doubt, doubt_of
from autograder.tape.forecast import with_hindsight
from autograder.tape.observer import Observer
from autograder.tape.program import Program as Runnable
from autograder.tape.program import ProgramError, from_cell, from_function, from_source
from autograder.tape.recording import Outcome, Recording
from autograder.tape.run import SECONDS, Run, run_live, run_once
from autograder.tape.verdict import Evidence, verdict_of
from autograder.tape.walks import Walk, told
from autograder.tape.world import World


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
        ProgramError: it could not be run.
    """
    plain = run_once(program, seconds=seconds)
    observer = Observer(program)
    observed = run_once(program, observer, observer.watching, seconds=seconds)
    walk, careful = Walk(), Careful()
    run_once(program, walk, seconds=seconds)
    done = run_once(program, careful, careful.around, seconds=seconds)
    doubt = doubt_of(program, observer, seconds) if plain.error is None else Doubt()
    evidence = Evidence(plain, observed, done, observer, doubt, walk)
    return assembled(program, evidence, careful)


def record_cell(source: str, space: dict, seconds: float = SECONDS) -> tuple[Recording, object]:
    """Returns the recording of a notebook cell, and the value of its last expression.

    The cell runs once for all to see, in `space`; the run with copies comes before it and leaves no trace.

    Raises:
        ProgramError: the text is not Python.
    """
    program, walk, careful = from_cell(source, space), Walk(keep_graph=True), Careful(keep_graph=True)
    before = World(program.roots, program.space)
    try:
        run_once(program, walk, seconds=seconds, seeded=False)
        done = run_once(program, careful, careful.around, seconds=seconds, seeded=False)
    except ProgramError as error:
        done = Run(error=error)
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
    """Returns the frozen form of all that an observer saw."""
    observer, verdict = evidence.observer, verdict_of(evidence)
    steps = tuple(draft.record(index) for index, draft in enumerate(observer.ledger.drafts))
    steps = with_hindsight(steps, observer.ledger.prospects)
    return Recording(
        version=form.VERSION,
        torch=str(torch.__version__),
        programs=(form.Program(program.file, program.source),),
        steps=settled(steps, evidence, verdict),
        tensors=tuple(seen.record() for seen in observer.ledger.tensors.all),
        storages=tuple(form.Storage(memory.id, memory.size) for memory in observer.ledger.memories.all),
        nodes=tuple(form.Node(n.id, n.name, n.inputs, n.tensor, n.place, n.scope) for n in observer.ledger.graph.nodes),
        saved=tuple(
            form.SavedEdge(
                kept.record_id, kept.node.id, kept.name, kept.memory.id, kept.start, kept.stop, kept.version,
                kept.version_now, kept.changed, kept.tensor, kept.place,
            )
            for kept in observer.ledger.graph.kept
            if kept.record_id is not None
        ),
        backward=told(evidence.walk, careful.walk, observer.ledger),
        verdict=verdict,
    )  # fmt: skip
