"""What runs inside a Dask worker: a plugin that owns the grading host, the report on the worker, and the task.

The scheduler and every worker import this module, so it imports nothing that takes time.
"""

from __future__ import annotations

import asyncio
import platform
from typing import Any

import msgspec
from distributed import WorkerPlugin, get_worker

from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.where.cluster.worker.host_client import GradingHost, HostStartError
from autograder.grade.where.cluster.worker.host_messages import HostStart, WorkerReport
from autograder.grade.where.grading_job import Job
from autograder.grade.where.machine_facts import difference


class GradingPlugin(WorkerPlugin):
    """Makes a worker able to grade one course, or says why it is not.

    Args:
        name: of the course's bundle; the plugin has the same name.
        bundle: an encoded CourseBundle.
        level: the isolation level that a submission must have.
        versions: what the worker's `handshake_versions` have to be.
        jobs: how many submissions at once; 0 takes one for each of the worker's threads.
    """

    idempotent = True  # a client that comes back with the same course finds the host running

    def __init__(self, name: str, bundle: bytes, level: str, versions: dict[str, str], jobs: int) -> None:
        self.name, self._bundle, self._level, self._versions, self._jobs = name, bundle, level, versions, jobs

    async def setup(self, worker: Any) -> None:
        """Starts the host. Raises nothing: Dask would end a worker that joins, and nobody would read why."""
        slots = min(self._jobs or worker.state.nthreads, worker.state.nthreads)
        self.host = GradingHost(HostStart(self._bundle, slots))
        problem = await asyncio.to_thread(self._problem)
        self.report = WorkerReport(str(worker.name), platform.node(), slots, problem)

    async def teardown(self, worker: Any) -> None:
        """Ends the host."""
        await asyncio.to_thread(self.host.close)

    def _problem(self) -> str:
        if differs := difference(self._versions):
            return f"its installation differs ({differs}); install the same packages there"
        if obstacle := LEVELS[self._level].obstacle:
            return f"it does not reach the isolation level {self._level!r}: {obstacle}"
        try:
            self.host.start()
        except (HostStartError, OSError) as error:
            return str(error)
        return ""

    def __getstate__(self) -> dict[str, Any]:
        """Returns what crosses to the workers: not the host."""
        return {key: value for key, value in vars(self).items() if key not in ("host", "report")}


def worker_report(plugin: str, dask_worker: Any) -> bytes | None:
    """Runs on a worker, asked by the client; returns an encoded WorkerReport, None while the plugin is being set up, b"" without it."""
    found = dask_worker.plugins.get(plugin)
    if found is None:
        return b""
    report = getattr(found, "report", None)
    return None if report is None else msgspec.msgpack.encode(report)


def grade_on_worker(plugin: str, job: bytes) -> bytes:
    """The task: grades an encoded Job and returns its encoded JobResult. Both are plain data; nothing in them is unpickled.

    Raises:
        HostStartError: the worker has no host.
        HostEndedError: the host ended over it.
    """
    found = get_worker().plugins.get(plugin)
    if not isinstance(found, GradingPlugin):
        raise HostStartError("the worker has no grading host")
    return msgspec.msgpack.encode(found.host.grade(msgspec.msgpack.decode(job, type=Job)))
