"""Execution of cells without a kernel: one namespace, with source lines that tracebacks can show."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

from autograder.check.learner import local_subject, use_names
from autograder.check.subject.subjects import LocalSubject

_numbers = itertools.count()


class CellNamespace:
    """The names of a student after some cells have run; checks look up names here."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"} | (names or {})

    def run(self, source: str) -> None:
        """Run one cell; `inspect.getsource` finds its source, as in IPython."""
        name = f"<cell {next(_numbers)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with use_names(self):
            exec(compile(source, name, "exec"), self.names)

    def subject(self, name: str) -> LocalSubject:
        """Return the student's function or class of that name."""
        return local_subject(name, self.names[name])

    def value(self, name: str) -> Any:
        """Return the student's value of that name."""
        return self.names[name]
