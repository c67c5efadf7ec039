"""The worker's side of a cluster. The scheduler and every worker import this module, so it imports nothing that takes time."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import queue
from typing import Any
from urllib.parse import urlsplit

import msgspec
from distributed import WorkerPlugin, get_worker

from autograder.grade.sandbox.isolation.levels import LEVELS
from autograder.grade.where.machine_facts import difference


class GradingPlugin(WorkerPlugin):
    """Makes a worker able to grade one course.

    Args:
        name: the plugin's name.
        course: an encoded CourseBundle, which crosses to each worker once.
        level: the isolation level that a submission must have.
        versions: the `handshake_versions` that the worker must have.
        jobs: how many submissions to grade at once; 0 for one in each of the worker's threads.
    """

    def __init__(self, name: str, course: bytes, level: str, versions: dict[str, str], jobs: int) -> None:
        self.name, self._course, self._level, self._versions, self._jobs = name, course, level, versions, jobs

    async def setup(self, worker: Any) -> None:
        """Find out whether this worker may grade. Raise nothing: the client asks for the report."""
        slots = min(self._jobs or worker.state.nthreads, worker.state.nthreads)
        self._started = contextlib.ExitStack()
        self._free: queue.SimpleQueue[Any] = queue.SimpleQueue()  # of Graders; None for one that is not started
        for _ in range(slots):
            self._free.put(None)
        problem = await asyncio.to_thread(self._problem, worker.address)
        self.report = {"name": f"{worker.name} on {platform.node()}", "slots": slots, "problem": problem}

    async def teardown(self, worker: Any) -> None:
        """End the processes that grade."""
        await asyncio.to_thread(self._started.close)

    def grade(self, job: bytes) -> bytes:
        """Return the encoded result of an encoded job; the processes that grade start with the first job."""
        from autograder.grade.where.grading_job import Job

        graders = self._free.get()
        try:
            graders = graders or self._graders()
            [result] = graders.grade([msgspec.msgpack.decode(job, type=Job)])
        except BaseException:
            graders = None  # the next job starts others
            raise
        finally:
            self._free.put(graders)
        return msgspec.msgpack.encode(result)

    def _graders(self) -> Any:
        from autograder.grade.where.course_bundle import CourseBundle
        from autograder.grade.where.local_processes import LocalBackend

        terms = msgspec.msgpack.decode(self._course, type=CourseBundle).terms()
        backend = self._started.enter_context(LocalBackend(terms.level, 1))
        return self._started.enter_context(backend.graders(terms))

    def _problem(self, address: str) -> str | None:
        if is_exposed(address):
            return f"listens at {address}, which is neither encrypted nor on this machine alone"
        if differs := difference(self._versions):
            return f"has another installation ({differs}); install the same packages there"
        if obstacle := LEVELS[self._level].obstacle:
            return f"does not reach the isolation level {self._level!r}: {obstacle}"
        return None


def worker_report(plugin: str, dask_worker: Any) -> dict[str, Any] | None:
    """Return a worker's name, how many jobs it takes at once and why it gets none; None until its plugin is set up."""
    return getattr(dask_worker.plugins.get(plugin), "report", None)


def grade_on_worker(plugin: str, job: bytes) -> tuple[str, bytes | str]:
    """Return the worker's address, and an encoded JobResult or why there is none: the task. Both sides are plain data."""
    worker: Any = get_worker()
    try:
        return worker.contact_address, worker.plugins[plugin].grade(job)
    except Exception as error:  # noqa: BLE001 - such as a full disk: the client counts each worker's failures
        return worker.contact_address, f"{type(error).__name__}: {error}"


def is_exposed(address: str) -> bool:
    """Return whether an address is neither encrypted nor on this machine alone."""
    parts = urlsplit(address)
    return parts.scheme != "tls" and parts.hostname not in ("127.0.0.1", "::1", "localhost")
