"""From three runs to one verdict: what happened (plain), what was seen (observed), what the formulas give (careful)."""

from __future__ import annotations

import torch

from autograder.tape.diagnose.harms import blamed, harms_of
from autograder.tape.observe.backward_trace import BackwardTrace
from autograder.tape.observe.observer import Observer
from autograder.tape.observe.state import STEPS
from autograder.tape.oracle.gradient_comparison import SAME, Gradients, aligned, gap, gradients_of, nested
from autograder.tape.oracle.untracked_writes import UntrackedEffect
from autograder.tape.recording.verdict_types import Gradient, Harm, Outcome, Verdict
from autograder.tape.run.once import Run

# The careful run makes the same operations on the same numbers, so a real difference can be as small as one step of an optimizer;
# without a witness (a saved tensor whose bytes changed) only a difference that no order of additions explains is called wrong.
WITNESSED, UNWITNESSED = SAME, 1e-3


class Evidence:
    """What the runs left, each compared with the plain one."""

    def __init__(
        self,
        plain: Run,
        observed: Run,
        cloned_saves: Run,
        observer: Observer,
        untracked_effect: UntrackedEffect,
        walk: BackwardTrace,
    ):
        self.plain, self.observed, self.cloned_saves, self.observer = plain, observed, cloned_saves, observer
        self.untracked_effect, self.walk = untracked_effect, walk
        self.got, self.true = gradients_of(plain), gradients_of(cloned_saves)
        _corrected(self.true, self.got, untracked_effect)
        self.watched = gradients_of(observed)
        self.pairs = aligned(self.got, self.true)
        self.repeats = plain.problem == observed.problem and _same(self.got, self.watched)
        self.witnessed = any(kept.changed for kept in observer.state.consumed)
        self.wrong_call = self._first_wrong_call()

    @property
    def limit(self) -> float:
        """How far apart two gradients may be and still be the same."""
        return WITNESSED if self.witnessed else UNWITNESSED

    @property
    def wrong(self) -> bool:
        """Whether what the plain run left is not what the formulas give."""
        return (
            bool(self.untracked_effect.wrong)
            or self.wrong_call is not None
            or any(self.differs(g, t) for g, t in self.final_pairs())
        )

    def differs(self, got: object, true: object) -> bool:
        """Returns whether two gradients are not the same."""
        return gap(got, true) > self.limit

    def final_pairs(self) -> list[tuple[object, object]]:
        """Returns what the program left at its end, beside the same of the careful run."""
        pairs = [(self.got.final[i], self.true.final[j]) for i, j in self.pairs.items()]
        return pairs + [(value, self.true.returned.get(key)) for key, value in self.got.returned.items()]

    def _first_wrong_call(self) -> int | None:
        for number, (got, true) in enumerate(zip(self.got.calls, self.true.calls, strict=False)):
            if any(self.differs(got[i], true.get(self.pairs[i])) for i in got if i in self.pairs):
                return number
        return None


def _corrected(true: Gradients, got: Gradients, untracked_effect: UntrackedEffect) -> None:
    """Adds to the gradients of the careful run what finite differences say is missing in them.

    Where that gives just what the program left (sigmoid's output zeroed: its slope is zero, and so is the gradient), the saved
    values are the fault, and the gradient that was meant is the careful run's.
    """
    for (number, position), missing in untracked_effect.corrections.items():
        call = true.calls[number]
        index = list(call)[position]
        before = call[index]
        after = missing if before is None else (before.double() + missing).to(before.dtype)
        left = list(got.calls[number].values())[position : position + 1] if number < len(got.calls) else []
        if before is not None and left and gap(left[0], after) <= WITNESSED:
            continue
        call[index] = after
        if number == len(true.calls) - 1:
            for key, value in true.returned.items():
                if gap(value, before) == 0.0 and before is not None:
                    true.returned[key] = after
            if gap(true.final[index], before) == 0.0:
                true.final[index] = after


def _same(one: Gradients, other: Gradients) -> bool:
    if len(one.calls) != len(other.calls) or len(one.targets) != len(other.targets):
        return False
    calls = zip(one.calls, other.calls, strict=True)
    return all(gap(a.get(i), b.get(i)) <= WITNESSED for a, b in calls for i in a) and all(
        gap(value, other.returned.get(key)) <= WITNESSED for key, value in one.returned.items()
    )


def verdict_of(evidence: Evidence) -> Verdict:
    """Returns the verdict."""
    plain = evidence.plain
    outcome = _outcome(evidence)
    harms = harms_of(evidence.observer.state, outcome, plain, evidence.untracked_effect, evidence.walk)
    gradients = _gradients(evidence, outcome)
    return Verdict(outcome, plain.problem, harms, gradients, tuple(_notes(evidence, outcome, harms)))


def _outcome(evidence: Evidence) -> Outcome:
    plain = evidence.plain
    if plain.error is not None:
        return "raises-backward" if plain.in_backward else "raises-forward"
    if plain.calls and plain.calls[-1].error is not None:
        return "raises-backward"
    if evidence.cloned_saves.error is None and evidence.wrong:
        return "silently-wrong"
    return "correct"


def _gradients(evidence: Evidence, outcome: Outcome) -> dict[str, Gradient]:
    """Returns each leaf's gradient beside the right one: as returned, as `.grad` was left, or as the decisive backward gave it."""
    knows = evidence.cloned_saves.error is None
    if evidence.got.returned:
        return {
            key: _beside(value, evidence.true.returned.get(key) if knows else None)
            for key, value in evidence.got.returned.items()
        }
    if evidence.plain.error is not None and evidence.true.returned:
        return {key: _beside(None, value) for key, value in evidence.true.returned.items()}
    names, found = _names(evidence), {}
    call = _decisive(evidence)
    for index in _in_order_of_appearance(evidence):
        got, true = evidence.got.final[index], _at(evidence.true.final, evidence.pairs.get(index))
        if call is not None and index in evidence.got.calls[call]:
            got = evidence.got.calls[call][index]
            true = (
                evidence.true.calls[call].get(evidence.pairs.get(index, -1))
                if call < len(evidence.true.calls)
                else None
            )
        found[names[index]] = _beside(got, true if knows or not _is_last(evidence, call) else None)
    return found


def _beside(got: object, true: object) -> Gradient:
    listed = nested(got)
    many = isinstance(got, torch.Tensor) and listed is None
    return Gradient(listed, nested(true), got.numel() if many else 0)  # type: ignore[attr-defined]


def _in_order_of_appearance(evidence: Evidence) -> list[int]:
    """Returns the targets' numbers, the tensor that the program made first coming first."""
    seen = [evidence.observer.state.tensors.get(target) for target in evidence.watched.targets]
    known = {index: one.id for index, one in enumerate(seen) if one}
    return sorted(range(len(evidence.got.targets)), key=lambda index: known.get(index, 1 << 60))


def _is_last(evidence: Evidence, call: int | None) -> bool:
    return call is None or call >= len(evidence.true.calls) - 1


def _at(values: list, index: int | None) -> object:
    return None if index is None else values[index]


def _decisive(evidence: Evidence) -> int | None:
    """Returns the backward whose gradients are shown, or None where what stands in `.grad` at the end tells the story."""
    if evidence.plain.error is not None and evidence.plain.calls and evidence.plain.calls[-1].error is not None:
        return len(evidence.plain.calls) - 1
    if evidence.wrong_call is not None:
        return evidence.wrong_call
    calls = evidence.got.calls
    returned = calls and evidence.plain.calls[-1].returns
    emptied = calls and all(g is None or not g.any() for g in evidence.got.final)
    return len(calls) - 1 if returned or emptied else None


def _names(evidence: Evidence) -> list[str]:
    names: list[str] = []
    for index, target in enumerate(evidence.watched.targets):
        seen = evidence.observer.state.tensors.get(target)
        name = (seen and seen.name) or f"leaf {index}"
        names.append(name if name not in names else f"{name} ({index})")
    return names + [f"leaf {index}" for index in range(len(names), len(evidence.got.targets))]


def _notes(evidence: Evidence, outcome: Outcome, harms: tuple[Harm, ...]):
    if evidence.observer.failure is not None:
        yield f"The observer stopped early: {evidence.observer.failure!r}. Please report it with this program."
    if not evidence.plain.calls and evidence.plain.error is None:
        yield "The program never called backward; nothing here says what it would have given."
    if not evidence.repeats:
        yield "Two runs with the same seed differ: the program is not deterministic, so the right gradient is uncertain."
    if evidence.cloned_saves.error is not None and evidence.plain.error is None:
        error = evidence.cloned_saves.error
        yield f"The run with copies of every saved tensor raised {type(error).__name__}; the right gradients are not known."
    if outcome == "raises-backward" and harms and not any(harm.bytes_changed for harm in harms):
        yield "The error was not needed: no saved value changed. PyTorch counts writes to a storage, not changes of its values."
    yield from blamed(evidence.observer.state, evidence.untracked_effect)
    if evidence.untracked_effect.note:
        yield evidence.untracked_effect.note
    if evidence.observer.statements.threads:
        yield "The program started threads; what they did is not told statement by statement."
    if any(memory.sampled for memory in evidence.observer.state.memories.all):
        yield "Storages over 64 MiB were only sampled; a small write into one may have gone unseen."
    if len(evidence.observer.state.drafts) >= STEPS:
        yield f"Only the first {STEPS:,} statements are told one by one."
