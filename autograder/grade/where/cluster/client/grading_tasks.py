"""The tasks that workers have: each is sent to one worker, and what that answers is fetched and looked at."""

from __future__ import annotations

import asyncio
import queue
import secrets
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import msgspec
from distributed import Client

from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.cluster.client.job_board import Ticket
from autograder.grade.where.cluster.worker.worker_plugin import grade_on_worker
from autograder.grade.where.grading_job import JobResult


@dataclass(frozen=True)
class WorkerAnswer:
    """What a worker answered for a job: the bytes, or an exception."""

    ticket: Ticket
    worker: str
    payload: Future[bytes]

    def result(self, source: AssignmentSource) -> JobResult:
        """Returns the job's result.

        Raises:
            ValueError: the answer is for another job, or has other cells than the source.
            Exception: whatever the worker raised, or Dask while it fetched the answer.
        """
        found = msgspec.msgpack.decode(self.payload.result(), type=JobResult)
        if (found.student, found.notebook) != (self.ticket.token, self.ticket.job.notebook):
            raise ValueError("the answer is for another job")
        if found.grade is not None and found.grade.cells.keys() != {cell.id for cell in source.graded}:
            raise ValueError("the answer has other cells than the source")
        return found


class GradingTasks:
    """The tasks that are not answered yet.

    Args:
        plugin: the name of the plugin by which a worker grades.
        events: takes each WorkerAnswer.
    """

    def __init__(self, plugin: str, events: queue.SimpleQueue[Any]) -> None:
        self._plugin, self._events = plugin, events
        self._fetches: dict[Ticket, Future[bytes]] = {}

    def send(self, client: Client, ticket: Ticket, worker: str) -> None:
        """Sends a job to one worker; raises whatever Dask does, where the client was closed or cannot send."""
        future = client.submit(
            grade_on_worker,
            self._plugin,
            msgspec.msgpack.encode(ticket.job),
            key=f"grade-{secrets.token_hex(8)}",  # the dashboard shows it
            workers=[worker],
            allow_other_workers=False,
            pure=False,
        )

        async def fetch() -> bytes:
            return await client.gather(future, asynchronous=True)

        fetched = asyncio.run_coroutine_threadsafe(fetch(), client.loop.asyncio_loop)  # type: ignore[union-attr]
        self._fetches[ticket] = fetched
        fetched.add_done_callback(lambda done: self._events.put(WorkerAnswer(ticket, worker, done)))

    def take(self, answer: WorkerAnswer) -> bool:
        """Ends an answer's task; returns whether it is that of the job's latest task, and not of a worker that was given up."""
        if self._fetches.get(answer.ticket) is not answer.payload:
            return False
        del self._fetches[answer.ticket]
        return True

    def forget(self, ticket: Ticket) -> None:
        """Cancels a job's task, if it has one."""
        if (fetch := self._fetches.pop(ticket, None)) is not None:
            fetch.cancel()

    def forget_all(self) -> None:
        """Cancels every task."""
        for ticket in list(self._fetches):
            self.forget(ticket)
