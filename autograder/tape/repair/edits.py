"""A program's source, edits of it that leave all other bytes unchanged, and their text as a `Fix`."""

from __future__ import annotations

import ast
import difflib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, TypeVar

from autograder.tape.recording.verdict_types import Fix

T = TypeVar("T", bound=ast.AST)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
BLOCKS = ast.For | ast.While | ast.FunctionDef
ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Tuple)
SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Delete, ast.Assert, ast.Raise, ast.Pass)


@dataclass(frozen=True, order=True)
class Edit:
    """A replacement of the bytes from `start` to `stop` (exclusive) with `text`, or an insertion if they are equal."""

    start: int
    stop: int
    text: str


Edits = tuple[Edit, ...]


class EditableSource:
    """A parsed source. Positions are bytes in UTF-8, as in Python's `ast`.

    Raises:
        SyntaxError: if the source is not valid Python.
    """

    def __init__(self, text: str):
        self.text = text
        self.data = text.encode()
        self.tree = ast.parse(text)
        self.lines = self.data.split(b"\n")
        self.newline = "\r\n" if "\r\n" in text else "\n"

    @cached_property
    def starts(self) -> list[int]:
        """The position of the first byte of each line."""
        return [0, *accumulate(len(line) + 1 for line in self.lines)]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def imported(self) -> set[str]:
        """The names that the source imports."""
        statements = [node for node in ast.walk(self.tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        return {(name.asname or name.name).split(".")[0] for node in statements for name in node.names}

    def span(self, node: Any) -> tuple[int, int]:
        """Return the first byte of a node and the byte after its last. A decorated definition starts at its first decorator."""
        first = min([node, *getattr(node, "decorator_list", [])], key=lambda part: part.lineno)
        start = self.starts[first.lineno - 1] + (node.col_offset if first is not node else first.col_offset)
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.AST) -> str:
        """Return the source of a node."""
        start, stop = self.span(node)
        return self.data[start:stop].decode()

    def operand(self, node: ast.expr) -> str:
        """Return the source of an expression, in parentheses if an attribute access requires them."""
        text = self.of(node)
        return text if isinstance(node, ATOMS) and "\n" not in text else f"({text})"

    def factor(self, node: ast.expr) -> str:
        """Return the source of an expression, in parentheses if an operator requires them. Numbers do not need any."""
        return self.of(node) if isinstance(node, ast.Constant) else self.operand(node)

    def dot(self, node: ast.Attribute) -> int:
        """Return the position of the dot before the attribute's name. A closing bracket may precede it."""
        return self.data.rfind(b".", 0, self.span(node)[1] - len(node.attr.encode()))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the ancestors of a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def enclosing(self, node: ast.AST, kind: type[T]) -> list[T]:
        """Return the ancestors of a type, innermost first."""
        return [outer for outer in self.ancestors(node) if isinstance(outer, kind)]

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the list of statements that contains `statement`."""
        values = (value for _, value in ast.iter_fields(self.parents[statement]))
        return next(value for value in values if isinstance(value, list) and statement in value)

    def before(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements before `statement` in its block."""
        block = self.block(statement)
        return block[: block.index(statement)]

    def after(self, statement: ast.stmt) -> list[ast.stmt]:
        """Return the statements after `statement` in its block."""
        block = self.block(statement)
        return block[block.index(statement) + 1 :]

    def scope(self, node: ast.AST) -> ast.AST:
        """Return the function that contains the node, or the module."""
        return next((node for node in self.ancestors(node) if isinstance(node, FUNCTIONS)), self.tree)

    def statements(self, within: ast.AST | None = None) -> list[ast.stmt]:
        """Return all statements, in the order of the source."""
        statements = [node for node in ast.walk(within or self.tree) if isinstance(node, ast.stmt)]
        return sorted(statements, key=lambda statement: (statement.lineno, statement.col_offset))

    def statements_at(self, line: int) -> list[ast.stmt]:
        """Return the innermost statements that cover the line. There are several if `;` separates them."""
        covering = [node for node in self.statements() if node.lineno <= line <= (node.end_lineno or node.lineno)]
        simple: list[ast.stmt] = [statement for statement in covering if isinstance(statement, SIMPLE)]
        return simple or [statement for statement in covering[-1:] if not isinstance(statement, ast.ClassDef)]

    def bindings(self, name: str) -> list[ast.Assign]:
        """Return the plain assignments to a name (or `self.name`), last first."""
        assignments = [statement for statement in self.statements() if isinstance(statement, ast.Assign)]
        return [node for node in reversed(assignments) if name in [self.of(target) for target in node.targets]]

    def loops(self, statement: ast.stmt) -> list[Loop]:
        """Return the loops around the statement in its function, innermost first."""
        around = [node for node in self.ancestors(statement) if isinstance(node, Loop)]
        return [outer for outer in around if self.scope(outer) is self.scope(statement)]

    def nodes(self, kind: type[T], within: ast.AST | None = None) -> list[T]:
        """Return all nodes of a type in a subtree, including its root, or in the whole source."""
        return [node for node in ast.walk(within or self.tree) if isinstance(node, kind)]

    def indent(self, statement: ast.stmt) -> str:
        """Return the indentation of the statement's line."""
        line = self.lines[statement.lineno - 1].decode()
        return line[: len(line) - len(line.lstrip())]

    @cached_property
    def unit(self) -> str:
        """One level of indentation in this source."""
        blocks = (getattr(node, "body", None) for node in self.nodes(ast.stmt))
        depths = (self.indent(block[0]) for block in blocks if block)
        return next((depth for depth in depths if depth), "    ")

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Return whether the statement's lines contain nothing else, except possibly a comment."""
        start, stop = self.span(statement)
        before = self.data[self.data.rfind(b"\n", 0, start) + 1 : start]
        rest = self.data[stop : self.line_end(stop)].decode().lstrip("; \t")
        return not before.strip() and (not rest or rest.startswith("#"))

    def line_end(self, position: int) -> int:
        """Return the position of the end of the line, before its line break."""
        end = self.line_break(position)
        return end - 1 if self.data[end - 1 : end] == b"\r" and end > position else end

    def line_break(self, position: int) -> int:
        """Return the position of the line feed that ends the line, or the length of the source."""
        end = self.data.find(b"\n", position)
        return len(self.data) if end < 0 else end

    def apply_to(self, node: ast.AST, edits: Iterable[Edit]) -> str:
        """Return the source of a node after the edits inside it."""
        start, stop = self.span(node)
        return self.splice(sorted(edit for edit in edits if start <= edit.start and edit.stop <= stop), start, stop)

    def splice(self, ordered: list[Edit], start: int, stop: int) -> str:
        """Return the bytes from `start` to `stop` after the edits, which must be in order and between them."""
        parts, last = [], start
        for edit in ordered:
            parts += [self.data[last : edit.start], edit.text.encode()]
            last = edit.stop
        return b"".join([*parts, self.data[last:stop]]).decode()

    def apply(self, edits: Iterable[Edit]) -> str | None:
        """Return the source after the edits, or None if two of them overlap."""
        ordered = sorted(set(edits))
        if any(late.start < early.stop for early, late in pairwise(ordered)):
            return None
        return self.splice(ordered, 0, len(self.data))

    def replace(self, node: ast.AST, text: str) -> Edit:
        """Return the edit that replaces the node with `text`."""
        return Edit(*self.span(node), text)

    def append(self, node: ast.expr, text: str) -> Edit:
        """Return the edit that appends an attribute access, such as ".clone()", to an expression."""
        return self.replace(node, f"{self.operand(node)}{text}")

    def insert(self, node: ast.AST, text: str, *, after: bool = False) -> Edit:
        """Return the edit that inserts `text` directly before (or after) the node, on its line."""
        start, stop = self.span(node)
        return Edit(stop, stop, text) if after else Edit(start, start, text)

    def add_argument(self, call: ast.Call, text: str) -> Edit:
        """Return the edit that adds a keyword argument at the end of a call, or replaces the one that says the opposite."""
        name = text.partition("=")[0]
        freed = "retain_graph=False" if name == "create_graph" else ""
        same = [keyword for keyword in call.keywords if keyword.arg == name or self.of(keyword) == freed]
        if same:
            return self.replace(same[0], text)
        end = self.span(call)[1] - 1
        given = [self.span(node)[1] for node in (*call.args, *(keyword.value for keyword in call.keywords))]
        is_open = bool(given) and b"," not in re.sub(rb"#.*", b"", self.data[max(given) : end])
        return Edit(end, end, f", {text}" if is_open else text)

    def insert_before(self, statement: ast.stmt, text: str) -> Edit:
        """Return the edit that inserts the statements of `text` before `statement`, on separate lines if `statement` starts its line."""
        start, _ = self.span(statement)
        line = self.data.rfind(b"\n", 0, start) + 1
        if self.data[line:start].strip():
            return Edit(start, start, "; ".join(text.splitlines()) + "; ")
        indented = [self.indent(statement) + line for line in text.splitlines()]
        return Edit(line, line, self.newline.join([*indented, ""]))

    def insert_after(self, statement: ast.stmt, text: str) -> Edit:
        """Return the edit that inserts the statements of `text` after `statement`."""
        _, stop = self.span(statement)
        if not self.stands_alone(statement):
            return Edit(stop, stop, "; " + "; ".join(text.splitlines()))
        end = self.line_end(stop)
        indented = [self.indent(statement) + line for line in text.splitlines()]
        return Edit(end, end, self.newline.join(["", *indented]))

    def delete(self, statement: ast.stmt) -> Edit:
        """Return the edit that deletes the statement, including its lines if they contain nothing else."""
        start, stop = self.span(statement)
        block = self.block(statement)
        if len(block) == 1:
            return Edit(start, stop, "pass")
        if self.stands_alone(statement):
            # Remove the line break before it, not the one after it: another edit may insert text directly after its line.
            if statement.lineno > 1:
                return Edit(self.line_end(self.starts[statement.lineno - 2]), self.line_end(stop), "")
            return Edit(0, self.line_break(stop) + 1, "")
        place = block.index(statement)
        if place + 1 < len(block) and block[place + 1].lineno == statement.end_lineno:
            return Edit(start, self.span(block[place + 1])[0], "")
        return Edit(self.span(block[place - 1])[1], stop, "")

    def dedented(self, statement: ast.stmt) -> str:
        """Return the source of a statement. The indentation of its first line is removed from the others."""
        indent = self.indent(statement)
        first, *others = self.of(statement).splitlines()
        return "\n".join([first, *(line.removeprefix(indent) for line in others)])

    def wrap(self, statement: ast.stmt, header: str) -> Edits:
        """Return the edits that indent the statement under `header`, such as "with torch.no_grad():", or () if the line cannot be indented.

        In a block of one line, the whole block is indented.
        """
        if self.stands_alone(statement):
            start, stop = self.span(statement)
            indent = self.indent(statement)
            breaks = [self.starts[line] for line in range(statement.lineno, statement.end_lineno or statement.lineno)]
            unit = "" if '"""' in self.of(statement) or "'''" in self.of(statement) else self.unit
            first = Edit(start, start, f"{header}{self.newline}{indent}{self.unit}")
            return (first, *(Edit(at, at, unit) for at in breaks if unit and start < at < stop))
        block = self.block(statement)
        indent = self.indent(statement)
        holder = self.parents[statement]
        if isinstance(holder, ast.stmt) and holder.lineno == statement.lineno:
            # In `for p in ps: a` the statement does not start a line.
            return self.wrap(holder, header) if len(block) == 1 and self.stands_alone(holder) else ()
        start, stop = self.span(statement)
        place = block.index(statement)
        text = f"{header} {self.of(statement)}"
        if place and block[place - 1].end_lineno == statement.lineno:
            start, text = self.span(block[place - 1])[1], f"{self.newline}{indent}{text}"
        if place + 1 < len(block) and block[place + 1].lineno == statement.end_lineno:
            stop, text = self.span(block[place + 1])[0], f"{text}{self.newline}{indent}"
        return (Edit(start, stop, text),)

    def remove_header(self, block: ast.With | ast.If) -> Edits:
        """Return the edits that remove a block's header and dedent its body."""
        start, body = self.span(block)[0], self.span(block.body[0])[0]
        surplus = self.indent(block.body[0]).removeprefix(self.indent(block))
        breaks = [self.starts[line] for line in range(block.body[0].lineno, block.end_lineno or 0)]
        depth = len(self.indent(block).encode())
        inside = [at + depth for at in breaks if self.data[at + depth :].startswith(surplus.encode())]
        return (Edit(start, body, ""), *(Edit(at, at + len(surplus), "") for at in inside))


def changed_lines(before: str, after: str) -> int:
    """Return the number of inserted, deleted or replaced lines. A moved line counts twice."""
    steps = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False).get_opcodes()
    return sum(max(stop - start, end - first) for step, start, stop, first, end in steps if step != "equal")


def as_diff(before: str, after: str, file: str) -> str:
    """Return the change as a unified diff, including the marker for a missing newline at the end of the file.

    Apply it with `git apply` or `patch -p1` in the working directory, if that contains the file, else in the directory
    of the file.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    path = os.path.relpath(file)
    path = os.path.basename(path) if path.startswith("..") else path.replace(os.sep, "/")
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def as_fix(before: str, after: str, kind: str) -> Fix:
    """Return the change as the replaced lines and their replacement, without their common indentation."""
    old, new = before.split("\n"), after.split("\n")
    first = len(os.path.commonprefix([old, new]))
    last = len(os.path.commonprefix([old[first:][::-1], new[first:][::-1]]))
    # Add an unchanged line to lines that are only inserted or only deleted.
    if first in (len(old) - last, len(new) - last):
        first, last = (first, last - 1) if last else (first - 1, last)
    was, now = old[first : len(old) - last], new[first : len(new) - last]
    indents = [line[: len(line) - len(line.lstrip())] for line in (*was, *now) if line.strip()]
    depth = len(os.path.commonprefix(indents)) if any(line.strip() for line in was) else 0
    return Fix(kind, first + 1, _dedented(was, depth), _dedented(now, depth), True)


def _dedented(lines: list[str], depth: int) -> str:
    return "\n".join(line[depth:] if line.strip() else line for line in lines)


def apply_fix(source: str, fix: Fix) -> str:
    """Return the source after the fix."""
    lines = source.split("\n")
    old, new = fix.before.split("\n"), fix.after.split("\n")
    first = next((place for place, line in enumerate(old) if line.strip()), 0)
    indent = lines[fix.line - 1 + first].removesuffix(old[first])
    lines[fix.line - 1 : fix.line - 1 + len(old)] = [indent + line if line.strip() else line for line in new]
    return "\n".join(lines)
