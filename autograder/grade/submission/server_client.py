"""A lane's connection to the worker that runs one submission, or to its judge."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import nbformat
import psutil
from nbformat import NotebookNode

from autograder.errors import UnfinishedError
from autograder.grade.sandbox.isolation import IsolationError, IsolationLevel
from autograder.grade.sandbox.launch import CLOSE_SECONDS, HostProcess, new_control_group, remove_control_group
from autograder.grade.sandbox.namespaces import INIT_PROCESSES
from autograder.grade.submission.resource_watch import ResourceWatch
from autograder.grade.wire import messages
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import Limits
from autograder.grade.wire.messages import Order, Ready, Role
from autograder.grade.wire.outputs import ReceivedOutputs
from autograder.locale.messages import Message

GRACE_SECONDS = 2.0  # the time between the interrupt, which a cell may catch, and the end of its process
TEST_TIME_FACTOR = 4  # a test may make several calls, and each may take as long as a cell

Answer = TypeVar("Answer", bound=messages.Answer)


def ended_output(reason: str) -> NotebookNode:
    """Return the output to show below a cell that did not finish."""
    return nbformat.v4.new_output("error", ename="Ended", evalue=reason, traceback=[reason[:]])


class WorkerEnded(UnfinishedError):
    """The submission's process has ended; the message gives the reason, in words for the grade."""


class WorkerClient:
    """One submission's process, or its judge: sends requests, and receives an answer to each."""

    def __init__(self, connection: socket.socket, limits: Limits, watch: ResourceWatch, begin: messages.Begin) -> None:
        self._connection, self.limits, self._watch = connection, limits, watch
        self._number = 0
        self.ended: str | None = None  # the reason why the process has ended
        self._outputs = ReceivedOutputs(limits.output_bytes)
        self.ask(begin, messages.Done)

    @property
    def seconds_left(self) -> float:
        """The rest of the submission's time, on its own clock."""
        return self._watch.seconds_left

    def outputs(self, ran: messages.CellRan | messages.TestRan) -> list[NotebookNode]:
        """Return the outputs of a cell, restricted to nbformat's form."""
        try:
            return [nbformat.from_dict(output) for output in self._outputs.read(ran.outputs)]
        except ValueError:
            return [ended_output(Message("grade.outputs|the cell's outputs had an unknown format and were left out"))]

    def answers(self, requests: Sequence[messages.Request]) -> Iterator[messages.Answer]:
        """Yield the answer to each request, in order. The process works on the next one while the caller handles an answer.

        Raises:
            WorkerEnded: the process has ended, is too slow or too large, or sent an invalid answer. Later requests
                raise it too.
        """
        self._send(list(requests))
        for request in requests:
            yield self._next(
                request.seconds if isinstance(request, messages.RecordAttempt) else self.limits.cell_seconds
            )

    def ask(self, request: messages.Request, form: type[Answer]) -> Answer:
        """Return the answer to a request.

        Raises:
            WorkerEnded: see `answers`.
            KeyError: the process does not have such a name, or could not answer; it continues to run.
        """
        (answer,) = self.answers([request])
        return self._checked(answer, form)

    def run_test(
        self, request: messages.RunTest, on_asked: Callable[[messages.Asked], messages.Replied], seconds: float
    ) -> messages.TestRan:
        """Return the result of a test in a judge, within a time limit; `on_asked` replies to its requests to the student's process.

        Raises:
            WorkerEnded: the judge has ended, or is too slow.
            KeyError: the judge could not run the test.
        """
        self._send([request])
        while isinstance(answer := self._next(seconds), messages.Asked):
            self._send([on_asked(answer)], self._number)
        return self._checked(answer, messages.TestRan)

    def _checked(self, answer: messages.Answer, form: type[Answer]) -> Answer:
        if isinstance(answer, messages.Failure):
            raise KeyError(answer.reason)
        if not isinstance(answer, form):
            raise self._end(ChannelError(messages.OTHER_REQUEST))
        return answer

    def _send(self, requests: list[messages.Request], number: int | None = None) -> None:
        if self.ended is not None:
            raise WorkerEnded(self.ended)
        self._number = self._number + 1 if number is None else number
        self._watch.set_deadline(self.limits.cell_seconds, GRACE_SECONDS)
        try:
            send(self._connection, messages.Batch(self._number, requests), watch=self._watch.check)
        except (ChannelError, MemoryError) as error:
            raise self._end(error) from None

    def _next(self, seconds: float) -> messages.Answer:
        if self.ended is not None:
            raise WorkerEnded(self.ended)
        self._watch.set_deadline(seconds, GRACE_SECONDS)
        most: dict[str, int] = {"largest": self.limits.reply_bytes, "most_items": self.limits.reply_items}
        try:
            while True:
                reply = receive(self._connection, messages.Reply, **most, watch=self._watch.check)
                if reply.number == self._number:
                    return reply.answer
                # Ignore a late answer from a process that a cell forked; if such answers continue, the time limit ends
                # the process.
        except (ChannelError, MemoryError) as error:
            raise self._end(error) from None

    def _end(self, error: BaseException) -> WorkerEnded:
        self.ended = self._watch.verdict or str(error) or Message("grade.answer_too_large|its answer was too large")
        self._connection.close()
        return WorkerEnded(self.ended)


_CREDENTIALS = struct.Struct("3i")  # of a process: its id, user and group; unix(7)
START_SECONDS = 120  # importing PyTorch from a slow disk
STOP_SECONDS = 20
LARGEST = 1 << 16  # bytes of a server's answer
OWN_PROCESSES = 4  # the server, the holders of namespaces, and the worker


class ServerClient(contextlib.AbstractContextManager["ServerClient"]):
    """A server of a host; a context manager. It must be used by one thread, for one submission at a time.

    `control` is the socket to a server that another process has started; None starts a separate host with a server of
    this role when it is needed. That host imports `modules`, which the cells will make PyTorch import, once for all
    workers.
    """

    def __init__(
        self,
        level: IsolationLevel,
        limits: Limits,
        control: socket.socket | None = None,
        role: Role = "server",
        modules: tuple[str, ...] = (),
    ) -> None:
        self.level, self.limits, self._role, self._modules = level, limits, role, modules
        self._control = control
        self._host: HostProcess | None = None
        self._process: psutil.Process | None = None
        self._has_namespaces = self._used = False
        self._group: Path | None = None

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the server if it is not running, and wait until it is ready. Raise IsolationError, with its last line, if it ends."""
        if self._process is not None:
            return
        if self._control is None:
            self._host = HostProcess(self.level)
            self._control = self._host.fork(self._role, self._modules)
        self._process, self._has_namespaces = handshake(self._control, self.level, self._host)
        if self._host is not None:
            self._group = control_group(self._process, self.limits)

    @contextlib.contextmanager
    def worker(self, files: dict[str, bytes], seconds: float | None = None, **begin: Any) -> Iterator[WorkerClient]:
        """Yield a new worker with the submission's files in its folder; afterwards, kill it and all its processes.

        The time limit is `seconds`, or the whole time of a submission. `begin` contains further attributes of the first
        request.

        Raises:
            WorkerEnded: its process could not be started.
            IsolationError: the server does not start.
        """
        # Without namespaces inside the host's own, which the kernel may not allow, each submission gets a new host.
        if self._used and self.level.separates_submissions and not self._has_namespaces:
            self.close()
        self.start()
        self._used = True
        assert self._process is not None
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.callback(ours.close)
            limits = self.limits if seconds is None else replace(self.limits, submission_seconds=seconds)
            stack.callback(self._stop)
            with theirs:
                self._order(Order("start", limits), theirs.fileno())
            watch = ResourceWatch(self._process, limits, INIT_PROCESSES if self._has_namespaces else 0)
            first = messages.Begin(files, limits.cell_seconds, limits.output_bytes, **begin)
            yield WorkerClient(ours, limits, watch, first)

    def close(self) -> None:
        """End the server, its own host if it has one, and every process below it."""
        if self._control is not None:
            self._control.close()
        if self._host is not None:
            self._host.close(CLOSE_SECONDS)
        if self._group is not None:
            remove_control_group(self._group)
        self._control = self._host = self._process = self._group = None
        self._used = False

    def _order(self, order: Order, *descriptors: int) -> None:
        answer = None
        if self._control is not None:
            with contextlib.suppress(ChannelError, OSError):
                _send(self._control, order, *descriptors)
                answer = receive(self._control, Ready, largest=LARGEST, deadline=time.monotonic() + STOP_SECONDS)
        if answer is None:
            self.close()
            raise WorkerEnded.of("grade.ended_server|it ended the server that starts submissions, which was restarted")
        if answer.problem is not None:
            raise WorkerEnded.of("grade.no_start|its process could not be started ({problem})", problem=answer.problem)

    def _stop(self) -> None:
        if self._control is not None:
            with contextlib.suppress(WorkerEnded):
                self._order(Order("stop"))


def _send(control: socket.socket, order: Order, *descriptors: int) -> None:
    socket.send_fds(control, [b"s"], list(descriptors))
    send(control, order)


def handshake(control: socket.socket, level: IsolationLevel, host: HostProcess | None) -> tuple[psutil.Process, bool]:
    """Return a server's process, as numbered in this process's namespace, and whether workers get their own namespaces.

    It raises IsolationError, with the last line of its host, if the server has ended or does not become ready.
    """
    try:
        control.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # the kernel reports the process at the other end
        _send(control, Order("greet"))
        control.settimeout(START_SECONDS)
        process = sender_of(control)
        ready = receive(control, Ready, largest=LARGEST, deadline=time.monotonic() + START_SECONDS)
        return psutil.Process(process), ready.has_namespaces
    except (ChannelError, OSError, psutil.Error) as error:
        raise IsolationError(
            f"the server for submissions does not start at level {level.name!r}: {host.last_line if host else error}"
        ) from None


def sender_of(connection: socket.socket) -> int:
    """Receive a byte, and return the id of the process that sent it, as the kernel reports it; 0 if it does not."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    credentials = [data for _, kind, data in ancillary if kind == socket.SCM_CREDENTIALS]
    return int(_CREDENTIALS.unpack(credentials[0])[0]) if credentials else 0


def control_group(server: psutil.Process, limits: Limits, processors: frozenset[int] | None = None) -> Path | None:
    """Put a server into a control group and on its share of the processors; return the group, None if groups are unavailable."""
    if processors:
        with contextlib.suppress(OSError):  # another program may have reduced the available processors
            os.sched_setaffinity(server.pid, processors)
    return new_control_group(server.pid, limits.processes + OWN_PROCESSES)
