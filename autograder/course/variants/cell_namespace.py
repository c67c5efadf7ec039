"""Runs the code of cells as a notebook does, without a kernel: one namespace, source lines known to tracebacks."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

from autograder.check.learner import local_subject, use_names
from autograder.check.subject.subjects import LocalSubject

_numbers = itertools.count()


class CellNamespace:
    """A learner's names after some cells have run; checks look them up here."""

    def __init__(self, names: dict[str, Any] | None = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"} | (names or {})

    def run(self, source: str) -> None:
        """Runs one cell; its text stays readable for `inspect.getsource`, as IPython's is."""
        name = f"<cell {next(_numbers)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with use_names(self):
            exec(compile(source, name, "exec"), self.names)

    def subject(self, name: str) -> LocalSubject:
        """Returns the learner's function or class of that name."""
        return local_subject(name, self.names[name])

    def value(self, name: str) -> Any:
        """Returns the learner's value of that name."""
        return self.names[name]
