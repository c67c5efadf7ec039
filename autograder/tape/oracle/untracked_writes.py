"""Whether a write that autograd did not record makes the gradient wrong: only finite differences can tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from autograder.tape.observe.memory.untracked import Suspect
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.custom_functions import backwards_are_slopes
from autograder.tape.oracle.finite_differences import FiniteDifferences
from autograder.tape.oracle.nominal_replay import NotApplicable
from autograder.tape.run.program import Program

ENTRIES = 64  # slopes computed entry by entry, two runs each; beyond that, a wrong gradient gets no right one


@dataclass
class UntrackedEffect:
    """What finite differences found.

    Attributes:
        suspects: the untracked writes whose values were used for a loss.
        wrong: each backward and leaf (by number) whose gradient is not that of the values computed.
        corrections: for a backward and the position of its target, what is missing in the gradient of the graph.
        note: why nothing could be decided, or not for every leaf.
    """

    suspects: list[Suspect] = field(default_factory=list)
    wrong: set[tuple[int, int]] = field(default_factory=set)
    corrections: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    note: str | None = None


def effect_of_untracked_writes(
    program: Program, observer: Observer, seconds: float, calls: int | None = None
) -> UntrackedEffect:
    """Returns what finite differences say of the untracked writes of a run; without such writes none are taken.

    With `calls`, the runs end after so many backward calls.
    """
    untracked_effect = UntrackedEffect(observer.state.untracked.used_writes)
    if not untracked_effect.suspects:
        return untracked_effect
    inside = all(suspect.inside_custom for suspect in untracked_effect.suspects)
    if _custom(observer) and not inside and not backwards_are_slopes(program, seconds):
        untracked_effect.note = (
            "A custom Function's backward is a choice of its own, so finite differences do not apply."
        )
        return untracked_effect
    try:
        differences = FiniteDifferences(program, _live(observer, untracked_effect.suspects), seconds, calls)
        untracked_effect.wrong = differences.disagreements()
        if untracked_effect.wrong:
            _correct(untracked_effect, differences)
    except NotApplicable as reason:
        untracked_effect.note = f"Finite differences do not apply to this program: {reason}."
    return untracked_effect


def _custom(observer: Observer) -> bool:
    return any(isinstance(node.node, torch.autograd.function.BackwardCFunction) for node in observer.state.graph.nodes)


def _live(observer: Observer, suspects: list[Suspect]) -> frozenset[int]:
    """Returns the calls whose results are aliases that were written through."""
    memories = {suspect.write.memory for suspect in suspects}
    return frozenset(
        tracked.event
        for tracked in observer.state.tensors.all
        if tracked.memory in memories and not tracked.requires_grad and tracked.event is not None
    )


def _correct(untracked_effect: UntrackedEffect, differences: FiniteDifferences) -> None:
    nominal, left = differences.nominal, ENTRIES
    for call, leaf in sorted(untracked_effect.wrong):
        left -= nominal.leaves[leaf][0][1].numel()
        if left < 0:
            untracked_effect.note = "For larger leaves, the right gradient was not computed entry by entry."
            return
        slopes = differences.true(call, leaf)
        position = nominal.targets[call].index(leaf)
        untracked_effect.corrections[call, position] = slopes - nominal.gradients[call][leaf]
