"""The outcome in words, which claim only what was checked."""

from __future__ import annotations

import os
import re

from autograder.locale.translations import localized, translatable, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome, Verdict, line_of
from autograder.view.text.gradient_values import is_finite
from autograder.view.text.naming import count_noun

MEANING: dict[Outcome, str] = {
    "raises-forward": translatable("a line of the program stops with an error"),
    "raises-backward": translatable("backward() stops with an error"),
    "correct": translatable("the gradients are right"),
    "silently-wrong": translatable("no error, but a gradient is wrong"),
}
"""The meanings of the outcomes, from which a student chooses; `meaning` translates them."""


def meaning(outcome: Outcome) -> str:
    """Return the meaning of an outcome, in the reader's language."""
    return translated(MEANING[outcome])


def title(verdict: Verdict, file: str = "") -> str:
    """Return one line on a run: its outcome, or the reason why a check rejected a program whose gradients are right.

    Lines of other files than `file`, the program's own, have the name of their file.
    """
    if is_refused(verdict):
        return translated("not passed: {reason}", reason=verdict.refusal)
    if verdict.outcome == "correct" and (name := untrained_name(verdict)):
        if verdict.excerpt is None:
            return translated("correct, but `{name}` is never trained", name=name)
        return count_noun(
            verdict.excerpt.calls, "correct, but `{name}` is not trained in the one backward call that ran",
            "correct, but `{name}` is not trained in the {count} backward calls that ran", name=name,
        )  # fmt: skip
    return f"{verdict.outcome}: {headline(verdict, file)}"


def untrained_name(verdict: Verdict) -> str:
    """Return the name of the module or list that contains all parameters of the first fault that leaves any untrained.

    If the module has other parameters, return the name of the first of these parameters.
    """
    faults = ([tensor.name for tensor in fault.tensors if tensor.is_untrained] for fault in verdict.graph_faults)
    first = next(filter(None, faults), [])
    # Another variable may contain the other tensors of the fault.
    names = [name for name in first if re.split(r"[.[]", name)[0] == re.split(r"[.[]", first[0])[0]]
    owner = re.match(r"(.*)[.\[]", os.path.commonprefix(names))
    module = owner[1] if owner else ""
    trained = [
        name for name in verdict.gradients if name.startswith((f"{module}.", f"{module}[")) and name not in names
    ]
    return module if module and not trained else next(iter(names), "")


def is_refused(verdict: Verdict) -> bool:
    """Return whether a check rejected the program for its values, so that its outcome alone would be misleading."""
    return bool(verdict.refusal) and verdict.outcome == "correct"


def about_refused(verdict: Verdict) -> str:
    """Return a statement on the gradients of a program that a check refused for another reason."""
    answers = [check.answer for check in verdict.checks]
    cut = any(named.mark == "lost" for named in verdict.named)
    form = translatable("In this program itself, {headline}.")
    if "yes" in answers and "no" not in answers and not cut:
        form = translatable("The gradients are right for what this program computes: {headline}.")
    return translated(form, headline=headline(verdict))


def headline(verdict: Verdict, file: str = "") -> str:
    """Return a summary of a run; it calls gradients right only if an oracle compared them with the loss."""
    if verdict.outcome != "correct":
        return meaning(verdict.outcome)
    answers = {check.oracle: check.answer for check in verdict.checks}
    if answers.get("finite differences") == "yes":
        return translated("finite differences confirm the gradients, and no write broke backward")
    if answers.get("copies of saved tensors") == "not asked":
        return translated("backward was never called, so no gradient was checked")
    if not all(map(is_finite, verdict.gradients.values())):
        return translated("no write broke backward; but a gradient is nan or inf")
    places = [fault.place for fault in verdict.graph_faults]
    if seen := min(places, key=lambda place: (place.file != file, place.line), default=None):
        line = localized(line_of(seen, file or seen.file))
        return translated("no write broke backward; but see {line}", line=line)
    if "no" in answers.values():  # a straight-through estimator is like this on purpose
        return translated("no write broke backward; but a custom backward is not the derivative of its forward")
    if answers.get("finite differences") == "not known":
        return translated("no write broke backward as far as is known; finite differences could not decide")
    excerpt = verdict.excerpt
    if excerpt is not None and not excerpt.checked:
        return translated("no write broke backward; but the time was up before gradients were compared")
    if excerpt is not None and (not excerpt.ended or excerpt.checked < excerpt.calls):
        return count_noun(
            excerpt.checked,
            "no write broke backward in the first call; later ones were not compared",
            "no write broke backward in the first {calls} calls; later ones were not compared",
            calls=f"{excerpt.checked:,}",
        )
    return translated("no write broke backward")


def is_compared(verdict: Verdict) -> bool:
    """Return whether the right gradients were computed independently; otherwise they are copies of the program's own."""
    compared = any(check.oracle == "finite differences" and check.answer == "yes" for check in verdict.checks)
    return verdict.outcome != "correct" or compared


def short_message(message: str) -> str:
    """Return PyTorch's message without its hint at anomaly mode, which finds the line that saved, not the one that modified."""
    return " ".join(message.partition(" Hint: ")[0].split())


def words_on_runs(recording: Recording) -> list[str]:
    """Return the number of runs as one line; empty if it is unknown (release 0.1.0, or a post mortem)."""
    runs = recording.verdict.runs
    if runs == 1:
        return [translated("The program ran once.")]
    return [translated("The program ran {runs} times, including changed versions.", runs=runs)] if runs else []
