"""The forms of one line: a write in place, through `.data`, through `.detach()`, or out of place; an alias or a copy."""

from __future__ import annotations

import ast

import torch

from autograder.play.cards import FormName, LineForm
from autograder.tape.repair.kinds.out_of_place import MAKERS, chain, drop_underscores, expand_operator, made
from autograder.tape.repair.source.edits import EditableSource, insert
from autograder.tape.repair.source.inplace_finder import InPlaceWrite, called, find_writes

METHODS = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_", ast.Pow: "pow_"}
MODULES = {"torch", "F", "nn"}  # `torch.relu_(h)` modifies h, but is not a method of it
DETOURS = {"data": ".data", "detach": ".detach()"}
ALIAS_FORMS: tuple[tuple[FormName, str], ...] = (
    (".data", ".data"),
    (".detach()", ".detach()"),
    ("the tensor itself", ""),
    ("a copy", ".clone()"),
)


def forms_of(text: str) -> tuple[LineForm, ...]:
    """Return the forms of a statement, the original first; only the original if it cannot be switched."""
    source = EditableSource(text)
    statement = source.tree.body[0]
    found = _forms_of_alias(source, statement) or _forms_of_write(text)
    written = next((form for form in found if form.text == text), LineForm("as written", text))
    others = [form for form in found if form.text != text and _is_python(form.text)]
    return (written, *others) if others else (LineForm("as written", text),)


def _forms_of_alias(source: EditableSource, statement: ast.stmt) -> list[LineForm]:
    """Return the forms of `y = x.data` and `y = x.detach()`, [] for any other statement."""
    if not isinstance(statement, ast.Assign):
        return []
    value = statement.value
    if isinstance(value, ast.Call) and not value.args and called(value) == "detach":
        value = value.func
    if not (isinstance(value, ast.Attribute) and value.attr in DETOURS and isinstance(value.value, ast.Name)):
        return []
    start = source.data[: source.span(statement.value)[0]].decode()
    return [LineForm(name, f"{start}{value.value.id}{suffix}") for name, suffix in ALIAS_FORMS]


def _forms_of_write(text: str) -> list[LineForm]:
    """Return the four forms of the single write in a statement, [] if it has no write or several."""
    plain = _without_detour(text)
    source = EditableSource(plain)
    statement = source.tree.body[0]
    writes = [write for write in find_writes(source, statement) if source.of(write.root) not in MODULES]
    if len(writes) != 1 or set(writes[0].path) - {"[]"}:
        return []
    write = writes[0]
    through = source.apply([insert(source, write.root, ".data", after=True)])
    forms: list[tuple[FormName, str | None]] = [
        ("in place", plain),
        (".data", through),
        (".detach()", _through_detach(source, write)),
        ("out of place", _out_of_place(source, write)),
    ]
    return [LineForm(name, form) for name, form in forms if form]


def _without_detour(text: str) -> str:
    """Return a write through `x.data` or `x.detach()` as a write into `x` itself."""
    source = EditableSource(text)
    writes = list(find_writes(source, source.tree.body[0]))
    if len(writes) != 1 or writes[0].path[:1] not in (("data",), ("detach",)):
        return text
    root = source.of(writes[0].root)
    return text.replace(root + DETOURS[writes[0].path[0]], root, 1)


def _through_detach(source: EditableSource, write: InPlaceWrite) -> str | None:
    """Return the write through `.detach()`, as a method because `x.detach() += 1` is not valid Python."""
    if isinstance(write.node, ast.AugAssign) and not write.path:
        method = METHODS.get(type(write.node.op))
        return method and f"{source.of(write.root)}.detach().{method}({source.of(write.node.value)})"
    return source.apply([insert(source, write.root, ".detach()", after=True)])


def _out_of_place(source: EditableSource, write: InPlaceWrite) -> str | None:
    """Return the statement with the result in new memory, bound to the name; an item is written into a copy."""
    name = source.of(write.root)
    if write.path:
        return f"{name} = {name}.clone()\n{source.text}"
    if isinstance(write.node, ast.AugAssign):
        return source.apply(expand_operator(source, write.node))
    methods = [called(call) for call in chain(write.node) if called(call).endswith("_")]
    if any(method in MAKERS for method in methods):
        return source.apply(made(source, write)) if made(source, write) else None
    if not all(hasattr(torch.Tensor, method[:-1]) for method in methods):
        return None
    edits = drop_underscores(source, write)
    alone = isinstance(write.statement, ast.Expr) and write.statement.value is write.node
    return source.apply([insert(source, write.node, f"{name} = "), *edits] if alone else edits)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
