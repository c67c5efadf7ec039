"""Find the reason why a changed notebook cell cannot be run: it would use up objects of other cells."""

from __future__ import annotations

import ast

from autograder.locale.translations import in_english
from autograder.tape.run.graph_walk import node_of
from autograder.tape.run.snapshot import Snapshot


def obstacle_in_cell(source: str, space: dict) -> str | None:
    """Return the reason why no change of a cell can be run, as a sentence, or None if changes can be run.

    Backward frees the graph (docs.pytorch.org, `Tensor.backward`, `retain_graph`), so a trial would destroy a graph of
    another cell.
    """
    if "get_ipython()" in source:
        return in_english(
            "explain did not search for a fix: the cell contains a magic or a shell command, which every "
            "trial would run again."
        )
    for name in names_read(source):
        held = Snapshot((space[name],)).tensors if name in space else []
        if any(node_of(tensor) is not None for tensor in held):
            return in_english(
                "explain did not search for a fix: {name} has a graph from another cell, and a trial would free "
                "it. Put both cells into one.", name=name,
            )  # fmt: skip
    return None


def names_read(source: str) -> list[str]:
    """Return the names that a source may read before it binds them, in order."""
    read: dict[str, None] = {}
    bound: set[str] = set()
    for statement in ast.parse(source).body:
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        loaded = [node.id for node in names if isinstance(node.ctx, ast.Load) or isinstance(statement, ast.AugAssign)]
        read |= dict.fromkeys(name for name in loaded if name not in bound)
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            bound |= {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return list(read)
