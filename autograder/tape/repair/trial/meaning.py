"""Compare the results of a changed program with the intended results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from autograder.locale.messages import CLAUSES, Message, counted_message, join_messages
from autograder.tape.repair.trial.intended_run import IntendedRun
from autograder.tape.repair.trial.trial_run import CallValues, TrialRun, same

FEW = 3  # maximum number of names in a sentence


@dataclass(frozen=True)
class Reference:
    """The actual and the intended results of a program."""

    plain: TrialRun  # the run of the program as it is, up to its error
    # the run with private copies of all saved tensors: the same values, and gradients that no modification can change
    intended: IntendedRun
    right: tuple[Tensor, ...] = ()  # correct gradients of the verdict, if the program makes one backward call
    # whether finite differences of several calls found a gradient that is not the derivative of the computed loss
    contradicted: bool = False

    @property
    def ran(self) -> bool:
        """Whether the intended program runs to its end, so that all its results are known."""
        return self.intended.error is None

    @property
    def stopped_early(self) -> bool:
        """Whether an error outside backward ended both runs, so that not even the next loss is known."""
        if self.plain.error is None or self.intended.error is None:
            return False
        in_backward = self.plain.calls and self.plain.calls[-1].raised
        return not in_backward and len(self.intended.calls) <= len(self.plain.calls)

    @cached_property
    def gradients_known(self) -> bool:
        """Whether the run with private copies provides the correct gradients.

        It does not if the modification should be part of the graph and autograd did not record it. Values that depend
        on a wrong gradient cannot be compared then.
        """
        if self.plain.error is not None:
            return True
        if self.contradicted:
            return False
        # The copies may change a gradient that no variable of the file contains.
        calls = zip(self.intended.calls, self.plain.calls, strict=False)
        changed = any(not all_in(intended.gradients, plain.gradients) for intended, plain in calls)
        given = [gradient for call in self.intended.calls[:1] for gradient in call.gradients]
        is_changed = changed or bool(different(self.plain.values, self.intended.values))
        return is_changed and all_in(list(self.right), given, near=True)

    def known_calls(self, trial: TrialRun) -> list[tuple[CallValues, CallValues]] | None:
        """Return pairs of each intended backward call and the same call of a run, or None if the numbers of calls differ."""
        intended, now = self.intended.calls, trial.calls
        if not self.ran:
            now = now[: len(intended)]
        elif not self.gradients_known:
            intended, now = intended[:1], now[:1]
        return list(paired(intended, now)) if len(intended) == len(now) else None

    def keeps_losses(self, trial: TrialRun) -> bool:
        """Return whether backward starts from the intended losses, in each call that is known."""
        calls = self.known_calls(trial)
        return calls is not None and all(same_all(intended.losses, now.losses) for intended, now in calls)

    def keeps_training(self, trial: TrialRun) -> bool:
        """Return whether each known call gives the intended gradients, and every leaf ends with its intended value.

        If private copies do not provide the correct gradients, return True: `prove` checks them by another method.
        """
        if not self.gradients_known:
            return True
        if self.stopped_early:
            return False
        if (calls := self.known_calls(trial)) is None:
            return False
        as_intended = (intended.raised or all_in(intended.gradients, now.gradients) for intended, now in calls)
        return all(as_intended) and self.keeps_updates(trial)

    def changes_wrong_gradients(self, trial: TrialRun) -> bool:
        """Return whether the first call with wrong gradients has the intended loss in a run, but other gradients, not more of them wrong.

        A change with this effect prevents the harm of one modification, if several do harm.
        """
        calls = zip(self.intended.calls, self.plain.calls, trial.calls, strict=False)
        for intended, plain, now in calls if self.gradients_known else ():
            if wrong := count_missing(intended.gradients, plain.gradients):
                wrong_now = count_missing(intended.gradients, now.gradients)
                is_other = not all_in(plain.gradients, now.gradients)
                return is_other and wrong_now <= wrong and same_all(intended.losses, now.losses)
        return False

    def keeps_updates(self, trial: TrialRun) -> bool:
        """Return whether every leaf ends with its intended value and gradient, as far as these are known."""
        intended = self.intended
        pairs = ((intended.left, trial.left), (intended.settled, trial.settled))
        spare = intended.cleared_unused
        has_gradients = any(all_in(first, two) and all_in(two, first, spare=spare) for first, two in pairs)
        # Those of a target network are reached by no backward.
        averages = not intended.unreached.intersection(different(intended.values, trial.values))
        return not self.ran or (has_gradients and averages and self.keeps_values(trial))

    def keeps_values(self, trial: TrialRun) -> bool:
        """Return whether every leaf ends with its intended value, or with an earlier one if a moved update is still to come.

        If the run ends early, a change that moves an update across the failing call has not made the last one.
        """
        intended, steps = self.intended, len(self.plain.calls) - 1
        if all_in(intended.trained, trial.trained):
            return True
        if not (intended.is_cut and trial.is_cut and self.plain.error) or len(intended.trained) != len(trial.trained):
            return False
        earlier = [value for values in intended.starts[-steps:] if steps for value in values]
        return all_in(trial.trained, [*intended.trained, *earlier])

    def keeps_own_gradients(self, trial: TrialRun) -> bool:
        """Return whether the leaves that only the failing call reaches receive their intended gradients from it."""
        failing = len(self.plain.calls) - 1
        calls = self.known_calls(trial)
        if self.plain.error is None or not 0 < failing < len(calls or ()):
            return True
        intended, now = calls[failing]  # type: ignore[index]
        earlier = {leaf for call in self.intended.calls[:failing] for leaf, _ in call.given}
        return all_in([gradient for leaf, gradient in intended.given if leaf not in earlier], now.gradients)

    def changed_losses(self, trial: TrialRun) -> str | None:
        """Return a sentence on the first call in which backward starts from another loss, or None if more than the losses differs."""
        calls = self.known_calls(trial)
        if not self.ran or self.keeps_losses(trial) or calls is None:
            return None
        for number, (intended, now) in enumerate(calls, 1):
            for before, after in zip(intended.losses, now.losses, strict=False):
                if not same(before, after):
                    return changed_loss(number, before, after)
        return None

    def changed_values(self, trial: TrialRun, unsteady: Sequence[str] = ()) -> str | None:
        """Return a sentence on the names that end with other values or are no longer leaves, or None if there are no such names.

        The values of `unsteady` names differ in each run, and are ignored.
        """
        sentences: list[str] = []
        if lost := self.lost_leaves(trial):
            sentence = "trial.no_leaf|{names} is no longer the leaf: its gradient goes to the tensor that it was computed from."
            sentences.append(Message(sentence, names=", ".join(lost[:FEW])))
        intended = self.intended
        if self.ran and not self.contradicted:  # otherwise, updates with other gradients have changed the values
            names = [name for name in different(intended.values, trial.values) if name not in unsteady]
            names = [name for name in names if intended.leaves.get(name) not in intended.cut]
            # Gradients are compared elsewhere, also those in other variables than `w.grad`.
            gradients = [gradient for call in intended.calls for gradient in call.gradients]
            names = [name for name in names if not any(same(intended.values[name], value) for value in gradients)]
            names = [name for name in names if not name.endswith(".grad")]
            sentences.append(other_ends(names, intended.values, trial.values))
        return join_messages(sentences) or None

    def lost_leaves(self, trial: TrialRun) -> list[str]:
        """Return the names of leaves in the intended run that are not leaves in the trial."""
        return [name for name in self.intended.leaves if name in trial.values and name not in trial.leaves]

    def hides_a_leaf(self, trial: TrialRun) -> bool:
        """Return whether a leaf has lost all its names, so that its gradient cannot be read."""
        leaves = self.intended.leaves
        named = {leaf for name, leaf in leaves.items() if name in trial.leaves}
        return any(leaves[name] not in named for name in self.lost_leaves(trial))


def paired(intended: list[CallValues], now: list[CallValues]) -> Iterator[tuple[CallValues, CallValues]]:
    """Yield each intended call with a call that starts from equal losses: at the same position, else at another one, else the next.

    A fix may change the order of calls.
    """
    unpaired = list(now)
    for place, call in enumerate(intended):
        same_place = [now[place]] if any(now[place] is other for other in unpaired) else []
        alike = (other for other in [*same_place, *unpaired] if same_all(call.losses, other.losses))
        like = next(alike, unpaired[0])
        unpaired = [other for other in unpaired if other is not like]
        yield call, like


def same_all(intended: list[Tensor], now: list[Tensor]) -> bool:
    """Return whether two lists contain equal tensors in the same order."""
    return len(intended) == len(now) and all(same(left, right) for left, right in zip(intended, now, strict=True))


def all_in(wanted: list[Tensor], got: list[Tensor], *, near: bool = False, spare: int = 0) -> bool:
    """Return whether `got` contains each tensor of `wanted` except `spare` of them, in any order, each once.

    Zeros may be missing. With `near`, elements may differ by the error of finite differences.
    """
    return count_missing(wanted, got, near=near) <= spare


def count_missing(wanted: list[Tensor], got: list[Tensor], *, near: bool = False) -> int:
    """Return the number of tensors of `wanted` that `got` does not contain, as `all_in` compares them."""
    unmatched, count = list(got), 0
    for value in wanted:
        place = next((n for n, other in enumerate(unmatched) if same(value, other, near=near)), None)
        if place is not None:
            unmatched.pop(place)
        else:
            count += bool(value.any())
    return count


def changed_loss(number: int, intended: Tensor, now: Tensor) -> str:
    """Return a sentence on a backward call (1-based) that starts from another loss."""
    for digits in (4, 8, 17):
        texts = {"now": text(now, digits), "meant": text(intended, digits)}
        if texts["now"] != texts["meant"]:
            break
    if number == 1:
        return Message("trial.other_loss|backward starts from {now}, not {meant}.", **texts)
    sentence = "trial.other_loss_of_call|backward call {number} starts from {now}, not {meant}."
    return Message(sentence, number=number, **texts)


def different(intended: dict[str, Tensor], now: dict[str, Tensor]) -> list[str]:
    """Return the names with different values in the two runs, in order."""
    return [name for name, value in intended.items() if name in now and not same(value, now[name])]


def other_ends(names: list[str], intended: dict[str, Tensor], now: dict[str, Tensor]) -> str:
    """Return a sentence on the values with which names end in two runs, or "" without names."""
    each = [
        Message("trial.ends_as|{name} ends as {now}, not {meant}", name=n, now=text(now[n]), meant=text(intended[n]))
        for n in names[:FEW]
    ]
    sentence = join_messages(each, CLAUSES)
    if len(names) <= FEW:
        return Message("join.end|{told}.", told=sentence) if sentence else ""
    return counted_message(
        len(names) - FEW, "trial.more_names.one|{told} ({count} more name differs).",
        "trial.more_names|{told} ({count} more names differ).", told=sentence,
    )  # fmt: skip


def text(value: Tensor, digits: int = 4) -> str:
    """Return a short text of a tensor's values."""
    return short(value.flatten().tolist() if value.dim() else value.item(), digits)


def short(value: object, digits: int = 4) -> str:
    """Return a number, or nested lists of numbers, as a rounded and shortened text."""
    if isinstance(value, list):
        inside = ", ".join(short(item, digits) for item in value[:4])
        return f"[{inside}{', …' if len(value) > 4 else ''}]"
    return f"{value:.{digits}g}" if isinstance(value, int | float | complex) else "none at all"
