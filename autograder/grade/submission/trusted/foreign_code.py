"""Keeps code that a submission made out of the trusted process: pickles that it wrote, text and models that a test would run.

Values cross as data only, but a teacher's test may turn data into code by itself: `pickle.load(open("result.pkl", "rb"))`,
`eval(answer)`, `get_ipython().run_cell(answer)`, `subprocess.run(["bash", "script.sh"])`. Python tells an audit hook of all of
these before they happen (docs.python.org/3/library/audit_events.html, Python 3.11). What is not known to be harmless is refused:
such a test has to be judged in the submission's own process, and a rehearsal says so.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from autograder.grade.submission.cell_analysis import transformed
from autograder.grade.submission.stand_ins.function_text import FILE
from autograder.grade.submission.trusted import foreign_files
from autograder.grade.submission.trusted.files_opened_in_c import no_other_files
from autograder.grade.submission.trusted.foreign_models import no_loaded_models
from autograder.grade.submission.trusted.remote_names import RemoteNames
from autograder.installation.requirements import PACKAGE
from autograder.printable import printable

GENERATING = (
    "autograder",
    "collections",
    "dataclasses",
    "attr",
    "attrs",
    "networkx",
    "decorator",
    "torch",
    "numpy",
    "scipy",
)
"""Libraries that compile text which they made from names and signatures."""
COMPARING = ("executing", "asttokens", "stack_data", "pure_eval")
"""Those that compile text to find a place in it, for IPython's tracebacks, and never run it."""
PARSING = ("sympy", "pandas", "numexpr", "asteval", "lmfit")
"""Those that read a tree of a text and do what it says; for others, a tree does nothing before it is compiled."""
SPAWNING = ("subprocess", "os")
STARTERS = ("platform", "uuid", "ctypes", "torch", "matplotlib", "sysconfig", "locale")
"""Libraries that start programs of the system's, to ask about the machine."""
GRADERS_OWN = (
    "autograder",
    "importlib",
    "importlib_metadata",
    "_frozen_importlib_external",
    "traceback",
    "warnings",
    "inspect",
    "stack_data",
)
"""Open files of their own choice: the grader, imports (of which the code is judged), and what shows lines of the code that runs.

Python's import goes by its frozen name until `importlib` is imported (3.11), and the package importlib_metadata is
asked instead of `importlib.metadata` in the whole process as soon as anything imports it (10.2, `disable_stdlib_finder`).
"""
THROUGH = (
    "pathlib",
    "os",
    "posixpath",
    "io",
    "codecs",
    "shutil",
    "tempfile",
    "glob",
    "zipfile",
    "zipp",
    "tokenize",
    "linecache",
    "psutil",
)
"""Modules that open what their caller names."""
OF_TIMEIT = ("pass", "_stmt()", "_setup()")
"""What stands in its loop where it is given functions, or nothing (Lib/timeit.py, Python 3.11)."""
STARTING = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn")
_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen",
              str(PACKAGE))  # fmt: skip
"""Where the files of libraries lie."""


class ForeignCode:
    """Refuses code that is not the teacher's.

    Args:
        texts: the teacher's cells.
        files: the teacher's files.
        names: refuses, and knows whether anything of the learner's has reached this process.
        folder: what the tests have for themselves, with their temporary files.
    """

    def __init__(self, texts: list[str], files: dict[str, bytes], names: RemoteNames, folder: Path) -> None:
        known = [form for text in texts for form in (text, transformed(text))]
        self._texts = [text.encode("utf-8", "replace") for text in known]
        self._files, self._names, self._in_test = list(files.values()), names, False
        self._folder = folder

    @contextlib.contextmanager
    def refused(self) -> Iterator[ForeignCode]:
        """A block in which no such code runs in this process."""
        global _active
        _install()
        before, _active = _active, self
        try:
            with no_loaded_models(self._files, self._refused_model), no_other_files(self._check_path):
                yield self
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
        if event in foreign_files.EVENTS:
            self._check_files(event, details, caller)
        elif event == "pickle.find_class":
            self._check_pickle(*details)
        elif event == "compile":
            self._check_compiled(details[0], details[1], caller)
        elif event.startswith("marshal.load"):
            self._check_bytecode(caller)
        elif event in ("exec", "function.__new__"):
            if isinstance(details[0], CodeType) and details[0].co_filename.startswith(FILE):
                raise self._refusal("would run the answer's own code")
        elif event == "ctypes.dlopen":
            if "/" in str(details[0]) and not (
                _is_known(str(details[0])) or str(details[0]).startswith(("/usr/", "/lib"))
            ):
                raise self._refusal("loads a library, which may be the answer's,")
        elif self._in_test and _module(_outside(caller, SPAWNING)) not in STARTERS:
            raise self._refusal("starts a program, which may be the answer's,")

    def _check_files(self, event: str, details: tuple[Any, ...], caller: FrameType | None) -> None:
        if _module(_outside(caller, THROUGH)) in GRADERS_OWN:
            return
        if path := foreign_files.touches_others(event, details, self._folder):
            raise self._refused_file(path)

    def _check_path(self, path: Any) -> None:
        """Raises the exception if a test may not write there."""
        guarded = self._in_test or self._names.has_received
        if guarded and (other := foreign_files.touches_others("os.remove", (path,), self._folder)):
            raise self._refused_file(other)

    def _refused_file(self, path: str) -> Exception:
        name = printable(os.path.basename(path))[:80]
        return self._names.refuse(
            f"this test would touch {name}, a file outside of its own folder, which the answer may have named"
        )

    def _check_pickle(self, module: str, name: str) -> None:
        # A pickle calls what it names. The teacher's own ones may name what they do.
        if not any(module.encode() in data and name.encode() in data for data in self._files):
            raise self._names.refuse(
                f"this test loads a pickle that calls {module}.{name}, which only the teacher's files may do"
            )

    def _check_compiled(self, source: Any, file: Any, caller: FrameType | None) -> None:
        if _is_imported(caller):
            return
        source = source.encode("utf-8", "replace") if isinstance(source, str) else source
        if not isinstance(source, bytes):
            if not _compiles_trees(caller):
                raise self._refusal("runs a tree that is not the teacher's")
        elif (
            _module(caller) != "symtable"
            and not self._is_known(source, caller)
            and not self._is_timed(caller)
            and not _is_harmless(source, str(file), caller)
        ):
            raise self._refusal("runs text that is not the teacher's")

    def _check_bytecode(self, caller: FrameType | None) -> None:
        # Python's import keeps the paths in these variables (Lib/importlib/_bootstrap_external.py, `_compile_bytecode`).
        paths = [caller.f_locals.get(name) for name in ("bytecode_path", "source_path")] if caller else []
        found = [str(path) for path in paths if path]
        if _module(caller) != "importlib" or not found or not all(map(_is_known, found)):
            raise self._refusal("loads compiled code that is not the teacher's")

    def _refused_model(self) -> Exception:
        return self._names.refuse(
            "this test loads a model that is not the teacher's, and that may do anything when it runs"
        )

    def _is_known(self, text: bytes, caller: FrameType | None) -> bool:
        own = (*self._texts, *self._files)
        if _module(caller) == "ast" and _module(_outside(caller, ("ast",))) == "pandas":
            # `df.query("a >= 1")` is parsed with other spaces between its words (pandas 3.1, core/computation/expr.py).
            return any(_spaceless(text) in _spaceless(one) for one in own)
        return any(text.strip() in one for one in own)

    def _is_timed(self, caller: FrameType | None) -> bool:
        """Returns whether `timeit` compiles its loop around a function, or around a statement of the teacher's."""
        if caller is None or _module(caller) != "timeit":
            return False
        words = [caller.f_locals.get(name) for name in ("stmt", "setup")]
        plain = [re.sub("\n {4,8}", "\n", word) for word in words if isinstance(word, str)]
        return all(word in OF_TIMEIT or self._is_known(word.encode(), caller) for word in plain)

    def _refusal(self, what: str) -> Exception:
        return self._names.refuse(f"this test {what} outside of the submission's process")


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


_EVENTS = frozenset(
    {
        "pickle.find_class",
        "compile",
        "exec",
        "function.__new__",
        "marshal.loads",
        "marshal.load",
        "ctypes.dlopen",
        *foreign_files.EVENTS,
        *STARTING,
    }
)


def _spaceless(text: bytes) -> bytes:
    return b"".join(text.split())


def _is_harmless(text: bytes, file: str, caller: FrameType | None) -> bool:
    """Returns whether a library compiles text of its own, of an installed module, or only to look at it."""
    module = _module(caller)
    if module == "ast":
        return _module(_outside(caller, ("ast",))) not in PARSING
    if module == "importlib":
        return _is_known(file)
    # The annotations of a class that msgspec is to decode, which it finds in the class itself (0.22).
    if module == "typing" and _module(_outside(caller, ("typing",))) == "msgspec":
        return True
    if module == "timeit":  # what `%timeit` gives it holds nothing: IPython compiles the statement by itself (9.18)
        return _module(_outside(caller, ("timeit",))) == "IPython"
    return module in (*GENERATING, *COMPARING) or (_is_of_library(caller) and _is_constant(text, caller))


def _compiles_trees(caller: FrameType | None) -> bool:
    """Returns whether a tree is compiled by a library whose text was looked at before, or that made the tree itself."""
    return _module(_outside(caller, ("codeop",))) in ("IPython", *GENERATING, *COMPARING)


def _is_constant(text: bytes, frame: FrameType | None) -> bool:
    """Returns whether a text stands in the code of a library that compiles it, such as the loop around a statement to be timed."""
    while _is_of_library(frame):
        assert frame is not None
        if any(isinstance(one, str) and one.encode("utf-8", "replace") == text for one in frame.f_code.co_consts):
            return True
        frame = frame.f_back
    return False


def _is_imported(frame: FrameType | None) -> bool:
    """Returns whether only libraries stand between what is compiled and the import of one, such as mpmath, which writes its operators."""
    while _is_of_library(frame):
        assert frame is not None
        if frame.f_code.co_name == "<module>":
            return True
        frame = frame.f_back
    return False


def _outside(frame: FrameType | None, modules: tuple[str, ...]) -> FrameType | None:
    """Returns the nearest caller that is in none of these modules."""
    while frame is not None and _module(frame) in modules:
        frame = frame.f_back
    return frame


def _is_of_library(frame: FrameType | None) -> bool:
    return frame is not None and _is_known(frame.f_code.co_filename)


def _is_known(file: str) -> bool:
    """Returns whether a file is a library's or the teacher's, which no submission has written."""
    return file.startswith((*_LIBRARIES, *foreign_files.teachers_folders))


def _module(frame: FrameType | None) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0] if frame else ""
