"""A Dask worker's side of its grading host: starts it as a process of its own, and hands it one job for each thread."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future

from autograder.errors import SetupError, UnfinishedError
from autograder.grade.sandbox.isolation.package_folders import IMPORT_ROOT
from autograder.grade.where.cluster.worker.host_messages import HostReady, HostStart
from autograder.grade.where.grading_job import Job, JobResult
from autograder.grade.wire.channel import ChannelError, receive, send

START_SECONDS = 300.0  # importing PyTorch from a slow network disk
LARGEST = 1 << 32  # bytes of a result; the host is trusted
END_SECONDS = 15.0
PROGRAM = "from autograder.grade.where.cluster.worker.grading_host import main; main()"


class HostStartError(SetupError):
    """The process that grades does not start on this worker; the message says why."""


class HostEndedError(UnfinishedError):
    """The process that grades has ended before it answered; the message says why."""


class GradingHost:
    """Grades for one Dask worker, for any number of threads. Its process is started when it is needed, and again when it has ended.

    Args:
        start: the first message to the process.
    """

    def __init__(self, start: HostStart) -> None:
        self._start, self._lock = start, threading.Lock()
        self._process: _HostProcess | None = None

    def start(self) -> None:
        """Starts the process where it does not run.

        Raises:
            HostStartError: it does not start.
        """
        with self._lock:
            if self._process is None or self._process.has_ended:
                self._process = _HostProcess(self._start)

    def grade(self, job: Job) -> JobResult:
        """Returns the job's result; a job is known by its `student`.

        Raises:
            HostStartError: the process does not start.
            HostEndedError: it ended before it answered.
        """
        self.start()
        assert self._process is not None
        return self._process.give(job).result()

    def close(self) -> None:
        """Ends the process and all that it started."""
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None


class _HostProcess:
    """One process, which takes jobs until it ends."""

    def __init__(self, start: HostStart) -> None:
        self._pending: dict[str, Future[JobResult]] = {}
        self._lock = threading.Lock()
        self._is_given_up = False
        self._connection, theirs = socket.socketpair()
        # A file, not a pipe: nobody reads while it runs, so a pipe could fill up and block the host.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the host
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | {"PYTHONPATH": str(IMPORT_ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        theirs.close()
        self._await_ready(start)
        threading.Thread(target=self._read_results, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self._is_given_up or self._process.poll() is not None

    def give(self, job: Job) -> Future[JobResult]:
        answer: Future[JobResult] = Future()
        with self._lock:
            if self._is_given_up:  # nobody would read the answer
                raise HostEndedError("the process that grades has ended")
            self._pending[job.student] = answer
            try:
                # With the watch of the thread that reads: whether a call blocks is a matter of the socket, so two threads that
                # want it otherwise make each other's calls fail (CPython 3.11, `settimeout`).
                send(self._connection, job, watch=self._watch)
            except (ChannelError, OSError):
                self._pending.pop(job.student, None)
                raise HostEndedError("the process that grades takes no job any more") from None
        return answer

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._process.kill()
        self._process.wait()

    def _await_ready(self, start: HostStart) -> None:
        deadline = time.monotonic() + START_SECONDS
        try:
            send(self._connection, start)
            problem = receive(
                self._connection, HostReady, largest=1 << 20, deadline=deadline, watch=self._watch
            ).problem
        except (ChannelError, OSError) as error:
            problem = f"the process that grades does not start ({self._last_line() or error})"
        if problem:
            self.end()
            raise HostStartError(problem)

    def _read_results(self) -> None:
        """In a thread of its own: hands each result to the thread that waits for it."""
        try:
            while True:
                result = receive(self._connection, JobResult, largest=LARGEST, watch=self._watch)
                if not result.student:  # the servers do not start: that is no matter of one submission
                    raise ChannelError(result.failure)
                self._pending.pop(result.student).set_result(result)
        except (ChannelError, OSError, KeyError) as error:
            self._process.kill()
            with self._lock:
                self._is_given_up = True
                for answer in self._pending.values():
                    answer.set_exception(HostEndedError(f"the process that grades has ended: {error}"))
                self._pending.clear()

    def _watch(self) -> None:
        if self.has_ended:
            raise ChannelError(self._last_line() or "its process has ended")

    def _last_line(self) -> str:
        self._log.seek(0)
        lines = self._log.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""
