"""The Dask backend: connects to a cluster, sends each job as a future, and returns one result per job."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import math
import os
import platform
import re
import secrets
import sys
import threading
import time
import tomllib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from distributed import Client, Future, KilledWorker, Security, WorkerPlugin, as_completed, get_worker
from distributed.comm.core import connect

from autograder.errors import InputError, UnfinishedError
from autograder.grade.backends.grading_job import (
    Backend,
    GradingTerms,
    Job,
    JobResult,
    difference,
    handshake_versions,
    validated,
)
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST


class GradingPlugin(WorkerPlugin):
    """A plugin with which a worker of the cluster can grade one course.

    The course is an encoded GradingTerms, which is sent to each worker once. The worker must reach the level, and have
    these `handshake_versions`. `jobs` is the number of submissions to grade at once; 0 for one per thread of the
    worker.
    """

    def __init__(self, name: str, course: bytes, level: str, versions: dict[str, str], jobs: int) -> None:
        self.name, self._course, self._level, self._versions, self._jobs = name, course, level, versions, jobs

    async def setup(self, worker: Any) -> None:
        """Check whether this worker may grade. This method never raises; the client asks for the report."""
        self._slots = min(self._jobs or worker.state.nthreads, worker.state.nthreads)
        self._started, self._lock = contextlib.ExitStack(), threading.Lock()
        self._backend: Any = None
        problem = await asyncio.to_thread(self._problem, worker.address)
        self.report = {"name": f"{worker.name} on {platform.node()}", "slots": self._slots, "problem": problem}

    async def teardown(self, worker: Any) -> None:
        """End the processes that grade."""
        await asyncio.to_thread(self._started.close)

    def grade(self, job: bytes) -> bytes:
        """Return the encoded result of an encoded job; the first job starts the processes that grade."""
        try:
            [result] = self._opened().grade([msgspec.msgpack.decode(job, type=Job)])
        except BaseException:
            self._backend = None  # the next job starts another one
            raise
        return msgspec.msgpack.encode(result)

    def _opened(self) -> Any:
        from autograder.grade.backends.local_processes import LocalBackend

        with self._lock:
            if self._backend is None:
                terms = msgspec.msgpack.decode(self._course, type=GradingTerms)
                self._backend = self._started.enter_context(LocalBackend(terms, self._slots))
            return self._backend

    def _problem(self, address: str) -> str | None:
        if is_exposed(address):
            return f"listens at {address}, which is neither encrypted nor on this machine alone"
        if differs := difference(self._versions):
            return f"has another installation ({differs}); install the same packages there"
        if obstacle := LEVELS[self._level].obstacle:
            return f"does not reach the isolation level {self._level!r}: {obstacle}"
        return None


def worker_report(plugin: str, dask_worker: Any) -> dict[str, Any] | None:
    """Return a worker's name, its number of parallel jobs, and the reason why it gets no jobs; None until its plugin is set up."""
    return getattr(dask_worker.plugins.get(plugin), "report", None)


def grade_on_worker(plugin: str, job: bytes) -> tuple[str, bytes | str]:
    """Return the worker's address, and an encoded JobResult or the reason of the failure; the task that Dask runs."""
    worker: Any = get_worker()
    try:
        return worker.contact_address, worker.plugins[plugin].grade(job)
    except Exception as error:  # such as a full disk: the client counts each worker's failures
        return worker.contact_address, f"{type(error).__name__}: {error}"


def is_exposed(address: str) -> bool:
    """Return whether an address is neither encrypted nor limited to this machine."""
    parts = urlsplit(address)
    return parts.scheme != "tls" and parts.hostname not in ("127.0.0.1", "::1", "localhost")


ROLES = ("client", "scheduler", "worker")
CONNECT_SECONDS = 10
WORKER_SECONDS = 300.0  # time to wait for a worker
TRIES_ALONE = 2
WORKER_FAILURES = 3  # failures in a row after which a worker gets no more jobs
SUBMIT_OPTIONS = {"allow_other_workers": False, "pure": False, "retries": 2}


@contextlib.contextmanager
def choose_cluster(choice: str, course: Path, folder: Path | None, level: str, jobs: int) -> Iterator[DaskCluster]:
    """Yield the cluster that `--cluster` names; a cluster that is started for it ends with the context.

    `folder` contains certificates; None takes the folder that the course's cluster.toml names, if any. `jobs` is the
    number of submissions that a worker grades at once; 0 for one per thread.

    Raises:
        InputError: the choice is not a cluster, or the cluster cannot be reached, or strangers can use it.
    """
    if level != STRONGEST and not choice.startswith("local:"):
        raise InputError(f"--cluster needs --isolation {STRONGEST}: otherwise submissions reach the scheduler's port")
    table = _table(choice, course, jobs)
    folder = folder or (course / table.pop("certificates") if "certificates" in table else None)
    security: Any = _security(folder) if folder else None
    for name in list(logging.root.manager.loggerDict):  # Dask sets the level of each of its loggers (2026.8)
        if name.partition(".")[0] in ("distributed", "asyncio"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as opened:
        address, patience = table.get("address"), WORKER_SECONDS
        if address is None:
            cluster = opened.enter_context(_started({"security": security or True} | table))
            address, security = cluster.scheduler_address, cluster.security
            patience = math.inf  # a batch system takes its time
        yield DaskCluster(opened.enter_context(_connected(address, security or Security())), jobs, patience)


def _table(choice: str, course: Path, jobs: int) -> dict[str, Any]:
    """Return a dictionary with the `address` of a scheduler, or with the `class` of a cluster and its arguments."""
    if match := re.fullmatch(r"local:([1-9]\d{0,2})", choice):
        threads = jobs or max(1, len(os.sched_getaffinity(0)) // int(match[1]))
        local = {"n_workers": int(match[1]), "threads_per_worker": threads, "silence_logs": logging.CRITICAL}
        return {"class": "distributed.LocalCluster", "host": "127.0.0.1", "dashboard_address": None} | local
    if "://" in choice:
        return {"address": choice}
    file = Path(choice) if Path(choice).is_file() else course / "cluster.toml"
    try:
        text = file.read_text("utf-8")
        table = json.loads(text) if text.startswith("{") else tomllib.loads(text)
    except (OSError, ValueError) as error:
        problem = f"neither an address such as tls://host:8786, nor local:2, nor a file that can be read ({error})"
        raise InputError(f"--cluster {choice!r} is {problem}") from None
    table = table if file == Path(choice) else table.get(choice, {})
    if "kind" in table:  # older versions of cluster.toml had tables of this form
        table |= {"class": f"dask_jobqueue.{table.pop('kind')}", "n_workers": table.pop("workers", 1)}
        table |= table.pop("settings", {})
    if not isinstance(table.get("address", table.get("class")), str):
        problem = "neither a scheduler's `address` nor a cluster's `class`, such as dask_jobqueue.SLURMCluster"
        raise InputError(f"--cluster {choice!r}: {file} contains {problem}")
    return table


def _started(table: dict[str, Any]) -> Any:
    module, _, name = table.pop("class").rpartition(".")
    try:
        with warnings.catch_warnings(action="ignore"):
            return getattr(importlib.import_module(module), name)(**table)
    except Exception as error:  # each class checks its own arguments
        raise InputError(f"{module}.{name} does not start with these arguments ({_first_line(error)})") from None


def _security(folder: Path) -> Security:
    files = {kind: str(folder / f"{kind}.pem") for kind in ("ca", "cert", "key")}
    if missing := [file for file in files.values() if not Path(file).is_file()]:
        raise InputError(f"there is no {missing[0]}; docs/cluster.md shows how to make certificates")
    pairs = {f"tls_{role}_{kind}": files[kind] for role in ROLES for kind in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=files["ca"], **pairs)


@contextlib.contextmanager
def _connected(address: str, security: Security) -> Iterator[Client]:
    _refuse_exposed(address)
    options = security.get_connection_args("client")
    if address.startswith("tls:") and options["ssl_context"] is None:
        raise InputError(f"{address} needs certificates: --certificates DIR, or Dask's configuration (docs/cluster.md)")
    try:
        # Dask's client waits forever for a listener that does not answer (2026.8).
        asyncio.run(asyncio.wait_for(connect(address, timeout=CONNECT_SECONDS, **options), CONNECT_SECONDS + 2)).abort()
        client = Client(address, security=security, timeout=CONNECT_SECONDS, set_as_default=False)
    except Exception as error:  # Dask passes on errors of the network and OpenSSL, wrapped in various ways
        reason = f"{_first_line(error)}). Start one with `dask scheduler`, or correct the address"
        raise InputError(f"no Dask scheduler can be used at {address} ({reason}") from None
    with contextlib.closing(client):
        _refuse_exposed(client.scheduler_info(n_workers=0)["address"])
        yield client


def _refuse_exposed(address: str) -> None:
    if is_exposed(address):
        advice = "docs/cluster.md shows how to use tls://"
        raise InputError(f"strangers can run programs as you through {address}; {advice}")


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]  # dask-jobqueue (0.9) lists keys after it


def _say(sentence: str) -> None:
    print(f"autograder: {sentence}", file=sys.stderr, flush=True)


def _stopped(reason: str) -> UnfinishedError:
    return UnfinishedError(f"{reason}. Grades so far are kept; run again with --resume")


@dataclass
class _Worker:
    name: str
    slots: int
    problem: str | None  # reason why it is given no jobs
    failures: int = 0  # in a row


@dataclass
class _Attempt:
    job: Job  # with a random token instead of the student's name
    student: str
    failures: int = 0
    workers: set[str] = field(default_factory=set)


class DaskCluster(Backend):
    """A cluster that grades a class. `patience` is the time in seconds for which it waits for a worker."""

    def __init__(self, client: Client, jobs: int, patience: float) -> None:
        self._client, self._jobs, self._patience, self._next_look = client, jobs, patience, 0.0

    @contextlib.contextmanager
    def prepared(self, terms: GradingTerms) -> Iterator[DaskCluster]:
        """Yield the cluster, prepared to grade by these terms. It raises the same errors as `batches`."""
        self._terms, self._plugin = terms, f"autograder-{terms.name}"
        facts = (msgspec.msgpack.encode(terms), terms.level_name, handshake_versions(), self._jobs)
        self._workers, self._usable_workers = dict[str, _Worker](), set[str]()
        self._in_progress, self._retried_alone = dict[str, _Attempt](), list[_Attempt]()
        self._done = as_completed(loop=self._client.loop, with_results=True, raise_errors=False)
        with contextlib.suppress(Exception):  # a worker does not have this package; its report shows that
            self._client.register_plugin(GradingPlugin(self._plugin, *facts))
        try:
            self._update_workers()
            yield self
        finally:
            self._done.clear()
            if self._client.status == "running":  # otherwise Dask would wait for the lost scheduler
                with contextlib.suppress(Exception):
                    self._client.unregister_worker_plugin(self._plugin)

    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yield the result of every job as soon as it is available. A job without a grade is run again at the end, alone.

        Raises:
            UnfinishedError: no worker can grade, or all workers or the scheduler are lost.
        """
        waiting, results = iter(jobs), list[JobResult]()
        while True:
            # Send new jobs first, because the caller writes the results to disk. Each worker has as many jobs in reserve
            # as it grades at once, so that it does not wait for the network.
            free = 2 * sum(self._workers[address].slots for address in self._usable_workers) - len(self._in_progress)
            for job in islice(waiting, max(0, free)):
                self._send(_Attempt(msgspec.structs.replace(job, student=secrets.token_hex(12)), job.student))
            if results:
                yield results
            if not self._in_progress and not self._retried_alone:
                return
            if not self._in_progress:
                self._send(self._retried_alone.pop(0))
            results = self._results()

    def _send(self, attempt: _Attempt) -> None:
        healthy = {address for address in self._usable_workers if not self._workers[address].failures}
        attempt.workers = (attempt.failures and healthy) or self._usable_workers
        key = f"grade-{secrets.token_hex(8)}"  # shown by the dashboard
        words = (self._plugin, msgspec.msgpack.encode(attempt.job))
        with _reachable_scheduler():
            future = self._client.submit(
                grade_on_worker, *words, key=key, workers=sorted(attempt.workers), **SUBMIT_OPTIONS
            )
        self._in_progress[key] = attempt
        self._done.add(future)

    def _results(self) -> list[JobResult]:
        """Wait until there are results, or until the workers have to be checked again."""
        while not self._done.has_ready() and time.monotonic() < self._next_look:
            time.sleep(0.02)
        done = self._done.next_batch(block=False)
        results = [result for future, value in done for result in self._take(future, value)]
        is_due = time.monotonic() >= self._next_look or not self._usable_workers
        return results + (self._update_workers() if is_due else [])

    def _take(self, future: Future[Any], value: Any) -> list[JobResult]:
        attempt = self._in_progress.pop(str(future.key), None)
        if attempt is None:
            return []  # its workers were lost, so it is already a suspect
        if future.cancelled():  # by Dask, because the scheduler is lost
            raise _stopped("the scheduler is lost")
        if future.status == "error":
            killed = isinstance(value[1], KilledWorker)
            return self._failed(attempt, "it ended its workers" if killed else f"{type(value[1]).__name__}: {value[1]}")
        worker, result = self._workers[value[0]], self._decoded(value[1], attempt.job)
        if not isinstance(result, str):
            worker.failures = 0
            return [msgspec.structs.replace(result, student=attempt.student, worker=worker.name)]
        worker.failures += attempt.failures == 0  # a failure of a job that runs alone is not counted against the worker
        if worker.failures == WORKER_FAILURES:
            worker.problem = f"failed {WORKER_FAILURES} times in a row ({result})"
            self._usable_workers.discard(value[0])
            _say(f"worker {worker.name} gets no more submissions: it {worker.problem}")
        return self._failed(attempt, result)

    def _decoded(self, answer: bytes | str, job: Job) -> JobResult | str:
        """Return the result in a worker's answer, or the reason why there is no grade."""
        if isinstance(answer, str):
            return answer
        try:
            result = validated(msgspec.msgpack.decode(answer, type=JobResult), self._terms.sources[job.notebook])
        except (msgspec.MsgspecError, ValueError) as error:
            return f"the worker's answer cannot be used: {error}"
        if result.student != job.student:
            return "the worker's answer is for another job"
        return result.failure if result.grade is None else result

    def _failed(self, attempt: _Attempt, reason: str) -> list[JobResult]:
        """Schedule a job to run alone at the end; if it has failed too often, return its result instead."""
        attempt.failures += 1
        if attempt.failures <= TRIES_ALONE:
            self._retried_alone.append(attempt)
            return []
        return [JobResult(attempt.student, attempt.job.notebook, None, f"grading it failed, at last alone: {reason}")]

    def _update_workers(self) -> list[JobResult]:
        """Check which workers may grade, and wait for one; return the results of jobs whose workers are all lost."""
        until = time.monotonic() + self._patience
        self._ask_new_workers()
        if not self._present:
            _say("waiting for a worker; press Ctrl-C to stop")
        while not self._usable_workers:
            if self._present and self._present <= self._workers.keys():
                workers = [self._workers[address] for address in self._present]
                problems = "; ".join(f"{worker.name} {worker.problem}" for worker in workers)
                raise _stopped(f"no worker of the cluster can grade: {problems}")
            if time.monotonic() > until:
                raise _stopped("the scheduler has no workers; start some with `dask worker`")
            time.sleep(1)
            self._ask_new_workers()
        self._next_look = time.monotonic() + 1
        lost = [key for key, attempt in self._in_progress.items() if not attempt.workers & self._usable_workers]
        return [result for key in lost for result in self._failed(self._in_progress.pop(key), "its worker was lost")]

    def _ask_new_workers(self) -> None:
        with _reachable_scheduler():
            self._present = set(self._client.nthreads(callback_timeout=30))
        new, reports = sorted(self._present - self._workers.keys()), dict[str, Any]()
        with contextlib.suppress(TimeoutError, ValueError):  # a worker does not answer, or has just ended
            reports = self._client.run(worker_report, self._plugin, workers=new, on_error="return", callback_timeout=30)
        for address, report in reports.items():
            if isinstance(report, Exception):
                report = {"name": address, "slots": 0, "problem": f"does not have the same autograder ({report})"}
            if report is not None:
                worker = self._workers[address] = _Worker(**report)
                if worker.problem:
                    _say(f"worker {worker.name} gets no submission: it {worker.problem}")
        self._usable_workers = {
            address for address in self._present & self._workers.keys() if not self._workers[address].problem
        }


@contextlib.contextmanager
def _reachable_scheduler() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Dask raises various errors when its connection is lost
        raise _stopped(f"the scheduler does not answer any more ({type(error).__name__})") from None
