"""The same program with another text: nothing is read from its file, and nothing written to it."""

from __future__ import annotations

import os
import types
from collections.abc import Callable

from autograder.tape.run.program import Program, _chosen, _import, _importable, compiled, from_function, from_source

Remake = Callable[[str], Program]


def remaker(file: str, function: str | None = None, names: dict | None = None) -> Remake:
    """Returns what makes a program of a text, as if `file` held it.

    Args:
        file: the program's file, or a name where it stands in none; beside a real file its neighbours can be imported.
        function: what is run of it, as in `FILE::FUNCTION`; None runs it all.
        names: what a text without a file starts from, as a notebook cell does.
    """
    if not os.path.exists(file):
        return lambda text: from_source(text, file, names, function)
    path = os.path.abspath(file)

    def remake(text: str) -> Program:
        code = compiled(text, path)

        def call(backwards: Callable[[], int]) -> object:
            module = types.ModuleType("__main__" if function is None else os.path.basename(file).removesuffix(".py"))
            module.__file__ = path
            with _importable(module, os.path.dirname(path)):
                _import(code, module, file, guarded=function is not None)
                return _chosen(module, function, file, backwards)

        return Program(file, text, call, path)

    return remake


def remaker_of(function: Callable, file: str, names: dict | None = None) -> Remake:
    """Returns what makes a program of the text that `function` was defined in: the text runs beside the function's own globals."""

    def remake(text: str) -> Program:
        space = dict(function.__globals__)
        exec(compiled(text, function.__code__.co_filename), space)
        return from_function(space[function.__name__], file, names)

    return remake
