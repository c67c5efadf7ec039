"""In which order the nodes of a graph were made."""

from __future__ import annotations

from typing import Any

import torch

_NEVER = (1 << 64) - 1  # the number of a leaf's own node, which is as old as the leaf (2.13)


def node_number(node: Any) -> int | None:
    """Returns a number that is higher for each node made later in the same thread; None for a leaf's own node.

    Where PyTorch tells none it is 0: then a graph counts as old as the program.
    """
    number = node._sequence_nr() if hasattr(node, "_sequence_nr") else 0
    return None if number == _NEVER else number


def next_node_number() -> int:
    """Returns the number of a node that is made now; it draws no random number and writes nothing."""
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        return node_number((torch.empty(0, device="cpu", requires_grad=True) * 1).grad_fn) or 0
