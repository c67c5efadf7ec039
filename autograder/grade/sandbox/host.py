"""The host: one warm process with PyTorch and IPython loaded, from which all other processes of the grader are forked.

    host ── server ── worker      runs one submission's cells; isolated
         ── judge server ── judge runs one submission's plain-data tests; isolated
         ── planner ── lanes      have the sources and the plans, and control workers and judges

The host and its servers never contain a test, a model answer, an expected value or the seed, so their forks do not
either. The command-line arguments are the descriptor of the control socket and the name of the isolation level.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import psutil

from autograder.check.demonstrations import set_baseline
from autograder.grade.sandbox import namespaces, seccomp, warmup
from autograder.grade.sandbox.isolation import LEVELS, IsolationLevel, package_folders
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.messages import Fork, Order, Ready, Role
from autograder.requirements import import_without

PLANNER = "autograder.grade.backends.lane"
"""The module of the planner and the lanes. It depends on this module, so it is imported by name, in a separate process."""


@dataclass(frozen=True)
class _Isolation:
    """The isolation that is set in each worker."""

    level: IsolationLevel
    has_namespaces: bool  # whether each worker gets its own namespaces
    system_calls: bytes  # the filter, as instructions for the kernel
    keyctl: int  # the number of the system call for keyrings
    clone: int  # the number of the system call that forks into new namespaces

    def fork(self) -> int:
        """Fork like `os.fork`, into new namespaces if workers have them."""
        return namespaces.fork_into_own_namespaces(self.clone) if self.has_namespaces else os.fork()


class _Server:
    """Forks one worker after another; it does not run code of a submission or contain secrets."""

    def __init__(self, control: socket.socket, isolation: _Isolation) -> None:
        self.control, self.isolation, self.child = control, isolation, 0
        self.folder: str | None = None

    def serve(self) -> None:
        while True:
            try:
                # One byte carries the descriptor; the message follows it.
                _, descriptors, _, _ = socket.recv_fds(self.control, 1, 1)
                order = receive(self.control, Order, largest=1 << 16)
                problem = None
                if order.kind == "greet":
                    self.control.sendall(b"p")
                elif order.limits is not None:
                    problem = self._start(order.limits, descriptors[0])
                else:
                    self._stop()
                send(self.control, Ready(self.isolation.has_namespaces, problem))
            except (ChannelError, OSError):
                self._stop()
                return

    def _start(self, limits: Limits, descriptor: int) -> str | None:
        if not self.isolation.level.separates_submissions:
            self.folder = tempfile.mkdtemp(prefix="submission-")
        owner = os.getuid(), os.getgid()  # a child in new namespaces cannot read them
        try:
            self.child = self.isolation.fork()
        except OSError as error:
            os.close(descriptor)
            return str(error)
        if self.child == 0:
            _become_worker(limits, descriptor, f"{self.folder or '/tmp'}/home/work", self.isolation, owner)
        os.close(descriptor)
        return None

    def _stop(self) -> None:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = 0
        _kill_orphans()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


def _become_worker(
    limits: Limits, descriptor: int, folder: str, isolation: _Isolation, owner: tuple[int, int]
) -> NoReturn:
    """Serve one submission in the forked process, which then ends."""
    try:
        namespaces.set_parent_death_signal()
        _close_other_descriptors(descriptor)
        used = namespaces.address_space()  # before /proc is replaced
        if isolation.has_namespaces:
            namespaces.set_up_own_namespaces(*owner)
            namespaces.limit_processes(limits.processes)
            _first_process(limits)
        else:
            os.setsid()
            if isolation.level.has_own_user:
                namespaces.limit_processes(limits.processes)
        namespaces.limit(limits, used)
        _isolate(isolation)
        _close_log()
        _work(descriptor, Path(folder))
    except BaseException as error:  # whatever happened, this process must not continue as a second server
        os.write(2, f"worker: {error!r}\n".encode())
    finally:
        os._exit(1)


def _first_process(limits: Limits) -> None:
    """Leave the worker to a child of this process, which is process 1 of the new namespace and ends all others with it."""
    namespaces.mount_private_filesystems(limits.disk_bytes, package_folders())
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    namespaces.set_parent_death_signal()
    namespaces.set_dumpable(True)  # lanes measure its memory; other submissions are not in these namespaces


def _isolate(isolation: _Isolation) -> None:
    """Drop the rights of this process that a submission must not have, permanently. From here on the process is not trusted."""
    namespaces.join_empty_keyring(isolation.keyctl)  # first, because the filter denies it
    namespaces.drop_capabilities()
    seccomp.set_filter(isolation.system_calls)


def _work(descriptor: int, folder: Path) -> None:
    from autograder.grade.sandbox import worker
    from autograder.grade.sandbox.shell import Shell

    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ.update(HOME=str(folder.parent), TMPDIR=str(folder.parent), IPYTHONDIR=str(folder.parent / ".ipython"))
    tempfile.tempdir = None
    with socket.socket(fileno=descriptor) as connection:
        worker.serve(connection, Shell.instance(), folder)
    os._exit(0)


def _close_other_descriptors(descriptor: int) -> None:
    """Close every other file except the log, which reports errors until the worker is ready."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number > 2 and number != descriptor:
            with contextlib.suppress(OSError):
                os.close(number)


def _close_log() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def _possible_isolation(level: IsolationLevel) -> _Isolation:
    """Return the isolation that this machine allows at the level; each part is tried once in a separate process.

    Raises:
        FilterError: the machine does not allow a filter for system calls, without which nothing is run.
    """
    system_calls = seccomp.compile_filter(network=not level.has_own_user)
    isolation = _Isolation(level, False, system_calls, seccomp.call_number("keyctl"), seccomp.call_number("clone"))
    if problem := _problem_in_fork(lambda: _isolate(isolation)):
        raise seccomp.FilterError(problem)
    if not level.separates_submissions:
        return isolation
    with_namespaces = replace(isolation, has_namespaces=True)
    owner = os.getuid(), os.getgid()

    def try_namespaces() -> None:
        namespaces.set_up_own_namespaces(*owner)
        namespaces.mount_private_filesystems(1 << 20, package_folders())

    return isolation if _problem_in_fork(try_namespaces, with_namespaces.fork) else with_namespaces


def _problem_in_fork(trial: Callable[[], None], fork: Callable[[], int] = os.fork) -> str:
    """Return the message of the error that `trial` raised in a fork of this process; "" if it succeeded."""
    reading, writing = os.pipe()
    try:
        child = fork()
    except OSError as error:
        return str(error)
    if child == 0:
        try:
            trial()
        except Exception as error:  # the parent reports it
            os.write(writing, str(error).encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as problem:
        words = problem.read().decode("utf-8", "replace")
    return words if os.waitpid(child, 0)[1] else ""


def _kill_orphans() -> None:
    """Kill the processes that a submission left behind, if no namespace does: orphans are children of this process by now."""
    while True:
        for orphan in psutil.Process().children():
            with contextlib.suppress(psutil.NoSuchProcess):
                orphan.kill()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def main() -> None:
    """Fork processes until the main process closes the control socket. Its caller has disabled garbage collection."""
    control, level = socket.socket(fileno=int(sys.argv[1])), LEVELS[sys.argv[2]]
    isolation = _possible_isolation(level)
    warmup.import_nbformat()
    warmup.warm_up()
    namespaces.set_dumpable(False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel removes processes that have ended
    imported: tuple[str, ...] | None = None
    is_compact = False
    with contextlib.suppress(ChannelError, OSError):
        while True:
            _, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            order = receive(control, Fork, largest=1 << 16)
            if order.modules != imported:
                imported, is_compact = order.modules, False
                warmup.import_modules(imported)
                set_baseline()
                gc.freeze()  # a collection in a fork would copy every page that it touches
            if not is_compact and order.role != "planner":  # which plans in the meantime
                namespaces.collapse_into_huge_pages()
                is_compact = True
            if os.fork() == 0:
                control.close()
                gc.enable()
                _begin(order.role, socket.socket(fileno=descriptors[0]), isolation)
            os.close(descriptors[0])


def _begin(role: Role, control: socket.socket, isolation: _Isolation) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        namespaces.set_parent_death_signal()
        if role == "planner":
            warmup.import_nbgrader_utils()
            import_without("matplotlib", "igraph", ready="igraph")  # lanes draw with igraph (1.0), which imports both
            importlib.import_module(PLANNER).serve(control)
        else:
            isolation.level.become(role)
            namespaces.set_parent_death_signal()  # a change of the user id resets it
            namespaces.become_subreaper()
            namespaces.set_dumpable(False)
            _Server(control, isolation).serve()
    except BaseException as error:  # this process must not continue as a second host
        os.write(2, f"{role}: {error!r}\n".encode())
    finally:
        os._exit(0)
