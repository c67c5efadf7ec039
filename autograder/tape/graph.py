"""The graph as it grows: its nodes, the tensors they keep, and which of those no longer hold what was saved."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from autograder.tape.memory import Memory, extent_of, fingerprint
from autograder.tape.recording import Place

_PREFIX = "_raw_saved_"
# The words around the two numbers have changed between releases; "is at version N; expected version M" has not (1.4 to 2.13).
VERSIONS = re.compile(r"is at version (\d+); expected version (\d+)")


@dataclass(eq=False)
class Kept:
    """One tensor that a node keeps for backward.

    Attributes:
        saved: asks the node for the tensor, unchecked; None once it was freed. Not to be called while one of the node's own
            hooks runs: the node is half made then, and reading it ends the process (torch 2.13).
        held: the tensor as the node gave it when it was new, or a weak reference to it; None once it was freed.
        checked: whether backward compares versions: not under saved-tensor hooks, not for what a custom Function stashed on ctx.
        stashed: it is an attribute of ctx, which autograd knows nothing of.
        content, generation: its values, and how often its memory had changed, when it was saved.
        wrote, until: how many writes the run had seen when it was saved, and when a backward used it (the one numbered `call`).
        since: the step in which it was spoilt.
        tensor: the id of the tensor it is, or shares its bytes with.
        record_id: its id as a SavedEdge; None for what is only stashed.
    """

    id: int
    node: GraphNode
    name: str
    saved: Callable[[], torch.Tensor | None]
    held: torch.Tensor | weakref.ref | None
    memory: Memory
    start: int
    stop: int
    version: int | None
    checked: bool
    stashed: bool
    content: object = None
    generation: int = 0
    tensor: int | None = None
    counter: int = -1
    version_now: int | None = None
    changed: bool = False
    until: int | None = None
    since: int | None = None
    call: int = -1
    freed: bool = False
    record_id: int | None = None
    wrote: int = 0

    def read(self) -> torch.Tensor | None:
        """Returns the tensor as it is now, or None where it is gone."""
        return self.held() if isinstance(self.held, weakref.ref) else self.held

    def differs(self) -> bool:
        """Returns whether its values are not those that were saved."""
        tensor = self.read()
        return tensor is not None and fingerprint(tensor) != self.content

    @property
    def place(self) -> Place:
        """The user's line whose operation saved it."""
        return self.node.place

    @property
    def stale(self) -> bool:
        """Whether backward will refuse it."""
        return self.checked and self.version_now != self.version

    @property
    def spoilt(self) -> bool:
        """Whether it is no longer what was saved, or backward thinks so."""
        return self.changed or self.stale

    def overlaps(self, start: int, stop: int) -> bool:
        """Returns whether the bytes [start, stop) of its storage meet it."""
        return self.start < stop and start < self.stop


@dataclass(eq=False)
class GraphNode:
    """One backward function; `node` is torch's own object, kept alive because a dead one's id is given again."""

    id: int
    node: Any
    name: str
    inputs: tuple[int | None, ...]
    place: Place
    scope: tuple[str, ...]
    step: int
    tensor: int | None = None
    kept: list[Kept] = field(default_factory=list)
    consumers: list[GraphNode] = field(default_factory=list)
    refused: Kept | None = None
    corrupted: Kept | None = None
    freed: bool = False
    untracked: int | None = None


class Graph:
    """All nodes seen in one run, in order of first appearance."""

    def __init__(self):
        self.nodes: list[GraphNode] = []
        self.of: dict[object, GraphNode] = {}
        self.kept: list[Kept] = []
        self._edges = 0

    def grow(self, root: Any, place: Place, scope: tuple[str, ...], step: int) -> list[GraphNode]:
        """Returns the nodes below `root` that were not known, inputs first."""
        new: list[GraphNode] = []
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.of:
                stack.pop()
                continue
            unknown = [n for n, _ in node.next_functions if n is not None and n not in self.of]
            if unknown:
                stack.extend(unknown)
            else:
                stack.pop()
                new.append(self._add(node, place, scope, step))
        return new

    def _add(self, node, place: Place, scope: tuple[str, ...], step: int) -> GraphNode:
        below = [self.of[n] if n is not None else None for n, _ in node.next_functions]
        made = GraphNode(len(self.nodes), node, type(node).__name__, (), place, scope, step)
        made.inputs = tuple(n.id if n else None for n in below)
        for input_ in dict.fromkeys(n for n in below if n):
            input_.consumers.append(made)
            made.refused = made.refused or input_.refused
            made.corrupted = made.corrupted or input_.corrupted
            made.freed = made.freed or input_.freed
            made.untracked = input_.untracked if made.untracked is None else made.untracked
        self.nodes.append(made)
        self.of[node] = made
        return made

    def keep(self, node: GraphNode, name: str, saved, tensor: torch.Tensor, memory: Memory, **facts) -> Kept:
        """Returns the record of one tensor that `node` keeps."""
        start, stop = extent_of(tensor) if memory.size else (0, 0)
        held = saved if isinstance(saved, weakref.ref) else tensor
        kept = Kept(len(self.kept), node, name, saved, held, memory, start, stop, **facts)
        kept.version_now = kept.version
        if not kept.stashed:
            kept.record_id, self._edges = self._edges, self._edges + 1
        self.kept.append(kept)
        node.kept.append(kept)
        return kept

    def spoil(self, kept: Kept, step: int) -> None:
        """Tells every node above that its backward now meets this one; each is told at most twice, so the cost stays linear."""
        kept.since = step if kept.since is None else kept.since
        which = "refused" if kept.stale else "corrupted"
        stack = [kept.node]
        while stack:
            node = stack.pop()
            if getattr(node, which) is None:
                setattr(node, which, kept)
                stack.extend(node.consumers)

    def mark_untracked(self, node: GraphNode, step: int) -> None:
        """Tells every node above that from this step on one input holds values its history does not give."""
        stack = [node]
        while stack:
            above = stack.pop()
            if above.untracked is None:
                above.untracked = step
                stack.extend(above.consumers)

    def release(self, node: GraphNode) -> list[Kept]:
        """Returns what `node` kept until a backward freed it just now."""
        freed = [kept for kept in node.kept if not kept.freed and not kept.stashed and kept.saved() is None]
        for kept in freed:
            kept.freed, kept.held = True, None
        if freed:
            stack = [node]
            while stack:
                above = stack.pop()
                if not above.freed:
                    above.freed = True
                    stack.extend(above.consumers)
        return freed


def kept_by(node: Any) -> Iterator[tuple[str, Callable[[], torch.Tensor | None], bool, bool]]:
    """Yields name, reader, whether it is checked, and whether it is only stashed, for each tensor that a node keeps.

    `_saved_x` raises where it is stale and re-runs the forward under `torch.utils.checkpoint`; `_raw_saved_x.data` does
    neither, and is None once freed. `unpack_hook` tells whether hooks are set, which switch the check off (torch 2.13).
    """
    for attribute in _attributes(type(node)):  # type: ignore[arg-type]
        saved = _attribute(node, attribute)
        many = isinstance(saved, (tuple, list))
        for index, one in enumerate(saved if many else (saved,)):
            if one is not None and isinstance(one.data, torch.Tensor):
                name = attribute.removeprefix(_PREFIX) + (f"[{index}]" if many else "")
                yield (
                    name,
                    functools.partial(_raw, node, attribute, index if many else None),
                    one.unpack_hook is None,
                    False,
                )
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        for name, value in list(vars(node).items()):
            for path, tensor in _tensors_in(name, value):
                yield f"ctx.{path}", functools.partial(_same, tensor), False, True


def has_hooks(kept: Kept) -> bool:
    """Returns whether hooks were set on one saved tensor after it was saved, which switches its check off."""
    attribute, _, index = kept.name.partition("[")
    saved = _attribute(kept.node.node, _PREFIX + attribute)
    one = saved[int(index[:-1])] if index and saved is not None else saved
    return one is not None and one.unpack_hook is not None


def hidden_in(node: Any) -> tuple[list[str], bool]:
    """Returns the names of what a node keeps in a form that only hooks can turn back, and whether the hooks are checkpoint's.

    `torch.utils.checkpoint` keeps no tensor at all and computes it again, from inputs whose versions it checks (torch 2.13).
    """
    names, checked = [], False
    for attribute in _attributes(type(node)):  # type: ignore[arg-type]
        saved = _attribute(node, attribute)
        if (
            saved is None
            or isinstance(saved, (tuple, list))
            or saved.data is None
            or isinstance(saved.data, torch.Tensor)
        ):
            continue
        names.append(attribute.removeprefix(_PREFIX))
        checked = checked or getattr(saved.unpack_hook, "__module__", "") == "torch.utils.checkpoint"
    return names, checked


def _attribute(node: Any, attribute: str) -> Any:
    try:
        return getattr(node, attribute)
    except RuntimeError:  # freed
        return None


@functools.cache
def _attributes(kind: type) -> tuple[str, ...]:
    return tuple(name for name in dir(kind) if name.startswith(_PREFIX))


def _raw(node, attribute: str, index: int | None) -> torch.Tensor | None:
    saved = _attribute(node, attribute)
    tensor = None if saved is None else (saved if index is None else saved[index]).data
    return tensor if isinstance(tensor, torch.Tensor) else None


def _same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _tensors_in(name: str, value: object) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value[:16]):
            if isinstance(item, torch.Tensor):
                yield f"{name}[{index}]", item
    elif isinstance(value, dict):
        for key, item in list(value.items())[:16]:
            if isinstance(item, torch.Tensor):
                yield f"{name}[{key!r}]", item


def version_of(tensor: torch.Tensor) -> int | None:
    """Returns a tensor's counter; None for an inference tensor, which keeps none."""
    return None if tensor.is_inference() else tensor._version


def saved_version(node: object, name: str, tensor: torch.Tensor) -> int | None:
    """Returns the version a tensor had when it was saved: its own where backward accepts it, else the one that backward expects."""
    if "[" in name:
        return version_of(tensor)
    try:
        getattr(node, f"_saved_{name}")
    except RuntimeError as error:
        found = VERSIONS.search(str(error))
        return int(found[2]) if found else version_of(tensor)
    return version_of(tensor)
