"""Attributes of modules that a test replaces for a while, such as `builtins.input`: the learner's code finds the test's."""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
import types
from collections.abc import Iterator, Sequence
from typing import Any

from autograder.grade.wire.values.library_names import find, is_own

DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
STREAMS = {"redirect_stderr": "sys.stderr", "capture_output": "sys.stderr"}
"""What replaces a stream that the test does not name."""
LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


class PatchedAttributes:
    """The attributes that a test may replace, by module and name: "sys.stdin".

    Args:
        nodes: of the test's text.
        namespace: the test's; says which module a name such as `np` stands for.
    """

    def __init__(self, nodes: Sequence[ast.AST], namespace: dict[str, Any]) -> None:
        modules = {name: value.__name__ for name, value in namespace.items() if isinstance(value, types.ModuleType)}
        modules |= {alias.asname or alias.name: alias.name for node in nodes for alias in _imported(node)}
        names = {_whole(name, modules) for node in nodes for name in _mentioned(node)}
        self._before = {name: _now(name) for name in names if _is_attribute(name)}
        self._last = dict(self._before)

    def changed(self) -> dict[str, Any]:
        """Returns the new values since the last time."""
        changed = {name: now for name, last in self._last.items() if (now := _now(name)) is not last}
        self._last |= changed
        return changed

    def has_changed(self) -> bool:
        """Returns whether the test has replaced one since the last time, or put it back."""
        return any(_now(name) is not last for name, last in self._last.items())

    def is_back(self, name: str) -> bool:
        """Returns whether an attribute is what it was before the test."""
        return self._last[name] is self._before[name]


def _mentioned(node: ast.AST) -> Iterator[str]:
    """Yields what a test may replace: `sys.stdin = …`, `patch("time.sleep")`, `patch.object(random, "randint")`."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield ast.unparse(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
        yield node.value
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield STREAMS.get(node.id if isinstance(node, ast.Name) else node.attr, "")
    elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
        yield f"{ast.unparse(node.args[0])}.{node.args[1].value!s}"


def _imported(node: ast.AST) -> list[ast.alias]:
    return node.names if isinstance(node, ast.Import) else []


def _whole(name: str, modules: dict[str, str]) -> str:
    first, dot, rest = name.partition(".")
    return f"{modules.get(first, first)}{dot}{rest}"


def _is_attribute(name: str) -> bool:
    """Returns whether a library has it; what a test keeps in a module of the teacher's may be what it expects."""
    path, _, attribute = name.rpartition(".")
    module = sys.modules.get(path)
    is_library = str(getattr(module, "__file__", None) or LIBRARIES[0]).startswith(LIBRARIES)
    return module is not None and is_library and not is_own(path) and hasattr(module, attribute)


def _now(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return find(module, attribute)
