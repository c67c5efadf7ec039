"""Which statements write into existing memory, as far as the text shows; only a run can tell."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from autograder.tape.repair.source.edits import EditableSource

# Steps from a tensor to another object on the same memory (torch 2.13, docs "Tensor Views"): a write there writes the tensor.
ALIASES = {"data", "T", "mT", "H", "real", "imag"}
VIEWS = {
    "detach", "view", "view_as", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "select", "narrow", "flatten",
    "diagonal", "t", "expand", "expand_as", "unfold", "movedim", "swapaxes", "numpy", "alias", "cpu", "contiguous", "as_strided",
    "unflatten", "swapdims", "unbind", "chunk", "split", "untyped_storage", "storage",
}  # fmt: skip
NO_WRITES = {"requires_grad_", "share_memory_"}


@dataclass(frozen=True)
class InPlaceWrite:
    """One write found in the text.

    Attributes:
        statement: the statement that holds it.
        node: the call or statement that writes.
        target: the expression written into, such as `b[0]`.
        root: the name (or `self.name`) under which its memory is held, such as `b`.
        path: the steps from root to target, such as ("[]",) or ("data",).
    """

    statement: ast.stmt
    node: Any  # ast.Assign, ast.AugAssign or ast.Call, told apart where it is used
    target: Any
    root: ast.expr
    path: tuple[str, ...]

    @property
    def is_method(self) -> bool:
        """Whether it is a call such as `x.add_(1)`."""
        return isinstance(self.node, ast.Call)


def find_writes(source: EditableSource, statement: ast.stmt) -> Iterator[InPlaceWrite]:
    """Yields the writes that stand in the statement itself, not in the blocks below it."""
    for node, target in targets(source, statement):
        root, path = trace(target)
        if root is not None:
            yield InPlaceWrite(statement, node, target, root, path)


def targets(source: EditableSource, statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Yields each writing node and what it writes into."""
    if isinstance(statement, ast.AugAssign):
        yield statement, statement.target
    if isinstance(statement, ast.Assign):
        yield from ((statement, one) for one in statement.targets if isinstance(one, ast.Subscript) or is_data(one))
    for call in calls(statement):
        name = called(call)
        if not name.endswith("_") or name.startswith("_") or name.endswith("__") or name in NO_WRITES:
            continue
        if of_module(source, call):
            yield from ((call, one) for one in call.args[:1])
        elif isinstance(call.func, ast.Attribute):
            yield call, call.func.value


def trace(target: ast.expr) -> tuple[ast.expr | None, tuple[str, ...]]:
    """Returns the name at the bottom of an expression and the steps up from it; None where a computed value stands there."""
    steps: list[str] = []
    node = target
    while True:
        if isinstance(node, ast.Subscript):
            steps.append("[]")
            node = node.value
        elif isinstance(node, ast.Attribute) and node.attr in ALIASES:
            steps.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and passes_on(called(node)):
            steps.append(called(node))
            node = node.func.value
        else:
            return (node if is_path(node) else None), tuple(reversed(steps))


def passes_on(method: str) -> bool:
    """Whether the method returns a tensor in the memory of the one it is called on: a view, or an in-place method."""
    return method in VIEWS or (method.endswith("_") and not method.startswith("_"))


def is_path(node: ast.expr) -> bool:
    """Whether the expression is a name or attributes of one, something that can be assigned to."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def is_data(node: ast.expr) -> bool:
    """Whether it is `something.data`."""
    return isinstance(node, ast.Attribute) and node.attr == "data"


def calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yields the calls in the statement, without those in the blocks below it."""
    for part in parts(statement):
        yield from (node for node in ast.walk(part) if isinstance(node, ast.Call))


def parts(statement: ast.AST) -> Iterator[ast.expr]:
    """Yields the expressions of the statement's own line: all of a simple statement, the header of a compound one."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


def called(call: ast.Call) -> str:
    """Returns the last name of what is called, such as "add_" for `x.add_(1)`."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def of_module(source: EditableSource, call: ast.Call) -> bool:
    """Whether the function called belongs to an imported module (`torch.relu_(x)`), not to a tensor (`x.relu_()`)."""
    node: ast.expr = call.func
    if isinstance(node, ast.Name):
        return True
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in imported(source)


def imported(source: EditableSource) -> set[str]:
    """Returns the names that the text imports."""
    statements = [node for node in ast.walk(source.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {(one.asname or one.name).split(".")[0] for node in statements for one in node.names}
