"""Build a Recording from the results of all runs."""

from __future__ import annotations

import linecache

import torch
from msgspec import structs

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.graph_faults.fault_words import NAMES, how_it_cuts
from autograder.tape.diagnose.verdict import verdict_of
from autograder.tape.observe.backward_trace import backward_steps
from autograder.tape.observe.forecast import with_hindsight
from autograder.tape.observe.gradient_flow import NO_GRAD, Cut
from autograder.tape.observe.state import RunState
from autograder.tape.oracle.cloned_saves import ClonedSavesRun
from autograder.tape.recording import schema
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Verdict
from autograder.tape.run.programs.program import Program

SOURCES = 8  # maximum number of values in a recording that one line takes out of the graph


def assemble(program: Program, evidence: Evidence, cloned_saves: ClonedSavesRun) -> Recording:
    """Return the recording of the observed run, with the verdict on all runs."""
    state, verdict = evidence.observer.state, verdict_of(evidence)
    steps = tuple(step.record(index) for index, step in enumerate(state.finished_steps))
    steps = _settle_forecasts(with_hindsight(steps, state.backward_calls), evidence, verdict)
    return freeze(program, state, steps, backward_steps(evidence.trace, cloned_saves.trace, state), verdict)


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
        lost=tuple(_lost_history(cut, state) for cut in state.flow.cuts.values() if _loses(cut)),
    )


def _loses(cut: Cut) -> bool:
    """Return whether a line may block a gradient. A comparison whose result was only read does not."""
    return bool(cut.joined) or cut.how in (*NAMES, NO_GRAD)


def _lost_history(cut: Cut, state: RunState) -> schema.LostHistory:
    """Return the LostHistory of a line that takes values out of the graph, with at most `SOURCES` values."""
    sources = list(cut.sources.values())[:SOURCES]
    nodes = tuple(node for _, node in sources if node is not None)
    return schema.LostHistory(
        cut.place, how_it_cuts(cut, state), tuple(one.id for one, _ in sources), nodes, bool(cut.joined)
    )


def _other_programs(program: Program, state: RunState) -> list[schema.SourceFile]:
    """Return the other files of the user that ran, such as an imported module."""
    return [
        schema.SourceFile(program.shown(file), "".join(linecache.getlines(file)))
        for file in state.statements.files
        if file != program.code_file
    ]


def _settle_forecasts(steps: tuple[schema.Step, ...], evidence: Evidence, verdict: Verdict) -> tuple[schema.Step, ...]:
    """Return the steps with forecasts corrected by the verdict.

    Only a completed backward shows whether an overwritten value matters, a hook changes a gradient, or a custom
    backward raises.
    """
    right, known = schema.Forecast("correct"), schema.Forecast(verdict.outcome)
    if verdict.outcome == "correct":
        alarms = {step.index for step in steps if step.forecast and step.forecast.outcome == "silently-wrong"}
        return tuple(structs.replace(step, forecast=right) if step.index in alarms else step for step in steps)
    calls = [backward_call.call for backward_call in evidence.observer.state.backward_calls]
    number = evidence.wrong_call if verdict.outcome == "silently-wrong" else len(calls) - 1
    if number is None or not 0 <= number < len(calls):
        return steps
    at = calls[number]
    return tuple(structs.replace(s, forecast=known) if s.index == at and s.forecast == right else s for s in steps)
