"""Watches which workers there are, in a thread of its own, and asks each new one for its report."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import Any

import msgspec
from distributed import Client

from autograder.grade.where.cluster.scheduler.scheduler_link import open_door
from autograder.grade.where.cluster.worker.host_messages import WorkerReport
from autograder.grade.where.cluster.worker.worker_plugin import GradingPlugin, worker_report

LOOK_SECONDS = 1.0
ANSWER_SECONDS = 30.0
LONGEST_REASON = 300


@dataclass(frozen=True)
class WorkerJoined:
    """A worker that grades, or the reason why it does not."""

    worker: str
    report: WorkerReport


@dataclass(frozen=True)
class WorkerLeft:
    """A worker that was lost or retired."""

    worker: str


@dataclass(frozen=True)
class LinkLost:
    """The scheduler does not answer any more."""

    client: Client


class WorkerRoster(threading.Thread):
    """Puts what it sees into a queue, until it is stopped or the scheduler is lost.

    Args:
        client: of the scheduler.
        plugin: that every worker has to have.
        events: takes WorkerJoined, WorkerLeft and LinkLost.
    """

    def __init__(self, client: Client, plugin: GradingPlugin, events: queue.SimpleQueue[Any]) -> None:
        super().__init__(daemon=True)
        self._client, self._plugin, self._events = client, plugin, events
        self._known: set[str] = set()
        self._stopped = threading.Event()
        self.present: frozenset[str] = frozenset()

    def stop(self) -> None:
        """Ends the watch after the look that is under way."""
        self._stopped.set()

    def run(self) -> None:
        """Looks once a second."""
        while not self._stopped.is_set():
            try:
                self._look()
            except Exception:  # noqa: BLE001 - whatever it is, nothing is known of the workers any more
                if not self._stopped.is_set():
                    self._events.put(LinkLost(self._client))
                return
            self._stopped.wait(LOOK_SECONDS)

    def _look(self) -> None:
        self.present = frozenset(self._client.nthreads(callback_timeout=ANSWER_SECONDS))
        for worker in self._known - self.present:
            self._events.put(WorkerLeft(worker))
        self._known &= self.present
        for worker in sorted(self.present - self._known):
            if (report := self._report(worker)) is not None:
                self._known.add(worker)
                self._events.put(WorkerJoined(worker, report))

    def _report(self, worker: str) -> WorkerReport | None:
        """Returns a worker's report; None while it gets ready, or if it has gone."""
        if problem := open_door(worker):
            return WorkerReport(worker, worker, 0, f"it listens at {worker}. {problem}")
        try:
            answers = self._client.run(
                worker_report, self._plugin.name, workers=[worker], on_error="return", callback_timeout=ANSWER_SECONDS
            )
        except (TimeoutError, ValueError):  # it hangs, or the scheduler knows no such worker any more
            return None
        answer = answers.get(worker)
        if answer == b"":  # its scheduler is a new one, which knows nothing of the course
            self._client.register_plugin(self._plugin)
            return None
        if answer is None or isinstance(answer, OSError):
            return None
        if isinstance(answer, bytes):
            try:
                return msgspec.msgpack.decode(answer, type=WorkerReport)
            except msgspec.MsgspecError:
                answer = "its report cannot be read"
        reason = str(answer)[:LONGEST_REASON]
        return WorkerReport(worker, worker, 0, f"autograder is not installed there as it is here ({reason})")
