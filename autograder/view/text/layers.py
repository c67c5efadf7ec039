"""The layers of a model: for each node, the module whose parameters it uses."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence

from autograder.tape.recording.schema import Node, Recording

TURNS = ("T", "Transpose")
"""The beginnings of the names of nodes that only transpose a weight before a multiplication."""


def layer_names(recording: Recording) -> dict[int, str]:
    """Return, for each node that uses a module's parameters, the module's name: "critic.0" for `critic.0.weight`."""
    nodes = {node.id: node for node in recording.nodes}
    owners = _owners(recording)
    found = {node.id: _layer(node, nodes, owners) for node in recording.nodes}
    return {node: name for node, name in found.items() if name}


def module_paths(nodes: Sequence[Node], layers: dict[int, str]) -> dict[int, tuple[str, ...]]:
    """Return the names of the modules around each node, such as ("model", "blocks", "0"); an empty dictionary without modules.

    A node that uses no parameter belongs to the module that contains the previous layer, or to a more distant one if
    fewer calls are around it.
    """
    found: dict[int, tuple[str, ...]] = {}
    path: tuple[str, ...] = ()
    depth = 0
    for node in nodes if layers else ():
        if node.id in layers:
            path, depth = tuple(layers[node.id].split(".")), len(node.scope)
            found[node.id] = path
        else:
            found[node.id] = path[: max(len(path) - 1 + len(node.scope) - depth, 0)]
    return found


def _owners(recording: Recording) -> dict[int, str]:
    """Return each parameter's module; of several names, the first one outside of `self`, in the outermost function."""
    owners: dict[int, tuple[bool, int, str]] = {}
    for step in recording.steps:
        for change in step.names:
            module = change.name.rpartition(".")[0]
            if change.tensor is not None and module:
                new = module.startswith("self"), step.depth, module
                owners[change.tensor] = min(owners.get(change.tensor, new), new, key=operator.itemgetter(0, 1))
    paths = {one.id: one.path.rpartition(".")[0] for one in recording.tensors if isinstance(one.path, str)}
    return {tensor: module for tensor, (_, _, module) in owners.items()} | paths


def _layer(node: Node, nodes: dict[int, Node], owners: dict[int, str]) -> str:
    """Return the module of the first parameter that a node is given, as it is or transposed; "" without a parameter."""
    if node.name.startswith(TURNS):
        return ""
    leaves = (one.tensor for one in _sources(node, nodes) if one.name.endswith("AccumulateGrad"))
    return next((owners[leaf] for leaf in leaves if leaf in owners), "")


def _sources(node: Node, nodes: dict[int, Node]) -> Iterator[Node]:
    for near in (nodes[one] for one in node.inputs if one is not None):
        yield near
        if near.name.startswith(TURNS):
            yield from (nodes[one] for one in near.inputs if one is not None)
