"""Names in sentences: of tensors, of the layers that nodes belong to, and of what a statement bound and unbound."""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Iterator, Sequence

from autograder.locale.translations import join_names, join_sentences, translatable, translated
from autograder.tape.recording.schema import NameChange, Node, Recording, Step
from autograder.view.playback import Playback

TRANSPOSE_NODES = ("T", "Transpose")
"""The beginnings of the names of nodes that only transpose a weight before a multiplication."""


def layer_names(recording: Recording) -> dict[int, str]:
    """Return, for each node that uses a module's parameters, the module's name: "critic.0" for `critic.0.weight`."""
    nodes = {node.id: node for node in recording.nodes}
    owners = _owners(recording)
    names = {node.id: _layer(node, nodes, owners) for node in recording.nodes}
    return {node: name for node, name in names.items() if name}


def module_paths(nodes: Sequence[Node], layers: dict[int, str]) -> dict[int, tuple[str, ...]]:
    """Return the names of the modules around each node, such as ("model", "blocks", "0"); an empty dictionary without modules.

    A node that uses no parameter belongs to the module that contains the previous layer, or to a more distant one if
    fewer calls are around it.
    """
    paths: dict[int, tuple[str, ...]] = {}
    path: tuple[str, ...] = ()
    depth = 0
    for node in nodes if layers else ():
        if node.id in layers:
            path, depth = tuple(layers[node.id].split(".")), len(node.scope)
            paths[node.id] = path
        else:
            paths[node.id] = path[: max(len(path) - 1 + len(node.scope) - depth, 0)]
    return paths


def _owners(recording: Recording) -> dict[int, str]:
    """Return each parameter's full name; of several, the first one outside of `self`, in the outermost function."""
    owners: dict[int, tuple[bool, int, str]] = {}
    for step in recording.steps:
        for change in step.names:
            module = change.name.rpartition(".")[0]
            if change.tensor is not None and module:
                new = module.startswith("self"), step.depth, change.name
                owners[change.tensor] = min(owners.get(change.tensor, new), new, key=operator.itemgetter(0, 1))
    paths = {tensor.id: tensor.path for tensor in recording.tensors if isinstance(tensor.path, str)}
    return {tensor: name for tensor, (_, _, name) in owners.items()} | paths


def _layer(node: Node, nodes: dict[int, Node], owners: dict[int, str]) -> str:
    """Return the module with all parameters that a node is given, as they are or transposed; "" without one.

    A line that reads the parameter of another module, as `self.table.weight / 2`, is not in that module.
    """
    if node.name.startswith(TRANSPOSE_NODES):
        return ""
    leaves = (source.tensor for source in _sources(node, nodes) if source.name.endswith("AccumulateGrad"))
    names = [owners[leaf].rpartition(".") for leaf in leaves if leaf in owners]
    code = node.place.text if node.place is not None else ""
    if any(re.search(rf"(?<!\bself)\.{re.escape(name)}\b", code) for _, _, name in names):
        return ""
    paths = [module.split(".") for module, _, _ in names]
    shared = itertools.takewhile(lambda parts: len({*parts}) == 1, zip(*paths, strict=False))
    return ".".join(parts[0] for parts in shared)


def _sources(node: Node, nodes: dict[int, Node]) -> Iterator[Node]:
    for near in (nodes[number] for number in node.inputs if number is not None):
        yield near
        if near.name.startswith(TRANSPOSE_NODES):
            yield from (nodes[number] for number in near.inputs if number is not None)


NAMELESS = translatable("a tensor without a name")

MAX_NAMES = 3  # the maximum number of things of one kind in a sentence


def join_few(things: list[str], most: int = MAX_NAMES) -> str:
    """Return the joined names; of more than `most` + 1, the first ones and the number of others: "a, b, c and 5 more"."""
    more = len(things) - most
    return join_names([*things[:most], translated("{count} more", count=more)] if more > 1 else things)


def count_noun(count: int, singular: str, plural: str, **values: object) -> str:
    """Return one of two translated texts, depending on a number, such as "{count} node" and "{count} nodes"."""
    return translated(singular if count == 1 else plural, count=count, **values)


class TensorNames:
    """The names of tensors after the last played frame."""

    def __init__(self, playback: Playback):
        self.playback = playback

    def name(self, tensor: int | None) -> str:
        """Return a tensor's name for a sentence: a variable, "d.data", "a view of d", or NAMELESS."""
        if tensor is None or tensor not in self.playback.tensors:
            return translated(NAMELESS)
        first, *others = self._called(tensor) or [self._nearby(tensor)]
        return translated("{name} (also {others})", name=first, others=join_names(others)) if others else first

    def short(self, tensor: int | None) -> str:
        """Return a single name of a tensor, to which ".grad" or ".data" can be appended."""
        if tensor is None or tensor not in self.playback.tensors:
            return translated(NAMELESS)
        return (self._called(tensor) or [self._nearby(tensor)])[0]

    def label(self, tensor: int | None) -> str:
        """Return all names of a tensor, as a picture shows them; "(no name)" for a tensor without a name."""
        last_names = self.playback.last_names.get(tensor) if tensor is not None else None
        name = last_names or self.name(tensor)
        return translated("(no name)") if name == translated(NAMELESS) else name

    def has_name(self, tensor: int) -> bool:
        """Return whether a program can refer to a tensor by a variable, or as `.data` of one."""
        is_data = self.playback.tensors[tensor].alias_of == "data"
        return bool(self._called(tensor)) or (is_data and self._owner(tensor) is not None)

    def _called(self, tensor: int) -> list[str]:
        """Return the names of a tensor; only one if all are paths such as "self.fc.weight"."""
        last_names = self.playback.last_names.get(tensor)
        names = last_names.split(", ") if last_names else []
        return names[-1:] if all("." in name for name in names) else names

    def _owner(self, tensor: int) -> str | None:
        """Return the name of a tensor with the same memory, or None."""
        near = sorted(self.playback.in_storage.get(self.playback.tensors[tensor].storage, ()))
        return next((self.short(other) for other in near if self.playback.last_names.get(other)), None)

    def _nearby(self, tensor: int) -> str:
        """Return a name for a tensor without a name, from the memory that it shares."""
        owner = self._owner(tensor)
        if owner is None:
            return translated(NAMELESS)
        is_data = self.playback.tensors[tensor].alias_of == "data"
        return f"{owner}.data" if is_data else translated("a view of {owner}", owner=owner)

    def in_storage(self, storage: int) -> list[str]:
        """Return the variables whose tensors share a storage."""
        tensors, names = self.playback.tensors, self.playback.names
        return [name for name, tensor in names.items() if tensors[tensor].storage == storage]

    def describe_changes(self, step: Step) -> list[str]:
        """Return the sentences about the names that a statement bound and unbound.

        Attributes of one object, such as a module's parameters, share a sentence without values; the picture shows the
        values.
        """
        bound = [change for change in step.names if change.tensor is not None]
        unbound = [change.name for change in step.names if change.tensor is None]
        holders: dict[str, list[NameChange]] = {}
        for change in bound:
            root = change.name.partition(".")[0]
            holders.setdefault(root if root != change.name else f"{root}.", []).append(change)
        sentences = [
            self._value(held[0], step)
            if len(held) == 1
            else translated("{root} now contains {names}.", root=root, names=join_few([change.name for change in held]))
            for root, held in holders.items()
        ]
        if unbound:
            gone = count_noun(
                len(unbound), "{name} no longer refers to a tensor; the graph keeps its saved tensors.",
                "{names} no longer refer to tensors; the graph keeps its saved tensors.",
                name=unbound[0], names=join_few(unbound),
            )  # fmt: skip
            sentences.append(gone)
        return sentences

    def _value(self, change: NameChange, step: Step) -> str:
        """Return the sentence about one variable: its values and, for a new tensor, the shared memory and counter."""
        assert change.tensor is not None
        state, new = self.playback.states.get(change.tensor), change.tensor in step.tensors
        values = (state and state.values) or translated("a tensor")  # a tensor inside vmap has no values
        if not new:
            return translated("{name} now names {values}.", name=change.name, values=values)
        sentence = translated("{name} is {values}.", name=change.name, values=values)
        return join_sentences([sentence, self._shares(change.name, change.tensor)])

    def _shares(self, name: str, tensor: int) -> str:
        """Return the sentence about the memory and the counter that a new tensor shares; "" if it shares neither."""
        known = self.playback.tensors[tensor]
        others = [other for other in self.in_storage(known.storage) if other != name]
        if not others:
            return ""
        same = [other for other in others if self.playback.tensors[self.playback.names[other]].counter == known.counter]
        if same:
            return translated("It shares memory and version counter with {names}.", names=join_names(same))
        return translated("It shares memory with {names}, but has its own version counter.", names=join_names(others))
