"""Sentences about in-place writes: the changed memory, and the version counters that counted the write."""

from __future__ import annotations

from typing import Literal

from autograder.locale.translations import join_names, join_sentences, translatable, translated
from autograder.tape.recording.schema import Step, Write
from autograder.view.text.naming import NAMELESS, TensorNames, count_noun, join_few

Kind = Literal["counted", "unchanged", "uncounted", "miscounted"]
"""Whether a version counter counted a write: yes; yes, although the values are equal; no; only a counter that autograd ignores."""

ONE: dict[Kind, str] = {
    "counted": "",
    "unchanged": translatable("No value changes, but the counter counts writes, not changes."),
    "uncounted": translatable("The bytes change, but no version counter increases: autograd cannot detect this write."),
    "miscounted": translatable(
        "That is a different counter from the one that autograd checks: it cannot detect this write."
    ),
}

MANY: dict[Kind, str] = {
    "counted": translatable("Their version counters move."),
    "unchanged": translatable("No value changes, but their version counters increase: they count writes, not changes."),
    "uncounted": translatable(
        "The bytes change, but no version counter increases: autograd cannot detect these writes."
    ),
    "miscounted": translatable(
        "Those are different counters from the ones that autograd checks: it cannot detect these writes."
    ),
}


class WriteSentences:
    """The sentences about the writes of a statement."""

    def __init__(self, names: TensorNames):
        """Read names and counters from the playback of `names`."""
        self.names = names
        self.playback = names.playback

    def describe(self, step: Step) -> list[str]:
        """Return one sentence for each kind of write, because an optimizer's step writes into hundreds of tensors."""
        groups: dict[Kind, list[Write]] = {}
        filled: set[int] = set()
        for write in step.writes:
            if self._is_initialisation(write, step):
                filled.add(write.tensor or 0)
            else:
                groups.setdefault(self._kind(write), []).append(write)
        # an optimizer's step may leave some parameters unchanged; they need not have a separate sentence
        if "counted" in groups:
            groups["counted"] += groups.pop("unchanged", [])
        return [*self._describe_initialised(filled), *(self._group(kind, writes) for kind, writes in groups.items())]

    def _is_initialisation(self, write: Write, step: Step) -> bool:
        """Return whether a write only initializes a new parameter or buffer of a module."""
        if write.tensor not in step.tensors or write.harmed or not write.counters:
            return False
        name = self.names.name(write.tensor)
        made = self.playback.tensors[write.tensor].kind
        return made == "parameter" or (made == "input" and (name == translated(NAMELESS) or "." in name))

    def _describe_initialised(self, tensors: set[int]) -> list[str]:
        """Return the sentence about the new parameters and buffers of modules."""
        if not tensors:
            return []
        if all(self.playback.tensors[t].kind == "parameter" for t in tensors):
            return [
                count_noun(
                    len(tensors),
                    "{count} new parameter is initialized.",
                    "{count} new parameters are initialized.",
                )
            ]
        return [count_noun(len(tensors), "{count} new tensor is initialized.", "{count} new tensors are initialized.")]

    def _kind(self, write: Write) -> Kind:
        """Return whether and how counters counted a write."""
        if not write.counters:
            return "uncounted"
        if any(self.playback.condition(self.playback.saved[edge]) == "silent" for edge in write.harmed):
            return "miscounted"
        return "counted" if write.bytes_changed else "unchanged"

    def _group(self, kind: Kind, writes: list[Write]) -> str:
        """Return the sentences about all writes of one kind."""
        targets = dict.fromkeys(self._target(write) for write in writes)
        if len(targets) > 1 and len({write.storage for write in writes}) > 1:
            written = translated("It writes into {names}.", names=join_few(list(targets)))
            return join_sentences([written, translated(MANY[kind])])
        return join_sentences([*dict.fromkeys(map(self._one, writes)), ONE[kind] and translated(ONE[kind])])

    def _target(self, write: Write) -> str:
        """Return the name of the modified tensor."""
        return write.through or self.names.name(write.tensor)

    def _one(self, write: Write) -> str:
        """Return the sentences about one write: its target, the names that share that memory, the new versions."""
        target = self._target(write)
        same = [name for name in self.names.in_storage(write.storage) if self.playback.names[name] != write.tensor]
        owners = [name for name in same if name != target]
        sentence = translated("It writes into {names}.", names=target)
        if owners:
            same_as = join_few(owners)
            sentence = translated("It writes into {name}, the same memory as {owners}.", name=target, owners=same_as)
        counted = [self._version(counter, write) for counter in write.counters]
        moved = translated("{sentence}.", sentence=join_names(counted)) if counted else ""
        return join_sentences([sentence, moved])

    def _version(self, counter: int, write: Write) -> str:
        """Return the sentence about one counter that a write incremented."""
        family = sorted(self.playback.family.get(counter, ()))
        named = [self.names.name(tensor) for tensor in family if self.names.has_name(tensor)]
        who = (named or [write.through or translated("That tensor")])[0]
        version = self.playback.versions.get(counter)
        if version is None:
            return translated("{name} is now at another version", name=who)
        return translated("{name} is now at version {version}", name=who, version=version)
