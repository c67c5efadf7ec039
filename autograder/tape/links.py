"""From a tensor to the graph behind it: the nodes, and the tensors they keep."""

from __future__ import annotations

import weakref

import torch

from autograder.tape.engine import node_of, standing
from autograder.tape.graph import GraphNode, Kept
from autograder.tape.ledger import Ledger
from autograder.tape.looks import Looks
from autograder.tape.memory import fingerprint
from autograder.tape.saved import hidden_in, kept_by, saved_version, version_of
from autograder.tape.tensors import Seen


class Links:
    """Takes note of tensors that are met for the first time, and of nodes."""

    def __init__(self, ledger: Ledger, looks: Looks):
        self.ledger, self.looks = ledger, looks

    def meet(
        self, tensor: torch.Tensor, by: str | None = None, sources: tuple[Seen, ...] = (), *, link: bool = True
    ) -> Seen:
        """Returns the record of a tensor; a new one where it is seen for the first time."""
        ledger = self.ledger
        known = ledger.tensors.get(tensor)
        if known is not None:
            return known
        count = len(ledger.tensors.all)
        seen = ledger.tensors.add(tensor, by, sources)
        for new in ledger.tensors.all[count:]:
            ledger.draft.tensors.append(new.id)
            new.step = ledger.steps
            ledger.draft.touch(new)
            self.looks.begin(new.memory)
        if link and standing(tensor)[0]:
            self.link(seen, tensor, sources)
        return seen

    def link(self, seen: Seen, tensor: torch.Tensor, sources: tuple[Seen, ...] = ()) -> None:
        """Takes note of the node that made a tensor from `sources`, and of all below it."""
        ledger, node = self.ledger, node_of(tensor)
        if node is None:
            seen.node = None
            return
        known = ledger.graph.of.get(node)
        if known is None:
            if ledger.graph.held > ledger.graph.limit:
                ledger.graph.sweep([seen.node for seen in ledger.tensors.of.values() if seen.node is not None])
            for new in ledger.graph.grow(node, ledger.here(), ledger.scope(), ledger.steps):
                self._new_node(new, seen if new.node is node else None, sources)
            known = ledger.graph.of[node]
            known.tensor = seen.id
            ledger.heads.add(known, seen)
        if seen.node != known.id:
            seen.node = known.id
            ledger.draft.touch(seen)

    def _new_node(self, node: GraphNode, made: Seen | None, sources: tuple[Seen, ...]) -> None:
        self.ledger.draft.nodes.append(node.id)
        self.ledger.heads.consume(node)
        variable = getattr(node.node, "variable", None)
        if variable is not None:
            node.tensor = self.meet(variable).id
        for name, read, checked, stashed in kept_by(node.node):
            tensor = read()
            if tensor is not None:
                self._keep(node, name, read, tensor, checked, stashed, made)
        hidden, checked = hidden_in(node.node)
        for seen in dict.fromkeys(sources if hidden else ()):
            tensor = seen.ref()
            if tensor is not None:
                self._keep(node, ", ".join(hidden), weakref.ref(tensor), tensor, checked, True, made)

    def _keep(self, node: GraphNode, name: str, saved, tensor, checked: bool, stashed: bool, made: Seen | None) -> None:
        ledger = self.ledger
        known = ledger.tensors.get(tensor)
        memory = known.memory if known else ledger.memories.of(tensor)
        memory.witnesses.append(saved if isinstance(saved, weakref.ref) else weakref.ref(tensor))
        self.looks.begin(memory, always=True)
        now = version_of(tensor)
        kept = ledger.graph.keep(
            node, name, saved, tensor, memory, checked=checked, stashed=stashed, wrote=len(ledger.wrote),
            version=saved_version(node.node, name, tensor) if checked and not stashed else now,
        )  # fmt: skip
        kept.content, kept.generation = fingerprint(tensor, memory), memory.generation
        owner = known or self._owner(kept, now, made)
        kept.tensor = owner.id if owner else None
        counter = owner.counter if owner else ledger.tensors.new_counter(now)
        kept.counter, kept.version_now = counter.id, now
        counter.fresh.append(kept)
        memory.kept.append(kept)
        if not stashed:
            ledger.draft.saved.append(kept)
        if kept.stale:  # `b.mul_(b)`: the operation that saved it also wrote it
            self._stale_at_birth(kept)

    def _stale_at_birth(self, kept: Kept) -> None:
        last = self.ledger.wrote[-1] if self.ledger.wrote else None
        if last is not None and last.memory is kept.memory:
            kept.wrote, kept.changed = last.index, last.changed
            last.harmed.append(kept)
        self.ledger.graph.spoil(kept, self.ledger.steps)

    def _owner(self, kept: Kept, version: int | None, made: Seen | None) -> Seen | None:
        """Returns a known tensor that shares the saved one's bytes and counter: each read of a saved output is a new object."""
        for seen in ([made] if made and made.memory is kept.memory else []) + self.ledger.tensors.at(kept.memory):
            if (seen.start, seen.stop) == (kept.start, kept.stop) and seen.counter.version == version:
                return seen
        return None
