"""Runs the code of cells as a notebook does, without a kernel: one namespace, source lines known to tracebacks."""

from __future__ import annotations

import itertools
import linecache

from autograder.check.learner import use_names
from autograder.check.subject.subjects import LocalSubject

_numbers = itertools.count()


class Namespace:
    """A learner's names after some cells have run; checks look them up here."""

    def __init__(self) -> None:
        self.names: dict = {"__name__": "__main__"}

    def run(self, source: str) -> None:
        """Runs one cell; its text stays readable for `inspect.getsource`, as IPython's is."""
        name = f"<cell {next(_numbers)}>"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        with use_names(self):
            exec(compile(source, name, "exec"), self.names)

    def subject(self, name: str) -> LocalSubject:
        """Returns the learner's function or class of that name."""
        return LocalSubject(self.names[name])

    def value(self, name: str):
        """Returns the learner's value of that name."""
        return self.names[name]
