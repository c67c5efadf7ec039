"""Evidence for a program with compiled functions: the compiled run, and eager runs that show every line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch

from autograder.locale.messages import LIST, Message, join_messages
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms import find_harms
from autograder.tape.oracle.all_runs import TOLERANCE
from autograder.tape.oracle.gradient_comparison import Gradients, aligned
from autograder.tape.recording.verdict_types import Place, Problem, line_of

# Compiled functions add in another order, and keep float32 where eager mode rounds intermediate results to bfloat16.
LOW_PRECISION = (torch.float16, torch.bfloat16)
LOW_PRECISION_LIMIT = 5e-2
ROUNDING = 1e-5  # relative to the largest gradient


@dataclass(frozen=True)
class CompiledEvidence(Evidence):
    """The evidence for a program with compiled functions. Only `plain` ran compiled, all other runs were eager."""

    eager: Evidence  # the evidence with an eager plain run

    @property
    def explaining(self) -> Evidence:
        """The evidence for the search for harms, which needs the lines of an eager run."""
        return self.eager

    @cached_property
    def _corrected(self) -> tuple[Gradients, dict[tuple[int, int], torch.Tensor]]:
        return self.eager.true, {}  # the correct gradients are those of the eager program

    @cached_property
    def appearance(self) -> dict[int, int]:
        """For each target of the plain run, its number in the observed run. A compiled graph has another order of targets."""
        return aligned(self.got, self.watched)

    @property
    def repeats(self) -> bool:
        """Whether two eager runs gave the same result."""
        return self.eager.repeats

    @cached_property
    def limit(self) -> float:
        """The largest relative difference between a compiled and an eager gradient that counts as equal."""
        types = {getattr(torch, tracked.dtype) for tracked in self.state.tensors.all}
        gradients = (gradient for call in self.runs.plain.calls for gradient in call.gradients)
        types |= {gradient.dtype for gradient in gradients if gradient is not None}
        return LOW_PRECISION_LIMIT if types & set(LOW_PRECISION) else TOLERANCE

    @cached_property
    def noise(self) -> float:
        """The largest absolute value that may be the rounding error of a zero, such as the gradient of a bias before a batch norm."""
        known = [gradient for call in (*self.got.calls, *self.true.calls) for gradient in call.values()]
        return ROUNDING * max((float(one.abs().max()) for one in known if one is not None and one.numel()), default=0.0)

    def differs(self, got: object, true: object) -> bool:
        """Return whether a compiled and a correct gradient differ."""
        tiny = all(isinstance(one, torch.Tensor) and not (one.abs() > self.noise).any() for one in (got, true))
        return not tiny and super().differs(got, true)


def compiled_notes(evidence: CompiledEvidence) -> Iterator[str]:
    """Yield notes on the effects of compilation. The outcome is the compiled program's, but lines are the eager run's."""
    error = evidence.eager.runs.plain.problem
    lost_the_check = evidence.runs.plain.error is None and evidence.eager.outcome == "raises-backward"
    if lost_the_check and error is not None:
        yield _what_was_lost(evidence)
        yield Message(
            "compiled.eager_raises|Run eagerly, backward raises {error} in {place}: {message}.",
            error=error.type, place=_line_of(error, evidence), message=_first_sentence(error.message),
        )  # fmt: skip
    elif evidence.runs.plain.error is not None and evidence.eager.outcome == "correct":
        yield Message(
            "compiled.only_compiled_raises|Only the compiled program raises: run eagerly, it reaches its end and its gradients are right."
        )
    elif evidence.runs.plain.problem is not None and evidence.eager.outcome == "raises-backward" and error is not None:
        if evidence.outcome == "raises-forward":
            yield Message(
                "compiled.traced_while_compiling|The compiler traces backward while it compiles the forward, and gets "
                "the error that eager "
                "raises in backward, in {place}: {message}.", place=_line_of(error, evidence), message=_first_sentence(error.message),
            )  # fmt: skip
    elif evidence.outcome == "silently-wrong" and evidence.eager.outcome == "correct":
        yield Message(
            "compiled.different_gradients|Run eagerly, the gradients are right: the compiled program gives different "
            "ones, and no in-place modification explains the difference."
        )
    yield Message(
        "compiled.how_found|Functions made by torch.compile ran compiled to find the outcome, "
        "and eagerly to find the lines and the right gradients."
    )


def _what_was_lost(evidence: CompiledEvidence) -> str:
    harms = find_harms(evidence.eager)
    places = [place for harm in harms[:1] for place in harm.mutated_at[:2]]
    lines = join_messages((_with_text(place, evidence.file) for place in places), LIST)
    lost = Message("compiled.lost|Compilation lost eager's version check, and backward silently used the new values.")
    if evidence.outcome == "correct":
        lost = Message(
            "compiled.skips_check|The compiled program skips eager's version check, which was not needed: the gradients are right."
        )
    return Message("compiled.about_lines|{lost} The check is about {lines}.", lost=lost, lines=lines) if lines else lost


def _with_text(place: Place, file: str) -> str:
    if place.file == file:
        return Message("compiled.line|line {line} (`{text}`)", line=place.line, text=place.text)
    return Message("compiled.place|{file}, line {line} (`{text}`)", file=place.file, line=place.line, text=place.text)


def _line_of(error: Problem, evidence: CompiledEvidence) -> str:
    place = error.place(evidence.file)
    return line_of(place, evidence.file) if place else Message("compiled.other_package|code of another package")


def _first_sentence(message: str) -> str:
    return message.partition("\n")[0].partition(". Hint")[0].rstrip(".")
