"""The warm server: a process with PyTorch and IPython loaded, which forks once for each submission.

Its arguments are the file descriptors of the control sockets and the name of the isolation level. Each socket gets a server
of its own, a fork of the first process. No server runs a submission's code itself, has threads, or holds anything that a
submission may not read.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec

from autograder.check.programs.demonstrations import take_for_granted
from autograder.grade.sandbox import namespaces, seccomp
from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel
from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.sandbox.isolation.package_folders import package_folders
from autograder.grade.sandbox.warmup import import_modules, import_nbformat, warm_up
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Fork a worker; its socket is sent along as a file descriptor.

    Attributes:
        limits: what it may use.
        folder: where its cells run.
        modules: to import first, for this worker and all later ones.
    """

    limits: Limits
    folder: str
    modules: tuple[str, ...] = ()


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End the worker and every process that it left behind."""


class Order(msgspec.Struct, frozen=True):
    """What the grader sends to a server."""

    order: Start | Stop


class Ready(msgspec.Struct, frozen=True):
    """The server's greeting, and its answer to every order.

    Attributes:
        has_namespaces: whether each worker gets namespaces of its own.
        problem: why the worker could not be started, "" if it was.
    """

    has_namespaces: bool
    problem: str = ""


class _Walls(NamedTuple):
    """What is set in each worker.

    Attributes:
        has_namespaces: whether it gets namespaces of its own.
        has_own_user: whether nobody but submissions and their servers runs as its user.
        system_calls: the filter, as instructions for the kernel.
        keyctl: the number of the system call for keyrings.
    """

    has_namespaces: bool
    has_own_user: bool
    system_calls: bytes
    keyctl: int


class _Server:
    def __init__(self, control: socket.socket, walls: _Walls) -> None:
        self.control, self.walls, self.child = control, walls, 0

    def serve(self) -> None:
        with contextlib.suppress(OSError, ChannelError):  # the grader has closed its end already
            self.control.sendall(b"p")  # with this byte the kernel sends the id of this process
            send(self.control, Ready(self.walls.has_namespaces))
        while True:
            try:
                # One byte carries the descriptor; the message follows it.
                _, descriptors, _, _ = socket.recv_fds(self.control, 1, 1)
                request = receive(self.control, Order, largest=1 << 16).order
            except (ChannelError, OSError):
                self._stop()
                return
            problem = self._start(request, descriptors[0]) if isinstance(request, Start) else self._stop()
            send(self.control, Ready(self.walls.has_namespaces, problem))

    def _start(self, request: Start, descriptor: int) -> str:
        import_modules(request.modules)
        take_for_granted()
        gc.freeze()  # see `main`
        try:
            self.child = os.fork()
        except OSError as error:
            return str(error)
        finally:
            if self.child:
                os.close(descriptor)
        if self.child == 0:
            _become_worker(request, descriptor, self.walls)
        return ""

    def _stop(self) -> str:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            self.child = 0
        _end_survivors()
        return ""


def _become_worker(request: Start, descriptor: int, walls: _Walls) -> NoReturn:
    """Serves one submission in the forked process, which then ends."""
    try:
        namespaces.end_with_parent()
        _keep_only(descriptor)
        used = namespaces.address_space()  # before /proc is replaced
        if walls.has_namespaces:
            namespaces.enter_own_namespaces()
            namespaces.limit_processes(request.limits.processes)
            _first_process(request.limits)
        else:
            os.setsid()
            if walls.has_own_user:
                namespaces.limit_processes(request.limits.processes)
        namespaces.limit(request.limits, used)
        _raise_walls(walls)
        _close_log()
        _work(request, descriptor)
    except BaseException as error:  # noqa: BLE001 - whatever happened, this process must not continue as a second server
        os.write(2, f"worker: {error!r}\n".encode())
    finally:
        os._exit(1)


def _first_process(limits: Limits) -> None:
    """Forks twice: the first child is process 1 of the new namespace, with which all others end; its child is the worker."""
    _leave_to_child()
    namespaces.hide_the_rest(limits.disk_bytes, package_folders())
    _leave_to_child()


def _leave_to_child() -> None:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    namespaces.end_with_parent()


def _raise_walls(walls: _Walls) -> None:
    """Takes from this process, for good, what no submission may do. From here on it is not trusted."""
    namespaces.leave_keyrings(walls.keyctl)  # first: the filter forbids it
    namespaces.give_up_privileges()
    seccomp.set_filter(walls.system_calls)


def _work(request: Start, descriptor: int) -> None:
    from autograder.grade.sandbox import worker
    from autograder.grade.sandbox.shell import Shell

    folder = Path(request.folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    os.environ.update(HOME=str(folder.parent), TMPDIR=str(folder.parent), IPYTHONDIR=str(folder.parent / ".ipython"))
    worker.forget_the_server()
    with socket.socket(fileno=descriptor) as connection:
        worker.serve(connection, Shell.instance(), folder)
    os._exit(0)


def _keep_only(descriptor: int) -> None:
    """Closes every other file, but for the log, which reports what goes wrong until the worker is ready."""
    for number in [int(name) for name in os.listdir("/proc/self/fd")]:
        if number > 2 and number != descriptor:
            with contextlib.suppress(OSError):
                os.close(number)


def _close_log() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)


def _walls(level: IsolationLevel) -> _Walls:
    """Returns what this machine allows at the level, each tried once in a process that ends.

    Raises:
        FilterError: it allows no filter for system calls, without which nothing is run.
    """
    walls = _Walls(
        False, level.has_own_user, seccomp.compile_filter(network=not level.has_own_user), seccomp.call_number("keyctl")
    )
    if problem := _problem_in_fork(lambda: _raise_walls(walls)):
        raise seccomp.FilterError(problem)
    return walls._replace(has_namespaces=level.separates_submissions and not _problem_in_fork(_try_namespaces))


def _try_namespaces() -> None:
    namespaces.enter_own_namespaces()
    _leave_to_child()
    namespaces.hide_the_rest(1 << 20, package_folders())


def _problem_in_fork(trial: Callable[[], None]) -> str:
    """Returns what went wrong in a fork of this process that tried something; "" if nothing did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            trial()
        except Exception as error:  # noqa: BLE001 - the parent reports it
            os.write(writing, str(error).encode())
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as problem:
        words = problem.read().decode("utf-8", "replace")
    return words if os.waitpid(child, 0)[1] else ""


def _end_survivors() -> None:
    """Ends what a submission left behind if no namespace does so: orphans are this process's children by now."""
    while True:
        for name in os.listdir("/proc"):
            if name.isdigit() and _parent(name) == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(name), signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _parent(process: str) -> int | None:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def main() -> None:
    """Serves until the grader closes the sockets."""
    controls = [socket.socket(fileno=int(number)) for number in sys.argv[1].split(",")]
    level = LEVELS[sys.argv[2]]
    walls = _walls(level)
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    gc.disable()  # a collection after the fork would copy every page it touches
    import_nbformat()
    warm_up()
    gc.collect()
    gc.freeze()
    gc.enable()
    namespaces.join_pages()
    namespaces.lock_memory_from_others()
    for control in controls:
        if os.fork() == 0:
            _serve(control, [other for other in controls if other is not control], walls)
    for control in controls:
        control.close()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


def _serve(control: socket.socket, others: list[socket.socket], walls: _Walls) -> NoReturn:
    """Serves one socket in the forked process, which then ends."""
    try:
        for other in others:
            other.close()
        namespaces.end_with_parent()
        namespaces.adopt_orphans()
        namespaces.lock_memory_from_others()
        _Server(control, walls).serve()
    finally:
        os._exit(0)
