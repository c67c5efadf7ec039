"""Trivial answers: constants, the inputs, empty and masked arrays, and others that solve nothing. A good test gives them no points.

A trivial answer keeps the imports, signatures and names of a model answer, and nothing else of it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from string import Template

CONSTANTS = ("None", "0", "1", "True", "False", "''", "[]", "{}", "float('nan')")
ERRORS = ("ValueError", "TypeError", "StopIteration", "GeneratorExit", "KeyboardInterrupt", "SystemExit")
ARRAYS = {
    "an empty array": "_np.empty(0)",
    "an empty array that broadcasts": "_np.empty((0, 1, 1, 1))",
    "a masked array": "_np.ma.masked_array(_np.zeros(_shape($first)), True)",
    "a masked array of one number": "_np.ma.masked_array([0.0], True)",
    "a 0-d array": "_np.array(0.0)",
    "a 0-d array of 1": "_np.array(1.0)",
    "a NaN array": "_np.full(_shape($first), _np.nan)",
}
TENSORS = {
    "an empty tensor": "_torch.empty(0)",
    "an empty tensor that broadcasts": "_torch.empty(0, 1, 1, 1)",
    "a 0-d tensor": "_torch.tensor(0.0)",
    "a NaN tensor": "_torch.full(_shape($first), float('nan'))",
}
NUMPY = """
import numpy as _np
def _shape(value):
    return (value,) if type(value) is int and 0 < value < 1000 else tuple(_np.shape(value)) or (1,)
"""
WRITE_ZEROS = """
def _write_zeros(*values):
    ways = [
        lambda value: value.detach().zero_(),
        lambda value: value.fill(0),
        lambda value: value.__setitem__(slice(None), 0),
        lambda value: value.__setitem__(slice(None), [0] * len(value)),
    ]
    for value in values:
        for write in ways:
            try: write(value)
            except Exception: continue
            break
"""
LOOK_UP = """
def _look_up(name, given):
    rows = _CALLS.get(name) or [((), None)]
    given = [repr(value) for value in given.values()]
    same = (result for arguments, result in rows if [repr(value) for value in arguments] == given[: len(arguments)])
    return next(same, rows[0][1])
"""


@dataclass(frozen=True)
class TrivialAnswer:
    """One way to solve nothing.

    Attributes:
        name: as in "this test gives points to `return x`".
        body: the body of every function; $first and $last stand for its arguments, $all for all of them, $name for its name.
        value: the value of every variable; $name stands for its name.
        before: code above everything else.
    """

    name: str
    body: str
    value: str = "None"
    before: str = ""


def trivial_answers(visible_tests: Iterable[str], *, tensors: bool) -> list[TrivialAnswer]:
    """Return all trivial answers in a fixed order.

    Args:
        visible_tests: the released text of each test.
        tensors: whether the assignment uses PyTorch.
    """
    arrays = [(name, text, NUMPY) for name, text in ARRAYS.items()]
    arrays += [(name, text, f"{NUMPY}import torch as _torch") for name, text in TENSORS.items() if tensors]
    shown = f"{_shown_values(visible_tests)}{LOOK_UP}"
    return [
        *(TrivialAnswer(f"`return {text}`", f"return {text}", text) for text in CONSTANTS),
        TrivialAnswer("`return x`", "return $first"),
        TrivialAnswer("`return` of the last argument", "return $last"),
        TrivialAnswer("`return x * 0`", "return $first * 0", "0.0"),
        *(
            TrivialAnswer(name, f"return {text}", text.replace("$first", "None"), before)
            for name, text, before in arrays
        ),
        TrivialAnswer("an object equal to everything", "return _ANY", "_ANY", "from unittest.mock import ANY as _ANY"),
        TrivialAnswer("zeros written into the arguments", "_write_zeros($all)\nreturn $first", "0", WRITE_ZEROS),
        TrivialAnswer(
            "zeros written into the arguments, and `return 0`", "_write_zeros($all)\nreturn 0", "0", WRITE_ZEROS
        ),
        *(TrivialAnswer(f"`raise {error}`", f"raise {error}") for error in ERRORS),
        TrivialAnswer(
            "the constants of the visible tests", "return _look_up('$name', locals())", "_NAMES.get('$name')", shown
        ),
    ]


def made_trivial(answer: str, trivial: TrivialAnswer) -> str:
    """Return an answer cell's text with a trivial answer in place of the solution.

    Raises:
        SyntaxError: the answer is not plain Python.
    """
    parts = [part for statement in ast.parse(answer).body for part in _trivial(statement, trivial)]
    return f"{trivial.before}\n{ast.unparse(ast.Module(parts, []))}"


def _trivial(statement: ast.stmt, trivial: TrivialAnswer) -> Iterator[ast.stmt]:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield statement
    elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield _with_body(statement, trivial)
    elif isinstance(statement, ast.ClassDef):
        changed = copy.copy(statement)
        methods = [part for part in statement.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))]
        changed.body = [_with_body(method, trivial) for method in methods] or [ast.Pass()]
        yield changed
    else:
        names = {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for name in sorted(names):
            yield from ast.parse(f"{name} = {Template(trivial.value).substitute(name=name)}").body


def _with_body(function: ast.FunctionDef | ast.AsyncFunctionDef, trivial: TrivialAnswer) -> ast.stmt:
    changed, given = copy.copy(function), function.args
    every = [argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names = [name for name in every if name != "self"] or ["None"]
    body = Template(trivial.body).substitute(first=names[0], last=names[-1], all=", ".join(names), name=function.name)
    changed.body = ast.parse("pass" if function.name == "__init__" else body).body
    return changed


def _shown_values(visible_tests: Iterable[str]) -> str:
    """Return the definitions of `_CALLS` and `_NAMES`: the literals that tests compare with a call or a name."""
    calls: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for asked, shown in (pair for text in visible_tests for pair in _compared(text)):
        if isinstance(asked, ast.Name):
            names.setdefault(asked.id, ast.unparse(shown))
        elif isinstance(asked, ast.Call) and isinstance(asked.func, ast.Name) and all(map(_is_literal, asked.args)):
            arguments = "".join(f"{ast.unparse(argument)}, " for argument in asked.args)
            calls.setdefault(asked.func.id, []).append(f"(({arguments}), {ast.unparse(shown)})")
    rows = ", ".join(f"{name!r}: [{', '.join(known)}]" for name, known in calls.items())
    return f"_CALLS = {{{rows}}}\n_NAMES = {{{', '.join(f'{name!r}: {text}' for name, text in names.items())}}}"


def _compared(text: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the operands of a comparison, or the first two arguments of a call, of which the second is a literal."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Compare(left=left, comparators=[right]) | ast.Call(args=[left, right, *_]):
                yield from (pair for pair in ((left, right), (right, left)) if _is_literal(pair[1]))


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True
