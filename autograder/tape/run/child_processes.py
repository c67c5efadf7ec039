"""Processes, process groups and threads that a program starts; the code of other processes is not followed."""

from __future__ import annotations

import _thread
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.thread import _threads_queues
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.managers import BaseManager
from multiprocessing.pool import Pool
from multiprocessing.process import BaseProcess
from pathlib import PurePath
from traceback import walk_stack
from typing import Any

import torch
import torch.utils.checkpoint

from autograder.tape.internals.entry_points import noting, replaced_engine, wrapping


@contextmanager
def in_new_threads(around: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Run each new thread that starts in the block in a context that `around()` creates in that thread.

    `Thread._bootstrap_inner` runs first in threads of `threading`; `_thread` starts other threads (CPython 3.11 to
    3.14).
    """

    def begun(first: Callable[..., Any], thread: Any) -> None:
        with around():
            first(thread)

    def started(start: Callable[..., Any], function: Any, *args: Any) -> Any:
        def in_context(*args: Any, **named: Any) -> Any:
            with around():
                return function(*args, **named)

        return start(in_context, *args)

    with wrapping(threading.Thread, "_bootstrap_inner", begun), wrapping(_thread, "start_new_thread", started):
        yield


def join_threads(before: Collection[threading.Thread], owns: Callable[[str], bool]) -> None:
    """Wait for the threads that were started since and run the user's code, as Python does at the end of a program.

    The threads of libraries, such as those that manage a pool of processes, may wait for the end of Python itself.
    """
    for thread in threading.enumerate():
        if not (thread.daemon or thread in before or thread in _threads_queues) and _runs_code(thread, owns):
            thread.join()


def _runs_code(thread: threading.Thread, owns: Callable[[str], bool]) -> bool:
    """Return whether a thread runs a function of the user, or will (a timer)."""
    functions: list[Any] = [getattr(thread, "_target", None), getattr(thread, "function", None), type(thread).run]
    files = [function.__code__.co_filename for function in functions if hasattr(function, "__code__")]
    frame = sys._current_frames().get(thread.ident or 0)
    callers = walk_stack(frame) if frame is not None else ()
    return any(map(owns, (*files, *(caller.f_code.co_filename for caller, _ in callers))))


left_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""The threads that earlier runs left. Their next backward call ends them, because it would count as one of this run."""
STOP_SECONDS = 1.0, 0.1  # time for threads that called backward, and for others, to end


def leave_threads(threads: Collection[threading.Thread], *, filled: bool) -> None:
    """Add the threads of a run to `left_threads`, and give them a moment to end. `filled` means that one called backward."""
    # The object of a thread that `_thread` started outlives it, and a later thread with its number gets it.
    left = [thread for thread in threads if not isinstance(thread, threading._DummyThread)]  # type: ignore[attr-defined]
    left_threads.update(left)
    end = time.monotonic() + STOP_SECONDS[not filled]
    for thread in left:
        thread.join(max(0.0, end - time.monotonic()))


LAUNCHERS = ("python", "pypy", "torchrun", "accelerate", "deepspeed")
"""Prefixes of the names of commands that run Python programs."""


@dataclass(frozen=True)
class Children:
    """The processes that a run started."""

    forked: bool = False  # whether `multiprocessing` or `os.fork` started a process
    called_backward: bool = False  # whether such a process called backward
    pythons: bool = False  # whether a command started another Python program, about which nothing is known


class ChildProcesses:
    """The processes that a run starts. A child reports a backward call with a byte in a file."""

    def __init__(self) -> None:
        self.process = os.getpid()  # id of the process that runs the program
        self.processes: list[BaseProcess] = []  # processes that `multiprocessing` started
        self.pools: list[weakref.ref[Any]] = []  # pools, managers and executors that start and end processes themselves
        self.pythons = False
        self._path: str | None = None

    @property
    def path(self) -> str:
        """The path of the file, which is created when the first process starts."""
        if self._path is None:
            handle, self._path = tempfile.mkstemp(prefix="autograder-children-")
            os.close(handle)
        return self._path

    def is_child(self) -> bool:
        """Return whether this process was forked from the process that runs the program."""
        return os.getpid() != self.process

    @contextmanager
    def ended_here(self) -> Iterator[None]:
        """End a child of `os.fork` at the end of the program, so that it does not return into this package."""
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
        """Note a command that the program passes to a shell or to the system."""
        with suppress(TypeError, ValueError, IndexError):  # not a valid command
            words = shlex.split(command) if isinstance(command, str) else list(command)  # type: ignore[call-overload]
            self.pythons = self.pythons or PurePath(os.fsdecode(words[0])).name.startswith(LAUNCHERS)

    def join(self) -> None:
        """End the pools, and wait for the other processes, as Python does at the end of a program."""
        self._end_pools()
        for process in self.processes:
            if not process.daemon:
                process.join()

    def end(self) -> None:
        """End the processes that are left, such as the workers of a `DataLoader`, or all after an error.

        The iterator of a `DataLoader` waits 5 s for each when it is garbage-collected, possibly in another run (PyTorch
        2.13). A pool is ended first, because it replaces its workers. It may wait for a task without end, so it gets 1 s.
        """
        if self.pools:
            ending = threading.Thread(target=self._end_pools, daemon=True)
            ending.start()
            ending.join(1)
        for process in self.processes:
            with suppress(ValueError):  # the process object is closed
                if process.is_alive():
                    process.terminate()
                    process.join(1)

    def _end_pools(self) -> None:
        """End each pool by the method that Python calls at its exit (CPython 3.11 to 3.14)."""
        while self.pools:
            pool = self.pools.pop()()
            end = getattr(pool, "terminate", None) or getattr(pool, "shutdown", None)
            with suppress(Exception):  # it has not started, or was ended by the program
                if end:
                    end()

    def known(self) -> Children:
        """Return the children's actions so far, and remove the file."""
        if self._path is None:
            return Children(pythons=self.pythons)
        size, path, self._path = os.path.getsize(self._path), self._path, None
        os.unlink(path)
        return Children(forked=True, called_backward=size > 0, pythons=self.pythons)


def report_backward(path: str) -> None:
    """Report a backward call of a child. Do nothing if the run is over and the file removed."""
    with suppress(OSError), open(path, "r+b") as file:
        file.write(b"b")


def run_reporting(process: BaseProcess, path: str) -> None:
    """Run the code of a process that does not inherit memory (spawn, forkserver): the engine is wrapped again."""

    def reporting(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        report_backward(path)
        return original(*args, **options)

    with replaced_engine(reporting):
        type(process).run(process)


@contextmanager
def track_child_processes() -> Iterator[ChildProcesses]:
    """Yield a record of the processes that `multiprocessing`, `os` or `subprocess` start in the block."""
    children = ChildProcesses()

    def started(start: Callable[..., Any], process: Any) -> None:
        process.run = partial(run_reporting, process, children.path)
        start(process)
        children.processes.append(process)

    def opened(_self: Any, args: str | Sequence[Any], *_more: Any, **_options: Any) -> None:
        children.note_command(args)

    def begun(pool: Any, *_args: Any, **_options: Any) -> None:
        children.pools.append(weakref.ref(pool))

    notes: list[tuple[Any, str, Callable[..., object]]] = [
        (subprocess.Popen, "__init__", opened), (os, "system", children.note_command), (Pool, "__init__", begun),
        (ProcessPoolExecutor, "__init__", begun), (BaseManager, "start", begun),
        # The file is created before the fork, because each process would create its own.
        (os, "fork", lambda: children.path),
    ]  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(wrapping(BaseProcess, "start", started))
        for owner, name, note in notes:
            if hasattr(owner, name):
                stack.enter_context(noting(owner, name, note))
        yield children


@contextmanager
def process_groups_kept() -> Iterator[None]:
    """Keep a reference to each group that `destroy_process_group` ends, until the block ends.

    Groups that the block leaves behind are destroyed.

    After `destroy_process_group`, the `Reducer` of a DistributedDataParallel has the last reference to its group. When
    it is freed, the group's destructor joins the threads of gloo while this thread holds the GIL, and a thread that
    still has to free a Python object waits for the GIL: a deadlock (plain PyTorch 2.13, in about 1 % of runs). Python's
    own reference to a group releases the GIL before it frees the group.
    """
    if not torch.distributed.is_available():
        yield
        return
    from torch.distributed import distributed_c10d

    groups: list[object] = []
    had_group = torch.distributed.is_initialized()

    def keep(*_args: object, **_options: object) -> None:
        groups.extend(distributed_c10d._world.pg_map)

    name = "destroy_process_group"
    with noting(torch.distributed, name, keep), noting(distributed_c10d, name, keep):
        try:
            yield
        finally:
            if torch.distributed.is_initialized() and not had_group:
                # With a group left over, `init_process_group` raises in the next run (PyTorch 2.13).
                distributed_c10d.destroy_process_group()
