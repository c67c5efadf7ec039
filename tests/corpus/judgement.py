"""Holds one recording against what is declared of its program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from autograder.tape.recording.verdict_types import Harm
from tests.corpus.once import recorded, run, states, watched
from tests.corpus.programs import Program


@dataclass(frozen=True)
class Judgement:
    """Whether the tape is right, point by point; None where the program does not ask.

    Attributes:
        outcome: the outcome word is the declared one.
        line: a marked line is among those a harm names; for an error of the forward program, its line.
        saved: a harm that names a marked line says also where the tensor was saved.
        alarm: a right program is not called right.
        innocent: a line is blamed that neither the declaration nor an independent witness finds guilty.
        forecast: what was forecast just before the only backward is what happened.
        undisturbed: error, gradients, counters and nodes are those of the unrecorded run.
    """

    outcome: bool
    line: bool | None
    saved: bool | None
    alarm: bool | None
    innocent: bool
    forecast: bool | None
    undisturbed: bool


@cache
def judged(program: Program) -> Judgement:
    """Returns what the tape got right of this program."""
    verdict = recorded(program).verdict
    found = [harm for harm in verdict.harms if program.harm & lines(harm)]
    return Judgement(
        outcome=program.outcome == verdict.outcome,
        line=bool(found) if program.harm else error_line(program) if program.outcome == "raises-forward" else None,
        saved=any(harm.saved_at.line in program.saves for harm in found) if program.harm and program.saves else None,
        alarm=verdict.outcome != "correct" if program.outcome == "correct" else None,
        innocent=blames_innocent(program, verdict.harms),
        forecast=forecast(program),
        undisturbed=undisturbed(program),
    )


def lines(harm: Harm) -> set[int]:
    """Returns the lines that a harm blames."""
    return {place.line for place in harm.mutated_at}


def error_line(program: Program) -> bool:
    """Whether the error's line is the one in PyTorch's own traceback."""
    problem = recorded(program).verdict.error
    return problem is not None and run(program).line == problem.line


def blames_innocent(program: Program, harms: tuple[Harm, ...]) -> bool:
    """Whether a harm names a line that is not marked and that no independent witness saw writing."""
    blamed = set().union(*map(lines, harms)) - program.harm
    return bool(blamed) and bool(blamed - watched(program)[0])


def forecast(program: Program) -> bool | None:
    """Whether the forecast of the last step before the only call of backward came true; None where there is none."""
    steps = recorded(program).steps
    calls = [step.index for step in steps if ".backward(" in step.place.text]
    if len(calls) != 1 or program.outcome == "raises-forward":
        return None
    if "does not require grad" in run(program).message:
        return None  # backward starts without history: a forecast is about losses that have one
    before = steps[calls[0] - 1].forecast if calls[0] else None
    return before.outcome == program.outcome if before else None


def undisturbed(program: Program) -> bool:
    """Whether the recorded run ended as the unrecorded: counters, nodes, and the error's words or the gradients."""
    if not program.function and states(program).items() - recorded_states(program).items():
        return False
    plain, verdict = run(program), recorded(program).verdict
    if plain.raised or verdict.error:
        problem = verdict.error
        return problem is not None and (plain.error, plain.message) == (problem.type, problem.message)
    shared = plain.gradients.keys() & verdict.gradients.keys()
    return all(same(plain.gradients[name], verdict.gradients[name].got) for name in shared)


def recorded_states(program: Program) -> dict[str, tuple[int | None, str | None]]:
    """Returns the last counter and node of each tensor that the observed run had under a name at its top level."""
    recording = recorded(program)
    nodes = {node.id: node.name for node in recording.nodes}
    held: dict[str, int | None] = {}
    last: dict[int, tuple[int | None, str | None]] = {}
    for step in recording.steps:
        if step.function == "<module>":
            held |= {change.name: change.tensor for change in step.names}
        last |= {
            state.tensor: (state.version, None if state.node is None else nodes[state.node]) for state in step.states
        }
    return {name: last[tensor] for name, tensor in held.items() if tensor is not None}


def same(plain: torch.Tensor | None, got: list | float | None) -> bool:
    """Whether a gradient and its form in the recording are the same numbers, to the eight digits that a recording writes."""
    if plain is None or got is None:
        return plain is None and got is None
    written = torch.tensor(got, dtype=torch.float64)
    return torch.allclose(plain.detach().to_dense().double(), written, rtol=1e-7, atol=1e-12, equal_nan=True)
