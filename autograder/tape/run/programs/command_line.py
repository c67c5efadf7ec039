"""Emulate how Python starts a program: its arguments, and the module's package."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from autograder.tape.internals.entry_points import replaced
from autograder.tape.run.programs.scratch_folder import ScratchFolder
from autograder.tape.run.programs.source_text import ProgramError


@dataclass(frozen=True)
class CommandLine:
    """The arguments of a `python` command."""

    arguments: tuple[str, ...] = ()  # arguments of the program, as in `sys.argv[1:]`
    module: str | None = None  # full name of the module for `-m`, else None
    # copy of the working directory in which each run starts; None for the working directory itself
    scratch: ScratchFolder | None = field(default=None, compare=False)

    @contextlib.contextmanager
    def given_to(self, first: str, folders: list[str]) -> Iterator[None]:
        """Set `sys.argv`, the working directory, and the entries of `sys.path` from which the program imports its own files (`folders`)."""
        entered = self.scratch.entered() if self.scratch else contextlib.nullcontext()
        copies = self.scratch.importable(folders) if self.scratch else contextlib.nullcontext()
        with replaced(sys, "argv", [self.path_of(first), *self.arguments]), entered, copies:
            yield

    def path_of(self, file: str) -> str:
        """Return the path of a file for a program that may remove or overwrite it: that of its copy, if there is one."""
        return self.scratch.path_of(file) if self.scratch else file


NO_ARGUMENTS = CommandLine()


def module_file(name: str) -> tuple[str, str]:
    """Return the full name and the file of the module that `python -m name` would run, without importing it.

    Raises:
        ProgramError: if there is no such module, or if it is not written in Python.
    """
    folders, spec = [os.getcwd(), *sys.path], None
    for part in name.split("."):
        spec = PathFinder.find_spec(part, folders)
        folders = list(spec.submodule_search_locations or ()) if spec else []
    if spec is None:
        text = "module.missing|There is no module {name} here. Start in the folder that contains its outermost package."
        raise ProgramError.of(text, name=name)
    if folders:
        return module_file(f"{name}.__main__")
    if not spec.origin or not spec.origin.endswith(".py"):
        raise ProgramError.of("module.foreign|The module {name} is not written in Python. Name one that is.", name=name)
    return name, spec.origin


def packaged_name(path: str) -> tuple[str, list[str]]:
    """Return the full name of the module in a file, and the directories from which it and its neighbors can be imported."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    root = folder
    while os.path.exists(os.path.join(root, "__init__.py")):
        root, package = os.path.split(root)
        name = f"{package}.{name}"
    return name, list(dict.fromkeys([root, folder]))


def place_in_package(module: ModuleType, name: str, file: str) -> None:
    """Set the package of a module, so that its relative imports work."""
    package = name.rpartition(".")[0]
    if package:
        module.__package__ = package
        module.__spec__ = ModuleSpec(name, None, origin=file)
