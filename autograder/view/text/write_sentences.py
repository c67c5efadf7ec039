"""Sentences on writes in place: whose bytes a statement changed, and which version counters noticed."""

from __future__ import annotations

from typing import Literal

from autograder.tape.recording.schema import Step, Write
from autograder.view.text.naming import NAMELESS, TensorNames, few, listed, times

Kind = Literal["counted", "unchanged", "unseen", "blind"]

ONE: dict[Kind, str] = {
    "counted": "",
    "unchanged": "No value is different, but the counter counts writes, not changes.",
    "unseen": "The bytes change, but no version counter moves: autograd cannot see this write.",
    "blind": "That is another counter than the one that autograd checks: it cannot see this write.",
}

MANY: dict[Kind, str] = {
    "counted": "Their version counters move.",
    "unchanged": "No value is different, but their version counters move: they count writes, not changes.",
    "unseen": "The bytes change, but no version counter moves: autograd cannot see these writes.",
    "blind": "Other counters move than those that autograd checks: it cannot see these writes.",
}


class WriteSentences:
    """Says what the writes of a statement did."""

    def __init__(self, names: TensorNames):
        """Reads names and counters from the playback behind `names`."""
        self.names = names
        self.now = names.now

    def told(self, step: Step) -> list[str]:
        """Returns the sentences, one for each kind of write: an optimizer's step writes into hundreds of tensors."""
        groups: dict[Kind, list[Write]] = {}
        filled: set[int] = set()
        for write in step.writes:
            if self._fills(write, step):
                filled.add(write.tensor or 0)
            else:
                groups.setdefault(self._kind(write), []).append(write)
        if "counted" in groups:  # an optimizer's step may leave a parameter as it is: that is not worth a sentence
            groups["counted"] += groups.pop("unchanged", [])
        return [*self._filled(filled), *(self._group(kind, writes) for kind, writes in groups.items())]

    def _fills(self, write: Write, step: Step) -> bool:
        """Returns whether a write only gives a module's new parameter or buffer its first values."""
        if write.tensor not in step.tensors or write.harmed or not write.counters:
            return False
        name = self.names.name(write.tensor)
        made = self.now.tensors[write.tensor].kind
        return made == "parameter" or (made == "input" and (name == NAMELESS or "." in name))

    def _filled(self, tensors: set[int]) -> list[str]:
        """Returns the sentence on a module's first values."""
        if not tensors:
            return []
        noun = "parameter" if all(self.now.tensors[t].kind == "parameter" for t in tensors) else "tensor"
        verb = "gets its" if len(tensors) == 1 else "get their"
        return [f"{times(len(tensors), f'new {noun}', f'new {noun}s')} {verb} first values."]

    def _kind(self, write: Write) -> Kind:
        """Returns who noticed a write."""
        if not write.counters:
            return "unseen"
        if any(self.now.condition(self.now.saved[edge]) == "silent" for edge in write.harmed):
            return "blind"
        return "counted" if write.bytes_changed else "unchanged"

    def _group(self, kind: Kind, writes: list[Write]) -> str:
        """Returns the sentences on all writes of one kind."""
        targets = dict.fromkeys(self._target(write) for write in writes)
        if len(targets) > 1 and len({write.storage for write in writes}) > 1:
            return f"It writes into {few(list(targets))}. {MANY[kind]}"
        return " ".join(filter(None, [*dict.fromkeys(map(self._one, writes)), ONE[kind]]))

    def _target(self, write: Write) -> str:
        """Returns what was written into."""
        return write.through or self.names.name(write.tensor)

    def _one(self, write: Write) -> str:
        """Returns what one write did to bytes and counters."""
        target = self._target(write)
        same = [name for name in self.names.inside(write.storage) if self.now.names[name] != write.tensor]
        owners = [name for name in same if name != target]
        said = f"It writes into {target}" + (f", the same memory as {few(owners)}" if owners else "") + "."
        counted = [self._counted(counter, write) for counter in write.counters]
        return f"{said} {listed(counted)}." if counted else said

    def _counted(self, counter: int, write: Write) -> str:
        """Returns the count of one counter that a write moved."""
        family = [self.names.name(tensor) for tensor in sorted(self.now.family.get(counter, ()))]
        named = [name for name in family if not name.startswith("a ")]
        who = (named or [write.through or "That tensor"])[0]
        version = self.now.versions.get(counter)
        return f"{who} is now at {'another version' if version is None else f'version {version}'}"
