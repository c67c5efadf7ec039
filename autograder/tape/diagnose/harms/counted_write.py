"""A write into a saved tensor that the version counter shows."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, harms_to_consumed_saves
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Returns the harm to the saved tensors whose counter no longer is what it was at the save, so that backward refuses them."""
    return harms_to_consumed_saves(evidence, stale=True)


COUNTED_WRITE = HarmKind(
    name="counted write",
    sentence="A tensor that backward needs was written in place; its version counter moved, so backward refuses it.",
    outcomes=("raises-backward", "silently-wrong"),
    find=find,
    example=Example(
        "raises-backward",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        h = w.exp()  # saves
        h += 1  # writes
        h.sum().backward()
        """,
    ),
)
