"""Which write spoilt what backward needed, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from autograder.tape.doubt import Doubt
from autograder.tape.draft import Wrote
from autograder.tape.findings import Harm, Outcome, Place
from autograder.tape.graph import GraphNode, Kept
from autograder.tape.ledger import Ledger
from autograder.tape.run import Run
from autograder.tape.saved import VERSIONS
from autograder.tape.walks import Walk, node_of_visit

_EMPTIES = ("zero_", "_foreach_zero_", "zero_grad")


def harms_of(ledger: Ledger, outcome: Outcome, run: Run, doubt: Doubt, walk: Walk) -> tuple[Harm, ...]:
    """Returns what was written into before a backward used it; the tensor that backward refused comes first."""
    if outcome not in ("raises-backward", "silently-wrong"):
        return ()
    harms = [harm for kept in _spoilt(ledger, outcome, walk) if (harm := _harm(ledger, kept))]
    if outcome == "raises-backward":
        harms = harms or list(_counted_in_message(ledger, str(run.error)))
    else:
        harms += _untracked(ledger, doubt)
        harms = harms or list(_during_backward(ledger))
        harms = harms or [*_in_flight(ledger), *_shared_buffers(ledger), *_computed_again(ledger)]
        harms = harms or list(_gradient_buffers(ledger))
    return tuple(dict.fromkeys(harms))


def _spoilt(ledger: Ledger, outcome: Outcome, walk: Walk) -> list[Kept]:
    kept = ledger.consumed
    if outcome == "silently-wrong":
        return list(dict.fromkeys(kept))
    last = ledger.calls - 1
    raised = {node_of_visit(visit, ledger) for visit in walk.visits if not visit.passed}
    found = [one for one in dict.fromkeys(kept) if one.call == last]
    return sorted(found, key=lambda one: (one.node.id not in raised, not one.stale))


def writes_into(ledger: Ledger, kept: Kept) -> list[Wrote]:
    """Returns the writes that moved a saved tensor's counter or changed its bytes, from its save to its use."""
    found = []
    for wrote in ledger.wrote[kept.wrote : kept.until]:
        moved = kept.checked and kept.counter in wrote.counters
        touched = wrote.changed and wrote.memory is kept.memory and kept.overlaps(wrote.start, wrote.stop)
        if moved or (kept in wrote.harmed if wrote.swapped else touched and kept.changed):
            found.append(wrote)
    return found


def _harm(ledger: Ledger, kept: Kept) -> Harm | None:
    writes = writes_into(ledger, kept)
    if not writes:
        return None
    return _to_kept(ledger, kept, writes, kept.changed)


def _to_kept(ledger: Ledger, kept: Kept, writes: list[Wrote], changed: bool) -> Harm:
    name = _name(ledger, kept)
    return Harm(
        name, _places(writes), _alias(writes, name), kept.place, kept.node.name, kept.version, kept.version_now, changed,
        kept.record_id,
    )  # fmt: skip


def _alias(writes: list[Wrote], name: str) -> str | None:
    """Returns the first other name through which somebody wrote, if any."""
    return next((wrote.through for wrote in writes if wrote.through and wrote.through != name), None)


def _places(writes: list[Wrote]) -> tuple[Place, ...]:
    return tuple(dict.fromkeys(wrote.place for wrote in writes))


def _name(ledger: Ledger, kept: Kept) -> str:
    """Returns the name of a saved tensor, of what it is a view of, or of its place in the node."""
    if kept.tensor is None:
        return f"{kept.name} of {kept.node.name}"
    owner = ledger.tensors.all[kept.tensor]
    base = ledger.tensors.all[owner.base] if owner.base is not None else None
    return owner.name or (base and base.name) or ledger.name_of(owner) or f"{kept.name} of {kept.node.name}"


def _counted_in_message(ledger: Ledger, message: str) -> Iterator[Harm]:
    """Yields the writes behind a refusal that no readable node explains: CopySlices keeps tensors out of sight (torch 2.13)."""
    found = VERSIONS.search(message)
    if not found:
        return
    now, then = int(found[1]), int(found[2])
    for counter in ledger.tensors.counters:
        writes = [w for w in ledger.wrote if counter.id in w.counters and w.version is not None]
        after = [w for w in writes if then < (w.version or 0) <= now]
        if counter.version == now and after:
            saved = next((w.place for w in writes if w.version == then), after[0].place)
            seen = after[0].seen
            name = (seen and ledger.name_of(seen)) or "a view written in place"
            yield Harm(name, _places(after), None, saved, "CopySlices", then, now, any(w.changed for w in after))


def _untracked(ledger: Ledger, doubt: Doubt) -> Iterator[Harm]:
    """Yields the writes that the graph does not know of, where finite differences show that they matter."""
    for suspect in doubt.suspects if doubt.wrong else ():
        wrote, seen = suspect.wrote, suspect.seen
        name = ledger.name_of(seen) or "a tensor with history"
        version = seen.counter.version
        yield Harm(
            name, (wrote.place,), _alias([wrote], name), suspect.used_at, suspect.used_by, version, version, True
        )


def _during_backward(ledger: Ledger) -> Iterator[Harm]:
    """Yields the writes of a hook or a user's backward into what a node further down keeps and has yet to use."""
    for wrote in ledger.wrote:
        for kept in wrote.harmed if wrote.in_backward and wrote.changed else ():
            # What a custom Function does to its own saved tensors, it does knowingly.
            if not isinstance(kept.node.node, torch.autograd.function.BackwardCFunction):
                yield _to_kept(ledger, kept, [wrote], True)


def _in_flight(ledger: Ledger) -> Iterator[Harm]:
    """Yields the writes into gradients on their way: a hook or a user's backward changed what another node also receives."""
    for wrote in ledger.wrote:
        if wrote.in_backward and wrote.changed and wrote.operation != "accumulate" and wrote.seen is not None:
            name = ledger.name_of(wrote.seen) or "a gradient"
            giver = _giver(ledger, wrote)
            by, at = (giver.name, giver.place) if giver else ("the engine", wrote.place)
            yield Harm(name, (wrote.place,), None, at, by, 0, wrote.version, True)


def _giver(ledger: Ledger, wrote: Wrote) -> GraphNode | None:
    """Returns the node that passed the gradient on: what consumed the custom node that ran, else the first with two inputs."""
    if wrote.running and wrote.running.consumers:
        return wrote.running.consumers[0]
    nodes = [
        ledger.graph.nodes[number]
        for number in (ledger.visited[wrote.call] if wrote.call < len(ledger.visited) else ())
    ]
    return next((node for node in nodes if len(node.inputs) > 1), nodes[0] if nodes else None)


def _shared_buffers(ledger: Ledger) -> Iterator[Harm]:
    """Yields the assignments that gave two leaves one gradient buffer, so that each adds to the other's."""
    for place, leaf, other in ledger.shared_buffers:
        name = f"{ledger.name_of(other) or 'leaf'}.grad"
        yield Harm(name, (place,), f"{ledger.name_of(leaf) or 'leaf'}.grad", place, "AccumulateGrad", 0, 0, True)


def _computed_again(ledger: Ledger) -> Iterator[Harm]:
    """Yields the writes into what a checkpointed block reads of its own accord, between its forward and its recomputation."""
    blocks = [kept.wrote for kept in ledger.graph.kept if kept.checkpointed]
    for wrote in ledger.wrote[min(blocks) :] if blocks else ():
        place = ledger.read_again.get(wrote.memory)
        if place is not None and wrote.changed and not wrote.in_backward and wrote.seen is not None:
            name = ledger.name_of(wrote.seen) or "a tensor of the block"
            yield Harm(name, (wrote.place,), _alias([wrote], name), place, "checkpoint", None, wrote.version, True)


def _gradient_buffers(ledger: Ledger) -> Iterator[Harm]:
    """Yields the writes into gradient buffers that somebody may have kept: emptied, or else added to by a later backward."""
    writes = [wrote for wrote in ledger.wrote if wrote.changed and wrote.memory in ledger.buffers]
    emptied = [wrote for wrote in writes if wrote.operation in _EMPTIES]
    for memory in dict.fromkeys(wrote.memory for wrote in emptied or writes):
        own = [wrote for wrote in emptied or writes if wrote.memory is memory]
        filled = ledger.buffers[memory]
        name = f"{ledger.name_of(filled.leaf) or 'leaf'}.grad"
        yield Harm(
            name, _places(own), None, filled.place or own[0].place, "AccumulateGrad", None, own[-1].version, True
        )


def blamed(ledger: Ledger, doubt: Doubt) -> Iterator[str]:
    """Yields a sentence for each place that wrote behind autograd's back and whose values were used."""
    told = {}
    for suspect in doubt.suspects:
        wrote = suspect.wrote
        told[wrote.place] = (
            f"Line {wrote.place.line} writes into {ledger.name_of(suspect.seen) or 'a tensor with history'} behind autograd's back "
            f"({wrote.operation}): the recorded graph is not what ran."
        )
    yield from told.values()
