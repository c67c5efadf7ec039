"""Record the nodes behind a tensor, their saved tensors, and the versions of these when they were saved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from autograder.tape.internals import tensor_fields
from autograder.tape.observe.memory_watcher import MemoryWatcher
from autograder.tape.observe.names import tensors_in
from autograder.tape.observe.nodes import GraphNode, TrackedSave
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor, WriteEvent
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import autograd_flags, node_of
from autograder.tape.run.storages import address_of, elements_of, extent_of, fingerprint


def kept_by(
    node: Any, near: tuple[torch.Tensor, ...] = ()
) -> Iterator[tuple[str, Callable[[], torch.Tensor | None], bool, bool]]:
    """Yield name, reader, whether versions are checked, and whether it is an attribute of ctx, for each saved tensor of a node.

    `near` are inputs of the operation. A reader returns None after the tensor was freed. Saved-tensor hooks disable the
    version check (torch 2.13).
    """
    for name, member in _members(node):
        tensor, read = member.data, partial(_raw, node, name)
        if tensor is tensor_fields.STALE:  # such as `b.mul_(b)`: the operation that saved the tensor also modified it
            tensor = tensor_fields.unchecked(node, name, near)
            read = partial(lambda value: value, tensor)
        if isinstance(tensor, torch.Tensor):
            yield name, read, member.unpack_hook is None, False
    if isinstance(node, torch.autograd.function.BackwardCFunction):
        for name, value in list(vars(node).items()):
            is_plain = isinstance(value, torch.Tensor | list | tuple | dict)
            for path, tensor in tensors_in(value, f"ctx.{name}", 1) if is_plain else ():
                yield path, partial(lambda value: value, tensor), False, True


def _members(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the states of the tensors that a node saved, each with its name, such as "self" or "tensors[1]"."""
    for name in tensor_fields.saved_names(type(node)):  # type: ignore[arg-type]
        saved = tensor_fields.saved_state(node, name)
        many = isinstance(saved, tuple | list)
        for index, part in enumerate(saved if many else (saved,)):
            if part is not None:
                yield f"{name}[{index}]" if many else name, part


def _member(node: Any, name: str) -> Any:
    attribute, _, index = name.partition("[")
    saved = tensor_fields.saved_state(node, attribute)
    return saved[int(index[:-1])] if index and saved is not None else saved


def has_hooks(node: Any, name: str) -> bool:
    """Return whether hooks were set on a saved tensor after it was saved, which disables its version check."""
    member = _member(node, name)
    return member is not None and member.unpack_hook is not None


def hidden_in(node: Any) -> tuple[dict[str, object], bool]:
    """Return the values that only hooks can convert to tensors, by name, and whether the hooks belong to `torch.utils.checkpoint`.

    `torch.utils.checkpoint` saves no tensor and recomputes it from inputs whose versions it checks (torch 2.13).
    """
    packed = {name: member for name, member in _members(node) if not isinstance(member.data, torch.Tensor | None)}
    checked = any(tensor_fields.is_checkpoint(member.unpack_hook) for member in packed.values())
    return {name: member.data for name, member in packed.items()}, checked


def shares_memory(tensor: torch.Tensor, packed: object) -> bool:
    """Return whether a packed value changes with its tensor: not if it contains only tensors with other memory."""
    place, packed_tensors = address_of(tensor), list(tensors(packed))
    return not packed_tensors or place in map(address_of, packed_tensors)


def _raw(node: Any, name: str) -> torch.Tensor | None:
    member = _member(node, name)
    return member.data if member is not None and isinstance(member.data, torch.Tensor) else None


def saved_version(node: object, name: str, tensor: torch.Tensor) -> int | None:
    """Return the version of a tensor when it was saved: the current one if backward accepts it, else the one that backward expects."""
    expected = None if "[" in name else tensor_fields.expected_version(node, name)
    return tensor_fields.version_of(tensor) if expected is None else expected


class Links:
    """Adds tensors and nodes to the tables when they first appear."""

    def __init__(self, state: RunState, watcher: MemoryWatcher):
        self.state, self.watcher = state, watcher

    def track(
        self, tensor: torch.Tensor, by: str | None = None, sources: tuple[TrackedTensor, ...] = (), *, link: bool = True
    ) -> TrackedTensor:
        """Return the tracked data of a tensor, which is added to the table if it is new."""
        state = self.state
        tracked_before = state.tensors.get(tensor)
        if tracked_before is not None:
            return tracked_before
        count = len(state.tensors.all)
        tracked = state.tensors.add(tensor, by, sources)
        for new in state.tensors.all[count:]:
            state.thread.step.tensors.append(new.id)
            new.step, new.unrecorded = state.steps, not torch.is_grad_enabled()
            state.thread.step.touch(new)
            self.watcher.begin(new.memory)
        if by is None and (tracked.leaf or not tracked.requires_grad):
            state.flow.add_new_leaf(tracked, state.here())
        if link and autograd_flags(tensor)[0]:
            self.link(tracked, tensor, sources)
        return tracked

    def link(self, tracked: TrackedTensor, tensor: torch.Tensor, sources: tuple[TrackedTensor, ...] = ()) -> None:
        """Add the node that created a tensor from `sources`, and all nodes below it."""
        state, node = self.state, node_of(tensor)
        if node is None:
            tracked.node = None
            return
        self.watcher.reach(tracked.memory)
        graph_node = state.graph.of.get(node)
        if graph_node is None:
            if state.graph.saved_bytes > state.graph.limit or self.watcher.has_many_foreign:
                state.graph.sweep([tracked.node for tracked in state.tensors.of.values() if tracked.node is not None])
                self.watcher.forget_released()
            for new in state.graph.grow(node, state.here(), state.scope(), state.steps):
                self._new_node(new, tracked if new.node is node else None, sources)
            graph_node = state.graph.of[node]
            graph_node.tensor = tracked.id
            state.roots.add(graph_node, tracked)
        if tracked.node != graph_node.id:
            tracked.node = graph_node.id
            state.thread.step.touch(tracked)

    def _new_node(self, node: GraphNode, made: TrackedTensor | None, sources: tuple[TrackedTensor, ...]) -> None:
        self.state.thread.step.nodes.append(node.id)
        self.state.roots.consume(node)
        variable = getattr(node.node, "variable", None)
        if variable is not None:
            node.tensor = self.track(variable).id
        near = tuple(tensor for tracked in sources if (tensor := tracked.ref()) is not None)
        for name, read, checked, is_on_ctx in kept_by(node.node, near):
            tensor = read()
            if tensor is not None:
                self._keep(node, name, read, tensor, checked, is_on_ctx, made)
        hidden, checked = hidden_in(node.node)
        unknown = [name for name, packed in hidden.items() if not self._unpacked(node, name, packed, made)]
        for tracked in dict.fromkeys(sources if unknown else ()):
            tensor = tracked.ref()
            if tensor is not None:
                self._keep(node, ", ".join(unknown), weakref.ref(tensor), tensor, checked, True, made)

    def _unpacked(self, node: GraphNode, name: str, packed: object, made: TrackedTensor | None) -> bool:
        """Return whether the tensor that a hook packed is known. If the packed value shares its memory, the node keeps it."""
        tensor = next((given for given, result in reversed(self.state.thread.packed) if result is packed), None)
        if tensor is not None and shares_memory(tensor, packed):
            of = node.node
            self._keep(node, name, lambda: tensor if name in hidden_in(of)[0] else None, tensor, False, False, made)
        return tensor is not None

    def _keep(
        self,
        node: GraphNode,
        name: str,
        saved: Any,
        tensor: Any,
        checked: bool,
        is_on_ctx: bool,
        made: TrackedTensor | None,
    ) -> None:
        state = self.state
        known, elements = state.tensors.get(tensor), elements_of(tensor)
        memory = known.memory if known and elements is tensor else state.memories.of(elements)
        memory.live_tensors.append(saved if isinstance(saved, weakref.ref) else weakref.ref(tensor))
        self.watcher.begin(memory, always=True)
        self.watcher.reach(memory)
        now = tensor_fields.version_of(tensor)
        version = saved_version(node.node, name, tensor) if checked and not is_on_ctx else now
        save = TrackedSave(
            len(state.graph.saves), node, name, saved, saved if isinstance(saved, weakref.ref) else tensor, memory,
            *(extent_of(elements) if memory.size else (0, 0)), version, checked, is_on_ctx, fingerprint(elements, memory),
            memory.generation, version_now=now, used=tensor_fields.is_read(node.node, name),
            writes_before=len(state.writes),
        )  # fmt: skip
        state.graph.keep(save)
        owner = known or self._owner(save, now, made)
        save.tensor = owner.id if owner else None
        counter = owner.counter if owner else state.tensors.new_counter(now)
        save.counter = counter.id
        counter.valid.append(save)
        memory.saves.append(save)
        if not is_on_ctx:
            state.thread.step.saved.append(save)
        if save.stale:  # such as `b.mul_(b)`: the operation that saved the tensor also modified it
            last = self.state.writes[-1] if self.state.writes else None
            if last is None or last.memory is not save.memory:
                last = self._unrecorded_write(save)
            save.writes_before, save.changed = last.index, last.changed
            last.harmed.append(save)
            self.state.graph.mark_invalid(save, self.state.steps)

    def _unrecorded_write(self, save: TrackedSave) -> WriteEvent:
        """Return a modification in the current line that no function mode received: by a scripted function, or under `torch.vmap`."""
        state = self.state
        write = WriteEvent(
            len(state.writes), state.here(), "unseen", save.memory, save.start, save.stop, (save.counter,), True, None,
            version=save.version_now, call=state.calls,
        )  # fmt: skip
        state.writes.append(write)
        state.thread.step.writes.append(write)
        return write

    def _owner(self, save: TrackedSave, version: int | None, made: TrackedTensor | None) -> TrackedTensor | None:
        """Return a known tensor with the saved tensor's bytes and counter, because each read of a saved output creates a new object."""
        for tracked in ([made] if made and made.memory is save.memory else []) + self.state.tensors.at(save.memory):
            if (tracked.start, tracked.stop) == (save.start, save.stop) and tracked.counter.version == version:
                return tracked
        return None
