"""A modification of a gradient buffer to which the program keeps another reference."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, name_of_gradient, places
from autograder.tape.internals.heard_calls import EMPTYING
from autograder.tape.recording.verdict_types import Harm

_EMPTIES = (*EMPTYING, "zero_grad")


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications of gradient buffers: those that zeroed one, or else those of a later backward that accumulated into one."""
    state = evidence.state
    writes = [write for write in state.writes if write.changed and write.memory in state.buffers]
    writes = [write for write in writes if write.operation in _EMPTIES] or writes
    for memory in dict.fromkeys(write.memory for write in writes):
        own = [write for write in writes if write.memory is memory]
        buffer = state.buffers[memory]
        name, filled = name_of_gradient(state, buffer.leaf), buffer.place or own[0].place
        yield Harm(name, places(own), None, filled, "AccumulateGrad", None, own[-1].version, True)


KEPT_GRADIENT = HarmKind(
    name="write into a kept gradient",
    sentence="The program kept a leaf's .grad without a copy, and its memory was then emptied or added to.",
    outcomes=("silently-wrong",),
    find=find,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def run():
            (w * w).sum().backward()
            first = w.grad
            w.grad.zero_()  # writes
            (3 * w).sum().backward()  # saves
            return {"first": first}
        """,
    ),
)
