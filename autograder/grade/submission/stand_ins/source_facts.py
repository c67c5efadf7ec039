"""What the teacher's source says that decides what may cross: which modules it imports, which operators its classes have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from autograder.grade.submission.cell_analysis import statements
from autograder.grade.submission.stand_ins.special_methods import OPERATORS
from autograder.grade.wire.values.library_names import ITERATING

ORDER = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
ACTING = ("os", "sys", "subprocess", "shutil", "socket", "importlib", "ctypes", "multiprocessing", "threading", "code", "runpy",
          "signal", "pty", "pickle", "io", "tempfile", "pathlib")  # fmt: skip
"""Libraries whose objects do something when they are made or called; their classes are asked for in the worker."""
ACTING_BUILTINS = ("type", "super", "property", "staticmethod", "classmethod", "memoryview")


class SourceFacts(NamedTuple):
    """What may cross between a source's tests and the answers.

    Attributes:
        modules: that the source imports, with those above them: "matplotlib.pyplot" and "matplotlib".
        classes: the operators of each class that the source defines, by the class's name.
    """

    modules: frozenset[str] = frozenset()
    classes: dict[str, frozenset[str]] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> SourceFacts:
        """Returns the facts of these cells, the model answers among them."""
        parts = [statement for text in texts for statement in statements(text)]
        nodes = [node for part in parts for node in ast.walk(part)]
        return cls(frozenset(_modules(nodes)), _operators([node for node in nodes if isinstance(node, ast.ClassDef)]))

    def imports(self, module: str) -> bool:
        """Returns whether the source imports this module, or one inside it."""
        return module in self.modules

    def knows_class(self, module: str, name: str) -> bool:
        """Returns whether a class of this module is the same on both sides."""
        if module == "builtins":
            return name not in ACTING_BUILTINS
        if module == "types":
            return name in ITERATING.values()
        top = module.partition(".")[0]
        return top not in ACTING and (top in self.modules or top in ("collections", "numpy", "torch"))

    def operators(self, name: str) -> frozenset[str]:
        """Returns the operators that the source's class of that name has; none if there is no such class."""
        return self.classes.get(name, frozenset())


def _modules(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            steps = name.split(".")
            yield from (".".join(steps[:length]) for length in range(1, len(steps) + 1))


def _operators(classes: list[ast.ClassDef]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for node in classes:
        defined = {part.name for part in node.body if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef))}
        defined |= {
            name.id for part in node.body for name in ast.walk(part) if isinstance(name, ast.Name) and _stores(name)
        }
        inherited = frozenset[str]().union(*(found.get(_last(base), frozenset()) for base in node.bases))
        found[node.name] = (
            frozenset(defined & OPERATORS) | inherited | _decorated(node) | found.get(node.name, frozenset())
        )
    return found


def _decorated(node: ast.ClassDef) -> frozenset[str]:
    names = {
        _last(decorator.func if isinstance(decorator, ast.Call) else decorator) for decorator in node.decorator_list
    }
    words = {
        keyword.arg
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    }
    found = frozenset({"__eq__", "__hash__"}) if "dataclass" in names else frozenset[str]()
    return found | (ORDER if "total_ordering" in names or "order" in words else frozenset())


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
