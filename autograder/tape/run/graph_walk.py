"""Find the nodes that a backward would visit, and the leaves that it would fill."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from autograder.tape.internals.tensor_fields import base_of


def node_of(root: Any) -> Any:
    """Return the `grad_fn` of a tensor, or the node of a gradient edge, or None for a leaf."""
    try:
        return root.grad_fn if isinstance(root, torch.Tensor) else root.node
    except RuntimeError:  # a view made under no_grad has no readable node after its base was modified with grad enabled
        return None


def autograd_flags(tensor: torch.Tensor) -> tuple[bool, bool]:
    """Return whether a tensor requires grad, and whether it is a leaf."""
    try:
        # A view made under no_grad claims to be a leaf that requires grad, like its base (PyTorch 2.13), but receives
        # no `.grad`.
        base = base_of(tensor)
        borrowed = base is not None and base.requires_grad and tensor.requires_grad and tensor.grad_fn is None
        return tensor.requires_grad, tensor.is_leaf and not borrowed
    except RuntimeError:  # the same kind of view: not a leaf, and its node cannot be read
        return True, False


def nodes_below(roots: tuple[Any, ...], asked: tuple[Any, ...] = ()) -> list[Any]:
    """Return the nodes that backward would visit from these tensors or gradient edges, without duplicates, in a fixed order.

    With `asked` (the `inputs` of `autograd.grad`), return only nodes that lead to one of them.
    """
    stack = [node for node in map(node_of, roots) if node is not None]
    nodes = dict.fromkeys(stack)
    while stack:
        for node, _ in stack.pop().next_functions:
            if node is not None and node not in nodes:
                nodes[node] = None
                stack.append(node)
    return _leading_to(asked, list(nodes)) if asked else list(nodes)


def _leading_to(asked: tuple[Any, ...], nodes: list[Any]) -> list[Any]:
    leads = {tensor.grad_fn for tensor in asked if tensor.grad_fn is not None}
    leaves = {id(tensor) for tensor in asked}
    leads |= {node for node in nodes if id(getattr(node, "variable", None)) in leaves}
    consumers: dict[Any, Any] = {}
    for node in nodes:
        for below, _ in node.next_functions:
            consumers.setdefault(below, []).append(node)
    # The engine stops at `inputs` and does not run the nodes that created them.
    stack, needed = [above for node in leads for above in consumers.get(node, ())], set()
    while stack:
        node = stack.pop()
        if node not in needed:
            needed.add(node)
            stack.extend(consumers.get(node, ()))
    return [node for node in nodes if node in needed]


def leaves_among(roots: tuple[Any, ...], nodes: Iterable[Any]) -> list[torch.Tensor]:
    """Return the leaves among the roots, and those that the nodes fill."""
    leaves = [root for root in roots if isinstance(root, torch.Tensor) and root.is_leaf and root.requires_grad]
    return leaves + [node.variable for node in nodes if hasattr(node, "variable")]
