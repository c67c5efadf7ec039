"""Modifications of a saved tensor, by the evidence for them: its version counter, its bytes, or the error message."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from autograder.errors import message_of
from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.harm_kind import Example, HarmKind, alias, harm_to, places, writes_into
from autograder.tape.internals.tensor_fields import VERSIONS
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.recording.verdict_types import Harm, note_on_line


def harms_to_consumed_saves(evidence: Evidence, *, stale: bool) -> Iterator[Harm]:
    """Yield the harm to each saved tensor that a backward used and that had changed since it was saved.

    If backward raised, only the last call counts, and the saved tensors of the node that raised come first.

    Args:
        evidence: the results of the program's runs.
        stale: True for the saved tensors whose version counter changed, False for the others.
    """
    state = evidence.state
    saves = list(dict.fromkeys(state.consumed))
    if evidence.outcome == "raises-backward":
        raised = evidence.raised_nodes
        saves = sorted((one for one in saves if one.call == state.calls - 1), key=lambda one: one.node.id not in raised)
    for save in saves:
        if save.stale == stale and (stale or save.used) and (writes := writes_into(state, save)):
            # On the device `meta`, values cannot be read, so they may have changed.
            is_unreadable = save.memory.size == 0 and save.tensor is not None
            yield harm_to(state, save, writes, changed=save.changed or is_unreadable)


COUNTED_WRITE = HarmKind(
    name="counted write",
    sentence="A tensor that backward needs was modified in place; its version counter increased, so backward raises an error.",
    outcomes=("raises-backward", "silently-wrong"),
    find=partial(harms_to_consumed_saves, stale=True),
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


UNCOUNTED_WRITE = HarmKind(
    name="uncounted write",
    sentence="A tensor that backward needs was overwritten, and the version check cannot detect it: backward uses the new values.",
    outcomes=("raises-backward", "silently-wrong"),
    find=partial(harms_to_consumed_saves, stale=False),
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


def _unrecorded(evidence: Evidence) -> Iterator[Harm]:
    """Yield the unrecorded modifications whose values were used, if finite differences show that they change a gradient."""
    state, effect = evidence.state, evidence.runs.untracked_effect
    for suspect in effect.suspects if effect.wrong else ():
        write, tracked = suspect.write, suspect.tracked
        name, version = state.name_of(tracked) or "a tensor with history", tracked.counter.version
        yield Harm(name, (write.place,), alias([write], name), suspect.used_at, suspect.used_by, version, version, True)


def unrecorded_write_notes(evidence: Evidence) -> Iterator[str]:
    """Yield a sentence for each line with an unrecorded modification whose values were used, even if no gradient is wrong."""
    notes = {}
    effect = evidence.runs.untracked_effect
    for suspect in effect.suspects:
        write, name = suspect.write, evidence.state.name_of(suspect.tracked)
        name = name or Message("write.with_history|a tensor with history")
        message = Message(
            "write.unrecorded|it modifies {name}, and autograd does not record it ({operation}): the graph does not "
            "match the computation.",
            name=name, operation=write.operation,
        )  # fmt: skip
        through = alias([write], name)
        # The gradients are right for the new values, which the author may have meant for the alias only. If the alias
        # has no name, assume that the modification is intended.
        if through and through.isidentifier() and not effect.wrong:
            message = Message(
                "write.shared_memory|it writes through {alias} into {name}, which has the same memory: the loss was "
                "computed with the new values. To keep the values of {name}, make {alias} a copy: `.clone()`, or `.copy()` in NumPy.",
                alias=through, name=name,
            )  # fmt: skip
        notes[write.place] = note_on_line(write.place, evidence.file, message)
    yield from notes.values()


UNRECORDED_WRITE = HarmKind(
    name="unrecorded write",
    sentence="A tensor with history was overwritten and autograd did not record it: the gradient belongs to other values.",
    outcomes=("silently-wrong",),
    find=_unrecorded,
    example=Example(
        "silently-wrong",
        """
        import torch
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        h = w * 2
        with torch.no_grad():
            h.mul_(3)  # writes
        (h * h).sum().backward()  # saves
        """,
    ),
)


def _by_version(evidence: Evidence) -> Iterator[Harm]:
    """Yield the modifications that increased a counter from the version that backward expected to the actual one.

    No saved tensor shows them if they were made during backward, or if CopySlices saved the tensor: the node of a base
    whose view was modified does not expose its inner function to Python (PyTorch 2.13).
    """
    state, found = evidence.state, VERSIONS.search(message_of(evidence.runs.plain.error))
    if not found:
        return
    versions = int(found[1]), int(found[2])
    saves = [save for save in state.graph.saves if save.stale and (save.version_now, save.version) == versions]
    # A recomputed block has saved tensors that no engine call of the program reached.
    for save, writes in [(save, writes) for save in saves if (writes := writes_into(state, save))][-1:]:
        inside = (write for write in writes if write.memory is save.memory and save.overlaps(write.start, write.stop))
        yield harm_to(state, save, writes, changed=any(one.changed for one in inside))
    if not saves:
        yield from _by_counter(state, *versions)


def _by_counter(state: RunState, now: int, then: int) -> Iterator[Harm]:
    """Yield the harm through the counter that changed between two versions; of several, through the last modified.

    Others may have changed as much without harm, such as that of an initialized parameter.
    """
    moved: dict[int, list[WriteEvent]] = {}
    for counter in state.tensors.counters:
        writes = [write for write in state.writes if counter.id in write.counters and write.version is not None]
        if counter.version == now and any(then < (write.version or 0) <= now for write in writes):
            moved[counter.id] = writes
    for writes in sorted(moved.values(), key=lambda some: some[-1].index)[-1:]:
        after = [write for write in writes if then < (write.version or 0) <= now]
        saved = next((write.place for write in writes if write.version == then), after[0].place)
        tracked = after[0].tracked
        name = (tracked and state.name_of(tracked)) or "a view written in place"
        yield Harm(name, places(after), None, saved, "CopySlices", then, now, any(write.changed for write in after))


FOUND_BY_VERSION = HarmKind(
    name="write found by its version",
    sentence="Backward raised an error about a tensor that no node exposes; these writes moved its version between the two in the error.",
    outcomes=("raises-backward",),
    find=_by_version,
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
