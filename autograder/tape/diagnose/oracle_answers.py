"""What each oracle was asked about a run, and what it found."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.recording.verdict_types import Check

COPIES, DIFFERENCES = "copies of saved tensors", "finite differences"


def checks_of(evidence: Evidence) -> Iterator[Check]:
    """Yields the answer of each oracle; that none found a fault does not say that all was checked."""
    yield Check(COPIES, "Did every backward use the values that were saved?", *_of_copies(evidence))
    yield Check(DIFFERENCES, "Is every gradient the slope of its loss?", *_of_differences(evidence))


def _of_copies(evidence: Evidence) -> tuple:
    calls = len(evidence.plain.calls)
    if not calls:
        return "not asked", "The program never called backward."
    if evidence.cloned_saves.error is not None:
        return "not known", f"The run with copies raised {type(evidence.cloned_saves.error).__name__}."
    failed = evidence.outcome in ("raises-backward", "silently-wrong")
    return "no" if failed else "yes", f"{calls} call{'' if calls == 1 else 's'} of backward"


def _of_differences(evidence: Evidence) -> tuple:
    effect = evidence.untracked_effect
    if not effect.suspects:
        return "not asked", "No write was left out of the graph, which is where they are taken by themselves."
    if effect.note:
        return "not known", effect.note
    return (
        ("no", f"{len(effect.wrong)} gradients differ.")
        if effect.wrong
        else ("yes", "for the leaves of every backward")
    )
