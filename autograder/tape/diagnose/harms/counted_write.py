"""A modification of a saved tensor that increased its version counter."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, harms_to_consumed_saves
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Return the harms to saved tensors whose counter changed after the save, so that backward raises an error."""
    return harms_to_consumed_saves(evidence, stale=True)


COUNTED_WRITE = HarmKind(
    name="counted write",
    sentence="A tensor that backward needs was modified in place; its version counter increased, so backward raises an error.",
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
