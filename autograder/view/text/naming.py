"""Names in sentences: what the reader calls a tensor, and which names a statement gave or took."""

from __future__ import annotations

from autograder.tape.recording.schema import NameChange, Step
from autograder.view.playback import Playback

NAMELESS = "a tensor without a name"

MOST = 3
"""Things of one kind that a sentence names."""


def listed(things: list[str]) -> str:
    """Returns "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def few(things: list[str]) -> str:
    """Returns the things, or the first of them with the count of the others: "a, b, c and 5 more"."""
    more = len(things) - MOST
    return listed(things) if more <= 1 else listed([*things[:MOST], f"{more} more"])


def times(count: int, one: str, many: str) -> str:
    """Returns the count with its noun."""
    return f"{count} {one if count == 1 else many}"


class TensorNames:
    """What tensors are called after the frame that a playback has just played."""

    def __init__(self, playback: Playback):
        """Reads the variables from `playback`."""
        self.now = playback

    def name(self, tensor: int | None) -> str:
        """Returns what a sentence calls a tensor."""
        if tensor is None or tensor not in self.now.tensors:
            return NAMELESS
        if self.now.called.get(tensor):
            return _all(self.now.called[tensor].split(", "))
        known = self.now.tensors[tensor]
        near = sorted(self.now.in_storage.get(known.storage, ()))
        owner = next((self.short(other) for other in near if self.now.called.get(other)), None)
        if owner:
            return f"{owner}.data" if known.alias_of == "data" else f"a view of {owner}"
        return NAMELESS

    def short(self, tensor: int | None) -> str:
        """Returns one name of a tensor, to which ".grad" or ".data" can be added."""
        return self.name(tensor).partition(" (also ")[0]

    def label(self, tensor: int | None) -> str:
        """Returns all names of a tensor, as a picture shows them: "(no name)" where there is none."""
        called = self.now.called.get(tensor) if tensor is not None else None
        name = called or self.name(tensor)
        return "(no name)" if name == NAMELESS else name

    def inside(self, storage: int) -> list[str]:
        """Returns the variables whose tensors lie in a piece of memory."""
        return [name for name, tensor in self.now.names.items() if self.now.tensors[tensor].storage == storage]

    def changes(self, step: Step) -> list[str]:
        """Returns the sentences on the names that a statement gave and took.

        A module's parameters are told together: it would take longer to read their values than to look at the picture.
        """
        given = [change for change in step.names if change.tensor is not None]
        taken = [change.name for change in step.names if change.tensor is None]
        holders: dict[str, list[NameChange]] = {}
        for change in given:
            root = change.name.partition(".")[0]
            holders.setdefault(root if root != change.name else f"{root}.", []).append(change)
        said = [self._holds(root, held) if len(held) > 1 else self._is(held[0], step) for root, held in holders.items()]
        verb = "no longer names a tensor" if len(taken) == 1 else "no longer name tensors"
        return [*said, *([f"{few(taken)} {verb}; what the graph holds stays."] if taken else [])]

    def _holds(self, root: str, held: list[NameChange]) -> str:
        """Returns the sentence of several attributes that belong to one object."""
        return f"{root} now holds {few([change.name for change in held])}."

    def _is(self, change: NameChange, step: Step) -> str:
        """Returns the sentence of one variable: its values, and whose memory and counter a new tensor shares."""
        assert change.tensor is not None
        state, new = self.now.states.get(change.tensor), change.tensor in step.tensors
        said = f"{change.name} {'is' if new else 'now names'} {state.values if state else 'a tensor'}."
        return " ".join(filter(None, [said, self._shares(change.name, change.tensor) if new else ""]))

    def _shares(self, name: str, tensor: int) -> str:
        """Returns whose memory and whose counter a new tensor shares."""
        known = self.now.tensors[tensor]
        others = [other for other in self.inside(known.storage) if other != name]
        if not others:
            return ""
        same = [other for other in others if self.now.tensors[self.now.names[other]].counter == known.counter]
        if same:
            return f"It shares memory and version counter with {listed(same)}."
        return f"It shares memory with {listed(others)}, but has a version counter of its own."


def _all(names: list[str]) -> str:
    """Returns one tensor's names: the last where all are paths such as "self.fc.weight", else "t (also s)"."""
    if all("." in name for name in names):
        return names[-1]
    return names[0] + (f" (also {listed(names[1:])})" if names[1:] else "")
