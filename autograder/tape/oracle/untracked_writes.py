"""What finite differences say of a program's gradients: where autograd did not record a write, and wherever they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from autograder.locale.translations import in_english
from autograder.tape.observe.memory.untracked import Suspect
from autograder.tape.observe.observer import Observer
from autograder.tape.oracle.custom_functions import CheckedFunction, check_custom_functions
from autograder.tape.oracle.finite_differences import FiniteDifferences
from autograder.tape.oracle.nominal_replay import NotApplicable
from autograder.tape.oracle.operation_slopes import WrongOperation, wrong_operations
from autograder.tape.run.budget import budget_in_force
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.refused_runs import is_out_of_time

ENTRIES = 64  # slopes computed entry by entry, two runs each; beyond that, a wrong gradient gets no right one
SHARE = 0.5  # of the time that is left for one random direction for each leaf; else one for all leaves together
SHARE_OF_WRITES = 0.15  # the same, where a write was seen and a repair is to be found in the rest of the time
CHOICE = in_english("A custom Function's backward is a choice of its own, so finite differences do not apply.")
LATE = in_english("The time was up before finite differences could decide; --budget gives more.")

# A hook that scales gradients, a penalty on gradients, weights that a lookup rescales: differences see them and cannot judge them.
UNEXPLAINED = in_english(
    "Finite differences of the losses are not what the gradients say, and no write, operation or custom Function explains it: "
    "hooks, gradients of gradients, or values that the program changes on purpose may."
)


@dataclass
class UntrackedEffect:
    """What finite differences found.

    Attributes:
        suspects: the untracked writes whose values were used for a loss.
        wrong: each backward and leaf (by number) whose gradient is not that of the values computed.
        corrections: for a backward and the position of its target, what is missing in the gradient of the graph.
        note: why nothing could be decided, or not for every leaf.
        taken: whether the losses were varied, and nothing spoke against the result.
        functions: the custom Functions, each with what was found of it alone.
        operations: PyTorch's own operations whose derivative is not their slope; looked for only where a gradient is wrong.
    """

    suspects: list[Suspect] = field(default_factory=list)
    wrong: set[tuple[int, int]] = field(default_factory=set)
    corrections: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    note: str | None = None
    taken: bool = False
    functions: list[CheckedFunction] = field(default_factory=list)
    operations: list[WrongOperation] = field(default_factory=list)

    @property
    def own_functions(self) -> list[CheckedFunction]:
        """The custom Functions of the user's."""
        return [one for one in self.functions if one.is_own]


def effect_of_untracked_writes(
    program: Program,
    observer: Observer,
    seconds: float,
    calls: int | None = None,
    *,
    asked: bool = False,
    corrected: bool = True,
) -> UntrackedEffect:
    """Return the verdict of finite differences on a run's untracked writes; without such writes, on its custom Functions alone.

    Args:
        calls: number of backward calls after which the runs end; None for no limit.
        asked: take differences of every loss, whether or not there is a reason to.
        corrected: compute the right gradient of each that is wrong, entry by entry.
    """
    effect = UntrackedEffect(observer.state.untracked.used_writes)
    try:
        effect.functions = check_custom_functions(program, seconds, calls) if _custom(observer) else []
        if (effect.suspects or asked) and _apply(effect, asked):
            differences = FiniteDifferences(program, _live(observer, effect.suspects), seconds, calls)
            _vary(effect, differences, each_leaf=corrected)
            if effect.wrong and corrected:
                _correct(effect, differences)
    except (NotApplicable, ProgramError) as reason:
        if is_out_of_time(reason) and (effect.suspects or asked):
            effect.note = LATE
        elif effect.suspects or asked:
            effect.note = in_english(
                "Finite differences do not apply to this program: {reason}.", reason=str(reason).removesuffix(".")
            )
    return effect


def _apply(effect: UntrackedEffect, asked: bool) -> bool:
    """Whether the losses are to be varied: not where a custom backward is meant to be something else than a slope."""
    answers = {one.found.answer for one in effect.functions}
    inside = bool(effect.suspects) and all(suspect.inside_custom for suspect in effect.suspects)
    if answers <= {"slope"} or inside or (asked and answers <= {"slope", "wrong"}):
        return True
    effect.note = CHOICE
    return False


def _vary(effect: UntrackedEffect, differences: FiniteDifferences, each_leaf: bool) -> None:
    is_short = not each_leaf or _takes_long(differences, 2 * len(differences.leaves), effect)
    effect.taken = True
    together = differences.disagreements_together() if is_short else set()
    if is_short and not together:
        return
    effect.wrong = together if effect.suspects and together else differences.disagreements()
    if not effect.wrong:
        return
    effect.operations = wrong_operations(differences.program, differences.seconds, differences.calls)
    if effect.operations:
        effect.suspects = []  # they are not to be blamed for what PyTorch does
    elif not effect.suspects and all(one.found.answer == "slope" for one in effect.functions):
        effect.wrong, effect.note = set(), UNEXPLAINED


def _takes_long(differences: FiniteDifferences, slopes: int, effect: UntrackedEffect) -> bool:
    """Whether so many slopes take more than their share of the time that is left."""
    share = SHARE_OF_WRITES if effect.suspects else SHARE
    return 2 * slopes * differences.each > share * budget_in_force().left


def _custom(observer: Observer) -> bool:
    return any(node.is_custom for node in observer.state.graph.nodes)


def _live(observer: Observer, suspects: list[Suspect]) -> frozenset[int]:
    """Returns the calls whose results are aliases that were written through."""
    memories = {suspect.write.memory for suspect in suspects}
    return frozenset(
        tracked.event
        for tracked in observer.state.tensors.all
        if tracked.memory in memories and not tracked.requires_grad and tracked.event is not None
    )


def _correct(effect: UntrackedEffect, differences: FiniteDifferences) -> None:
    nominal, left = differences.nominal, ENTRIES
    for leaf in sorted({leaf for _, leaf in effect.wrong}):
        entries = nominal.leaves[leaf][0][1].numel()
        left -= entries
        if left < 0 or _takes_long(differences, entries, effect):
            effect.note = in_english("For larger leaves, the right gradient was not computed entry by entry.")
            return
        slopes = differences.true(leaf)
        for call in sorted(call for call, other in effect.wrong if other == leaf):
            position = nominal.targets[call].index(leaf)
            effect.corrections[call, position] = slopes[call] - nominal.gradients[call][leaf]
