"""A modification of a saved tensor that is known only by the two versions in the error."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.errors import message_of
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harms.harm_kind import Example, HarmKind, harm_to, places, writes_into
from autograder.tape.internals.saved_variables import VERSIONS
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.recording.verdict_types import Harm


def find(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications that increased a counter from the version that backward expected to the actual one.

    No saved tensor shows them if they were made during backward, or if CopySlices saved the tensor: the node of a base
    whose view was modified does not expose its inner function to Python (PyTorch 2.13).
    """
    state, found = evidence.state, VERSIONS.search(message_of(evidence.plain.error))
    if not found:
        return
    versions = int(found[1]), int(found[2])
    saves = [save for save in state.graph.saves if save.stale and (save.version_now, save.version) == versions]
    # A recomputed block has saved tensors that no engine call of the program reached.
    for save, writes in [(save, writes) for save in saves if (writes := writes_into(state, save))][-1:]:
        changed = any(
            one.changed and one.memory is save.memory and save.overlaps(one.start, one.stop) for one in writes
        )
        yield harm_to(state, save, writes, changed=changed)
    if not saves:
        yield from _by_counter(state, *versions)


def _by_counter(state: RunState, now: int, then: int) -> Iterator[Harm]:
    """Yield the harm through the counter that changed between two versions; of several, through the last modified.

    Others may have changed as much without harm, such as that of an initialized parameter.
    """
    moved: dict[int, list[WriteEvent]] = {}
    for counter in state.tensors.counters:
        writes = [one for one in state.writes if counter.id in one.counters and one.version is not None]
        if counter.version == now and any(then < (one.version or 0) <= now for one in writes):
            moved[counter.id] = writes
    for writes in sorted(moved.values(), key=lambda some: some[-1].index)[-1:]:
        after = [one for one in writes if then < (one.version or 0) <= now]
        saved = next((one.place for one in writes if one.version == then), after[0].place)
        tracked = after[0].tracked
        name = (tracked and state.name_of(tracked)) or "a view written in place"
        yield Harm(name, places(after), None, saved, "CopySlices", then, now, any(one.changed for one in after))


FOUND_BY_VERSION = HarmKind(
    name="write found by its version",
    sentence="Backward raised an error about a tensor that no node exposes; these writes moved its version between the two in the error.",
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
