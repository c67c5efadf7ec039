"""The results of the independent gradient computations (oracles), as checks and notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch

from autograder.locale.translations import in_english
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.observe.graph.tensors import values_text
from autograder.tape.recording.verdict_types import Check, Gradient, told_of_line

COPIES, DIFFERENCES, FUNCTIONS = (
    "copies of saved tensors",
    "finite differences",
    "finite differences of each custom Function",
)
WORDS: dict[str, Literal["yes", "no", "not known"]] = {
    "slope": "yes",
    "wrong": "no",
    "choice": "no",
    "unknown": "not known",
}


def checks_of(evidence: Evidence) -> Iterator[Check]:
    """Yield the answer of each oracle. Answers without a fault do not mean that everything was checked."""
    yield Check(COPIES, "Did every backward use the values that were saved?", *_of_copies(evidence))
    yield Check(DIFFERENCES, "Is every gradient the derivative of its loss?", *_of_differences(evidence))
    for one in evidence.untracked_effect.own_functions:
        question = f"Is the backward of {one.name} the derivative of its forward?"
        yield Check(FUNCTIONS, question, WORDS[one.found.answer], DETAILS[one.found.answer])


DETAILS = {
    "slope": "",
    "wrong": "They differ at the values of this run and near them.",
    "choice": "Its forward is constant or returns its input, so it has no derivative to compare with.",
    "unknown": "It does not run alone in double precision, or has a kink or a jump here.",
}


def notes_on_formulas(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each custom Function or PyTorch operation with a backward that is not the derivative of its forward."""
    for one in evidence.untracked_effect.own_functions:
        forward, backward = one.found.forward, one.found.backward
        if one.found.answer == "wrong":
            told = in_english(
                "the backward of {name} does not match the derivative of its forward: along a random direction "
                "its output changes by {forward}, but its backward returns {backward} ({ratio}). If that is "
                "intended, ignore this note.",
                name=one.name, forward=f"{forward:.4g}", backward=f"{backward:.4g}", ratio=_ratio(forward, backward),
            )  # fmt: skip
            yield told_of_line(one.place, evidence.file, told)
        elif one.found.answer == "choice":
            told = in_english(
                "the backward of {name} cannot be checked: its forward is constant or returns its input, so it "
                "has no derivative to compare with.", name=one.name,
            )  # fmt: skip
            yield told_of_line(one.place, evidence.file, told)
    for one in evidence.untracked_effect.twice:
        told = in_english(
            "the backward of {name} is right, but the derivative of its result is not: along a random direction the result "
            "changes by {forward}, and a second backward computes {backward}. Compute it from saved inputs: a tensor that forward "
            "computed and kept on ctx has no graph.",
            name=one.name, forward=f"{one.found.forward:.4g}", backward=f"{one.found.backward:.4g}",
        )  # fmt: skip
        yield told_of_line(one.place, evidence.file, told)
    if evidence.outcome == "correct" and has_uncompared_derivatives(evidence):
        yield in_english(
            "Second derivatives through a custom Function were not compared; --check-gradients compares them."
        )
    for wrong in evidence.untracked_effect.operations:
        told = in_english(
            "PyTorch {version}'s derivative of {name} does not match finite differences of this call alone. "
            "No in-place modification of the program causes this; use another operation.",
            version=torch.__version__.partition("+")[0], name=wrong.name,
        )  # fmt: skip
        yield told_of_line(wrong.place, evidence.file, told)


def has_uncompared_derivatives(evidence: Evidence) -> bool:
    """Return whether the graph of a gradient contains a custom backward, and no finite differences of it were taken."""
    effect, calls = evidence.untracked_effect, evidence.plain.calls[:-1]
    is_asked = effect.taken or effect.note is not None
    return bool(effect.own_functions) and not is_asked and any(call.creates_graph for call in calls)


def notes_on_meanings(gradients: dict[str, Gradient]) -> Iterator[str]:
    """Yield a sentence for each gradient with two correct values: for the computed loss, and for the recorded program."""
    for name, one in gradients.items():
        if one.ran is not None:
            ran, true = (values_text(torch.tensor(value)) for value in (one.ran, one.true))
            yield in_english(
                "{name}.grad has two possible values: {ran} is the gradient of the loss that ran, with the values written past "
                "autograd; {true} is that of the recorded program, without that write, and is the one called right here.",
                name=name, ran=ran, true=true,
            )  # fmt: skip


def _ratio(forward: float, backward: float) -> str:
    if abs(forward) > 1e-9:
        return in_english("{factor} times it", factor=f"{backward / forward:.3g}")
    return in_english("its forward is constant here")


def _of_copies(evidence: Evidence) -> tuple:
    number = len(evidence.plain.calls)
    calls = f"{number} call{'' if number == 1 else 's'} of backward"
    if not number:
        return "not asked", "The program never called backward."
    if evidence.cloned_saves.error is not None:
        return "not known", f"The run with copies raised {type(evidence.cloned_saves.error).__name__}."
    failed = evidence.outcome == "raises-backward" or (evidence.outcome == "silently-wrong" and evidence.copies_differ)
    if failed or evidence.excerpt is None or evidence.excerpt.checked >= number:
        return "no" if failed else "yes", calls
    return "yes", f"the first {evidence.excerpt.checked} of {calls}"


def _of_differences(evidence: Evidence) -> tuple:
    effect = evidence.untracked_effect
    if effect.wrong:
        return "no", effect.note or f"{len(effect.wrong)} of the gradients are not."
    if effect.note:
        return "not known", effect.note
    if effect.taken:
        return "yes", "along a random direction of the leaves"
    return "not asked", "--check-gradients takes them."
