"""`autograder VERB ...` in a separate process that does not have to load PyTorch again: a fork of a server that has loaded it.

The output, the exit code and the way a command ends are those of `python -m autograder`. Tests of the start itself, and
of signals, start the real command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from unittest.mock import patch

FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["autograder.cli", "autograder.tape", "autograder.view"])


def autograder(*words: object, cwd: str | Path = ".") -> CompletedProcess[str]:
    """Return the result of a command: exit code, standard output and standard error."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("stdout", "stderr")]
        process = FORKS.Process(target=_run, args=(list(map(str, words)), str(cwd), *paths))
        # IPython's shell, which tests of the grader run in this very process, leaves an emptied module as `__main__`;
        # multiprocessing reads its `__spec__` (Python 3.11).
        with patch.dict(sys.modules, {"__main__": ModuleType("__main__")}):
            process.start()
        process.join()
        out, err = (Path(path).read_text("utf-8") if os.path.exists(path) else "" for path in paths)
    return CompletedProcess(words, process.exitcode, out, err)


def _run(words: list[str], cwd: str, out: str, err: str) -> None:
    from autograder.cli import main

    os.chdir(cwd)
    for path, descriptor in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    raise SystemExit(main(words))


def hear_ctrl_c() -> None:
    """Let a new process be ended by SIGINT, for `preexec_fn`. A shell's background jobs ignore it, and so do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def nbgrader(course: str | Path, *words: str) -> None:
    """Run a plain nbgrader command in a course, with the environment's programs on PATH (it needs alembic)."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    home = {"HOME": str(course), "JUPYTER_CONFIG_DIR": str(course), "PATH": path, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=course, env=os.environ | home, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr[-2000:]
