"""The process beside a worker: many threads hand it jobs, and when it ends every one of them hears of it."""

import socket
from concurrent.futures import ThreadPoolExecutor

from autograder.grade.where.cluster.worker import host_client
from autograder.grade.where.cluster.worker.host_client import GradingHost, HostEndedError
from autograder.grade.where.cluster.worker.host_messages import HostStart
from autograder.grade.where.grading_job import Job
from autograder.grade.wire.channel import TICK

# Answers each job at once; after so many jobs it ends.
ECHO = """
import os, socket, sys
from autograder.grade.where.cluster.worker.host_messages import HostReady, HostStart
from autograder.grade.where.grading_job import Job, JobResult
from autograder.grade.wire.channel import receive, send
connection = socket.socket(fileno=int(sys.argv[1]))
receive(connection, HostStart, largest=1 << 20)
send(connection, HostReady())
for _ in range({most}):
    job = receive(connection, Job, largest=1 << 20)
    send(connection, JobResult(job.student, job.notebook, None))
os._exit(0)
"""


def answers(host: GradingHost, count: int, threads: int) -> list[str]:
    """Returns the name in each answer, "" where the process had ended."""

    def one(number: int) -> str:
        try:
            return host.grade(Job(f"student {number}", "n", b"", {})).student
        except HostEndedError:
            return ""

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, range(count), timeout=300))


class RecordedSocket(socket.socket):
    """Keeps for how long its calls were told to wait."""

    waits: set[float | None] = set()

    def settimeout(self, seconds):
        """Sets it, as ever."""
        self.waits.add(seconds)
        super().settimeout(seconds)


def test_sending_and_reading_do_not_disturb_each_other(monkeypatch):
    """Many jobs from several threads: each has its own answer, and no thread changes how the socket waits for another one.

    Where one did, the other's call failed once in some hundred jobs of a busy machine, which is too seldom for a test.
    """
    monkeypatch.setattr(host_client, "PROGRAM", ECHO.format(most=100_000))
    pair = socket.socketpair
    monkeypatch.setattr(socket, "socketpair", lambda: (RecordedSocket(fileno=(both := pair())[0].detach()), both[1]))
    host = GradingHost(HostStart(b"", 3))
    try:
        host.start()
        assert TICK in RecordedSocket.waits  # it is set once, and then only where another wait was set meanwhile
        RecordedSocket.waits.clear()
        assert [f"student {number}" for number in range(1000)] == answers(host, 1000, 3)
        assert RecordedSocket.waits <= {TICK}
    finally:
        host.close()


def test_nobody_waits_for_a_process_that_has_ended(monkeypatch):
    """A process that ends after some jobs is started again: every job is answered, or told that the process has ended."""
    monkeypatch.setattr(host_client, "PROGRAM", ECHO.format(most=10))
    host = GradingHost(HostStart(b"", 3))
    try:
        found = answers(host, 40, 3)
    finally:
        host.close()
    assert all(one in ("", f"student {number}") for number, one in enumerate(found))
    assert any(found)
