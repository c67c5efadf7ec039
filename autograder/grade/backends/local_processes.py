"""Grading on this machine, in several lanes of one warm host. Neither this process nor the host runs code of a course."""

from __future__ import annotations

import contextlib
import math
import multiprocessing.connection
import platform
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
import psutil

from autograder.grade.backends.grading_job import (
    Backend,
    CourseBundle,
    GradingTerms,
    Job,
    JobResult,
    machine_kind,
    validated,
)
from autograder.grade.sandbox.isolation import LEVELS, IsolationError
from autograder.grade.sandbox.launch import CLOSE_SECONDS, ControlGroup, HostProcess, processor_shares
from autograder.grade.submission.server_client import control_group, handshake, sender_of
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MAX_WAIT_FACTOR
from autograder.grade.wire.messages import Role

MARGIN_SECONDS = 60  # in real time, for starting a server and writing the result
PLANNING_SECONDS = 1200  # for the first job, before which the course is planned
LANE_SECONDS = 10  # processor time that a lane may use for one job, in addition to that of the submission
LARGEST_RESULT = 1 << 28  # bytes
FITS_SOCKET = 100_000  # bytes; the buffer of a local socket on Linux has twice as many (net.core.wmem_default)
TOGETHER_SECONDS = 0.75  # results that arrive within this time are written to the gradebook together
TRIES = 2


@dataclass
class _Lane:
    """One lane, and the job on which it works."""

    connection: socket.socket  # socket to the lane, for jobs and results
    groups: list[ControlGroup]  # control groups of the lane's servers
    process: psutil.Process | None = None
    job: Job | None = None
    next_job: Job | None = None  # the job after that, which the lane may have received already
    tries: int = 0
    timeout_reason: str | None = None
    deadline: float = 0.0
    processor_deadline: float = 0.0

    def give(self, job: Job, terms: GradingTerms, tries: int = 1) -> None:
        self._set_deadlines(job, terms, tries)
        self._send(job)

    def reserve(self, job: Job) -> None:
        """Give the lane a job for later, so that it does not wait while this process writes results to disk.

        A larger job is sent later, because this process would wait for a lane that waits until its result is read.
        """
        self.next_job = job
        if _size(job) < FITS_SOCKET:
            self._send(job)

    def begin_following(self, terms: GradingTerms) -> None:
        job, self.next_job = self.next_job, None
        if job is not None:
            self._set_deadlines(job, terms, 1)
            if _size(job) >= FITS_SOCKET:
                self._send(job)

    def _set_deadlines(self, job: Job, terms: GradingTerms, tries: int) -> None:
        self.job, self.tries, self.timeout_reason = job, tries, None
        longest = MAX_WAIT_FACTOR * terms.limits.submission_seconds + MARGIN_SECONDS + PLANNING_SECONDS
        self.deadline = time.monotonic() + longest
        self.processor_deadline = self._processor_seconds() + 2 * terms.limits.submission_seconds + LANE_SECONDS

    def _send(self, job: Job) -> None:
        with contextlib.suppress(ChannelError):  # a lane that has ended is noticed when its result is read
            send(self.connection, job)

    def receive_handshake(self) -> bool:
        """Return whether the readable byte is the greeting of a new lane, which identifies its process."""
        if self.process is not None:
            return False
        number = sender_of(self.connection)
        with contextlib.suppress(psutil.Error):
            self.process = psutil.Process(number) if number else None
        return self.process is not None

    def end_if_overdue(self, terms: GradingTerms) -> None:
        """End a lane that takes too long for a job; its socket then reports the end."""
        if self.job is None or self.process is None:
            return
        if time.monotonic() > self.deadline or self._processor_seconds() > self.processor_deadline:
            self.timeout_reason = f"grading it took more than {terms.limits.submission_seconds:g} seconds"
            with contextlib.suppress(psutil.Error):
                self.process.kill()

    def _processor_seconds(self) -> float:
        try:
            times = self.process.cpu_times() if self.process else None
        except psutil.Error:
            times = None
        return float(times.user + times.system) if times else 0.0

    def close(self) -> None:
        self.connection.close()
        for group in self.groups:
            group.remove()


class LocalBackend(Backend, contextlib.AbstractContextManager["LocalBackend"]):
    """The lanes on this machine; a context manager. Lanes are started when they are needed, and are reused for later jobs.

    `count` submissions are graded at once. The lanes are forked from the host, which the caller closes; None creates
    one.
    """

    def __init__(self, terms: GradingTerms, count: int, host: HostProcess | None = None) -> None:
        self._terms, self._count, self._host = terms, count, host or HostProcess(terms.level)
        self._own_host = None if host else self._host
        self._shares = processor_shares(count)
        self._busy: list[_Lane] = []
        self._free: list[_Lane] = []
        self._planner: socket.socket | None = None
        self._unsandboxed_host: HostProcess | None = None

    def __exit__(self, *_: object) -> None:
        for lane in [*self._busy, *self._free]:
            lane.close()
        if self._planner is not None:
            self._planner.close()
        if self._unsandboxed_host is not None:
            self._unsandboxed_host.close(CLOSE_SECONDS)
        if self._own_host is not None:
            self._own_host.close()

    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yield the results of all jobs, a few at a time; each lane has at most one further job in reserve."""
        waiting = iter(jobs)
        results: list[JobResult] = []
        until = math.inf
        while True:
            # Give out new jobs before the results: the caller writes the results to disk, and the lanes should work in
            # the meantime.
            while self.has_room and (job := next(waiting, None)) is not None:
                self.give(job)
            if results and (time.monotonic() >= until or not self._busy):
                yield results
                results, until = [], math.inf
            if not self._busy and not results:
                return
            results += self.results(seconds=min(1.0, max(0.0, until - time.monotonic())))
            until = min(until, time.monotonic() + TOGETHER_SECONDS) if results else math.inf

    @property
    def has_room(self) -> bool:
        """Whether a lane is free for another job, or has none in reserve."""
        return len(self._busy) < self._count or any(lane.next_job is None for lane in self._busy)

    def give(self, job: Job) -> None:
        """Begin a job, or give it to a lane as its reserve; `has_room` must be true."""
        if len(self._busy) >= self._count:
            next(lane for lane in self._busy if lane.next_job is None).reserve(job)
            return
        lane = self._free.pop() if self._free else self._new_lane(len(self._busy))
        if multiprocessing.connection.wait([lane.connection], timeout=0):
            lane.close()  # a lane without a job sends nothing, so this one has ended
            lane = self._new_lane(len(self._busy))
        self._busy.append(lane)
        lane.give(job, self._terms)

    def results(self, seconds: float) -> list[JobResult]:
        """Wait until a result is available, or so many seconds, and return the available results."""
        ready = multiprocessing.connection.wait([lane.connection for lane in self._busy], timeout=seconds)
        results = []
        for lane in [lane for lane in self._busy if lane.connection in ready]:
            if lane.receive_handshake():
                continue
            self._busy.remove(lane)
            result = self._result(lane)
            if result is not None:
                results.append(msgspec.structs.replace(result, worker=platform.node(), machine=machine_kind()))
        for lane in self._busy:
            lane.end_if_overdue(self._terms)
        return results

    def _result(self, lane: _Lane) -> JobResult | None:
        """Return the result of a lane's job; None if the lane ended and a new lane has begun the job again."""
        job = lane.job
        assert job is not None
        try:
            result = receive(lane.connection, JobResult, largest=LARGEST_RESULT)
        except ChannelError:
            return self._try_again(lane, job)
        if result.isolation_failure is not None:
            raise IsolationError(result.isolation_failure)
        try:
            result = validated(result, self._terms.sources[job.notebook])
        except ValueError as error:
            self._replace(lane, lane.next_job)
            return JobResult(job.student, job.notebook, None, f"its grade was refused: {error}")
        lane.job = None
        lane.begin_following(self._terms)
        (self._busy if lane.job else self._free).append(lane)
        return msgspec.structs.replace(result, student=job.student, notebook=job.notebook)

    def _try_again(self, lane: _Lane, job: Job) -> JobResult | None:
        if lane.timeout_reason is None and lane.tries < TRIES:
            self._replace(lane, job, lane.tries + 1, lane.next_job)
            return None
        self._replace(lane, lane.next_job)
        if lane.timeout_reason is not None:
            return JobResult(
                job.student, job.notebook, unreadable(self._terms.sources[job.notebook], lane.timeout_reason)
            )
        reason = f"the grading process ended {TRIES} times while it graded this submission"
        return JobResult(job.student, job.notebook, None, reason)

    def _replace(self, lane: _Lane, job: Job | None, tries: int = 1, next_job: Job | None = None) -> None:
        """End a lane, and begin its jobs, if there are any, in a new one."""
        lane.close()
        if job is None:
            return
        again = self._new_lane(len(self._busy))
        self._busy.append(again)
        again.give(job, self._terms, tries)
        if next_job is not None:
            again.reserve(next_job)

    def _new_lane(self, place: int) -> _Lane:
        roles: tuple[Role, ...] = ("server", "judge server")
        servers = [self._host.fork(role, self._terms.modules) for role in roles]
        groups = []
        try:
            for server in servers:
                process, has_namespaces = handshake(server)
                group = control_group(process, self._terms.limits, self._shares[place % len(self._shares)])
                groups += [group] if group else []
        except (ChannelError, OSError):
            raise IsolationError(
                f"the server for submissions does not start at level {self._terms.level.name!r}: {self._host.last_line}"
            ) from None
        if self._terms.level.separates_submissions and not has_namespaces:
            # The kernel denies namespaces inside those of the host. So each submission gets its own host, which the
            # lane starts; the lane itself runs outside of the host's namespaces.
            for server in servers:
                server.close()
            servers = []
            self._unsandboxed_host = self._unsandboxed_host or HostProcess(LEVELS["process"])
        ours, theirs = socket.socketpair()
        # the kernel sends the id of the process at the other end
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            self._order_lane([theirs, *servers])
        for server in servers:
            server.close()
        return _Lane(ours, groups)

    def _order_lane(self, sockets: list[socket.socket]) -> None:
        """Send the sockets of a new lane to the planner, which is started again if it has ended."""
        for planner in (self._planner, None):
            try:
                planner = planner or self._begin_planner()
                socket.send_fds(planner, [b"l"], [end.fileno() for end in sockets])
                return
            except (ChannelError, OSError):
                continue

    def _begin_planner(self) -> socket.socket:
        self._planner = (self._unsandboxed_host or self._host).fork("planner", self._terms.modules)
        send(self._planner, CourseBundle.of(self._terms))
        return self._planner


def _size(job: Job) -> int:
    return len(job.data) + sum(map(len, job.files.values()))
