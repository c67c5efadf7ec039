"""Modifications that a later part of backward reads: by a hook or a custom backward, or before a checkpointed block is computed again."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, alias, harm_to
from autograder.tape.recording.verdict_types import Harm


def writes_during_backward(evidence: Evidence) -> Iterator[Harm]:
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
    find=writes_during_backward,
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


def writes_before_recomputation(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of tensors that the recomputation read and that are not arguments of the block."""
    state = evidence.state
    blocks = [save.writes_before for save in state.graph.saves if save.checkpointed]
    for write in state.writes[min(blocks) :] if blocks else ():
        place = state.read_again.get(write.memory)
        if place is not None and write.changed and not write.in_backward and write.tracked is not None:
            name = state.name_of(write.tracked) or "a tensor of the block"
            yield Harm(name, (write.place,), alias([write], name), place, "checkpoint", None, write.version, True)


RECOMPUTED_BLOCK = HarmKind(
    name="write before recomputation",
    sentence="A checkpointed block is computed again during backward, with a tensor that was overwritten after its forward pass.",
    outcomes=("silently-wrong",),
    find=writes_before_recomputation,
    example=Example(
        "silently-wrong",
        """
        import torch
        from torch.utils.checkpoint import checkpoint
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        scale = torch.tensor([3.0, 4.0])

        def block(x):
            return torch.sin(x + scale)  # saves

        h = checkpoint(block, w, use_reentrant=False)
        scale.mul_(10)  # writes
        h.sum().backward()
        """,
    ),
)
