"""Build a Recording from the results of all runs."""

from __future__ import annotations

import linecache
from bisect import bisect_left
from collections.abc import Iterator

import msgspec
import torch
from msgspec import structs

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import NAMES, words_on_cut
from autograder.tape.diagnose.harms import write_before_recomputation
from autograder.tape.diagnose.shown_gradients import tracked_targets
from autograder.tape.diagnose.verdict import verdict_of
from autograder.tape.observe.backward_watcher import backward_steps
from autograder.tape.observe.cuts import NO_GRAD
from autograder.tape.observe.forecast import UNSEEN
from autograder.tape.observe.observer import Observer
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import values_text
from autograder.tape.oracle.all_runs import BEGINNING
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome, Verdict
from autograder.tape.run.finished_run import Run
from autograder.tape.run.programs.program import Program

SOURCES = 8  # maximum number of values in a recording that one line takes out of the graph


def assemble(program: Program, evidence: Evidence) -> Recording:
    """Return the recording of the observed run, with the verdict on all runs."""
    state, verdict = evidence.runs.observer.state, verdict_of(evidence)
    steps = tuple(step.record(index) for index, step in enumerate(state.finished_steps))
    steps = _settle_forecasts(steps, evidence, verdict)
    trace = tuple(backward_steps(evidence.runs.trace, evidence.runs.trace_of_copies, state))
    return freeze(program, state, steps, _agreeing(trace, evidence, verdict), verdict)


def recording_of_beginning(program: Program, observer: Observer, run: Run) -> Recording:
    """Return the recording of the observed first seconds of a program that does not end. Its verdict is the last forecast."""
    steps = tuple(step.record(index) for index, step in enumerate(observer.state.finished_steps))
    last = next((step.forecast for step in reversed(steps) if step.forecast), schema.Forecast("correct"))
    note = Message(
        "run.beginning_only|The program did not end; only its first {seconds} seconds were recorded.",
        seconds=f"{BEGINNING:g}",
    )
    return freeze(program, observer.state, steps, (), Verdict(last.outcome, run.problem, notes=(note,)))


def freeze(
    program: Program,
    state: RunState,
    steps: tuple[schema.Step, ...],
    trace: tuple[schema.BackwardStep, ...],
    verdict: Verdict,
) -> Recording:
    """Return a recording of a run's state."""
    return Recording(
        version=schema.VERSION,
        torch=str(torch.__version__),
        programs=(schema.SourceFile(program.file, program.source), *_other_programs(program, state)),
        steps=steps,
        tensors=tuple(tracked.record() for tracked in state.tensors.all),
        storages=tuple(schema.Storage(memory.id, memory.size) for memory in state.memories.all),
        nodes=tuple(schema.Node(n.id, n.name, n.inputs, n.tensor, n.place, n.scope) for n in state.graph.nodes),
        saved=tuple(save.record() for save in state.graph.saves if save.record_id is not None),
        backward=trace,
        verdict=verdict,
        # A comparison whose result was only read blocks no gradient.
        lost=tuple(
            schema.LostHistory(
                cut.place,
                words_on_cut(cut, state)[0],
                tuple(cut.sources)[:SOURCES],
                tuple(node for _, node in list(cut.sources.values())[:SOURCES] if node is not None),
                bool(cut.used_at),
            )
            for cut in state.flow.cuts.all.values()
            if cut.used_at or cut.how in (*NAMES, NO_GRAD)
        ),
        unlisted=state.skipped or msgspec.UNSET,
    )


def _other_programs(program: Program, state: RunState) -> list[schema.SourceFile]:
    """Return the other files of the user that ran, such as an imported module."""
    others = [file for file in state.statements.files if file != program.code_file]
    return [schema.SourceFile(program.shown(file), "".join(linecache.getlines(file))) for file in others]


def _settle_forecasts(steps: tuple[schema.Step, ...], evidence: Evidence, verdict: Verdict) -> tuple[schema.Step, ...]:
    """Return the steps, each with the forecast of the next backward that the program called, or its outcome where it is known.

    Only a completed backward shows whether an overwritten value matters, a hook changes a gradient, or a custom
    backward raises. Before the call, a forecast may be better than its outcome, because the harm happens later.
    """
    settled, known, overwritten = [], _outcomes_of_calls(evidence, verdict), False
    # no saved tensor shows this kind before backward
    early = {
        place for harm in verdict.harms if harm.kind == write_before_recomputation.name for place in harm.mutated_at
    }
    calls = evidence.state.backward_calls
    for step in steps:
        place = bisect_left(calls, step.index, key=lambda call: call.step)
        ahead = calls[place] if place < len(calls) else UNSEEN
        outcome = None if ahead is UNSEEN else known[ahead.step]
        if ahead.first <= step.index < ahead.step:
            step = structs.replace(step, forecast=ahead.at(step.index))
        forecast = step.forecast.outcome if step.forecast else None
        overwritten = overwritten or step.place in early
        is_false = outcome in ("correct", "silently-wrong") and forecast not in (outcome, "correct")
        is_late = forecast == "correct" != outcome and (step.index == ahead.step or overwritten)
        if forecast and outcome and (is_false or is_late):
            step = structs.replace(step, forecast=schema.Forecast(outcome))
        settled.append(step)
    return tuple(settled)


def _outcomes_of_calls(evidence: Evidence, verdict: Verdict) -> dict[int, Outcome | None]:
    """Return the outcome of the last backward call of each step; None where it is not known."""
    outcomes: dict[int, Outcome | None] = {}
    ran = evidence.runs.plain.calls
    for number, seen in enumerate(evidence.state.backward_calls):
        is_last = number == len(ran) - 1 and verdict.outcome == "raises-backward"
        if is_last or (number < len(ran) and ran[number].error is not None):
            outcomes[seen.step] = "raises-backward"
        elif verdict.outcome == "correct":
            outcomes[seen.step] = "correct"
        elif verdict.outcome == "silently-wrong" and number == evidence.wrong_call:
            outcomes[seen.step] = "silently-wrong"
        else:
            outcomes.setdefault(seen.step, None)
    return outcomes


def _agreeing(
    trace: tuple[schema.BackwardStep, ...], evidence: Evidence, verdict: Verdict
) -> tuple[schema.BackwardStep, ...]:
    """Return the visits with right gradients that agree with the verdict.

    Where all gradients of the leaves are right, those inside the graph may differ in a direction that does not matter,
    such as the half of a symmetric matrix. Copies of saved tensors do not fix what was modified before it was saved:
    then the right gradient of a leaf is that of the verdict, if one backward call filled it.
    """
    if verdict.outcome == "correct":
        return tuple(structs.replace(visit, true="") if visit.true != visit.got else visit for visit in trace)
    if verdict.outcome != "silently-wrong" or evidence.wrong_call is None or evidence.runs.observer.failure is not None:
        return trace
    call = evidence.state.backward_calls[evidence.wrong_call].step
    right = dict(_right_texts(evidence, evidence.wrong_call))
    nodes = evidence.state.graph.nodes
    return tuple(
        structs.replace(visit, true=right[leaf])
        if visit.step == call and (leaf := (nodes[visit.node].tensor, visit.got)) in right else visit
        for visit in trace
    )  # fmt: skip


def _right_texts(evidence: Evidence, call: int) -> Iterator[tuple[tuple[int | None, str], str]]:
    """Yield, for each leaf with a wrong gradient, the leaf and its gradient, and the right gradient, as text."""
    for target, leaf in tracked_targets(evidence).items():
        got = evidence.got.calls[call].get(target)
        true = evidence.true.calls[call].get(evidence.pairs.get(target, -1))
        if leaf is not None and got is not None and true is not None and evidence.differs(got, true):
            yield (leaf.id, values_text(got)), values_text(true)
