"""Keeps code that a submission made out of the trusted process: pickles that it wrote, and text that a test would run.

Values cross as data only, but a teacher's test may turn data into code by itself: `pickle.load(open("result.pkl", "rb"))`,
`eval(answer)`, `subprocess.run(["bash", "script.sh"])`. Python tells an audit hook of all of these before they happen
(docs.python.org/3/library/audit_events.html, Python 3.11); such a test has to be judged in the submission's own process.
"""

from __future__ import annotations

import contextlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from autograder.grade.submission.remote_names import RemoteNames
from autograder.grade.submission.stand_ins.function_text import FILE

EVALUATING = ("functools", "typing", "inspect", "timeit", "code", "runpy", "doctest", "sympy", "pandas", "numexpr")
"""Libraries that run text which they are given, such as annotations, formulas and queries, and what they do it with."""
PARSING = ("sympy", "pandas", "numexpr")
"""Those of them that read a tree of the text and do what it says."""
SPAWNING = ("subprocess", "os", "IPython", "pexpect", "ptyprocess")
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen",
              str(Path(__file__).parents[3]))  # fmt: skip


class ForeignCode:
    """Refuses code that is not the teacher's.

    Args:
        texts: the teacher's cells.
        files: the teacher's files.
        names: refuses, and knows whether anything of the learner's has reached this process.
    """

    def __init__(self, texts: list[str], files: dict[str, bytes], names: RemoteNames) -> None:
        self._texts = [text.encode("utf-8", "replace") for text in texts]
        self._files, self._names, self._in_test = list(files.values()), names, False

    @contextlib.contextmanager
    def refused(self) -> Iterator[None]:
        """A block in which no such code runs in this process."""
        global _active
        _install()
        before, _active = _active, self
        try:
            yield
        finally:
            _active = before

    @contextlib.contextmanager
    def in_test(self) -> Iterator[None]:
        """A block in which no programs can be started either; the teacher's other cells may, to look at their machine."""
        self._in_test = True
        try:
            yield
        finally:
            self._in_test = False

    def check(self, event: str, details: tuple[Any, ...], caller: FrameType | None) -> None:
        """Raises the exception that `refuse` returns if an event would run code that is not the teacher's."""
        if not self._in_test and not self._names.has_received:
            return
        if event == "pickle.find_class":
            self._check_pickle(*details)
        elif event == "compile":
            self._check_text(details[0], caller)
        elif event in ("exec", "function.__new__"):
            code = details[0]
            if isinstance(code, CodeType) and code.co_filename.startswith(FILE):
                raise self._names.refuse(
                    "this test would run the answer's own code outside of the submission's process"
                )
        elif event in STARTING and self._in_test and _is_for_teacher(caller, SPAWNING):
            raise self._names.refuse(
                "this test starts a program, which may be the answer's, outside of the submission's process"
            )

    def _check_pickle(self, module: str, name: str) -> None:
        # A pickle calls what it names. The teacher's own ones may name what they do.
        if not any(module.encode() in data and name.encode() in data for data in self._files):
            raise self._names.refuse(
                f"this test loads a pickle that calls {module}.{name}, which only the teacher's files may do"
            )

    def _check_text(self, text: Any, caller: FrameType | None) -> None:
        if isinstance(text, str):
            text = text.encode("utf-8", "replace")
        known = isinstance(text, bytes) and any(text in own for own in (*self._texts, *self._files))
        if not known and _runs(text, caller):
            raise self._names.refuse(
                "this test runs text that is not the teacher's outside of the submission's process"
            )


_active: ForeignCode | None = None
_installed = False


def _install() -> None:
    global _installed
    if not _installed:
        sys.addaudithook(_on_event)
        _installed = True


def _on_event(event: str, details: tuple[Any, ...]) -> None:
    if _active is not None and event in _EVENTS:
        _active.check(event, details, sys._getframe(1))


_EVENTS = frozenset({"pickle.find_class", "compile", "exec", "function.__new__", *STARTING})


def _runs(text: Any, caller: FrameType | None) -> bool:
    """Returns whether text, or a tree of it, is compiled to be run by a teacher's cell or helper, directly or by a library."""
    if not isinstance(text, bytes):
        return _is_for_teacher(caller, ())
    if _module(caller) == "ast":  # `ast.parse` runs nothing, but its caller may
        caller = caller and caller.f_back
        return _module(caller) in PARSING and _is_for_teacher(caller, EVALUATING)
    return _is_for_teacher(caller, EVALUATING)


def _is_for_teacher(frame: FrameType | None, between: tuple[str, ...]) -> bool:
    """Returns whether a frame is of the teacher's code, or was called by it through these libraries only."""
    while frame is not None and _module(frame) in between:
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith(_LIBRARIES)


def _module(frame: FrameType | None) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0] if frame else ""
