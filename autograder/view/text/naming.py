"""Names in sentences: what a tensor is called, and which names a statement bound and unbound."""

from __future__ import annotations

from autograder.tape.recording.schema import NameChange, Step
from autograder.view.playback import Playback

NAMELESS = "a tensor without a name"

MOST = 3
"""Things of one kind that a sentence names at most."""


def join_names(things: list[str]) -> str:
    """Returns "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(things[:-1]), *things[-1:]]))


def join_few(things: list[str]) -> str:
    """Returns the things, or of more than MOST + 1 the first with the number of the others: "a, b, c and 5 more"."""
    more = len(things) - MOST
    return join_names(things) if more <= 1 else join_names([*things[:MOST], f"{more} more"])


def count_noun(count: int, one: str, many: str) -> str:
    """Returns a number with its noun: "1 node", "2 nodes"."""
    return f"{count} {one if count == 1 else many}"


class TensorNames:
    """The names of tensors after the frame that a playback has just played."""

    def __init__(self, playback: Playback):
        """Reads the variables from `playback`."""
        self.playback = playback

    def name(self, tensor: int | None) -> str:
        """Returns a tensor's name for a sentence: a variable, "d.data", "a view of d", or NAMELESS."""
        if tensor is None or tensor not in self.playback.tensors:
            return NAMELESS
        if self.playback.called.get(tensor):
            return _all(self.playback.called[tensor].split(", "))
        known = self.playback.tensors[tensor]
        near = sorted(self.playback.in_storage.get(known.storage, ()))
        owner = next((self.short(other) for other in near if self.playback.called.get(other)), None)
        if owner:
            return f"{owner}.data" if known.alias_of == "data" else f"a view of {owner}"
        return NAMELESS

    def short(self, tensor: int | None) -> str:
        """Returns a single name of a tensor, to which ".grad" or ".data" can be appended."""
        return self.name(tensor).partition(" (also ")[0]

    def label(self, tensor: int | None) -> str:
        """Returns all names of a tensor, as a picture shows them; "(no name)" where it has none."""
        called = self.playback.called.get(tensor) if tensor is not None else None
        name = called or self.name(tensor)
        return "(no name)" if name == NAMELESS else name

    def in_storage(self, storage: int) -> list[str]:
        """Returns the variables whose tensors share a storage."""
        return [
            name for name, tensor in self.playback.names.items() if self.playback.tensors[tensor].storage == storage
        ]

    def describe_changes(self, step: Step) -> list[str]:
        """Returns the sentences about the names that a statement bound and unbound.

        Attributes of one object, such as a module's parameters, share a sentence without values; the picture shows those.
        """
        given = [change for change in step.names if change.tensor is not None]
        taken = [change.name for change in step.names if change.tensor is None]
        holders: dict[str, list[NameChange]] = {}
        for change in given:
            root = change.name.partition(".")[0]
            holders.setdefault(root if root != change.name else f"{root}.", []).append(change)
        sentences = [
            self._holds(root, held) if len(held) > 1 else self._value(held[0], step) for root, held in holders.items()
        ]
        verb = "no longer names a tensor" if len(taken) == 1 else "no longer name tensors"
        return [*sentences, *([f"{join_few(taken)} {verb}; the graph still holds what it saved."] if taken else [])]

    def _holds(self, root: str, held: list[NameChange]) -> str:
        """Returns the sentence about several attributes of one object."""
        return f"{root} now holds {join_few([change.name for change in held])}."

    def _value(self, change: NameChange, step: Step) -> str:
        """Returns the sentence about one variable: its values, and for a new tensor whose memory and counter it shares."""
        assert change.tensor is not None
        state, new = self.playback.states.get(change.tensor), change.tensor in step.tensors
        sentence = f"{change.name} {'is' if new else 'now names'} {state.values if state else 'a tensor'}."
        return " ".join(filter(None, [sentence, self._shares(change.name, change.tensor) if new else ""]))

    def _shares(self, name: str, tensor: int) -> str:
        """Returns the sentence about the memory and the counter that a new tensor shares; "" where it shares none."""
        known = self.playback.tensors[tensor]
        others = [other for other in self.in_storage(known.storage) if other != name]
        if not others:
            return ""
        same = [other for other in others if self.playback.tensors[self.playback.names[other]].counter == known.counter]
        if same:
            return f"It shares memory and version counter with {join_names(same)}."
        return f"It shares memory with {join_names(others)}, but has a version counter of its own."


def _all(names: list[str]) -> str:
    """Returns one tensor's names: "t (also s)", or the last one where all are paths such as "self.fc.weight"."""
    if all("." in name for name in names):
        return names[-1]
    return names[0] + (f" (also {join_names(names[1:])})" if names[1:] else "")
