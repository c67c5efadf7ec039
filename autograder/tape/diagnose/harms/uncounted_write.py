"""A modification of a saved tensor that the version check misses: through `.data`, NumPy or DLPack, or with saved-tensor hooks."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, harms_to_consumed_saves
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Return the harms to saved tensors whose bytes changed although backward does not raise an error."""
    return harms_to_consumed_saves(evidence, stale=False)


UNCOUNTED_WRITE = HarmKind(
    name="uncounted write",
    sentence="A tensor that backward needs was overwritten, and the version check cannot detect it: backward uses the new values.",
    outcomes=("raises-backward", "silently-wrong"),
    find=find,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        h = w * 1
        y = h * h  # saves
        h.data.zero_()  # writes
        y.sum().backward()
        """,
    ),
)
