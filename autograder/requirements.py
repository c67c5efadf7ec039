"""The packages that each command needs, the message about a missing one, and faster imports of large ones."""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.metadata
import importlib.util
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

from autograder.errors import SetupError


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Make imports inside the block about a sixth faster, by disabling garbage collection.

    The block also hides PyTorch's warning about a missing NumPy, which is optional (PyTorch 2.13).
    """
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Failed to initialize NumPy")
            yield
    finally:
        gc.freeze()
        gc.enable()


def import_without(missing: str, name: str, ready: str) -> None:
    """Import a module as if another were not installed, unless that one or `ready` is already imported."""
    if missing in sys.modules or ready in sys.modules:
        importlib.import_module(name)
        return
    sys.modules[missing] = None  # type: ignore[assignment]  # an import of it raises ImportError
    try:
        importlib.import_module(name)
    finally:
        del sys.modules[missing]


PACKAGE = Path(__file__).resolve().parent
"""The folder of this package."""
OLDEST_TORCH = (2, 6)
# Maps an extra to the import names of its packages; "" stands for the packages of every installation.
MODULES = {
    "": ("igraph", "msgspec", "rich"),
    "course": ("anywidget", "IPython", "ipywidgets", "jupyterlab", "matplotlib", "nbclient", "nbgrader"),
    "grade": ("latex2mathml", "nbgrader", "nh3", "psutil", "sqlalchemy", "yaml"),
    "cluster": ("cryptography", "distributed", "nbgrader"),
    "similar": ("copydetect", "nbgrader", "sqlalchemy"),
    "test": ("pytest", "pytest_timeout", "xdist"),
}
EXTRAS = {
    "lab": "course",
    "check": "course",
    "errors": "course",
    "release": "course",
    "book": "grade",
    "grade": "grade",
    "grade --cluster": "cluster",
    "rehearse": "grade",
    "validate-source": "grade",
    "new": "grade",
    "collect": "grade",
    "return": "grade",
    "report": "grade",
    "similar": "similar",
    "harness": "grade",
    "demo-class": "grade",
    "test": "test",
}
IN_A_CLONE = ("demo-class", "release", "test")
ALWAYS = ("doctor",)
WITHOUT_TORCH = ("atlas", "collect", "errors", "report", "return", "similar")


def find_clone(package: Path = PACKAGE) -> Path | None:
    """Return the clone that contains a package; None if it was installed from a wheel."""
    above = package.parent
    return above if (above / "solutions").is_dir() and (above / "pyproject.toml").is_file() else None


CLONE = find_clone()


def version() -> str:
    """Return the version of this package."""
    if CLONE:
        return str(tomllib.loads((CLONE / "pyproject.toml").read_text("utf-8"))["project"]["version"])
    return importlib.metadata.version("autograd-er")


def require(command: str) -> None:
    """Check that the packages and files that a command needs are present, without importing them.

    Args:
        command: such as "explain" or "grade".

    Raises:
        SetupError: a package is missing, PyTorch is older than 2.6, or the package is not in a clone.
    """
    if command in ALWAYS:
        return
    if command in IN_A_CLONE:
        require_clone(command)
    extra = EXTRAS.get(command, "")
    missing = [name for name in MODULES[""] + MODULES[extra] if importlib.util.find_spec(name) is None]
    if missing:
        raise SetupError.of(
            "package.missing|`{command}` needs {package}, which is not installed here. Install it with `{install}`.",
            command=command,
            package=missing[0],
            install=install_command(extra),
        )
    if command not in WITHOUT_TORCH and (advice := torch_advice()):
        raise SetupError.of("package.advice|`{command}` needs {advice}", command=command, advice=advice)


def require_clone(command: str) -> Path:
    """Return the clone in which the command runs; `command` may include an option, such as "lab --teacher".

    Raises:
        SetupError: this is an installed package, which does not contain sources and tests.
    """
    if CLONE is None:
        raise SetupError.of(
            "package.needs_clone|`{command}` works on the course's sources, which an installed package does not "
            "contain. Clone the project's repository and run `python3 -m autograder {command}` there.",
            command=command,
        )
    return CLONE


def install_command(extra: str) -> str:
    """Return pip's command for an extra; without an extra, for the package alone."""
    return f'pip install "autograd-er[{extra}]"' if extra else "pip install autograd-er"


def torch_advice() -> str:
    """Return the required version of PyTorch, the installed one and how to update it; "" if it is recent enough."""
    oldest = ".".join(map(str, OLDEST_TORCH))
    if importlib.util.find_spec("torch") is None:
        return f"PyTorch {oldest} or later, which is not installed here. Install it with `pip install torch`."
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:  # built from source, and imported from its build folder
        return ""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) >= OLDEST_TORCH:
        return ""
    return f"PyTorch {oldest} or later, and this is {version}. Get a newer one with `pip install --upgrade torch`."
