"""What tests replace in libraries, such as `np.linalg.solve = None`: the next submission finds it as it was."""

from __future__ import annotations

import contextlib
import importlib
import operator
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

ALWAYS = frozenset({"builtins", "io", "math", "os", "random", "sys", "time"})
"""Packages that tests use without importing them, or that a name in quotes may stand for."""


class _Before(NamedTuple):
    """A module or class as it was: all its names, the values of those that a test may replace, and all values in their order."""

    owner: Any
    names: frozenset[str]
    public: dict[str, Any]
    values: list[Any]


class LibraryAttributes:
    """The public functions and classes of libraries, and their methods, as they were before a test could replace them.

    What a library keeps for itself, in names that begin with an underscore and in values that cannot be called, is left alone:
    it may have reasons to change it.
    """

    def __init__(self) -> None:
        self._asked_for = frozenset[str]()
        self._noted: set[tuple[str, int]] = set()
        self._before: dict[int, _Before] = {}

    @contextlib.contextmanager
    def restored(self, modules: Iterable[str]) -> Iterator[None]:
        """A block after which these modules, and those of the same packages, are as before.

        Args:
            modules: which tests import; those that are not loaded yet are loaded now, before a test can replace anything.
        """
        modules = frozenset(modules)
        for name in sorted(modules - self._asked_for):
            with contextlib.suppress(ImportError):  # a function, or a module of the course
                importlib.import_module(name)
        self._asked_for |= modules
        self._note(ALWAYS | {name.partition(".")[0] for name in modules})
        loaded = dict(sys.modules)
        try:
            yield
        finally:
            _load_again(loaded)
            self._restore()

    def _note(self, packages: frozenset[str]) -> None:
        """Notes the modules that were not loaded before."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # to ask what a deprecated name stands for is no use of it
            for name, module in list(sys.modules.items()):
                if (name, id(module)) in self._noted:
                    continue
                is_public = name.partition(".")[0] in packages and "._" not in name
                if is_public and isinstance(module, types.ModuleType):
                    self._noted.add((name, id(module)))
                    for owner in _owners(module, packages):
                        self._before.setdefault(id(owner), _before(owner))

    def _restore(self) -> None:
        for owner, names, public, values in self._before.values():
            now = vars(owner)
            # Thousands of owners, and each is as before: no name is looked up for that.
            if len(now) == len(values) and all(map(operator.is_, now.values(), values)):
                continue
            if any(map(operator.is_not, map(now.get, public), public.values())):
                for name in [name for name, value in public.items() if now.get(name) is not value]:
                    setattr(owner, name, public[name])
            if len(now) > len(names) and isinstance(owner, type):
                added = [name for name in now if name not in names and not name.startswith("_")]
                for name in [name for name in added if hasattr(super(owner, owner), name)]:
                    delattr(owner, name)  # `torch.Tensor.sum = None` hides what the class inherits


def _load_again(loaded: dict[str, types.ModuleType]) -> None:
    """Puts modules back where they were: `sys.modules["scipy"] = None` forbids an import."""
    for name in [name for name, module in sys.modules.items() if module is None and name not in loaded]:
        del sys.modules[name]
    for name, module in loaded.items():
        if sys.modules.get(name) is not module:
            sys.modules[name] = module


def _owners(module: types.ModuleType, packages: frozenset[str]) -> Iterator[Any]:
    """Yields a module and the classes in it whose attributes can be replaced."""
    yield module
    for value in list(vars(module).values()):
        if issubclass(type(value), type) and str(value.__module__).partition(".")[0] in packages - {"builtins"}:
            yield value


def _before(owner: Any) -> _Before:
    return _Before(owner, frozenset(vars(owner)), _public(owner), list(vars(owner).values()))


def _public(owner: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("_") and (callable(value) or issubclass(type(value), (classmethod, property)))
    }
