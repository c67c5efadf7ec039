"""What the tests show to learners of the right results: literals that stand opposite a call or a name in a comparison."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

ASSERTIONS = {
    *(
        "assertEqual",
        "assertAlmostEqual",
        "assert_equal",
        "assert_almost_equal",
        "assert_allclose",
        "assert_array_equal",
    ),
    *("allclose", "isclose", "array_equal", "equal"),
}


class VisibleValues:
    """The constants that can be read off the visible parts of an assignment's tests.

    Args:
        tests: the released text of each test cell.
    """

    def __init__(self, tests: Iterable[str]) -> None:
        self._calls: dict[str, list[tuple[ast.Call, str]]] = {}
        self._names: dict[str, str] = {}
        for text in tests:
            for left, right in _pairs(text):
                self._read(left, right)
                self._read(right, left)

    def body(self, name: str) -> str:
        """Returns a function's body that looks its result up among what was seen, by its arguments' text."""
        seen = self._calls.get(name, [])
        if not seen:
            return "return None"
        rows = ", ".join(f"(({_arguments(call)}), {result})" for call, result in seen)
        return (
            "given = [repr(value) for value in locals().values()]\n"
            f"for arguments, result in [{rows}]:\n"
            f"    if given[:len(arguments)] == [repr(value) for value in arguments]:\n        return result\n"
            f"return {seen[0][1]}"
        )

    def value(self, name: str) -> str:
        """Returns the text of the value that the tests show for a name, "None" if they show none."""
        return self._names.get(name, "None")

    def _read(self, asked: ast.expr, shown: ast.expr) -> None:
        if not _is_literal(shown):
            return
        if isinstance(asked, ast.Name):
            self._names.setdefault(asked.id, ast.unparse(shown))
        elif isinstance(asked, ast.Call) and isinstance(asked.func, ast.Name) and all(map(_is_literal, asked.args)):
            self._calls.setdefault(asked.func.id, []).append((asked, ast.unparse(shown)))


def _arguments(call: ast.Call) -> str:
    return "".join(f"{ast.unparse(argument)}, " for argument in call.args)


def _pairs(text: str) -> Iterator[tuple[ast.expr, ast.expr]]:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.Is)):
            yield node.left, node.comparators[0]
        elif isinstance(node, ast.Call) and len(node.args) >= 2 and _called(node.func) in ASSERTIONS:
            yield node.args[0], node.args[1]


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True
