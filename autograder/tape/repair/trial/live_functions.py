"""Run the existing functions of a source with the code of a changed source.

A function object keeps its globals, closure, defaults and decorators; only its `__code__` is replaced. Python allows
this if both have the same free variables (docs.python.org, "Data model", special read-write attributes of functions).
"""

from __future__ import annotations

import ast
import gc
import types
from collections.abc import Iterator
from contextlib import contextmanager

from autograder.locale.translations import in_english
from autograder.tape.run.programs.source_text import ProgramError

_Key = tuple[str, int]


class LiveFunctions:
    """The function objects whose code was compiled from a source.

    Args:
        source: the source.
        file: the file name of their code objects.
    """

    def __init__(self, source: str, file: str):
        self.file = file
        self._outside = _outside(source)
        self._keys = {_position(code): key for key, code in _codes(source, file).items()}
        # `gc.get_objects` contains all functions: globals, methods, closures, and decorated functions.
        self.functions = [one for one in gc.get_objects() if type(one) is types.FunctionType and self._key(one)]

    def _key(self, function: types.FunctionType) -> _Key | None:
        code = function.__code__
        return self._keys.get(_position(code)) if code.co_filename == self.file else None

    def __contains__(self, code: types.CodeType) -> bool:
        return code.co_filename == self.file and _position(code) in self._keys

    @contextmanager
    def running(self, source: str) -> Iterator[None]:
        """Replace the code of each function with that of the changed source, and restore it at the end of the block.

        Raises:
            ProgramError: if the change is not only in bodies of functions, or if a function would have other free
                variables.
        """
        if _outside(source) != self._outside:
            raise ProgramError(in_english("The change is outside of the functions, and that code has already run."))
        changed, before = _codes(source, self.file), [(one, one.__code__) for one in self.functions]
        pairs = [(one, changed[key]) for one in self.functions if (key := self._key(one)) in changed]
        if any(one.__code__.co_freevars != code.co_freevars for one, code in pairs):
            raise ProgramError(
                in_english(
                    "The change makes a function close over other names, which is not possible for a live function."
                )
            )
        try:
            for function, code in pairs:
                function.__code__ = code
            yield
        finally:
            for function, code in before:
                function.__code__ = code


def _position(code: types.CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(source: str, file: str) -> dict[_Key, types.CodeType]:
    """Return the code of each function in a source, by its qualified name and the number of earlier functions with that name."""
    found: dict[_Key, types.CodeType] = {}
    waiting = [compile(source, file, "exec", dont_inherit=True)]
    for code in waiting:
        inside = [one for one in code.co_consts if isinstance(one, types.CodeType)]
        waiting += inside
        for one in inside:
            count = sum(name == one.co_qualname for name, _ in found)
            found[one.co_qualname, count] = one
    return found


def _outside(source: str) -> str:
    """Return the code of a source outside the bodies of its functions, without positions."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Pass()]
        elif isinstance(node, ast.Lambda):
            node.body = ast.Constant(None)
    return ast.dump(tree)
