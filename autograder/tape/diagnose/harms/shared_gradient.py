"""A gradient buffer that was assigned to two leaves, so that each accumulates into the other's gradient."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, name_of_gradient
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the assignments to `.grad` that gave two leaves the same memory."""
    state = evidence.state
    for place, leaf, other in state.shared_buffers:
        name, through = name_of_gradient(state, other), name_of_gradient(state, leaf)
        yield Harm(name, (place,), through, place, "AccumulateGrad", 0, 0, True)


SHARED_GRADIENT = HarmKind(
    name="shared gradient",
    sentence="Two leaves were given the same memory as their .grad, and backward adds to it for both.",
    outcomes=("silently-wrong",),
    find=find,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        v = torch.tensor([3.0, 4.0], requires_grad=True)
        w.grad = torch.zeros(2)
        v.grad = w.grad  # writes
        (2 * w + 5 * v).sum().backward()
        """,
    ),
)
