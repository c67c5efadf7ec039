"""Programs for the playground, from a source text, a function, or lines to put in order."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator

import torch

from autograder.check.playground.arrangement import FormName, LineCard, LineForm, PlayProgram
from autograder.errors import InputError
from autograder.tape.repair.code_reader import InPlaceWrite, called, find_writes
from autograder.tape.repair.edits import EditableSource
from autograder.tape.repair.kinds.out_of_place import MAKERS, chain, drop_underscores, expand_operator, made

METHODS = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_", ast.Pow: "pow_"}
MODULES = {"torch", "F", "nn"}  # `torch.relu_(h)` modifies h, but is not a method of it
ALIAS_SUFFIXES = {"data": ".data", "detach": ".detach()"}
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
    forms = _forms_of_alias(source, statement) or _forms_of_write(text)
    written = next((form for form in forms if form.text == text), LineForm("as written", text))
    others = [form for form in forms if form.text != text and _is_python(form.text)]
    return (written, *others) if others else (LineForm("as written", text),)


def _forms_of_alias(source: EditableSource, statement: ast.stmt) -> list[LineForm]:
    """Return the forms of `y = x.data` and `y = x.detach()`, [] for any other statement."""
    if not isinstance(statement, ast.Assign):
        return []
    value = statement.value
    if isinstance(value, ast.Call) and not value.args and called(value) == "detach":
        value = value.func
    if not (isinstance(value, ast.Attribute) and value.attr in ALIAS_SUFFIXES and isinstance(value.value, ast.Name)):
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
    through = source.apply([source.insert(write.root, ".data", after=True)])
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
    return text.replace(root + ALIAS_SUFFIXES[writes[0].path[0]], root, 1)


def _through_detach(source: EditableSource, write: InPlaceWrite) -> str | None:
    """Return the write through `.detach()`, as a method because `x.detach() += 1` is not valid Python."""
    if isinstance(write.node, ast.AugAssign) and not write.path:
        method = METHODS.get(type(write.node.op))
        return method and f"{source.of(write.root)}.detach().{method}({source.of(write.node.value)})"
    return source.apply([source.insert(write.root, ".detach()", after=True)])


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
    edits = drop_underscores(source, write.node)
    alone = isinstance(write.statement, ast.Expr) and write.statement.value is write.node
    return source.apply([source.insert(write.node, f"{name} = "), *edits] if alone else edits)


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class Unplayable(InputError):
    """The program has no lines that can be moved; the message gives the reason."""


def program_from_text(name: str, text: str, before: Iterable[str] = ()) -> PlayProgram:
    """Return the program whose lines are the statements of a text; those in `before`, which create its inputs, keep their place.

    Raises:
        Unplayable: the text is not Python, or has fewer than two statements.
    """
    fixed = [LineCard(f"{number}", (LineForm("as written", line),), True) for number, line in enumerate(before)]
    lines = list(statements(text, name))
    if len(lines) < 2:
        raise Unplayable.of(
            "play.too_few_lines|{name} has fewer than two lines, so no line can be moved. Give a longer program.",
            name=name,
        )
    cards = [LineCard(f"{number}", forms_of(line)) for number, line in enumerate(lines, len(fixed))]
    return PlayProgram(name, (*fixed, *cards))


def program_from_function(name: str, source: str, before: Iterable[str] = ()) -> PlayProgram:
    """Return the program in a function's body; backward starts from the returned value, unless the body calls backward itself.

    Decorators and the docstring are omitted; the statements in `before` create the arguments.

    Raises:
        Unplayable: the text is not a function, or its body has fewer than two statements.
    """
    tree = _parsed(textwrap.dedent(source), name)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise Unplayable.of(
            "play.not_a_function|{name} is not a function, so it has no lines that can be moved. Name a function.",
            name=name,
        )
    body = function.body[1:] if ast.get_docstring(function) else function.body
    lines = textwrap.dedent(source).splitlines()
    text = textwrap.dedent("\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno]) if body else "")
    if ".backward(" in text and isinstance(body[-1], ast.Return):
        text = "\n".join(text.splitlines()[: body[-1].lineno - body[0].lineno])
    return program_from_text(name, text, before)


def program_from_lines(name: str, lines: Iterable[str], header: str = "", before: Iterable[str] = ()) -> PlayProgram:
    """Return the program to be built from unordered lines of one statement each, some of which may not be needed.

    They form the body of the function with this header; the statements in `before` create its arguments.

    Raises:
        Unplayable: a line is not Python.
    """
    fixed = [LineCard(f"{number}", (LineForm("as written", line),), True) for number, line in enumerate(before)]
    cards = []
    for number, line in enumerate(lines, len(fixed)):
        _parsed(line, name)
        cards.append(LineCard(f"{number}", (LineForm("as written", line),)))
    return PlayProgram(name, (*fixed, *cards), tuple(card.id for card in cards), header)


def statements(text: str, name: str) -> Iterator[str]:
    """Yield each statement of a text with its trailing comment; statements on the same line stay together."""
    lines, last = text.splitlines(), 0
    for node in _parsed(text, name).body:
        if node.lineno > last:
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
            last = node.end_lineno or node.lineno
            yield "\n".join(lines[first - 1 : last])


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise Unplayable.of(
            "play.not_python|{file} is not Python: {reason} on line {line}. Correct that line.",
            file=name,
            reason=error.msg,
            line=error.lineno,
        ) from None
