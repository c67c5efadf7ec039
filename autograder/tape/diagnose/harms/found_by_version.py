"""A write into a saved tensor that nothing shows but the two version numbers in the error."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, places
from autograder.tape.internals.saved_variables import VERSIONS
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yields the writes that moved a counter from the version that backward expected to the one it found.

    No saved tensor says so where the write came while backward ran, or where CopySlices holds it: the node of a base whose view
    was written does not give the function inside it to Python (PyTorch 2.13).
    """
    state, found = evidence.state, VERSIONS.search(str(evidence.plain.error))
    if not found:
        return
    now, then = int(found[1]), int(found[2])
    for counter in state.tensors.counters:
        writes = [one for one in state.writes if counter.id in one.counters and one.version is not None]
        after = [one for one in writes if then < (one.version or 0) <= now]
        if counter.version == now and after:
            saved = next((one.place for one in writes if one.version == then), after[0].place)
            tracked = after[0].tracked
            name = (tracked and state.name_of(tracked)) or "a view written in place"
            changed = any(one.changed for one in after)
            yield Harm(name, places(after), None, saved, "CopySlices", then, now, changed)


FOUND_BY_VERSION = HarmKind(
    name="write found by its version",
    sentence="Backward refused a tensor that no node shows; these writes moved a counter between the two versions of the error.",
    outcomes=("raises-backward",),
    find=find,
    example=Example(
        "raises-backward",
        """
        import torch

        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return x.mul_(2).mul_(grad)  # writes

        w = torch.tensor([1.0, 2.0], requires_grad=True)
        Square.apply(w.exp()).sum().backward()
        """,
    ),
)
