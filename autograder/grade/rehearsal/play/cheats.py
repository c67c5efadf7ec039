"""Answers that know no solution: what a learner may hand in who only wants the points. A good test gives them none.

A cheat keeps of the model answer what is no secret: imports, the names of functions, classes and variables, and signatures.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

from autograder.grade.rehearsal.play.visible_values import VisibleValues

Body = Callable[[ast.arguments, str], str]
Definition = ast.FunctionDef | ast.AsyncFunctionDef

VALUES = ("None", "0", "1", "True", "False", "''", "[]", "{}", "float('nan')")
ERRORS = ("ValueError", "TypeError", "StopIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit")
ANYTHING = """\
class Anything:
    def _yes(self, *other): return True
    def _same(self, *other): return self
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = _yes
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = _same
    __abs__ = __neg__ = __call__ = __getitem__ = __getattr__ = __round__ = _same
    __hash__ = None
    def __iter__(self): return iter(())
    def __len__(self): return 0
    def __float__(self): return 0.0
    def __array__(self, *args, **kwargs): return __import__("numpy").zeros(())
"""


class Cheat(NamedTuple):
    """One way to know nothing.

    Attributes:
        name: how a report names it, as in "this test passes with `return x`".
        body: the body of every function, given its arguments and its name.
        value: the text of what a variable of this name is bound to.
        before: text that stands before everything else.
    """

    name: str
    body: Body
    value: Callable[[str], str]
    before: str = ""


def cheats(visible: VisibleValues) -> list[Cheat]:
    """Returns all cheats, in a fixed order. `visible` is what the tests show to learners."""
    return [
        *(Cheat(f"`return {text}`", _always(f"return {text}"), _constantly(text)) for text in VALUES),
        Cheat("`return x`", lambda given, name: f"return {_names(given)[0]}", _constantly("None")),
        Cheat("`return` of the last argument", lambda given, name: f"return {_names(given)[-1]}", _constantly("None")),
        Cheat("`return x * 0`", lambda given, name: f"return {_names(given)[0]} * 0", _constantly("0.0")),
        Cheat("an object equal to everything", _always("return Anything()"), _constantly("Anything()"), ANYTHING),
        Cheat("zeros written into the arguments", lambda given, name: _zeros_written(given), _constantly("0")),
        *(Cheat(f"`raise {error}`", _always(f"raise {error}"), _constantly("None")) for error in ERRORS),
        Cheat("the constants of the visible tests", lambda given, name: visible.body(name), visible.value),
    ]


def _always(body: str) -> Body:
    return lambda given, name: body


def _constantly(value: str) -> Callable[[str], str]:
    return lambda name: value


def cheated(answer: str, cheat: Cheat) -> str:
    """Returns an answer cell's text with a cheat instead of everything that is a solution.

    Raises:
        SyntaxError: the answer is not plain Python.
    """
    parts = [part for statement in ast.parse(answer).body for part in _cheated(statement, cheat)]
    return cheat.before + ast.unparse(ast.fix_missing_locations(ast.Module(parts, [])))


def _cheated(statement: ast.stmt, cheat: Cheat) -> Iterator[ast.stmt]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield statement
    elif isinstance(statement, Definition):
        yield _with_body(statement, cheat.body(statement.args, statement.name))
    elif isinstance(statement, ast.ClassDef):
        yield _cheating_class(statement, cheat)
    else:
        for name in sorted(_bound(statement)):
            yield from ast.parse(f"{name} = {cheat.value(name)}").body


def _cheating_class(node: ast.ClassDef, cheat: Cheat) -> ast.ClassDef:
    changed = copy.deepcopy(node)
    changed.body = [
        _with_body(part, "pass" if part.name == "__init__" else cheat.body(part.args, part.name))
        for part in changed.body
        if isinstance(part, Definition)
    ] or [ast.Pass()]
    return changed


def _with_body(node: Definition, body: str) -> Definition:
    changed = copy.deepcopy(node)
    changed.body = ast.parse(body).body
    return changed


def _bound(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _names(given: ast.arguments) -> list[str]:
    """Returns the names of the arguments in order, without `self`; "None" for a function without any."""
    every = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [name for name in every if name != "self"] or ["None"]


def _zeros_written(given: ast.arguments) -> str:
    """Returns a body that turns everything it was handed into zeros, and returns the first argument."""
    writes = "".join(
        f"try: {name}[...] = 0\nexcept Exception:\n    try: {name}[:] = [0] * len({name})\n    except Exception: pass\n"
        for name in _names(given)
        if name != "None"
    )
    return f"{writes}return {_names(given)[0]}"
