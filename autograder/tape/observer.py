"""Follows one run: after every function and every statement, what is new, what was written, and what that spoilt."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import torch

from autograder.tape.engine import Backward, Listener, node_of, nodes_below
from autograder.tape.forecast import Prospect, forecast
from autograder.tape.functions import EXPOSING, Functions, tensors
from autograder.tape.graph import GraphNode, Kept
from autograder.tape.ledger import Buffer, Ledger
from autograder.tape.links import Links
from autograder.tape.looks import Looks
from autograder.tape.program import Program
from autograder.tape.recording import Forecast
from autograder.tape.saved import has_hooks, version_of
from autograder.tape.statements import Activation, Statements
from autograder.tape.tensors import FOREIGN, Seen
from autograder.tape.variables import Variables
from autograder.tape.writes import Writes

# These write running statistics and move no counter (torch 2.13).
UNCOUNTED = {"batch_norm", "instance_norm"}


def unseen(method: Callable) -> Callable:
    """Returns the method so that neither the function mode nor the program notices it: an error of ours is kept and told later."""

    @wraps(method)
    def quietly(self, *args):
        if self.failure is not None:
            return None
        tracer = sys.gettrace()
        sys.settrace(None)  # our own calls would otherwise each be offered to our own tracer
        try:
            with torch._C.DisableTorchFunction():
                return method(self, *args)
        except Exception as error:
            self.failure = error
            return None
        finally:
            sys.settrace(tracer)

    return quietly


class Observer(Listener):
    """Reads state and changes none: a function mode, line tracing, and looks at memory.

    Attributes:
        focus: storages (by id) to look at after every statement.
        failure: the first error of our own, after which it looks no further.
    """

    def __init__(self, program: Program, focus: frozenset[int] = frozenset()):
        self.ledger = ledger = Ledger()
        self.writes = Writes(ledger)
        self.looks = Looks(self.writes.unreported, ledger.memories.all, focus)
        self.links = Links(ledger, self.looks)
        self.variables = Variables(ledger, self.links, self.writes)
        self.statements = ledger.statements = Statements(program, self._statement_done, self._function_left)
        self.functions = Functions(self._before, self._after)
        self.failure: Exception | None = None
        self._visited: list[GraphNode] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follows the code that runs inside."""
        with self.functions, self.functions.overhearing(), self.statements.traced():
            yield

    @unseen
    def _before(self, name: str, inputs: list[torch.Tensor]) -> None:
        for tensor in inputs:
            self.links.meet(tensor)
        if name == "backward" and inputs and inputs[0].numel() != 1 and len(inputs) == 1:
            self.ledger.draft.forecast = Forecast("raises-backward")  # only a single number has a gradient of its own

    @unseen
    def _after(self, name: str, inputs: list[torch.Tensor], result: object, count: int) -> None:
        ledger, wrote, sources = self.ledger, False, []
        for tensor in inputs:
            seen = self.links.meet(tensor)
            if name in EXPOSING:
                self.looks.expose(seen.memory)
                seen.memory.capsule = seen.memory.capsule or name == "__dlpack__"
            wrote = self.writes.check(seen, tensor, name) or wrote
            sources.append(self.links.meet(tensor))
            if ledger.engine_depth:
                ledger.read_again.setdefault(seen.memory, ledger.here())
        if name in UNCOUNTED or (not wrote and name.endswith("_") and not name.startswith("__")):
            for seen in sources:
                self.writes.silent(seen, name)
        results = list(tensors(result))
        for tensor in results:
            seen = self.links.meet(tensor, name, tuple(sources), link=False)
            if seen.event is None:
                seen.event = count
            if name in FOREIGN and name != "data":
                self.looks.expose(seen.memory)
        for tensor in results:
            seen = self.links.meet(tensor)
            self.links.link(seen, tensor, tuple(sources))
            ledger.draft.touch(seen)
        if wrote:
            for tensor, seen in zip(inputs, sources, strict=True):
                self.links.link(seen, tensor)
        if name in ("grad =", "_grad =") and len(sources) == 2:
            self._buffer_given(*sources)
        if ledger.untracked.pending:
            written = results or (inputs[:1] if name == "__setitem__" else [])
            ledger.untracked.used(inputs, written, self.statements.top, ledger.graph, ledger.here(), ledger.steps)

    def _buffer_given(self, leaf: Seen, buffer: Seen) -> None:
        """Takes note of an assignment to `.grad`; bytes given to two leaves are a fault that no counter shows."""
        ledger, here = self.ledger, self.statements.here()
        given = ledger.given.setdefault(buffer.memory, {})
        for other, theirs in given.items():
            if other is not leaf and theirs.start < buffer.stop and buffer.start < theirs.stop:
                ledger.shared_buffers.append((here, leaf, other))
                ledger.shared_since = ledger.steps if ledger.shared_since is None else ledger.shared_since
        given[leaf] = buffer
        ledger.buffers[buffer.memory] = Buffer(leaf, here)

    @unseen
    def _statement_done(self, activation: Activation, complete: bool) -> None:
        ledger = self.ledger
        ledger.place = place = self.statements.place_of(activation)
        try:
            self.looks.statement_done()
            self.variables.read(activation)
            if ledger.draft.has_effects or (complete and not activation.declares):
                ledger.close(activation, place)
        finally:
            ledger.place = None

    @unseen
    def _function_left(self, activation: Activation) -> None:
        self.variables.forget(activation)

    @unseen
    def before_backward(self, call: Backward) -> None:
        """Reads what backward is about to use: here a spoilt tensor does its harm."""
        ledger = self.ledger
        for root in call.roots:
            if isinstance(root, torch.Tensor):
                self.links.link(self.links.meet(root), root)
        nodes = nodes_below(call.roots, call.asked)
        self._visited = [ledger.graph.of[node] for node in nodes if node in ledger.graph.of]
        kept = [kept for node in self._visited for kept in node.kept if not kept.freed]
        for memory in dict.fromkeys(one.memory for one in kept):
            if memory.alive():
                self.looks.look(memory)
        for one in kept:
            self._consume(one)
        roots = [ledger.graph.of.get(node_of(root)) for root in call.roots]
        ledger.draft.forecast = forecast(roots, rooted=True)
        made = max(
            (self.links.meet(root).step for root in call.roots if isinstance(root, torch.Tensor)), default=ledger.steps
        )
        ledger.prospects.append(Prospect.of(ledger, made, self._visited, kept))
        ledger.visited.append([node.id for node in self._visited])
        ledger.engine_depth += 1

    def _consume(self, kept: Kept) -> None:
        tensor = kept.read()
        if tensor is None:
            return
        kept.version_now = version_of(tensor)
        kept.checked = kept.checked and (kept.stashed or not has_hooks(kept.node.node, kept.name))
        if not kept.changed and kept.generation != kept.memory.generation:
            kept.changed = kept.differs()
        if kept.spoilt:
            self.ledger.graph.spoil(kept, self.ledger.steps)
            self.ledger.consumed.append(kept)
            kept.until, kept.call = len(self.ledger.wrote), self.ledger.calls
            self._name(kept)

    def _name(self, kept: Kept) -> None:
        """Looks for the name of a spoilt tensor while the frames that know it are still there."""
        owner = self.ledger.tensors.all[kept.tensor] if kept.tensor is not None else None
        if owner is not None and owner.name is None:
            self.ledger.name_of(owner, look=True)

    @unseen
    def after_backward(self, call: Backward) -> None:
        """Takes note of what backward freed, and of the gradient buffers it wrote into."""
        ledger, place = self.ledger, self.statements.here()
        ledger.engine_depth -= 1
        ledger.calls += 1
        for node in self._visited:
            ledger.draft.freed += ledger.graph.release(node)
        for target in call.targets:
            gradient = target.grad if target.is_leaf else None
            if gradient is not None:
                seen = self.links.meet(gradient)
                self.writes.check(seen, gradient, "accumulate")
                ledger.buffers[seen.memory] = Buffer(self.links.meet(target), place)

    def inside_engine(self):
        """Hears the functions that hooks and custom backwards call."""
        return self.functions.hearing()
