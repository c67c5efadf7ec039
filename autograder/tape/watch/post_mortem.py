"""Find the cause of a backward error from the existing graph and the logs of calls, and write the note that the error gets."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from autograder.errors import message_of
from autograder.tape.diagnose.harms import COUNTED_WRITE, HarmKind, write_found_by_version
from autograder.tape.internals.entry_points import EXPOSING
from autograder.tape.internals.mode_stack import sequence_number
from autograder.tape.internals.tensor_fields import VERSIONS, is_freed, version_of
from autograder.tape.observe.links import hidden_in, kept_by, saved_version
from autograder.tape.observe.names import find_name
from autograder.tape.observe.tensors import FOREIGN
from autograder.tape.observe.writes import is_namespace, written_by, written_through
from autograder.tape.recording.verdict_types import Harm, Place
from autograder.tape.run.storages import elements_of
from autograder.tape.watch.call_listener import UNKNOWN, CallSite, CallSites, NodeLog, NotedWrite, WriteLog, storage_of

MOST = 3
"""Maximum number of harms with a sentence. For the others, the note gives only their number."""
_SHARES = re.compile(rf"\b({'|'.join({*EXPOSING, *FOREIGN} - {'data'})})\(")
OUTSIDE = "outside the watch (before it began, or in compiled code)"


def note_of(harms: tuple[Harm, ...]) -> str:
    """Return the text of the note, with the first harm first."""
    sentences = [_sentence(harm) for harm in harms[:MOST]]
    more = len(harms) - len(sentences)
    rest = [f"{more} more saved {'tensor was' if more == 1 else 'tensors were'} written into."] if more else []
    return "\n".join(f"autograder: {line}" for line in [*sentences, *rest])


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
    site = f"at {_where(harm.saved_at)}" if harm.saved_at.line else OUTSIDE
    places = "; ".join(map(_where, harm.mutated_at))
    if is_silent(harm) and any(_SHARES.search(place.text) for place in harm.mutated_at):
        write = f"was written{through or ' through memory'}, which was shared at {places}"
    elif harm.mutated_at:
        write = f"was written{through} at {places}"
    else:
        write = "was written by code that a watch does not record (another thread, compiled code, NumPy)"
    return f"{harm.tensor}, which backward needs, {write}. {harm.saved_by} kept it {site}{_versions(harm)}."


def _where(place: Place) -> str:
    return f"{place.file}, line {place.line}: {place.text}"


def _versions(harm: Harm) -> str:
    if harm.saved_version is None:
        return ""
    if is_silent(harm):
        return ", and no version counter changed, so backward uses the new values without an error"
    return f", at version {harm.saved_version}; now it is at version {harm.version_now}"


@functools.lru_cache(maxsize=64)
def _nodes_in(text: str) -> dict[tuple[int, int, int, int], list[ast.AST]]:
    """Return the expressions and statements of a text, sorted by position; at equal positions, the outermost comes first."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # for example a magic command of a notebook
        return {}
    nodes: dict[tuple[int, int, int, int], list[ast.AST]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            span = node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0
            nodes.setdefault(span, []).append(node)
            if isinstance(node, ast.Assign):
                for inner in ast.walk(node.value):
                    inner.statement = node  # type: ignore[attr-defined]
    return nodes


def call_at(site: CallSite) -> ast.AST | None:
    """Return the expression or assignment at a call site, or None if the source is not available."""
    text = "".join(linecache.getlines(site.code.co_filename))
    return next(iter(_nodes_in(text).get(site.span, ())), None)


def written_expression(site: CallSite) -> str | None:
    """Return the expression that a call modifies, as in the source: "h" for `h += 1` and "h.data" for `h.data.mul_(2)`."""
    node = call_at(site)
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.AugAssign):
        return ast.unparse(node.target)
    if isinstance(node, (ast.Subscript, ast.Attribute)):  # such as h[0] = 1 and w.data = v
        return ast.unparse(node.value)
    if isinstance(node, ast.Call):
        written, name = written_by(node)
        is_named = name.endswith("_") or any(word.arg in ("out", "inplace") for word in node.keywords)
        return written if is_named else None
    return None


def foreign_writes(site: CallSite) -> tuple[str, list[int]] | None:
    """Return the variable that shares a tensor's memory, as `n` in `n = h.numpy()`, and the lines of the same file that modify it."""
    call = call_at(site)
    argument = call.args[0] if isinstance(call, ast.Call) and call.args else None
    name = argument.id if isinstance(argument, ast.Name) and site.called in FOREIGN else _target(call)
    if name is None or site.called not in {*FOREIGN, *EXPOSING}:
        return None
    nodes = _nodes_in("".join(linecache.getlines(site.code.co_filename)))
    kinds = (ast.Expr, ast.Assign, ast.AugAssign)
    statements = [node for group in nodes.values() for node in group if isinstance(node, kinds)]
    later = [node for node in statements if node.lineno >= site.code.co_firstlineno]
    return name, sorted({node.lineno for node in later if written_through(ast.unparse(node))[0] == name})


# Names under which nodes save the operands of operators and calls (derivatives.yaml, PyTorch 2.13).
_FIRST, _SECOND = ("self", "input", "mat1"), ("other", "mat2", "exponent", "weight")
_MADE = ("result", "output")


def saved_expression(site: CallSite, name: str) -> str | None:
    """Return the expression that a call's node saved as `name`, as in the source, or None if the text does not name it."""
    node = call_at(site)
    if name in _MADE:
        return _target(node)
    operands: list[ast.expr] = []
    if isinstance(node, ast.AugAssign):
        operands = [node.target, node.value]
    elif isinstance(node, ast.BinOp):
        operands = [node.left, node.right]
    elif isinstance(node, ast.Call):
        operands = _operands(node)
    place = 0 if name in _FIRST else 1 if name in _SECOND else len(operands)
    operand = operands[place] if place < len(operands) else None
    return ast.unparse(operand) if isinstance(operand, (ast.Name, ast.Attribute, ast.Subscript)) else None


def _target(node: ast.AST | None) -> str | None:
    """Return the variable that a call's result is assigned to, or None if the right-hand side contains more than the call."""
    statement = getattr(node, "statement", None)
    if statement is None or statement.value is not node or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return ast.unparse(target) if isinstance(target, (ast.Name, ast.Attribute)) else None


def _operands(call: ast.Call) -> list[ast.expr]:
    if not isinstance(call.func, ast.Attribute) or is_namespace(call.func.value, call.func.attr):
        return call.args
    if isinstance(call.func.value, ast.Name) and call.func.value.id == "self":
        return call.args if len(call.args) == 1 else []  # a layer of a module
    return [call.func.value, *call.args]


NOWHERE = Place("", 0, "")
"""Placeholder for an unknown line: the graph was created before the watch began, or by compiled or scripted code."""


@dataclass(frozen=True)
class SavedTensorRef:
    """A saved tensor of an existing graph, with its site in the log of calls."""

    node: Any
    name: str
    tensor: torch.Tensor
    site: CallSite | None  # the call that saved it, or None if the call was not logged
    clock: int  # number of modifications logged before it was saved
    expected: int | None  # version that backward expects; None if it is unknown

    @property
    def is_stale(self) -> bool:
        """Whether its version is not the expected one, so that backward raises an error."""
        return self.expected is not None and self.expected != version_of(self.tensor)


class PostMortem:
    """Reads the logs to find the harms of a backward call, while the frames of its callers exist."""

    def __init__(self, sites: CallSites, nodes: list[NodeLog], writes: WriteLog, frames: list[FrameType]):
        self.sites, self.nodes, self.writes, self.frames = sites, nodes, writes, frames

    def harms(self, graph: list[Any], error: BaseException) -> tuple[Harm, ...]:
        """Return the harms that made a backward through these nodes raise `error`, starting with the tensor of the error.

        The result is empty if no in-place modification caused the error.
        """
        message = message_of(error)
        match = VERSIONS.search(message)
        if not match:
            return ()
        now, then = int(match[1]), int(match[2])
        refused = [kept for node in graph for kept in self.kept(node) if kept.is_stale]
        # The tensor of the error comes first, then the newest node, which the engine visits first.
        refused.sort(key=lambda it: ((version_of(it.tensor), it.expected) != (now, then), -sequence_number(it.node)))
        harms = dict.fromkeys(self.harm(kept, COUNTED_WRITE) for kept in refused)
        hidden = self._hidden(graph)
        return tuple(harms or self._by_version(now, then, hidden) or self._unlogged(graph, now, then, message))

    def freed_by(self, graph: list[Any], calls: Iterable[tuple[int, int]]) -> tuple[Place, Place | None] | None:
        """Return the line that made the newest freed node of a graph, and the line of the backward that freed it, if known.

        `calls` are the earlier backward calls that freed their graph: the next sequence number after each, and its call site.
        """
        calls = list(calls)
        # The call that raised has freed the nodes that it visited; an earlier call freed only nodes that existed then.
        last = max((number for number, _ in calls), default=0)
        nodes = (node for node in graph if sequence_number(node) < last)
        freed = [node for node in nodes if is_freed(node)]
        newest = max(freed, key=sequence_number, default=None)
        made = self._site(self._found(newest)[0]) if newest is not None else None
        if newest is None or made is None:
            return None
        sites = {site for number, site in calls if number > sequence_number(newest)}
        by = self._site(sites.pop()) if len(sites) == 1 else None
        return made.place, by.place if by else None

    def kept(self, node: Any) -> Iterator[SavedTensorRef]:
        """Yield the tensors that a node saved. For those that backward does not check, the expected version is the current one."""
        number, logged = self._found(node)
        site = self._site(number)
        for name, read, checked, _ in kept_by(node):
            tensor = read()
            if tensor is not None:
                expected = self._expected(node, name, tensor, logged) if checked else version_of(tensor)
                yield SavedTensorRef(node, name, tensor, site, logged, expected)

    def _expected(self, node: Any, name: str, tensor: torch.Tensor, clock: int) -> int | None:
        """Return the version that backward expects. In a list, it is that after the first modification since the save, minus one."""
        if "[" not in name:
            return saved_version(node, name, tensor)
        versions = [write.version for write in self._writes(tensor, clock) if write.version is not None]
        return versions[0] - 1 if versions else version_of(tensor)

    def harm(self, saved: SavedTensorRef, kind: HarmKind) -> Harm:
        """Return the Harm for a saved tensor."""
        writes = list(self._harmful(saved))
        sites = [site for write in writes if (site := self._site(write.site))]
        name = self._name(saved, sites)
        alias, places = self._alias(name, sites), [site.place for site in sites]
        if not sites:
            alias, places = self._foreign(saved)
        return Harm(
            name, tuple(dict.fromkeys(places)), alias,
            saved.site.place if saved.site else NOWHERE, type(saved.node).__name__, saved.expected, version_of(saved.tensor),
            True, None, kind.name, kind.sentence,
        )  # fmt: skip

    def _writes(self, tensor: torch.Tensor, clock: int) -> Iterator[NotedWrite]:
        storage = storage_of(elements_of(tensor))
        return (write for _, write in self.writes.since(clock, storage)) if storage is not None else iter(())

    def _harmful(self, saved: SavedTensorRef) -> Iterator[NotedWrite]:
        """Yield the modifications since the save, in order; if backward raises for the tensor, only those that increased its counter."""
        now = version_of(saved.tensor)
        if saved.expected is None or saved.expected == now:
            yield from (write for write in self._writes(saved.tensor, saved.clock) if not write.exposes)
            return
        last = saved.expected
        for write in self._writes(saved.tensor, saved.clock):
            if write.version is not None and last < write.version <= (now or 0):
                last = write.version
                yield write

    def _name(self, saved: SavedTensorRef, written: list[CallSite]) -> str:
        """Return a saved tensor's display name: a variable that still exists, else the expression in the source."""
        same_elements = functools.partial(_same_memory, is_ordered=True)
        name = find_name(saved.tensor, self.frames, same_elements) or find_name(saved.tensor, self.frames, _same_memory)
        name = name or (saved_expression(saved.site, saved.name) if saved.site else None)
        texts = [text for site in written if (text := written_expression(site)) and text.isidentifier()]
        return name or next(iter(texts), None) or f"{saved.name} of {type(saved.node).__name__}"

    def _alias(self, name: str, written: list[CallSite]) -> str | None:
        """Return the modified expression in the source, if it is another tensor than the one called `name`."""
        text = next((text for site in written if (text := written_expression(site))), None)
        if text is None or ("." in name and text.rpartition(".")[2] == name.rpartition(".")[2]):
            return None  # `self.codebook` in a method is `quantizer.codebook` in its caller
        values = [next((f.f_locals[path] for f in self.frames if path in f.f_locals), None) for path in (text, name)]
        return None if text == name or (values[0] is values[1] is not None) else text

    def _foreign(self, saved: SavedTensorRef) -> tuple[str | None, list[Place]]:
        """Return the variable of another library that shares the memory, and the lines that modify it, or the line that created it.

        Exposures since the save have priority over earlier ones, because batch norm modifies its running statistics
        immediately.
        """
        before = [write for write in self._writes(saved.tensor, 0) if write.exposes]
        exposures = [*before, *(write for write in self._writes(saved.tensor, saved.clock) if write.exposes)]
        for site in [site for write in reversed(exposures) if (site := self._site(write.site))]:
            name, lines = foreign_writes(site) or (None, [])
            return name, [site.place_at(line) for line in lines] or [site.place]
        return None, []

    def _site(self, number: int) -> CallSite | None:
        return None if number == UNKNOWN else self.sites.all[number]

    def _hidden(self, graph: list[Any]) -> tuple[CallSite, str] | None:
        """Return the call and the node name of a node whose saved tensors a checkpoint will recompute."""
        for node in reversed(graph):
            site = self._site(self._found(node)[0]) if hidden_in(node)[1] else None
            if site is not None:
                return site, type(node).__name__
        return None

    def _found(self, node: Any) -> tuple[int, int]:
        number = sequence_number(node)
        return next((place for log in self.nodes if (place := log.find(number))), (UNKNOWN, 0))

    def _unlogged(self, graph: list[Any], now: int, then: int, error: str) -> list[Harm]:
        """Return the harm for the first saved tensor in a list that matches the error, if its modification was not logged."""
        for node in graph:
            for kept in self.kept(node):
                fits = version_of(kept.tensor) == now and str(list(kept.tensor.shape)) in error
                if fits and "[" in kept.name:
                    return [self.harm(replace(kept, expected=then), COUNTED_WRITE)]
        return []

    def _by_version(self, now: int, then: int, hidden: tuple[CallSite, str] | None) -> list[Harm]:
        """Return the newest modifications that moved a counter from `then` to `now`, if no node shows its saved tensors (CopySlices)."""
        by_storage: dict[int, list[NotedWrite]] = {}
        for storage, write in self.writes.since(0):
            by_storage.setdefault(storage, []).append(write)
        for writes in reversed(by_storage.values()):
            after = [write for write in writes if write.version is not None and then < write.version <= now]
            sites = [site for write in after if (site := self._site(write.site))]
            if sites and after[-1].version == now:
                made = next((self._site(write.site) for write in writes if write.version == then), None)
                saved, node = hidden or (made or sites[0], "CopySlices")
                name = written_expression(sites[0]) or "a view written in place"
                places = tuple(dict.fromkeys(site.place for site in sites))
                kind = write_found_by_version
                return [Harm(name, places, None, saved.place, node, then, now, True, None, kind.name, kind.sentence)]
        return []


def _same_memory(left: torch.Tensor, right: torch.Tensor, *, is_ordered: bool = False) -> bool:
    """Return whether two tensors start at the same element of a storage and have equal sizes, like a weight and its transpose.

    `is_ordered` means that they also have the same elements in the same order.
    """
    try:
        same = left.numel() == right.numel() and left.storage_offset() == right.storage_offset()
        same = same and (not is_ordered or (left.shape == right.shape and left.stride() == right.stride()))
        return same and storage_of(left) is not None and storage_of(left) == storage_of(right)
    except (RuntimeError, NotImplementedError):
        return False
