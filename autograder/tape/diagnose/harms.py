"""Which write spoilt what backward needed, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autograder.tape.observe.backward_trace import BackwardTrace, node_of_visit
from autograder.tape.observe.graph.nodes import GraphNode, TrackedSave
from autograder.tape.observe.graph.saved_tensors import VERSIONS
from autograder.tape.observe.state import RunState
from autograder.tape.observe.step_builder import WriteEvent
from autograder.tape.oracle.untracked_writes import UntrackedEffect
from autograder.tape.recording.verdict_types import Harm, Outcome, Place
from autograder.tape.run.once import Run

_EMPTIES = ("zero_", "_foreach_zero_", "zero_grad")


def harms_of(
    state: RunState, outcome: Outcome, run: Run, untracked_effect: UntrackedEffect, walk: BackwardTrace
) -> tuple[Harm, ...]:
    """Returns what was written into before a backward used it; the tensor that backward refused comes first."""
    if outcome not in ("raises-backward", "silently-wrong"):
        return ()
    harms = [harm for kept in _spoilt(state, outcome, walk) if (harm := _harm(state, kept))]
    if outcome == "raises-backward":
        harms = harms or list(_counted_in_message(state, str(run.error)))
    else:
        harms += _untracked(state, untracked_effect)
        harms = harms or list(_during_backward(state))
        harms = harms or [*_in_flight(state), *_shared_buffers(state), *_computed_again(state)]
        harms = harms or list(_gradient_buffers(state))
    return tuple(dict.fromkeys(harms))


def _spoilt(state: RunState, outcome: Outcome, walk: BackwardTrace) -> list[TrackedSave]:
    kept = state.consumed
    if outcome == "silently-wrong":
        return list(dict.fromkeys(kept))
    last = state.calls - 1
    raised = {node_of_visit(visit, state) for visit in walk.visits if not visit.passed}
    found = [one for one in dict.fromkeys(kept) if one.call == last]
    return sorted(found, key=lambda one: (one.node.id not in raised, not one.stale))


def writes_into(state: RunState, kept: TrackedSave) -> list[WriteEvent]:
    """Returns the writes that moved a saved tensor's counter or changed its bytes, from its save to its use."""
    found = []
    for wrote in state.wrote[kept.wrote : kept.until]:
        moved = kept.checked and kept.counter in wrote.counters
        touched = wrote.changed and wrote.memory is kept.memory and kept.overlaps(wrote.start, wrote.stop)
        if moved or (kept in wrote.harmed if wrote.swapped else touched and kept.changed):
            found.append(wrote)
    return found


def _harm(state: RunState, kept: TrackedSave) -> Harm | None:
    writes = writes_into(state, kept)
    if not writes:
        return None
    return _to_kept(state, kept, writes, kept.changed)


def _to_kept(state: RunState, kept: TrackedSave, writes: list[WriteEvent], changed: bool) -> Harm:
    name = _name(state, kept)
    return Harm(
        name, _places(writes), _alias(writes, name), kept.place, kept.node.name, kept.version, kept.version_now, changed,
        kept.record_id,
    )  # fmt: skip


def _alias(writes: list[WriteEvent], name: str) -> str | None:
    """Returns the first other name through which somebody wrote, if any."""
    return next((wrote.through for wrote in writes if wrote.through and wrote.through != name), None)


def _places(writes: list[WriteEvent]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(wrote.place for wrote in writes))


def _name(state: RunState, kept: TrackedSave) -> str:
    """Returns the name of a saved tensor, of what it is a view of, or of its place in the node."""
    if kept.tensor is None:
        return f"{kept.name} of {kept.node.name}"
    owner = state.tensors.all[kept.tensor]
    base = state.tensors.all[owner.base] if owner.base is not None else None
    return owner.name or (base and base.name) or state.name_of(owner) or f"{kept.name} of {kept.node.name}"


def _counted_in_message(state: RunState, message: str) -> Iterator[Harm]:
    """Yields the writes behind a refusal that no readable node explains: CopySlices keeps tensors out of sight (torch 2.13)."""
    found = VERSIONS.search(message)
    if not found:
        return
    now, then = int(found[1]), int(found[2])
    for counter in state.tensors.counters:
        writes = [w for w in state.wrote if counter.id in w.counters and w.version is not None]
        after = [w for w in writes if then < (w.version or 0) <= now]
        if counter.version == now and after:
            saved = next((w.place for w in writes if w.version == then), after[0].place)
            seen = after[0].seen
            name = (seen and state.name_of(seen)) or "a view written in place"
            yield Harm(name, _places(after), None, saved, "CopySlices", then, now, any(w.changed for w in after))


def _untracked(state: RunState, untracked_effect: UntrackedEffect) -> Iterator[Harm]:
    """Yields the writes that the graph does not know of, where finite differences show that they matter."""
    for suspect in untracked_effect.suspects if untracked_effect.wrong else ():
        wrote, seen = suspect.wrote, suspect.seen
        name = state.name_of(seen) or "a tensor with history"
        version = seen.counter.version
        yield Harm(
            name, (wrote.place,), _alias([wrote], name), suspect.used_at, suspect.used_by, version, version, True
        )


def _during_backward(state: RunState) -> Iterator[Harm]:
    """Yields the writes of a hook or a user's backward into what a node further down keeps and has yet to use."""
    for wrote in state.wrote:
        for kept in wrote.harmed if wrote.in_backward and wrote.changed else ():
            # What a custom Function does to its own saved tensors, it does knowingly.
            if not isinstance(kept.node.node, torch.autograd.function.BackwardCFunction):
                yield _to_kept(state, kept, [wrote], True)


def _in_flight(state: RunState) -> Iterator[Harm]:
    """Yields the writes into gradients on their way: a hook or a user's backward changed what another node also receives."""
    for wrote in state.wrote:
        if wrote.in_backward and wrote.changed and wrote.operation != "accumulate" and wrote.seen is not None:
            name = state.name_of(wrote.seen) or "a gradient"
            giver = _giver(state, wrote)
            by, at = (giver.name, giver.place) if giver else ("the engine", wrote.place)
            yield Harm(name, (wrote.place,), None, at, by, 0, wrote.version, True)


def _giver(state: RunState, wrote: WriteEvent) -> GraphNode | None:
    """Returns the node that passed the gradient on: what consumed the custom node that ran, else the first with two inputs."""
    if wrote.running and wrote.running.consumers:
        return wrote.running.consumers[0]
    nodes = [
        state.graph.nodes[number] for number in (state.visited[wrote.call] if wrote.call < len(state.visited) else ())
    ]
    return next((node for node in nodes if len(node.inputs) > 1), nodes[0] if nodes else None)


def _shared_buffers(state: RunState) -> Iterator[Harm]:
    """Yields the assignments that gave two leaves one gradient buffer, so that each adds to the other's."""
    for place, leaf, other in state.shared_buffers:
        name = f"{state.name_of(other) or 'leaf'}.grad"
        yield Harm(name, (place,), f"{state.name_of(leaf) or 'leaf'}.grad", place, "AccumulateGrad", 0, 0, True)


def _computed_again(state: RunState) -> Iterator[Harm]:
    """Yields the writes into what a checkpointed block reads of its own accord, between its forward and its recomputation."""
    blocks = [kept.wrote for kept in state.graph.kept if kept.checkpointed]
    for wrote in state.wrote[min(blocks) :] if blocks else ():
        place = state.read_again.get(wrote.memory)
        if place is not None and wrote.changed and not wrote.in_backward and wrote.seen is not None:
            name = state.name_of(wrote.seen) or "a tensor of the block"
            yield Harm(name, (wrote.place,), _alias([wrote], name), place, "checkpoint", None, wrote.version, True)


def _gradient_buffers(state: RunState) -> Iterator[Harm]:
    """Yields the writes into gradient buffers that somebody may have kept: emptied, or else added to by a later backward."""
    writes = [wrote for wrote in state.wrote if wrote.changed and wrote.memory in state.buffers]
    emptied = [wrote for wrote in writes if wrote.operation in _EMPTIES]
    for memory in dict.fromkeys(wrote.memory for wrote in emptied or writes):
        own = [wrote for wrote in emptied or writes if wrote.memory is memory]
        filled = state.buffers[memory]
        name = f"{state.name_of(filled.leaf) or 'leaf'}.grad"
        yield Harm(
            name, _places(own), None, filled.place or own[0].place, "AccumulateGrad", None, own[-1].version, True
        )


def blamed(state: RunState, untracked_effect: UntrackedEffect) -> Iterator[str]:
    """Yields a sentence for each place that wrote behind autograd's back and whose values were used."""
    told = {}
    for suspect in untracked_effect.suspects:
        wrote = suspect.wrote
        told[wrote.place] = (
            f"Line {wrote.place.line} writes into {state.name_of(suspect.seen) or 'a tensor with history'} behind autograd's back "
            f"({wrote.operation}): the recorded graph is not what ran."
        )
    yield from told.values()
