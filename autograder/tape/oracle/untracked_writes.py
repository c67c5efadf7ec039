"""Check gradients with finite differences: those of custom Functions, and of programs with unrecorded in-place modifications.

A difference can be intended, such as in a straight-through estimator.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from autograder.locale.messages import Message
from autograder.tape.internals.entry_points import replaced_apply
from autograder.tape.observe.observer import Observer
from autograder.tape.observe.untracked import UnrecordedWrite
from autograder.tape.oracle.finite_differences import (
    DerivativeAnswer,
    FiniteDifferences,
    examine,
    examine_twice,
    in_double,
    wrong_operations,
)
from autograder.tape.oracle.nominal_replay import NotApplicable
from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.budget import current_budget
from autograder.tape.run.engine import Listener
from autograder.tape.run.finished_run import is_out_of_time
from autograder.tape.run.programs.program import Program
from autograder.tape.run.programs.source_text import ProgramError
from autograder.tape.run.runner import Runner
from autograder.tape.run.snapshot import same_items

CALLS = 8  # of the same Function that are compared, because all calls use the same formulas
LARGEST = 1 << 16  # largest number of elements in the arguments of a compared call
WORST = ("wrong", "unknown", "choice", "derivative")
Examination = Callable[..., DerivativeAnswer]


@dataclass(frozen=True)
class CheckedFunction:
    """A custom Function that ran, and the result of the comparison."""

    name: str
    place: Place  # line of its backward; line 0 for a Function of a library (such as a reentrant checkpoint)
    found: DerivativeAnswer


def check_custom_functions(runner: Runner, examined: Examination = examine) -> list[CheckedFunction]:
    """Return the custom Functions that a program calls, each with the worst result of its calls."""
    noted, budget = _CustomCalls(), current_budget()
    kept = (1 - SHARE_OF_FUNCTIONS) * budget.left
    replace(runner, seconds=min(runner.seconds, SHARE_OF_FUNCTIONS * budget.left)).run(noted)
    answers: dict[type, DerivativeAnswer] = {}
    for function, arguments in noted.calls:
        if budget.left < kept:
            break
        answer = _examined(function, arguments, examined)
        before = answers.get(function)
        if before is None or WORST.index(answer.answer) < WORST.index(before.answer):
            answers[function] = answer
    program = runner.program
    return [CheckedFunction(of.__name__, _place(program, of), answer) for of, answer in answers.items()]


def _place(program: Program, function: type[torch.autograd.Function]) -> Place:
    code = getattr(function.backward, "__code__", None)
    if code is None or not program.owns(code.co_filename):
        return Place("", 0, "")
    is_decorated = isinstance(vars(function).get("backward"), staticmethod)
    return Place(program.shown(code.co_filename), code.co_firstlineno + int(is_decorated), "def backward")


class _CustomCalls(Listener):
    """A listener that stores the arguments of custom Functions."""

    def __init__(self) -> None:
        self.calls: list[tuple[type[torch.autograd.Function], tuple[Any, ...]]] = []

    def around(self, program: Program) -> AbstractContextManager[Any]:
        """Return the context in which the arguments are stored."""
        return replaced_apply(self._noting)

    def _noting(self, apply: Any, function: Any, *arguments: Any) -> Any:
        numbers = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
        count = sum(called is function for called, _ in self.calls)
        if count < CALLS and sum(tensor.numel() for tensor in numbers) <= LARGEST:
            self.calls.append((function, tuple(in_double(argument) for argument in arguments)))
        return apply(function, *arguments)


def _examined(function: Any, inputs: tuple[Any, ...], examined: Examination) -> DerivativeAnswer:
    tensors = ((place, value) for place, value in enumerate(inputs) if isinstance(value, torch.Tensor))
    varied = [place for place, tensor in tensors if tensor.requires_grad]

    def alone(*values: torch.Tensor) -> Any:
        arguments = list(inputs)
        for place, value in zip(varied, values, strict=True):
            arguments[place] = value.clone()  # the forward may modify its argument in place
        return function.apply(*arguments)

    containers = [(argument, argument.copy()) for argument in inputs if isinstance(argument, list | dict)]
    answer = examined(alone, [inputs[place] for place in varied]) if varied else DerivativeAnswer("derivative")
    # A function that changes a container, such as a stack of outputs, depends on the calls before it.
    is_changed = any(not same_items(argument, before) for argument, before in containers)
    return DerivativeAnswer("unknown") if is_changed else answer


# Number of elements whose derivatives are computed one by one, with two runs each; larger gradients are not corrected.
ENTRIES = 64
SHARE = 0.5  # share of the remaining time for one random direction per leaf; otherwise all leaves share a direction
# Share if there is a suspect modification, because the search for fixes needs the rest of the time.
SHARE_OF_WRITES = 0.15
SHARE_OF_FUNCTIONS = 0.4  # share of the remaining time for the check of custom Functions
# Share of the remaining time for one of six runs (twice as much in the proof of a fix), after which it ends early.
SHARE_OF_RUN = 1 / 16
PART = "differences.part|Finite differences were taken of the first {count} backward calls only, because of time or memory."
CHOICE = Message("differences.custom|A custom Function defines its own backward, so finite differences do not apply.")
LATE = Message(
    "differences.time_limit|The time limit was reached before finite differences could decide; --budget sets a longer one."
)

# Finite differences also include a hook that scales gradients, a gradient penalty, or weights that a lookup
# renormalizes, but cannot tell whether these are intended.
UNEXPLAINED = Message(
    "differences.unexplained|Finite differences of the losses do not match the gradients, and no in-place "
    "modification, operation or custom Function explains it. Possible causes are hooks, gradients of gradients, or "
    "values that the program changes on purpose."
)


@dataclass
class UntrackedEffect:
    """The result of finite differences."""

    # unrecorded in-place modifications whose values a loss depends on
    suspects: list[UnrecordedWrite] = field(default_factory=list)
    # the gradients that do not belong to the computed values, by number of the backward and of its target
    wrong: set[tuple[int, int]] = field(default_factory=set)
    # for these, the correct gradient minus the gradient of the graph
    corrections: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)
    uncorrected: set[tuple[int, int]] = field(default_factory=set)  # those whose correct gradient is not known
    note: str | None = None  # reason why the check could not decide, entirely or for some leaves; else None
    taken: bool = False  # whether the losses were varied without contradictions
    # the custom Functions, each with the result of its own check
    functions: list[CheckedFunction] = field(default_factory=list)
    # PyTorch operations with a wrong derivative, each with the line of a call; checked only if a gradient is wrong
    operations: list[tuple[str, Place]] = field(default_factory=list)
    # custom Functions whose backward is right and has a wrong derivative; checked only if a gradient is wrong
    twice: list[CheckedFunction] = field(default_factory=list)

    @property
    def is_undecided(self) -> bool:
        """Whether finite differences should have given the correct gradients, and could not."""
        return bool(self.suspects) and self.note is not None and not self.wrong

    @property
    def own_functions(self) -> list[CheckedFunction]:
        """The custom Functions that the user's code defines."""
        return [function for function in self.functions if function.place.line]


def effect_of_untracked_writes(
    runner: Runner, observer: Observer, *, asked: bool = False, corrected: bool = True
) -> UntrackedEffect:
    """Check a run's custom Functions and unrecorded modifications with finite differences.

    With `asked`, every loss is varied, even without suspects. With `corrected`, the correct gradient of each wrong one is
    computed, element by element.
    """
    effect = UntrackedEffect(observer.state.untracked.used_writes)
    try:
        if any(node.is_custom for node in observer.state.graph.nodes):
            effect.functions = check_custom_functions(runner)
        if (effect.suspects or asked) and _may_vary_losses(effect, asked):
            share = SHARE_OF_RUN if corrected else 2 * SHARE_OF_RUN
            seconds = share * current_budget().left
            differences = FiniteDifferences(runner, _live(observer, effect.suspects), seconds)
            _vary(effect, differences, each_leaf=corrected)
            if differences.nominal.is_part and not effect.wrong:
                effect.note = effect.note or Message(PART, count=len(differences.nominal.losses))
            if effect.wrong and corrected:
                _correct(effect, differences)
    except (NotApplicable, ProgramError) as reason:
        if is_out_of_time(reason) and (effect.suspects or asked):
            effect.note = LATE
        elif effect.suspects or asked:
            text = "differences.do_not_apply|Finite differences do not apply to this program: {reason}."
            if str(reason).endswith("."):
                text = "differences.do_not_apply_because|Finite differences do not apply to this program: {reason}"
            effect.note = Message(text, reason=str(reason))
    return effect


def _may_vary_losses(effect: UntrackedEffect, asked: bool) -> bool:
    """Return whether to vary the losses: not if a custom backward is deliberately different from the derivative of its forward."""
    answers = {function.found.answer for function in effect.functions}
    inside = bool(effect.suspects) and all(suspect.inside_custom for suspect in effect.suspects)
    if answers <= {"derivative"} or inside or (asked and answers <= {"derivative", "wrong"}):
        return True
    effect.note = CHOICE
    return False


def _vary(effect: UntrackedEffect, differences: FiniteDifferences, each_leaf: bool) -> None:
    is_short = not each_leaf or _takes_long(differences, 2 * len(differences.nominal.leaves), effect)
    effect.taken = True
    together = differences.disagreements_together() if is_short else set()
    if is_short and not together:
        return
    effect.wrong = together if effect.suspects and together else differences.disagreements()
    if not effect.wrong:
        return
    effect.operations = wrong_operations(differences.runner)
    if effect.operations:
        effect.suspects = []  # PyTorch's wrong derivative explains the difference
    elif not effect.suspects and all(function.found.answer == "derivative" for function in effect.functions):
        twice = check_custom_functions(differences.runner, examine_twice) if effect.functions else []
        effect.twice = [check for check in twice if check.found.answer == "wrong"]
        if not effect.twice:
            effect.wrong, effect.note = set(), UNEXPLAINED


def _takes_long(differences: FiniteDifferences, derivatives: int, effect: UntrackedEffect) -> bool:
    """Return whether this number of derivatives takes more than its share of the remaining time."""
    share = SHARE_OF_WRITES if effect.suspects else SHARE
    return 2 * derivatives * differences.each > share * current_budget().left


def _live(observer: Observer, suspects: list[UnrecordedWrite]) -> frozenset[int]:
    """Return the calls whose results are aliases through which the suspects modified memory."""
    memories = {suspect.write.memory for suspect in suspects}
    aliases = (tensor for tensor in observer.state.tensors.all if tensor.memory in memories)
    events = (alias.event for alias in aliases if not alias.requires_grad)
    return frozenset(event for event in events if event is not None)


def _correct(effect: UntrackedEffect, differences: FiniteDifferences) -> None:
    nominal, left, effect.uncorrected = differences.nominal, ENTRIES, set(effect.wrong)
    for leaf in sorted({nominal.targets[call][number] for call, number in effect.wrong}):
        entries = nominal.leaves[leaf][0][1].numel()
        left -= entries
        if left < 0 or _takes_long(differences, entries, effect):
            effect.note = Message(
                "differences.large_leaves|For larger leaves, the right gradient was not computed entry by entry."
            )
            return
        derivatives = differences.true(leaf)
        for call, number in sorted(effect.wrong):
            if nominal.targets[call][number] == leaf:
                effect.corrections[call, number] = derivatives[call] - nominal.gradients[call][leaf]
                effect.uncorrected.discard((call, number))
