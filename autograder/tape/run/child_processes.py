"""The processes that a program starts: nobody follows what they do, but that one of them called backward is known."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from multiprocessing.process import BaseProcess
from pathlib import PurePath

from autograder.tape.internals.entry_points import replaced, replaced_engine

LAUNCHERS = ("python", "pypy", "torchrun", "accelerate", "deepspeed")
"""How the names of commands begin that run Python programs."""


@dataclass(frozen=True)
class Children:
    """What is known of the processes that a run started.

    Attributes:
        forked: whether `multiprocessing` or `os.fork` started one, and `called_backward` whether such a one called backward.
        pythons: whether a command was started that runs another Python program, of which nothing is known.
    """

    forked: bool = False
    called_backward: bool = False
    pythons: bool = False


class ChildProcesses:
    """The processes that one run starts; a child tells of its backward by a byte in a file.

    Attributes:
        process: the number of the process that runs the program.
        processes: those that `multiprocessing` started.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.processes: list[BaseProcess] = []
        self.pythons = False
        self._path: str | None = None

    @property
    def path(self) -> str:
        """The file; it is made when the first process is started."""
        if self._path is None:
            handle, self._path = tempfile.mkstemp(prefix="autograder-children-")
            os.close(handle)
        return self._path

    def is_child(self) -> bool:
        """Returns whether this process is one of them, forked from the one that runs the program."""
        return os.getpid() != self.process

    @contextmanager
    def ended_here(self) -> Iterator[None]:
        """End a child of `os.fork` where the program ends in it, so that it does not return into this package."""
        code = 1
        try:
            yield
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
            raise
        finally:
            if self.is_child():
                os._exit(code)

    def note_command(self, command: object) -> None:
        """Notes a command that a shell or the system is given."""
        try:
            words = shlex.split(command) if isinstance(command, str) else list(command)  # type: ignore[call-overload]
            self.pythons = self.pythons or PurePath(os.fsdecode(words[0])).name.startswith(LAUNCHERS)
        except (TypeError, ValueError, IndexError):  # nothing that can be run
            pass

    def join(self) -> None:
        """Waits for them as Python does at the end of a program."""
        for process in self.processes:
            if not process.daemon:
                process.join()

    def end_daemons(self) -> None:
        """End those that Python ends with the program, such as the workers of a `DataLoader`.

        Its iterator would wait 5 s for each when it is collected, which may be in another run (PyTorch 2.13).
        """
        for process in self.processes:
            with suppress(ValueError):  # it is closed
                if process.daemon and process.is_alive():
                    process.terminate()
                    process.join(1)

    def known(self) -> Children:
        """Return the children's actions so far, and remove the file."""
        if self._path is None:
            return Children(pythons=self.pythons)
        size, path, self._path = os.path.getsize(self._path), self._path, None
        os.unlink(path)
        return Children(forked=True, called_backward=size > 0, pythons=self.pythons)


def tell_of_backward(path: str) -> None:
    """Leaves word of a backward in a child; where the run is over, nobody asks any more."""
    try:
        with open(path, "r+b") as file:
            file.write(b"b")
    except OSError:
        pass


class Told:
    """The `run` of a process that starts from nothing (spawn, forkserver): it brings along what a fork would have had."""

    def __init__(self, process: BaseProcess, path: str):
        self.process, self.path = process, path

    def __call__(self) -> None:
        """Runs what the process was made for."""
        with replaced_engine(self._telling):
            type(self.process).run(self.process)

    def _telling(self, original: Callable) -> Callable:
        def run(*args, **options):
            tell_of_backward(self.path)
            return original(*args, **options)

        return run


@contextmanager
def told_of_children() -> Iterator[ChildProcesses]:
    """Yields what is known of the processes that are started inside, by `multiprocessing`, `os` or `subprocess`."""
    children, start, popen, system = ChildProcesses(), BaseProcess.start, subprocess.Popen.__init__, os.system
    met: list[tuple[object, str, Callable]] = []

    @wraps(start)
    def started(process):
        process.run = Told(process, children.path)
        start(process)
        children.processes.append(process)

    @wraps(popen)
    def opened(self, args: str | Sequence, *more, **options):
        children.note_command(args)
        popen(self, args, *more, **options)

    @wraps(system)
    def called(command):
        children.note_command(command)
        return system(command)

    met += [(BaseProcess, "start", started), (subprocess.Popen, "__init__", opened), (os, "system", called)]
    if hasattr(os, "fork"):
        met.append((os, "fork", _forking(children, os.fork)))
    with ExitStack() as stack:
        for owner, name, value in met:
            stack.enter_context(replaced(owner, name, value))
        yield children


def _forking(children: ChildProcesses, original: Callable[[], int]) -> Callable[[], int]:
    def fork() -> int:
        assert children.path  # made before there are two processes that would make it
        return original()

    return fork
