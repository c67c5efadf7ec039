"""Attributes of modules that the test has replaced: `builtins.input`, `sys.stdin`, `time.sleep`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autograder.grade.wire.values.library_names import imported


class ModulePatches:
    """What stands in place of which attribute, while the learner's code runs for the test."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def put(self, name: str, value: Any) -> None:
        """Replaces an attribute, named with its module."""
        self._values[name] = value

    def take_back(self, name: str) -> None:
        """Leaves an attribute as it is."""
        self._values.pop(name, None)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """A block in which the attributes are replaced; the worker's own code outside of it finds Python's."""
        before = []
        try:
            for name, value in self._values.items():
                path, _, attribute = name.rpartition(".")
                module = imported(path, "")
                before.append((module, attribute, getattr(module, attribute)))
                setattr(module, attribute, value)
            yield
        finally:
            for module, attribute, value in reversed(before):
                setattr(module, attribute, value)
