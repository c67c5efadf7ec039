"""The trusted side's connection to a warm server, which forks a worker for each submission."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Iterator

import msgspec
import psutil

from autograder.grade.sandbox.isolation.isolation_level import IsolationError, IsolationLevel
from autograder.grade.sandbox.launch import ServerProcess, launch
from autograder.grade.sandbox.namespaces import HOLDERS
from autograder.grade.sandbox.process_group import ProcessGroup
from autograder.grade.sandbox.server import Order, Ready, Start, Stop
from autograder.grade.submission.connection.process_usage import child_processes
from autograder.grade.submission.connection.resource_watch import ResourceWatch
from autograder.grade.submission.connection.worker_client import WorkerClient, WorkerEnded
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits
from autograder.locale.translations import in_english

START_SECONDS = 120  # importing PyTorch from a slow disk
STOP_SECONDS = 20
CLOSE_SECONDS = 5.0
OWN_PROCESSES = 4  # the server, the holders of namespaces, and the worker


class ServerClient:
    """A warm server at an isolation level; a context manager. For one thread, and one submission at a time.

    Args:
        level: how submissions are isolated.
        limits: what one submission may use.
        process: a server that was started earlier at this level; None starts one when it is needed.
        processors: on which submissions run, so that those that are graded at the same time each have their share; None
            leaves all of them.
    """

    def __init__(
        self,
        level: IsolationLevel,
        limits: Limits,
        process: ServerProcess | None = None,
        processors: frozenset[int] | None = None,
    ) -> None:
        self.level, self.limits, self._processors = level, limits, processors
        self._prepared = process
        self._server: ServerProcess | None = None
        self._used = False
        self._group: ProcessGroup | None = None

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server if it is not running.

        Raises:
            IsolationError: it does not start at this level; the message quotes the last line that it printed.
        """
        if self._server is not None:
            return
        self._server, self._prepared = self._prepared or launch(self.level)[0], None
        try:
            self._process, self._has_namespaces = self._greeting()
        except (ChannelError, OSError):
            reason = self._last_line()
            self.close()
            raise IsolationError(
                f"the server for submissions does not start at level {self.level.name!r}: {reason}"
            ) from None
        if self._processors:
            with contextlib.suppress(OSError):  # fewer than before: somebody took them from the server
                os.sched_setaffinity(self._process.pid, self._processors)
        self._group = ProcessGroup.around(self._process.pid, self.limits.processes + OWN_PROCESSES)
        if self._server.is_shared and self.starts_anew:
            self.close()
            self.start()

    @property
    def starts_anew(self) -> bool:
        """Whether each submission needs a new server, because the kernel refuses namespaces inside the server's own."""
        return self.level.separates_submissions and not self._has_namespaces

    def _greeting(self) -> tuple[psutil.Process, bool]:
        """Returns the server's process, as numbered on this side of the sandbox, and whether workers get own namespaces."""
        control, credentials = self._control, struct.Struct("3i")
        control.settimeout(START_SECONDS)
        _, ancillary, _, _ = control.recvmsg(1, socket.CMSG_SPACE(credentials.size))
        found = [data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS]
        process = credentials.unpack(found[0])[0] if found else 0
        if not process:  # nobody is at the other end any more
            raise ChannelError(in_english("its process has ended"))
        return psutil.Process(process), self._receive(START_SECONDS).has_namespaces

    @contextlib.contextmanager
    def worker(
        self,
        files: dict[str, bytes],
        modules: tuple[str, ...] = (),
        seconds: float | None = None,
        recordings: bytes = b"",
    ) -> Iterator[WorkerClient]:
        """Yields a new worker with the submission's files in its folder; afterwards it and all that it started is ended.

        Args:
            files: by relative path.
            modules: what the notebook will make PyTorch import, so that the server imports it once for all workers.
            seconds: how long it may run; None gives it all the time that a submission has.
            recordings: of the source's own demonstrations.

        Raises:
            WorkerEnded: its process could not be started.
            IsolationError: the server does not start.
        """
        if self._used and self.starts_anew:
            self.close()
        self.start()
        self._used = True
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.callback(ours.close)
            folder = stack.enter_context(self.level.private_folder())
            socket.send_fds(self._control, [b"s"], [theirs.fileno()])
            theirs.close()
            stack.callback(self._stop)
            limits = self.limits
            if seconds is not None:
                limits = msgspec.structs.replace(limits, submission_seconds=seconds)
            watch = ResourceWatch(self._process, limits, HOLDERS if self._has_namespaces else 0)
            self._send(Start(limits, folder, modules))
            yield WorkerClient(ours, limits, watch, files, recordings)

    def left_over(self) -> list[str]:
        """Returns the names of processes below the server: none, between two submissions."""
        return [process.name() for process in child_processes(self._process)]

    def close(self) -> None:
        """Ends the server and every process below it. If it shares a process, only this server; the pool ends the process."""
        for server in filter(None, (self._server, self._prepared)):
            server.disconnect() if server.is_shared else server.end(CLOSE_SECONDS)
        self._server, self._prepared, self._used = None, None, False
        if self._group is not None:
            self._group.remove()
            self._group = None

    @property
    def _control(self) -> socket.socket:
        assert self._server is not None
        return self._server.control

    def _send(self, message: Start | Stop) -> None:
        try:
            send(self._control, Order(message))
            answer = self._receive(STOP_SECONDS)
        except ChannelError:
            self.close()
            raise WorkerEnded(
                in_english("it ended the server that starts submissions, which is started again")
            ) from None
        if answer.problem:
            raise WorkerEnded(in_english("its process could not be started ({problem})", problem=answer.problem))

    def _receive(self, seconds: float) -> Ready:
        return receive(self._control, Ready, largest=1 << 16, deadline=time.monotonic() + seconds)

    def _stop(self) -> None:
        if self._server is not None:
            with contextlib.suppress(WorkerEnded, OSError):
                socket.send_fds(self._control, [b"s"], [])
                self._send(Stop())

    def _last_line(self) -> str:
        assert self._server is not None
        self._server.log.seek(0)
        lines = self._server.log.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason"
