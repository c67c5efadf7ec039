"""Whether a write that autograd does not know of makes the gradient wrong: only finite differences can tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from autograder.tape.customs import backwards_are_slopes
from autograder.tape.differences import Differences
from autograder.tape.observer import Observer
from autograder.tape.program import Program
from autograder.tape.replay import NotApplicable
from autograder.tape.untracked import Suspect

ENTRIES = 64  # slopes taken entry by entry, two runs each; of more, only that the gradient is wrong is said


@dataclass
class Doubt:
    """What finite differences found.

    Attributes:
        suspects: the untracked writes whose values went on into a loss.
        wrong: each backward and leaf (by number) whose gradient is not that of the values computed.
        corrections: for a backward and the position of its target, what is missing in the gradient of the graph.
        note: why nothing could be decided, or not everything told.
    """

    suspects: list[Suspect] = field(default_factory=list)
    wrong: set[tuple[int, int]] = field(default_factory=set)
    corrections: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    note: str | None = None


def doubt_of(program: Program, observer: Observer, seconds: float, *, seeded: bool = True) -> Doubt:
    """Returns what finite differences say of the untracked writes that were seen; without such writes they are not asked."""
    doubt = Doubt(observer.ledger.untracked.used_writes)
    if not doubt.suspects:
        return doubt
    inside = all(suspect.inside_custom for suspect in doubt.suspects)
    if _custom(observer) and not inside and not backwards_are_slopes(program, seconds):
        doubt.note = "A custom Function's backward is a choice of its own, so finite differences do not apply."
        return doubt
    try:
        differences = Differences(program, _live(observer, doubt.suspects), seconds, seeded=seeded)
        doubt.wrong = differences.disagreements()
        if doubt.wrong:
            _correct(doubt, differences)
    except NotApplicable as reason:
        doubt.note = f"Finite differences do not apply to this program: {reason}."
    return doubt


def _custom(observer: Observer) -> bool:
    return any(isinstance(node.node, torch.autograd.function.BackwardCFunction) for node in observer.ledger.graph.nodes)


def _live(observer: Observer, suspects: list[Suspect]) -> frozenset[int]:
    """Returns the calls whose results are aliases that were written through."""
    memories = {suspect.wrote.memory for suspect in suspects}
    return frozenset(
        seen.event
        for seen in observer.ledger.tensors.all
        if seen.memory in memories and not seen.tracked and seen.event is not None
    )


def _correct(doubt: Doubt, differences: Differences) -> None:
    nominal, left = differences.nominal, ENTRIES
    for call, leaf in sorted(doubt.wrong):
        left -= nominal.leaves[leaf][0][1].numel()
        if left < 0:
            doubt.note = "Of larger leaves the right gradient was not worked out entry by entry."
            return
        slopes = differences.true(call, leaf)
        position = nominal.targets[call].index(leaf)
        doubt.corrections[call, position] = slopes - nominal.gradients[call][leaf]
