"""The text of a program: read, compiled, and told apart from the files of libraries."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import site
import sysconfig
import tokenize
import types
from collections.abc import Callable

from autograder.errors import InputError
from autograder.installation.requirements import PACKAGE
from autograder.locale.translations import in_english

_LIBRARIES = tuple(
    os.path.realpath(folder) + os.sep
    for folder in {
        str(PACKAGE),
        *(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        site.getusersitepackages(),
    }
)


class ProgramError(InputError):
    """The program could not be run; the message is one sentence that says what was seen and what to do.

    Attributes:
        recording: what was recorded until then, or None.
    """

    recording: object = None


def compiled(source: str, file: str) -> types.CodeType:
    """Returns the code object of `source`.

    Raises:
        ProgramError: it is not Python; the message gives the line.
    """
    try:
        code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        # A null byte is a SyntaxError without a line, or a ValueError, as the release of Python has it (3.11.4).
        line = getattr(error, "lineno", None)
        known = {"file": file, "reason": getattr(error, "msg", str(error)), "line": line}
        raise ProgramError(
            in_english("{file} is not Python: {reason}. Save it as plain text.", **known)
            if line is None
            else in_english("{file} is not Python: {reason} on line {line}. Correct that line.", **known)
        ) from None
    # inspect.getsource and tracebacks find the text of a program that stands in no file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return code


def read_source(path: str | os.PathLike) -> str:
    """Returns the text of a Python file, decoded as Python decodes it: by its coding line or byte-order mark, else UTF-8.

    Raises:
        ProgramError: it cannot be read so.
    """
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not text as Python reads it ({error})"
        raise ProgramError(
            in_english("{file} cannot be read: {reason}. Name a Python file.", file=os.fspath(path), reason=reason)
        ) from None


def is_own_file(filename: str) -> bool:
    """Returns whether a code object's file was written by the user: not the standard library, not a package, not autograder."""
    # A notebook's cells have names of files that do not exist; their text is in linecache.
    if (filename.startswith("<") and not filename.startswith("<ipython-input")) or filename.startswith("<frozen"):
        return False
    if filename not in linecache.cache and not os.path.exists(filename):
        return False
    return not _real(filename).startswith(_LIBRARIES) and f"{os.sep}site-packages{os.sep}" not in filename


_real = functools.lru_cache(maxsize=1000)(os.path.realpath)  # asked for every call that a program makes


def code_of(function: Callable) -> types.CodeType:
    """Returns the code of a function or method, beneath its decorators.

    Raises:
        ProgramError: it has none, such as a module or a `functools.partial`.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, types.CodeType):
        raise ProgramError(
            in_english(
                "A {kind} has no code to follow. Give a function that calls it, or source text.",
                kind=type(function).__name__,
            )
        )
    return code
