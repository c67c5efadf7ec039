"""Samples of saved tensors, to detect changes that version counters do not show (`check="bytes"`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from autograder.tape.internals.mode_stack import FIRST, dispatch_modes, sequence_number
from autograder.tape.internals.saved_variables import is_read
from autograder.tape.internals.tensor_fields import has_values, unheard
from autograder.tape.observe.graph.saved_tensors import kept_by
from autograder.tape.run.function_mode import tensors
from autograder.tape.run.graph_walk import node_of, nodes_below

SAMPLED = 4096
"""Maximum number of sampled elements of a saved tensor.

Larger tensors are sampled on an even grid, with gaps in the detection.
"""
_KEY = "autograder: samples of what was saved"


def keep_samples(result: object, before: int) -> None:
    """Store samples of the tensors that a call's new nodes saved. Nodes older than `before` already have samples.

    The samples are in the `metadata` of the node, so they are freed with it, and they are copies.
    """
    if dispatch_modes():
        return
    with unheard(), torch.no_grad():
        for node in _new_nodes(result, before):
            if _KEY not in node.metadata:
                node.metadata[_KEY] = {name: sampled(tensor) for name, tensor in _kept(node)}


def _new_nodes(result: object, before: int) -> Iterator[Any]:
    stack = [node for tensor in tensors(result) if (node := node_of(tensor)) is not None]
    while stack:
        node = stack.pop()
        if before <= sequence_number(node) < FIRST and _KEY not in node.metadata:
            yield node
            stack += [below for below, _ in node.next_functions if below is not None]


def _kept(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the saved tensors of a node that backward will read, including those of hooks and of custom Functions.

    Values that a pack hook converted to another type are skipped, and so are tensors without data.
    """
    for name, read, _, _ in kept_by(node):
        tensor = read() if is_read(node, name) else None
        if tensor is not None and tensor.layout == torch.strided and has_values(tensor):
            yield name, tensor


def sampled(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy, on the same device, of at most SAMPLED elements, evenly spaced in each dimension."""
    steps = [1] * tensor.dim()
    sizes = list(tensor.shape)
    while torch.Size(sizes).numel() > SAMPLED:
        widest = max(range(len(sizes)), key=sizes.__getitem__)
        steps[widest] *= 2
        sizes[widest] = -(-tensor.shape[widest] // steps[widest])
    grid = tensor.detach()[tuple(slice(None, None, step) for step in steps)]
    return grid.clone(memory_format=torch.contiguous_format)


def changed_saves(roots: tuple, asked: tuple) -> Iterator[tuple[Any, str]]:
    """Yield the node and the name of each saved tensor whose sampled elements changed after it was saved."""
    if dispatch_modes():
        return
    with unheard(), torch.no_grad():
        for node in nodes_below(roots, asked):
            kept: dict[str, torch.Tensor] = node.metadata.get(_KEY, {}) if sequence_number(node) < FIRST else {}
            for name, tensor in _kept(node) if kept else ():
                if name in kept and not _equal(kept[name], sampled(tensor)):
                    yield node, name


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are bitwise equal, so that NaN equals NaN."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
