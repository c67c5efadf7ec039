"""Which write spoilt which saved tensor, in words and lines."""

from __future__ import annotations

from collections.abc import Iterator

from autograder.tape.draft import Wrote
from autograder.tape.graph import Kept
from autograder.tape.observer import Observer
from autograder.tape.recording import Harm, Outcome, Place
from autograder.tape.run import Run


def harms_of(observer: Observer, outcome: Outcome, run: Run) -> tuple[Harm, ...]:
    """Returns the saved tensors that were spoilt before a backward used them, the one that backward refused first."""
    if outcome == "correct":
        return ()
    kept = list(dict.fromkeys(kept for kept in observer.ledger.consumed))
    if outcome == "raises-backward":
        raised = [visit["node"] for visit in observer.walks.visits if not visit["passed"]]
        kept.sort(key=lambda one: (one.node.id not in raised, not one.stale))
    harms = [harm for one in kept if (harm := _harm(observer, one))]
    return tuple(dict.fromkeys(harms))


def writes_after(observer: Observer, kept: Kept) -> list[Wrote]:
    """Returns the writes that moved a saved tensor's counter, or changed its bytes, since it was saved."""
    found = []
    for wrote in observer.ledger.wrote[kept.wrote :]:
        moved = kept.checked and kept.counter in wrote.counters
        swapped = wrote.operation in ("data =", "set_") and kept in wrote.harmed
        touched = wrote.changed and wrote.memory is kept.memory and kept.overlaps(wrote.start, wrote.stop)
        if moved or swapped or touched and kept.changed:
            found.append(wrote)
    return found


def _harm(observer: Observer, kept: Kept) -> Harm | None:
    writes = writes_after(observer, kept)
    if not writes or kept.place is None:
        return None
    places: tuple[Place, ...] = tuple(dict.fromkeys(wrote.place for wrote in writes))
    owner = observer.ledger.tensors.all[kept.tensor] if kept.tensor is not None else None
    name = (owner and owner.name) or f"{kept.name} of {kept.node.name}"
    through = next((w.through for w in writes if w.through and w.through != name), None)
    return Harm(
        name, places, through, kept.place, kept.node.name, kept.version, kept.version_now, kept.changed, kept.record_id
    )


def blamed(observer: Observer, outcome: Outcome) -> Iterator[str]:
    """Yields what is worth a word besides the harms."""
    for suspect in observer.ledger.untracked.used_writes:
        wrote = suspect.wrote
        yield (
            f"Line {wrote.place.line} wrote into {suspect.seen.name or 'a tensor with history'} behind autograd's back "
            f"({wrote.operation}): the recorded graph is not what ran."
        )
