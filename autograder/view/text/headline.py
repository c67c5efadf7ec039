"""The outcome in words: no more than what was checked."""

from __future__ import annotations

from autograder.tape.recording.verdict_types import Outcome, Verdict

MEANING: dict[Outcome, str] = {
    "raises-forward": "a line of the program stops with an error",
    "raises-backward": "backward() stops with an error",
    "correct": "the gradients are right",
    "silently-wrong": "no error, but a gradient is wrong",
}
"""What the outcomes mean, as a learner chooses among them."""

NO_BACKWARD = "backward was never called, so no gradient was checked"
NO_HARM = "no write harmed a saved value"


def headline(verdict: Verdict) -> str:
    """Returns what is known of a run; that gradients are right only where an oracle compared them with the loss."""
    if verdict.outcome != "correct":
        return MEANING[verdict.outcome]
    answers = {check.oracle: check.answer for check in verdict.checks}
    if answers.get("finite differences") == "yes":
        return "the gradients are those of the loss, and no write harmed a saved value"
    if answers.get("copies of saved tensors") == "not asked":
        return NO_BACKWARD
    if "no" in answers.values():
        return f"{NO_HARM}; but a custom backward is not the slope of its forward"
    seen = sorted({fault.place.line for fault in verdict.graph_faults})
    return f"{NO_HARM}; but see line {seen[0]}" if seen else NO_HARM


def is_compared(verdict: Verdict) -> bool:
    """Returns whether a gradient beside the program's own says something: of a program that no oracle contradicted, it is a copy."""
    compared = any(check.oracle == "finite differences" and check.answer == "yes" for check in verdict.checks)
    return verdict.outcome != "correct" or compared


def short_message(message: str) -> str:
    """Returns PyTorch's message without its hint at anomaly mode: that finds the line that saved, not the one that wrote."""
    return " ".join(message.partition(" Hint: ")[0].split())
