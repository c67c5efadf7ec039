"""Text of the note that a watch adds to an error of backward."""

from __future__ import annotations

from autograder.tape.recording.verdict_types import Harm, Place

MOST = 3
"""Maximum number of harms with a sentence. For the others, the note gives only their number."""


def note_of(harms: tuple[Harm, ...]) -> str:
    """Return the text of the note, with the first harm first."""
    told = [_sentence(harm) for harm in harms[:MOST]]
    more = len(harms) - len(told)
    rest = [f"{more} more saved {'tensor was' if more == 1 else 'tensors were'} written into."] if more else []
    return "\n".join(f"autograder: {line}" for line in [*told, *rest])


def note_on_freed(made: Place, by: Place | None) -> str:
    """Return the note on a graph that an earlier backward has freed: the line that made the freed part, and of that backward."""
    earlier = f"the backward of {_where(by)}" if by else "an earlier backward"
    return (
        f"autograder: this backward needs the part of the graph that was computed at {_where(made)}. It was freed by {earlier}. "
        "Compute it again before each backward, or detach it where it is carried over; retain_graph=True keeps the graph."
    )


def is_silent(harm: Harm) -> bool:
    """Return whether backward does not detect the modification."""
    return harm.saved_version is not None and harm.saved_version == harm.version_now


def _sentence(harm: Harm) -> str:
    through = f" through {harm.through}" if harm.through else ""
    kept = f"{harm.saved_by} kept it at {_where(harm.saved_at)}" if harm.saved_at.line else _unheard(harm)
    if harm.mutated_at:
        write = f"was written{through} at {'; '.join(map(_where, harm.mutated_at))}"
    else:
        write = "was written by code that a watch does not record (another thread, compiled code, NumPy)"
    return f"{harm.tensor}, which backward needs, {write}. {kept}{_versions(harm)}."


def _unheard(harm: Harm) -> str:
    return f"{harm.saved_by} kept it outside the watch (before it began, or in compiled code)"


def _where(place: Place) -> str:
    return f"{place.file}, line {place.line}: {place.text}"


def _versions(harm: Harm) -> str:
    if harm.saved_version is None:
        return ""
    if is_silent(harm):
        return ", and no version counter moved: backward does not notice, and uses the new values"
    return f", at version {harm.saved_version}; now it is at version {harm.version_now}"
