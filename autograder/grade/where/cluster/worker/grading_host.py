"""The process beside a Dask worker that grades: the same trusted processes and servers as on one machine, fed through a socket.

Dask runs tasks in threads, where nothing may fork; here there are none.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from typing import TypeVar

import msgspec

from autograder.errors import AutograderError
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.where.cluster.worker.course_bundle import CourseBundle
from autograder.grade.where.cluster.worker.host_messages import HostReady, HostStart
from autograder.grade.where.grading_job import GradingTerms, Job
from autograder.grade.where.local_processes import GraderProcesses
from autograder.grade.wire.channel import ChannelError, receive, send

Message = TypeVar("Message", HostStart, Job)
LARGEST = 1 << 32  # bytes of one message from the worker, which is trusted
MESSAGE_SECONDS = 60.0  # for the rest of a message that has begun
IDLE_SECONDS = 900.0  # without a job, after which a host whose client has gone ends


def main() -> None:
    """Grades what comes through the socket whose descriptor is the first argument, until it is closed."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        start = _receive(connection, HostStart)
        terms = msgspec.msgpack.decode(start.bundle, type=CourseBundle).terms()
        with ServerPool(terms.level, start.slots) as servers:
            servers.start()
            send(connection, HostReady())
            with GraderProcesses(terms, start.slots, servers) as processes:
                _serve(connection, processes, terms)
    except ChannelError:
        pass  # the worker has ended
    except (AutograderError, OSError) as error:
        send(connection, HostReady(str(error)))


def _serve(connection: socket.socket, processes: GraderProcesses, terms: GradingTerms) -> None:
    waiting: list[Job] = []
    latest = time.monotonic()
    while time.monotonic() - latest < IDLE_SECONDS or waiting or not processes.is_idle:
        while waiting and processes.has_room:
            processes.give(waiting.pop(0))
        for result in processes.results(connection):
            latest = time.monotonic()
            send(connection, result)
        if select.select([connection], [], [], 0)[0]:
            waiting.append(_receive(connection, Job))
            latest = time.monotonic()


def _receive(connection: socket.socket, form: type[Message]) -> Message:
    return receive(connection, form, largest=LARGEST, deadline=time.monotonic() + MESSAGE_SECONDS)
