"""A modification by a hook or a custom backward of a tensor that another node saved."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, harm_to
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications during backward of saved tensors that were used later."""
    for write in evidence.state.writes:
        for save in write.harmed if write.in_backward and write.changed else ():
            # A custom Function may modify its own saved tensors deliberately.
            if save.used and not save.node.is_custom:
                yield harm_to(evidence.state, save, [write], changed=True)


WRITE_DURING_BACKWARD = HarmKind(
    name="write during backward",
    sentence="While backward ran, a hook or a custom backward wrote into a tensor that a later node still needed.",
    outcomes=("silently-wrong",),
    find=find,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def clear(grad):
            a.data.zero_()  # writes

        a = w * 1
        h = a * a  # saves
        h.register_hook(clear)
        h.sum().backward()
        """,
    ),
)
