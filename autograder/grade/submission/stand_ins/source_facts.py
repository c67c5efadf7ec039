"""What the teacher's source says that decides what may cross: which modules it imports, which operators its classes have."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from autograder.grade.submission.cell_analysis import bound_names, defined_classes, global_reads, statements
from autograder.grade.submission.stand_ins.special_methods import CONVERSIONS, OPERATORS
from autograder.grade.wire.values.library_names import ITERATING

ORDER = frozenset({"__lt__", "__le__", "__gt__", "__ge__"})
ACTING = ("os", "sys", "subprocess", "shutil", "socket", "importlib", "ctypes", "multiprocessing", "threading", "code", "runpy",
          "signal", "pty", "pickle", "io", "tempfile", "pathlib")  # fmt: skip
"""Libraries whose objects do something when they are made or called; their classes are asked for in the worker."""
ACTING_BUILTINS = ("type", "super", "memoryview")


class SourceFacts(NamedTuple):
    """What may cross between a source's tests and the answers.

    Attributes:
        modules: that the source imports, with those above them: "matplotlib.pyplot" and "matplotlib".
        classes: the operators of each class that the source defines, by the class's name.
        bases: the last names of the bases of each class that the source defines.
        members: the methods and attributes of all these classes.
        answers: the names that the model answers define.
        read: the names that functions of the model answers read when they are called.
        given: the classes that the teacher's cells define, and no answer.
    """

    modules: frozenset[str] = frozenset()
    classes: dict[str, frozenset[str]] = {}
    bases: dict[str, frozenset[str]] = {}
    members: frozenset[str] = frozenset()
    answers: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: Iterable[str], answers: Iterable[str] = (), given: Iterable[str] = ()) -> SourceFacts:
        """Returns the facts of all cells of a source, of its model answers, and of the teacher's cells beside them."""
        answers = list(answers)
        answered = frozenset(name for text in answers for part in statements(text) for name in bound_names(part))
        nodes = [node for text in texts for part in statements(text) for node in ast.walk(part)]
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        return cls(
            frozenset(_modules(nodes)),
            _operators(classes),
            {node.name: frozenset(map(_last, node.bases)) for node in classes},
            frozenset(name for node in classes for name in _members(node)),
            answered,
            frozenset[str]().union(*map(global_reads, answers)),
            frozenset[str]().union(*map(defined_classes, given)) - answered,
        )

    def imports(self, module: str) -> bool:
        """Returns whether the source imports this module, or one inside it."""
        return module in self.modules

    def modules_beside(self, module: str) -> list[str]:
        """Returns the modules that the source imports of the library to which this one belongs."""
        top = module.partition(".")[0]
        return sorted(known for known in self.modules if known.partition(".")[0] == top)

    def knows_class(self, module: str, name: str) -> bool:
        """Returns whether a class of this module is the same on both sides."""
        if module == "builtins":
            return name not in ACTING_BUILTINS
        if module == "types":
            return name in ITERATING.values()
        top = module.partition(".")[0]
        return top not in ACTING and (top in self.modules or top in ("collections", "numpy", "torch"))

    def has_member(self, kind: str, bases: Iterable[type], name: str) -> bool:
        """Returns whether a test may call this on an object of a learner's class.

        What the test passes is often what it expects: `result.equals(expected)` on an object of another class than the model
        answer's would let that object be the judge. No method of PyTorch's modules, data sets and optimizers compares, so
        an `nn.Module` may stand where the model answer has an `nn.Sequential`.
        """
        known = self.bases.get(kind, frozenset())
        inherited = any(
            (base.__name__ in known or base.__module__.startswith("torch.")) and hasattr(base, name) for base in bases
        )
        return name in self.members or inherited or (name.startswith("__") and name.endswith("__"))

    def operators(self, name: str) -> frozenset[str]:
        """Returns the operators that the source's class of that name has; none if there is no such class."""
        return self.classes.get(name, frozenset())


@functools.lru_cache(maxsize=2000)
def imported_modules(text: str) -> frozenset[str]:
    """Returns the modules that a cell imports, with those above them; what it imports of a module may be one, too."""
    return frozenset(_modules([node for part in statements(text) for node in ast.walk(part)]))


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
            frozenset(defined & (OPERATORS | CONVERSIONS))
            | inherited
            | _decorated(node)
            | found.get(node.name, frozenset())
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


def _members(node: ast.ClassDef) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield part.name
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            yield part.attr
        elif isinstance(part, ast.Name) and _stores(part):
            yield part.id


def _stores(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
