"""The trusted side's handle on the warm server and on the one worker that it has forked for a submission."""

from __future__ import annotations

import contextlib
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from typing import TypeVar

import psutil

from autograder.errors import UnfinishedError
from autograder.grade.sandbox.launch import Launched, launch
from autograder.grade.sandbox.server import Order, Ready, Start, Stop
from autograder.grade.sandbox.walls import HOME, IsolationError, Level
from autograder.grade.wire import messages
from autograder.grade.wire.channel import Broken, receive, send
from autograder.grade.wire.limits import Limits

START_SECONDS = 120  # importing PyTorch on a slow disk
STOP_SECONDS = 20
CLOSE_SECONDS = 5.0
OWN_PROCESSES = 3  # the worker, the first process of its namespace, and the one that made that
GRACE_SECONDS = 2.0  # between the interrupt that a cell may swallow and the end of its process

Answer = TypeVar("Answer", bound=messages.Answer)


class Ended(UnfinishedError):
    """The submission's process is gone; the text says why, in words for the grade's reason."""


class Server:
    """A warm server behind its wall; a context manager. Used by one thread, for one submission at a time.

    Args:
        level: how strong the wall is.
        limits: what one submission may use.
        launched: a server that was started beforehand at this level; None starts one when it is needed.
    """

    def __init__(self, level: Level, limits: Limits, launched: Launched | None = None) -> None:
        self.level, self.limits = level, limits
        self._launched = launched
        self._server: Launched | None = None
        self._used = False

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Starts the server where it is not running yet.

        Raises:
            IsolationError: it does not start at this level; its own words are part of the message.
        """
        if self._server is not None:
            return
        self._server, self._launched = self._launched or launch(self.level)[0], None
        try:
            self._root, self._walls = self._greeting()
        except (Broken, OSError):
            words = self._last_words()
            self.close()
            raise IsolationError(
                f"the server for submissions does not start at level {self.level!r}: {words}"
            ) from None
        if self._server.shared and self.level == "bubblewrap" and not self._walls:
            # Where submissions have no walls of their own, they may not be neighbours behind one wall.
            self.close()
            self.start()

    def _greeting(self) -> tuple[psutil.Process, bool]:
        """Returns the server's process, as the kernel names it on this side of the wall, and whether workers get own walls."""
        control, credentials = self._control, struct.Struct("3i")
        control.settimeout(START_SECONDS)
        _, messages_, _, _ = control.recvmsg(1, socket.CMSG_SPACE(credentials.size))
        found = [data for _, kind, data in messages_ if kind == socket.SCM_CREDENTIALS]
        if not found:
            raise Broken("its process has ended")
        return psutil.Process(credentials.unpack(found[0])[0]), self._hear(START_SECONDS).walls

    @contextlib.contextmanager
    def worker(self, files: dict[str, bytes], modules: tuple[str, ...] = ()) -> Iterator[Worker]:
        """Yields a fresh worker with the submission's files in its folder; afterwards it and all it started is ended.

        Args:
            files: by relative path.
            modules: what the notebook will make PyTorch load, so that it is loaded once for all workers.
        """
        if self._used and not (self._walls or self.level == "process"):
            self.close()  # without walls of its own, the next submission gets a server of its own
        self.start()
        self._used = True
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.callback(ours.close)
            folder = f"{HOME}/work"
            if self.level == "process":
                folder = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)) + "/home/work"
            socket.send_fds(self._control, [b"s"], [theirs.fileno()])
            theirs.close()
            stack.callback(self._stop)
            watch = Watch(self._root, self.limits)
            self._tell(Start(self.limits, folder, modules))
            yield Worker(ours, self.limits, watch, files)

    def left_over(self) -> list[str]:
        """Returns the names of processes below the server: none, between two submissions."""
        return [process.name() for process in _children(self._root)]

    def close(self) -> None:
        """Ends the server and everything below it; of a shared process, only this server: who launched it ends the rest."""
        for server in filter(None, (self._server, self._launched)):
            server.hang_up() if server.shared else server.end(CLOSE_SECONDS)
        self._server, self._launched, self._used = None, None, False

    @property
    def _control(self) -> socket.socket:
        assert self._server is not None
        return self._server.control

    def _tell(self, message: Start | Stop) -> None:
        try:
            send(self._control, Order(message))
            answer = self._hear(STOP_SECONDS)
        except Broken:
            self.close()
            raise Ended("the server that starts submissions was ended from inside; it is started anew") from None
        if answer.problem:
            raise Ended(f"its process could not be started ({answer.problem})")

    def _hear(self, seconds: float) -> Ready:
        return receive(self._control, Ready, largest=1 << 16, deadline=time.monotonic() + seconds)

    def _stop(self) -> None:
        if self._server is not None:
            with contextlib.suppress(Ended, OSError):
                socket.send_fds(self._control, [b"s"], [])
                self._tell(Stop())

    def _last_words(self) -> str:
        assert self._server is not None
        self._server.words.seek(0)
        lines = self._server.words.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it gave no reason"


class Worker:
    """One submission's process: ask, and get an answer of the form that belongs to the question."""

    def __init__(self, connection: socket.socket, limits: Limits, watch: Watch, files: dict[str, bytes]) -> None:
        self._connection, self.limits, self._watch = connection, limits, watch
        self._deadline = time.monotonic() + limits.submission_seconds
        self._number = 0
        self.ended = ""
        self.ask(messages.Begin(files, limits.cell_seconds, limits.output_bytes), messages.Described)

    def ask(self, request: messages.Request, form: type[Answer]) -> Answer:
        """Returns the answer to a question.

        Raises:
            Ended: the process is gone, too slow or too large, or its answer is none. It stays ended.
            KeyError: the worker has no such name, or could not answer; the worker goes on.
        """
        if self.ended:
            raise Ended(self.ended)
        self._number += 1
        try:
            send(self._connection, messages.Question(self._number, request))
            answer = self._answer()
            if not isinstance(answer, form | messages.Failed):
                raise Broken("it gave the answer to another question")
        except (Broken, MemoryError) as error:
            self.ended = self._watch.verdict or str(error) or "it answered with too much"
            self._connection.close()
            raise Ended(self.ended) from None
        if isinstance(answer, messages.Failed):
            raise KeyError(answer.reason[:2000])
        return answer

    def _answer(self) -> messages.Answer:
        deadline = min(self._deadline, time.monotonic() + self.limits.cell_seconds + GRACE_SECONDS)
        while True:
            reply = receive(
                self._connection,
                messages.Reply,
                largest=self.limits.reply_bytes,
                deadline=deadline,
                watch=self._watch.look,
            )
            if reply.number == self._number:
                return reply.answer
            # Late words of a process that a cell forked; whoever sends them without end runs into the deadline.


class Watch:
    """Counts memory and processes of everything that the server has forked, from outside."""

    def __init__(self, server: psutil.Process, limits: Limits) -> None:
        self._server, self._limits = server, limits
        # A fork's pages are the server's own until it writes; what it holds above that is the submission's.
        self._warm = max((_resident(process) for process in [server, *_children(server)]), default=0)
        self.verdict = ""

    def look(self) -> None:
        """Raises Broken where the submission uses more than it may."""
        family = _children(self._server)
        threads = sum(_threads(process) for process in family)
        memory = sum(max(0, _resident(process) - self._warm) for process in family)
        if threads > self._limits.processes + OWN_PROCESSES:
            self.verdict = f"it started more than {self._limits.processes} processes or threads"
        elif memory > self._limits.memory_bytes:
            self.verdict = f"it used more than {self._limits.memory_bytes // 2**20} MiB of memory"
        if self.verdict:
            raise Broken(self.verdict)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _threads(process: psutil.Process) -> int:
    try:
        return process.num_threads()
    except psutil.Error:
        return 0
