"""Keeps a teacher's test from running what a learner wrote in the trusted process: with `eval`, a pickle, an import, a program.

A test may be handed text and files of the learner's. Python reports each of these calls to its audit hooks (PEP 578; events
as listed in Python's documentation, "Audit events table", 3.11); here they are refused, and the test is judged elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from autograder.tape.run.source_text import is_own_file

PROGRAMS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn"}


class _Guard(NamedTuple):
    """What is guarded now: how to refuse, and the folder in which a learner's files may lie."""

    refuse: Callable[[str], Exception]
    folder: str


_guards: list[_Guard] = []
_installed = False


@contextlib.contextmanager
def guarded_calls(refuse: Callable[[str], Exception], folder: Path) -> Iterator[None]:
    """A block in which nothing that a learner wrote is run.

    Args:
        refuse: notes a reason and returns the exception to raise.
        folder: where the tests run, and where files that a learner wrote arrive.
    """
    global _installed
    if not _installed:
        sys.addaudithook(_heard)  # for good: Python has no way to take one off
        _installed = True
    _guards.append(_Guard(refuse, os.path.join(folder, "")))
    try:
        yield
    finally:
        _guards.pop()


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _guards:
        return
    guard = _guards[-1]
    if event == "pickle.find_class":
        raise guard.refuse("a pickle can run what its writer wants, so it is not opened beside the tests")
    if event in PROGRAMS:
        raise guard.refuse("a test that starts a program is not run beside the tests of others")
    if event in ("compile", "exec") and _may_be_learners(arguments[0], guard.folder):
        raise guard.refuse("text that is run as code may be the learner's, so it is not run beside the tests")


def _may_be_learners(code: object, folder: str) -> bool:
    """Returns whether code comes from the tests' folder, or a teacher's own line has just turned text into code."""
    if isinstance(code, types.CodeType) and code.co_filename.startswith(folder):
        return True
    caller = sys._getframe(2)  # of the hook: `eval`, `exec` and `compile` have no frames of their own
    return is_own_file(caller.f_code.co_filename)
