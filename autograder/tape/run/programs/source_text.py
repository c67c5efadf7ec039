"""Read and compile the source of a program, and distinguish the user's files from those of libraries."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import site
import sysconfig
import tokenize
import types
import warnings
from collections.abc import Callable
from typing import Any

from autograder.errors import InputError
from autograder.requirements import PACKAGE

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
    """The program could not be run. The message gives the reason and the next step in one sentence.

    Attributes:
        recording: the recording up to the error, or None.
    """

    recording: object = None


def compiled(source: str, file: str) -> types.CodeType:
    """Return the code object of `source`.

    Raises:
        ProgramError: if it is not valid Python; the message contains the line.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        # A null byte raises a SyntaxError without a line or a ValueError, depending on the release of Python (3.11.4).
        line, reason = getattr(error, "lineno", None), getattr(error, "msg", str(error))
        text = "source.not_python|{file} is not Python: {reason} on line {line}. Correct that line."
        if line is None:
            text = "source.not_text|{file} is not Python: {reason}. Save it as plain text."
        raise ProgramError.of(text, file=file, reason=reason, line=line) from None
    # inspect.getsource and tracebacks read linecache for a program that is not in a file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return code


def read_source(path: str | os.PathLike[Any]) -> str:
    """Return the text of a Python file, decoded as Python does: by its encoding declaration or byte-order mark, else as UTF-8.

    Raises:
        ProgramError: if it cannot be read.
    """
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it cannot be decoded as Python source ({error})"
        text = "source.not_read|{file} cannot be read: {reason}. Name a Python file."
        raise ProgramError.of(text, file=os.fspath(path), reason=reason) from None


def is_own_file(filename: str) -> bool:
    """Return whether the user wrote a code object's file, which excludes the standard library, packages, and autograder."""
    # The file names of notebook cells do not exist as files; their text is in linecache.
    if (filename.startswith("<") and not filename.startswith("<ipython-input")) or filename.startswith("<frozen"):
        return False
    if filename not in linecache.cache and not os.path.exists(filename):
        return False
    return not _real(filename).startswith(_LIBRARIES) and f"{os.sep}site-packages{os.sep}" not in filename


# Cached, because it is called for every call of the program.
_real = functools.lru_cache(maxsize=1000)(os.path.realpath)


def code_of(function: Callable[..., Any]) -> types.CodeType:
    """Return the code of a function or method inside its decorators.

    Raises:
        ProgramError: if it has no Python code, such as a module or a `functools.partial`.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, types.CodeType):
        text = "source.no_code|A {kind} has no code to follow. Give a function that calls it, or source text."
        raise ProgramError.of(text, kind=type(function).__name__)
    return code
