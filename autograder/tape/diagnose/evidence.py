"""What the runs of a program left behind, each run compared with the plain one."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch

from autograder.tape.observe.backward_trace import BackwardTrace, node_of_visit
from autograder.tape.observe.observer import Observer
from autograder.tape.observe.state import RunState
from autograder.tape.oracle.gradient_comparison import SAME, Gradients, aligned, first_difference, gap, gradients_of
from autograder.tape.oracle.untracked_writes import UntrackedEffect
from autograder.tape.recording.verdict_types import Excerpt, Outcome
from autograder.tape.run.finished_run import Run

# The run with cloned saves makes the same operations on the same numbers, so a real difference can be as small as one step of an
# optimizer. Where no saved tensor's bytes changed, only a difference that no order of additions explains is called wrong.
WITNESSED, UNWITNESSED = SAME, 1e-3


@dataclass
class Evidence:
    """All that is known of a program once it has run several times.

    Attributes:
        plain: the run without any observer; it decides the outcome.
        observed: the run that `observer` followed statement by statement.
        cloned_saves: the run in which backward uses private copies of all saved tensors.
        untracked_effect: what finite differences say of writes that autograd did not record.
        trace: the nodes that the engine visited, in order.
        excerpt: which part of a long run was recorded; None where all of it was.
        ran: for a backward and a target, by number, the slope of the loss as it was computed, where that is not what `true` holds;
            filled when `true` is first read.
    """

    plain: Run
    observed: Run
    cloned_saves: Run
    observer: Observer
    untracked_effect: UntrackedEffect
    trace: BackwardTrace
    excerpt: Excerpt | None = field(default=None, kw_only=True)
    ran: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict, kw_only=True)

    @property
    def explaining(self) -> Evidence:
        """The evidence in which the harms are found that explain the outcome."""
        return self

    @property
    def appearance(self) -> dict[int, int]:
        """For each target of the plain run, its number in the observed run."""
        return {index: index for index in range(min(len(self.got.targets), len(self.watched.targets)))}

    @property
    def file(self) -> str:
        """The program's own file, as `Place.file` names it."""
        return self.state.statements.program.file

    @property
    def state(self) -> RunState:
        """The tables of the observed run."""
        return self.observer.state

    @cached_property
    def got(self) -> Gradients:
        """The gradients of the plain run."""
        return gradients_of(self.plain)

    @cached_property
    def true(self) -> Gradients:
        """The right gradients: those of the run with cloned saves, corrected by finite differences."""
        true = gradients_of(self.cloned_saves)
        self.ran = _correct(true, self.got, self.untracked_effect)
        return true

    @cached_property
    def watched(self) -> Gradients:
        """The gradients of the observed run."""
        return gradients_of(self.observed)

    @cached_property
    def pairs(self) -> dict[int, int]:
        """For each target of the plain run, its number in the run with cloned saves."""
        return aligned(self.got, self.true)

    @cached_property
    def repeats(self) -> bool:
        """Whether the plain and the observed run ended alike; where one was ended early, as far as both went."""
        if self.plain.is_cut or self.observed.is_cut:
            return first_difference(self.got, self.watched, WITNESSED) is None
        return self.plain.problem == self.observed.problem and _same(self.got, self.watched)

    @cached_property
    def limit(self) -> float:
        """The largest relative gap between two gradients that are still called the same."""
        witnessed = any(save.changed for save in self.state.consumed)
        return WITNESSED if witnessed else UNWITNESSED

    @cached_property
    def outcome(self) -> Outcome:
        """What happened, in one of the four words."""
        if self.plain.error is not None:
            return "raises-backward" if self.plain.in_backward else "raises-forward"
        last = {call.thread: call for call in self.plain.calls}
        if any(call.error is not None for call in last.values()):
            return "raises-backward"
        return "silently-wrong" if self.cloned_saves.error is None and self.is_wrong else "correct"

    @property
    def raised_nodes(self) -> set[int | None]:
        """The ids of the nodes that backward entered and did not leave."""
        return {node_of_visit(visit, self.state) for visit in self.trace.visits if not visit.passed}

    @property
    def is_wrong(self) -> bool:
        """Whether a gradient of the plain run is not the right one."""
        return bool(self.untracked_effect.wrong) or self.copies_differ

    @property
    def copies_differ(self) -> bool:
        """Whether a gradient of the plain run is not that of the run with cloned saves, or what finite differences make of it."""
        return self.wrong_call is not None or any(self.differs(got, true) for got, true in self.final_pairs())

    @cached_property
    def wrong_call(self) -> int | None:
        """The number of the first backward that gave a wrong gradient."""
        return first_difference(self.got, self.true, self.limit, self.pairs)

    def differs(self, got: object, true: object) -> bool:
        """Returns whether two gradients are not the same."""
        return gap(got, true) > self.limit

    def final_pairs(self) -> list[tuple[object, object]]:
        """Return the values at the program's end, each paired with that of the run with cloned saves."""
        if self.plain.is_cut or self.cloned_saves.is_cut:
            return []
        pairs = [(self.got.final[i], self.true.final[j]) for i, j in self.pairs.items()]
        return pairs + [(value, self.true.returned.get(key)) for key, value in self.got.returned.items()]


def _correct(true: Gradients, got: Gradients, untracked_effect: UntrackedEffect) -> dict[tuple[int, int], torch.Tensor]:
    """Adds to the gradients of the run with cloned saves what finite differences say is missing in them.

    Where the corrected gradient is exactly what the program left (sigmoid's output zeroed: its slope is zero, and so is the
    gradient), the saved values are the fault, and the gradient that was meant is the uncorrected one: the corrected one is returned.
    """
    ran = {}
    for (number, position), missing in untracked_effect.corrections.items():
        call = true.calls[number]
        index = list(call)[position]
        before = call[index]
        after = missing if before is None else (before.double() + missing).to(before.dtype)
        left = list(got.calls[number].values())[position : position + 1] if number < len(got.calls) else []
        if before is not None and left and gap(left[0], after) <= WITNESSED:
            ran[number, index] = after
            continue
        call[index] = after
        if number == len(true.calls) - 1:
            for key, value in true.returned.items():
                if gap(value, before) == 0.0 and before is not None:
                    true.returned[key] = after
            if gap(true.final[index], before) == 0.0:
                true.final[index] = after
    return ran


def _same(one: Gradients, other: Gradients) -> bool:
    if len(one.calls) != len(other.calls) or len(one.targets) != len(other.targets):
        return False
    calls = zip(one.calls, other.calls, strict=True)
    return all(gap(a.get(i), b.get(i)) <= WITNESSED for a, b in calls for i in a) and all(
        gap(value, other.returned.get(key)) <= WITNESSED for key, value in one.returned.items()
    )
