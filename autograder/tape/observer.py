"""Follows one run: after every function and every statement, what is new, what was written, and what that spoilt."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from autograder.tape.draft import Draft, Wrote
from autograder.tape.engine import Backward, Listener, nodes_below
from autograder.tape.forecast import Heads, forecast
from autograder.tape.functions import EXPOSING, Functions, tensors
from autograder.tape.graph import Graph, GraphNode, Kept, kept_by, saved_version, version_of
from autograder.tape.memory import COPIED, Memories, Memory, address_of, fingerprint
from autograder.tape.names import bindings, find_name
from autograder.tape.program import Program
from autograder.tape.recording import NameChange, Place
from autograder.tape.source import written_through
from autograder.tape.statements import Activation, Statements
from autograder.tape.tensors import STATED, Seen, Tensors
from autograder.tape.untracked import Untracked
from autograder.tape.walks import Walks

STEPS = 20_000  # statements told one by one; a longer run goes on being watched, its steps are no longer kept
SMALL = (
    1 << 16
)  # bytes up to which a storage's content is kept from the moment it is met, and not only once a node saves it
EAGER = 128  # while fewer storages than this live, each is looked at after every statement


class Observer(Listener):
    """Reads state and changes none: a function mode, line tracing, and looks at memory."""

    def __init__(self, program: Program, focus: frozenset[int] = frozenset()):
        self.memories = Memories()
        self.tensors = Tensors(self.memories)
        self.graph = Graph()
        self.statements = Statements(program, self._done, self._left)
        self.functions = Functions(self._before, self._after)
        self.drafts: list[Draft] = []
        self.draft = Draft()
        self.wrote: list[Wrote] = []
        self.heads = Heads()
        self.walks = Walks()
        self.untracked = Untracked()
        self.consumed: list[tuple[int, Kept]] = []
        self.named: list[tuple[Activation, dict[str, int]]] = []
        self.modules: set[int] = set()
        self.focus = focus
        self._due: list[tuple[int, int]] = []
        self._clock = 0
        self._calls = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the code that runs inside."""
        with self.functions, self.statements.traced():
            yield

    # -- functions ---------------------------------------------------------------------------------------------------

    def _before(self, inputs: list[torch.Tensor]) -> None:
        for tensor in inputs:
            if id(tensor) not in self.tensors.of:
                self.meet(tensor)

    def _after(self, name: str, inputs: list[torch.Tensor], result: object) -> None:
        wrote = False
        for tensor in inputs:
            seen = self.tensors.get(tensor)
            if seen is None:
                continue
            if name in EXPOSING:
                self._expose(seen.memory)
            if name == "data =" or name.endswith("_"):
                seen = self._same_memory(seen, tensor, name)
            version = version_of(tensor)
            if version != seen.counter.version:
                self.write(seen, name, version)
                wrote = True
            self.draft.touch(seen)
        if not wrote and name.endswith("_") and not name.startswith("__"):
            self._silent_write(inputs, name)
        sources = tuple(seen for seen in map(self.tensors.get, inputs) if seen)
        for tensor in tensors(result):
            seen = self.tensors.get(tensor) or self.meet(tensor, name, sources)
            self._link(seen, tensor)
        if self.untracked.pending:
            self.untracked.used(inputs, result, self.statements.frames, self.graph)

    def _silent_write(self, inputs: list[torch.Tensor], name: str) -> None:
        # Fused optimizers and writes in inference mode move no counter (torch 2.13): only the bytes tell.
        for tensor in inputs:
            seen = self.tensors.get(tensor)
            if seen and seen.memory.content is not None and seen.memory.alive():
                interval = seen.memory.look()
                if interval:
                    self._written(seen.memory, interval, self.statements.here(), name, seen, ())

    def _same_memory(self, seen: Seen, tensor: torch.Tensor, name: str) -> Seen:
        """Returns the record of an object, a new one where the call gave it other memory."""
        place_now = address_of(tensor)
        if place_now is None or place_now[0] == seen.pointer:
            return seen
        fresh = self.tensors.moved_to_other_memory(seen, tensor)
        self.draft.tensors.append(fresh.id)
        self._first_look(fresh.memory)
        place = self.statements.here()
        self._written(seen.memory, (seen.start, seen.stop), place, name, fresh, (), swapped=seen)
        for _, names in self.named:
            for text, known in names.items():
                if known == seen.id:
                    names[text] = fresh.id
                    self.draft.names.append(NameChange(text, fresh.id))
        return fresh

    def meet(self, tensor: torch.Tensor, by: str | None = None, sources: tuple[Seen, ...] = ()) -> Seen:
        """Returns the record of a tensor that is seen for the first time."""
        count = len(self.tensors.all)
        seen = self.tensors.add(tensor, by, sources)
        self.draft.tensors.extend(range(count, len(self.tensors.all)))
        for new in self.tensors.all[count:]:
            self._first_look(new.memory)
            self.draft.touch(new)
        if tensor.requires_grad:
            self._link(seen, tensor)
        return seen

    def _first_look(self, memory: Memory) -> None:
        if memory.content is None and 0 < memory.size <= SMALL and memory.alive():
            memory.look()
            self._watch(memory)

    # -- the graph ---------------------------------------------------------------------------------------------------

    def _link(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Takes note of the node that made a tensor, and of all below it."""
        node = tensor.grad_fn
        if node is None:
            seen.node = None
            return
        known = self.graph.of.get(node)
        if known is None:
            for new in self.graph.grow(node, self.statements.here(), self._scope(), len(self.drafts)):
                self._new_node(new, seen if new.node is node else None)
            known = self.graph.of[node]
            known.tensor = seen.id
            self.heads.add(known, seen)
        if seen.node != known.id:
            seen.node = known.id
            self.draft.touch(seen)

    def _new_node(self, node: GraphNode, made: Seen | None) -> None:
        self.draft.nodes.append(node.id)
        self.heads.consume(node)
        variable = getattr(node.node, "variable", None)
        if variable is not None:
            node.tensor = (self.tensors.get(variable) or self.meet(variable)).id
        for name, read, checked, stashed in kept_by(node.node):
            tensor = read()
            if tensor is not None:
                self._keep(node, name, read, tensor, checked, stashed, made)

    def _keep(self, node: GraphNode, name: str, read, tensor, checked: bool, stashed: bool, made: Seen | None) -> None:
        known = self.tensors.get(tensor)
        memory = known.memory if known else self.memories.of(tensor)
        memory.witnesses.append(read)
        if memory.content is None and memory.size and memory.alive():
            memory.look()
            self._watch(memory)
        version = version_of(tensor) if stashed or not checked else saved_version(node.node, name, tensor)
        kept = self.graph.keep(
            node, name, read, tensor, memory, version=version, checked=checked, stashed=stashed,
            step=len(self.drafts), place=node.place,
        )  # fmt: skip
        kept.content = fingerprint(tensor, memory)
        kept.generation = memory.generation
        owner = known or self._owner(kept, tensor, made)
        kept.tensor = owner.id if owner else None
        counter = owner.counter if owner else self.tensors.new_counter(version_of(tensor))
        kept.counter, kept.version_now = counter.id, version_of(tensor)
        kept.wrote = len(self.wrote)
        counter.fresh.append(kept)
        memory.kept.append(kept)
        if not stashed:
            self.draft.saved.append(kept)
        if kept.stale:
            self.graph.spoil(kept)

    def _owner(self, kept: Kept, tensor: torch.Tensor, made: Seen | None) -> Seen | None:
        """Returns a known tensor that shares the saved one's bytes and counter: each read of a saved output is a new object."""
        version = version_of(tensor)
        for seen in ([made] if made and made.memory is kept.memory else []) + self.tensors.at(kept.memory):
            if (seen.start, seen.stop) == (kept.start, kept.stop) and seen.counter.version == version:
                return seen
        return None

    def _scope(self) -> tuple[str, ...]:
        scope = []
        for activation in self.statements.stack:
            owner = activation.frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module):
                scope.append(type(owner).__name__)
            elif activation.depth:
                scope.append(activation.function)
        return tuple(dict.fromkeys(scope))

    # -- writes ------------------------------------------------------------------------------------------------------

    def write(self, seen: Seen, operation: str, version: int | None) -> None:
        """Takes note of a write that moved a counter."""
        memory, interval = seen.memory, None
        known = memory.content is not None and memory.alive()
        if known:
            interval = memory.look()
        changed = interval is not None or (memory.size > 0 and not known)
        place = self.statements.here()
        seen.counter.version = version
        fresh, seen.counter.fresh = seen.counter.fresh, []
        spoilt = []
        for kept in fresh:
            if kept.freed:
                continue
            kept.version_now = version
            if kept.stale:
                spoilt.append(kept)
                self.graph.spoil(kept)
            elif not kept.checked:
                seen.counter.fresh.append(kept)
        self._written(
            memory, interval or (seen.start, seen.stop), place, operation, seen, (seen.counter.id,), changed, spoilt
        )

    def _written(
        self, memory: Memory, interval: tuple[int, int], place: Place, operation: str, seen: Seen | None,
        counters: tuple[int, ...], changed: bool = True, spoilt: list[Kept] | None = None, swapped: Seen | None = None,
        through: str | None = None, exact: bool = True,
    ) -> None:  # fmt: skip
        harmed = list(spoilt or ())
        if changed:
            harmed += self._corrupted(memory, interval, swapped)
        wrote = Wrote(
            len(self.wrote),
            len(self.drafts),
            place,
            operation,
            memory,
            *interval,
            counters,
            changed,
            seen,
            through,
            exact=exact,
        )
        if seen is not None:
            wrote.version = seen.counter.version
            if through is None:
                wrote.through = seen.name or self._name(seen, look=bool(harmed))
        wrote.harmed = harmed
        self.wrote.append(wrote)
        self.draft.writes.append(wrote)
        for neighbour in self.tensors.at(memory)[:STATED]:
            self.draft.touch(neighbour)
        if changed:
            self.untracked.note(wrote, swapped, self.tensors.at(memory))

    def _corrupted(self, memory: Memory, interval: tuple[int, int], swapped: Seen | None) -> list[Kept]:
        """Returns the saved tensors whose values a write just changed; backward does not know of it where no counter moved."""
        fresh, still = [kept for kept in memory.kept if not (kept.freed or kept.spoilt)], []
        found = []
        for kept in fresh:
            if (swapped is None or kept.tensor == swapped.id) and kept.overlaps(*interval) and kept.differs():
                kept.changed = True
                self.graph.spoil(kept)
                found.append(kept)
            else:
                still.append(kept)
        memory.kept = still
        return found

    def _name(self, seen: Seen, *, look: bool) -> str | None:
        """Returns what a reader calls a tensor: a variable's name, else how it was reached from one."""
        tensor = seen.ref()
        if seen.name is None and look and tensor is not None:
            seen.name = find_name(tensor, self.statements.frames)
        if seen.name is None and seen.origin:
            source, by = seen.origin
            name = self._name(source, look=look)
            forms = {"data": ".data", "detach": ".detach()", "__getitem__": "[…]"}
            return name and name + forms.get(by, f".{by}(…)")
        return seen.name

    # -- looks at memory ---------------------------------------------------------------------------------------------

    def _watch(self, memory: Memory) -> None:
        heapq.heappush(self._due, (self._clock, memory.id))

    def _expose(self, memory: Memory) -> None:
        if not memory.exposed and memory.size:
            memory.exposed, memory.patience = True, 1
            if memory.content is None and memory.alive():
                memory.look()
            self._watch(memory)

    def _poll(self, place: Place) -> None:
        """Looks at the storages that are due: all while few live, else one that stays the same ever more rarely."""
        self._clock += 1
        again = []
        while self._due and self._due[0][0] < self._clock:
            _, number = heapq.heappop(self._due)
            memory = self.memories.all[number]
            if memory.next_look >= self._clock or not memory.alive():
                continue
            self.look(memory, place, exact=memory.patience == 1)
            always = memory.exposed or number in self.focus or (memory.size <= COPIED and len(self._due) < EAGER)
            memory.patience = 1 if always else min(2 * memory.patience, 1 << 16)
            memory.next_look = self._clock + memory.patience - 1
            again.append((memory.next_look, number))
        for item in again:
            heapq.heappush(self._due, item)

    def look(self, memory: Memory, place: Place, *, exact: bool = True) -> None:
        """Takes note of a change that no function reported."""
        interval = memory.look() if memory.content is not None else None
        if interval is None:
            return None
        neighbours = self.tensors.at(memory)
        for seen in neighbours:
            tensor = seen.ref()
            if tensor is not None and version_of(tensor) != seen.counter.version:
                memory.generation -= 1
                return self._moved_unseen(seen, tensor, interval, place)
        through, operation = written_through(place.text)
        self._written(memory, interval, place, operation, None, (), through=through, exact=exact)
        return None

    def _moved_unseen(self, seen: Seen, tensor: torch.Tensor, interval: tuple[int, int], place: Place) -> None:
        seen.memory.generation += 1
        _, operation = written_through(place.text)
        self.write(seen, operation, version_of(tensor))

    # -- statements --------------------------------------------------------------------------------------------------

    def _done(self, activation: Activation, complete: bool) -> None:
        with torch._C.DisableTorchFunction():
            place = self.statements.place_of(activation)
            self._poll(place)
            self._names(activation)
            if not complete and not self.draft.has_effects:
                return
            if activation.declares and not self.draft.has_effects:
                return
            self._close(activation, place)

    def _close(self, activation: Activation, place: Place) -> None:
        draft, self.draft = self.draft, Draft()
        draft.place, draft.function, draft.depth = place, activation.function, activation.depth
        draft.state_all()
        if draft.forecast is None:
            draft.forecast = forecast(self.heads.current())
        if len(self.drafts) < STEPS:
            self.drafts.append(draft)

    def _left(self, activation: Activation) -> None:
        """Forgets a call's names; those of the caller that they hid are told again."""
        if self.named and self.named[-1][0] is activation:
            _, gone = self.named.pop()
            outer = self.named[-1][1] if self.named else {}
            self.draft.names += [NameChange(name, outer.get(name)) for name in gone]

    def _names(self, activation: Activation) -> None:
        if not self.named or self.named[-1][0] is not activation:
            if any(one is activation for one, _ in self.named):
                return
            self.named.append((activation, {}))
        known, now = self.named[-1][1], {}
        for name, tensor in bindings(activation.frame.f_locals, self.modules):
            seen = self.tensors.get(tensor) or self.meet(tensor)
            version = version_of(tensor)
            if version != seen.counter.version:
                self.write(seen, written_through(self.statements.place_of(activation).text)[1], version)
            if tensor.requires_grad:
                self._link(seen, tensor)
            now[name] = seen.id
            if seen.name is None or "[" in seen.name:
                seen.name = name
        self.draft.names += [NameChange(name, seen) for name, seen in now.items() if known.get(name) != seen]
        self.draft.names += [NameChange(name, None) for name in known if name not in now and "." not in name]
        known.update(now)
        for name in [name for name in known if name not in now and "." not in name]:
            del known[name]

    # -- backward ----------------------------------------------------------------------------------------------------

    def before_backward(self, call: Backward) -> None:
        """Reads what backward is about to use: here a spoilt tensor does its harm."""
        place = self.statements.here()
        for root in call.roots:
            if isinstance(root, torch.Tensor):
                self._link(self.tensors.get(root) or self.meet(root), root)
        visited = [self.graph.of[node] for node in nodes_below(call.roots, call.asked) if node in self.graph.of]
        looked: set[int] = set()
        for kept in (kept for node in visited for kept in node.kept if not kept.freed):
            if kept.memory.id not in looked:
                looked.add(kept.memory.id)
                if kept.memory.alive():
                    self.look(kept.memory, place, exact=kept.memory.patience == 1)
            self._consume(kept)
        self.draft.forecast = forecast(
            [self.graph.of.get(getattr(root, "grad_fn", None)) for root in call.roots], rooted=True
        )
        self.visited = visited
        self.walks.start(call, visited, len(self.drafts))

    def _consume(self, kept: Kept) -> None:
        tensor = kept.read()
        if tensor is None:
            return
        kept.version_now = version_of(tensor)
        if not kept.spoilt and kept.generation != kept.memory.generation and kept.differs():
            kept.changed = True
        elif kept.stale and not kept.changed and kept.generation != kept.memory.generation:
            kept.changed = kept.differs()
        if kept.spoilt:
            self.graph.spoil(kept)
            self.consumed.append((self._calls, kept))

    def after_backward(self, call: Backward) -> None:
        """Takes note of what backward freed, and of the gradient buffers it wrote into."""
        self._calls += 1
        self.walks.stop(call)
        for node in self.visited:
            freed = self.graph.release(node)
            self.draft.freed += freed
        for target in call.targets:
            gradient = target.grad if target.is_leaf else None
            seen = None if gradient is None else self.tensors.get(gradient)
            if seen is not None and gradient is not None and version_of(gradient) != seen.counter.version:
                self.write(seen, "accumulate", version_of(gradient))

    def inside_engine(self):
        """Hears the functions that hooks and custom backwards call."""
        return self.functions.again()
