"""Modules in the folder of a notebook, found in the same order as by a kernel: after the standard library and before installed packages."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from autograder.requirements import PACKAGE

KERNELS = frozenset(
    {
        "IPython", "asttokens", "comm", "dateutil", "debugpy", "decorator", "executing", "ipykernel", "jupyter_client",
        "jupyter_core", "matplotlib_inline", "nest_asyncio", "packaging", "pexpect", "platformdirs", "prompt_toolkit",
        "psutil", "ptyprocess", "pure_eval", "pygments", "six", "stack_data", "tornado", "traitlets", "wcwidth", "zmq",
    }
)  # fmt: skip
"""Packages that a kernel (ipykernel 7) has imported before its first cell; a file with such a name cannot replace them."""
PACKAGES = {"site-packages", "dist-packages"}
STDLIB = sysconfig.get_path("stdlib")


def path_with(folder: str, paths: Iterable[str]) -> list[str]:
    """Return a module path with a notebook's folder after the standard library, as in IPython (9, shellapp.py)."""
    paths = list(paths)
    added = [path for path in paths if Path(path).is_relative_to(STDLIB) and not PACKAGES & set(Path(path).parts)]
    return [*added, folder, *(path for path in paths if path not in added)]


def replaced_modules(files: Iterable[str]) -> set[str]:
    """Return the names of the modules that these files, given by relative path, replace, except those that a kernel has imported."""
    names = set()
    for file in files:
        name, _, rest = file.partition("/")
        if rest in ("", "__init__.py"):
            names.add(name if rest else name.removesuffix(".py") if name.endswith(".py") else "")
    return names - {"", PACKAGE.name} - sys.stdlib_module_names - KERNELS


def unload_modules(names: set[str]) -> dict[str, ModuleType]:
    """Remove the modules with these names, and their submodules, from the imported modules, and return them."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in names] if names else []
    return {name: sys.modules.pop(name) for name in loaded}
