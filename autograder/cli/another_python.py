"""Restart of a command in another Python, so that submissions run with the packages that are installed there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from autograder.errors import SetupError
from autograder.requirements import CLONE

OLDEST = (3, 11)
START = "import sys; from autograder.cli import main; sys.exit(main())"
# Checks the other Python, in syntax that old versions understand, and prints the problem.
EXAMINATION = f"""
import sys
if sys.version_info < {OLDEST}:
    print("is Python %d.%d; autograder needs {OLDEST[0]}.{OLDEST[1]} or later" % sys.version_info[:2])
    sys.exit(3)
try:
    from autograder.requirements import require
    require(sys.argv[1])
except ImportError:
    print("does not have this package. Install it there with `pip install \\"autograd-er[grade]\\"`")
    sys.exit(3)
except Exception as error:
    print("cannot be used: %s" % error)
    sys.exit(3)
print("ready")
"""


class PythonError(SetupError):
    """The chosen Python cannot run the command; the message gives the reason."""


def continue_in(python: str, words: Sequence[str]) -> None:
    """Replace this process by the same command in another Python; return if this is that Python.

    Args:
        python: its path, or its name in PATH, such as "python3.12".
        words: the command line, without the program.

    Raises:
        PythonError: it cannot be started, is too old, or lacks a package.
    """
    found = shutil.which(python)
    if found is None:
        raise PythonError(
            f"--python {python!r}: there is no such program. Specify a Python interpreter, such as course/.venv/bin/python"
        )
    # not resolved: an environment's `python` is often a link to the Python that created it
    path = os.path.abspath(found)
    if path == sys.executable:
        return
    environment = _environment()
    _examine(path, words[0], environment)
    sys.stdout.flush()
    os.execve(path, [path, "-P", "-c", START, *words], environment)


def _environment() -> dict[str, str]:
    # Only the clone is added: adding the folder of an installed package would add its other packages too.
    clone = {"PYTHONPATH": str(CLONE)} if CLONE else {}
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | clone


def _examine(path: str, verb: str, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            [path, "-c", EXAMINATION, verb], env=environment, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PythonError(f"--python {path}: it cannot be started ({error})") from None
    if done.stdout.strip() != "ready":
        reason = done.stdout.strip() if done.returncode == 3 else "is not a Python interpreter, or exits immediately"
        raise PythonError(f"{path} {reason}")
