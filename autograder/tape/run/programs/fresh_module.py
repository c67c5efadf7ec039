"""Create a program's module for one run, and remove it afterwards."""

from __future__ import annotations

import inspect
import os
import sys
import types
from collections.abc import Callable, Iterable

from autograder.errors import message_of
from autograder.locale.translations import in_english
from autograder.tape.run.programs.source_text import ProgramError, is_own_file

_OURS = {"autograder", "torch"}  # already imported, even if files of the program have these names


class importable:  # noqa: N801 - reads as a statement
    """A context in which the module and its neighbors can be imported. At its end they are removed from `sys.modules`."""

    def __init__(self, module: types.ModuleType, folders: list[str]):
        self.module, self.folders = module, folders

    def __enter__(self):
        self.before = dict(sys.modules)
        # Python would find the program's own `secrets.py` first, but this process has already imported the standard
        # library's.
        self.hidden = {name: sys.modules.pop(name) for name in _shadowed(self.folders)}
        sys.modules[self.module.__name__] = self.module
        sys.path[:0] = self.folders

    def __exit__(self, *_):
        for folder in self.folders:
            if folder in sys.path:
                sys.path.remove(folder)
        # The finder of a relative entry keeps the working directory of this run.
        for entry in [entry for entry in sys.path_importer_cache if not os.path.isabs(entry)]:
            del sys.path_importer_cache[entry]
        sys.modules[self.module.__name__] = self.before.get(self.module.__name__, self.module)
        if self.module.__name__ not in self.before:
            del sys.modules[self.module.__name__]
        # A neighboring module that keeps its state would make the second run differ from the first.
        # The places are read before the first removal, because a namespace package finds its path by its parent.
        places = {name: _place(sys.modules[name]) for name in set(sys.modules) - set(self.before)}
        for name in filter(lambda name: is_own_file(places[name]), places):
            del sys.modules[name]
        sys.modules.update(self.hidden)


def _place(module: types.ModuleType) -> str:
    """Return the file of a module, or the first directory of a namespace package."""
    # `__file__` names the copy of a file, which the program may have removed.
    origin = getattr(getattr(module, "__spec__", None), "origin", None) or getattr(module, "__file__", None)
    return origin or next(iter(getattr(module, "__path__", ())), "<none>")


def _shadowed(folders: Iterable[str]) -> list[str]:
    """Return the imported modules that a program started in these directories would import from its own files instead."""
    own = {top: folder for folder in folders for top in _importable_names(folder or os.curdir)}
    tops = {name.partition(".")[0] for name in sys.modules}
    hidden = {top for top in own.keys() & tops - _OURS if _comes_later(sys.modules.get(top), own[top])}
    return [name for name in sys.modules if name.partition(".")[0] in hidden]


def _importable_names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [
                entry.name.removesuffix(".py")
                for entry in entries
                if entry.name.endswith(".py") or os.path.exists(os.path.join(entry.path, "__init__.py"))
            ]
    except OSError:
        return []


def _comes_later(module: types.ModuleType | None, folder: str) -> bool:
    """Return whether Python would search `folder` before it finds this module, and the module is not in `folder`."""
    # Frozen and built-in modules are imported before any file is searched (sys.meta_path).
    origin = getattr(getattr(module, "__spec__", None), "origin", None)
    file = getattr(module, "__file__", None)
    return bool(file and origin not in ("frozen", "built-in")) and not os.path.realpath(str(file)).startswith(
        os.path.join(os.path.realpath(folder), "")
    )


def run_module(code: types.CodeType, module: types.ModuleType, shown: str, *, guarded: bool) -> None:
    """Run a module's code. Raise a ProgramError for an ImportError and, if `guarded`, for any other error."""
    try:
        exec(code, module.__dict__)
    except ImportError as error:
        cure = in_english("Install the missing package, or correct the name.")
        if "relative import" in message_of(error):
            cure = in_english("Start it as a module of its package: `autograder explain -m PACKAGE.MODULE`.")
        raise ProgramError(
            in_english("{shown} cannot be imported: {reason}. {cure}", shown=shown, reason=message_of(error), cure=cure)
        ) from error
    except Exception as error:
        if not guarded:
            raise
        raise ProgramError(
            in_english(
                "{shown} cannot be imported: {error}: {reason}.",
                shown=shown,
                error=type(error).__name__,
                reason=message_of(error),
            )
        ) from error


def run_chosen(module: types.ModuleType, function: str | None, shown: str, backwards: Callable[[], int]) -> object:
    """Return the result of the module's function. Without a name, return the result of `run` if no backward has run yet."""
    if function is None:
        run = module.__dict__.get("run")
        return _called(run, module, shown) if inspect.isfunction(run) and not backwards() else None
    chosen: object = module
    for part in function.split("."):
        chosen = getattr(chosen, part, None)
    if inspect.isclass(chosen):
        raise ProgramError(
            in_english(
                "{shown}::{function} is a class. Name a function, or a static method as {function}.METHOD.",
                shown=shown, function=function,
            )
        )  # fmt: skip
    if not callable(chosen):
        known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        raise ProgramError(
            in_english(
                "{shown} has no function {function}; it has {names}.",
                shown=shown,
                function=function,
                names=", ".join(known) or "none",
            )
        )
    return _called(chosen, module, shown)


def _called(function: Callable, module: types.ModuleType, shown: str) -> object:
    """Call `function` without arguments, or with the return value of the module's `make()`, unpacked to match its parameters."""
    needed = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not needed:
        return function()
    make = module.__dict__.get("make")
    if not callable(make):
        name = getattr(function, "__name__", "the function")
        raise ProgramError(
            in_english(
                "{shown}::{name} needs {names}; give them defaults, or a make() that returns them.",
                shown=shown,
                name=name,
                names=", ".join(needed),
            )
        )
    made = make()
    if isinstance(made, dict) and set(needed) <= set(made):
        return function(**{name: made[name] for name in needed})
    if isinstance(made, (tuple, list)) and len(made) == len(needed) and len(needed) > 1:
        return function(*made)
    return function(made)
