"""Grading on this machine, in several lanes of one warm host. Neither this process nor the host runs code of a course."""

from __future__ import annotations

import contextlib
import math
import multiprocessing.connection
import platform
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import msgspec
import psutil

from autograder.grade.backends.grading_job import Backend, GradingTerms, Job, JobResult, machine_kind, validated
from autograder.grade.sandbox.isolation import LEVELS, IsolationError
from autograder.grade.sandbox.launch import CLOSE_SECONDS, HostProcess, processor_shares, remove_control_group
from autograder.grade.submission.server_client import control_group, handshake, sender_of
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MAX_WAIT_FACTOR, Limits
from autograder.grade.wire.messages import Role

MARGIN_SECONDS = 60  # in real time, for writing the result
PLANNING_SECONDS = 1200  # for a new lane, before which the course is planned
LANE_SECONDS = 10  # processor time that a lane may use for one job, in addition to that of the submission
LARGEST_RESULT = 1 << 28  # bytes
TOGETHER_SECONDS = 0.75  # results that arrive within this time are written to the gradebook together
TRIES = 2


@dataclass
class _Lane:
    """One lane, which grades one job at a time."""

    connection: socket.socket  # socket to the lane, for jobs and results
    groups: list[Path]  # control groups of the lane's servers
    process: psutil.Process | None = None
    overdue: str = ""  # the reason for ending it, if it took too long for a job

    def grade(self, job: Job, limits: Limits) -> JobResult:
        """Return the result of a job. Raise ChannelError or OSError if the lane has ended, or takes too long."""
        if self.process is None:  # the lane sends a byte when it begins, by which the kernel identifies its process
            self.connection.settimeout(PLANNING_SECONDS)
            with contextlib.suppress(psutil.Error):
                self.process = psutil.Process(sender_of(self.connection))
        end = time.monotonic() + MAX_WAIT_FACTOR * limits.submission_seconds + MARGIN_SECONDS
        processor_end = self._processor_seconds() + 2 * limits.submission_seconds + LANE_SECONDS

        def check() -> None:
            if time.monotonic() > end or self._processor_seconds() > processor_end:
                with contextlib.suppress(psutil.Error):
                    if self.process is not None:
                        self.process.kill()
                self.overdue = f"grading it took more than {limits.submission_seconds:g} seconds"
                raise ChannelError(self.overdue)

        send(self.connection, job, watch=check)
        return receive(self.connection, JobResult, largest=LARGEST_RESULT, watch=check)

    def _processor_seconds(self) -> float:
        try:
            times = self.process.cpu_times() if self.process else None
        except psutil.Error:
            times = None
        return float(times.user + times.system) if times else 0.0

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits for it
        self.connection.close()
        for group in self.groups:
            remove_control_group(group)


class LocalBackend(Backend, contextlib.AbstractContextManager["LocalBackend"]):
    """The lanes on this machine; a context manager. Lanes are started when they are needed, and are reused for later jobs.

    `count` submissions are graded at once, each by a thread that waits for its lane. The lanes are forked from the
    host, which the caller closes; None creates one.
    """

    def __init__(self, terms: GradingTerms, count: int, host: HostProcess | None = None) -> None:
        self._terms, self._count, self._host = terms, count, host or HostProcess(terms.level)
        self._hosts = contextlib.ExitStack()  # those that this object has created
        if host is None:
            self._hosts.callback(self._host.close)
        self._shares = processor_shares(count)
        self._threads = ThreadPoolExecutor(count)
        self._lock = threading.Lock()  # of the sockets to the host and the planner, and of free lanes
        self._lanes: list[_Lane] = []
        self._free: list[_Lane] = []
        self._is_closed = False
        self._planner: socket.socket | None = None
        self._unsandboxed_host: HostProcess | None = None

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        for lane in list(self._lanes):
            lane.close()
        if self._planner is not None:
            self._planner.close()
        self._hosts.close()
        self._threads.shutdown(cancel_futures=True)

    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yield the results of all jobs, a few at a time; each lane has at most one further job in reserve."""
        waiting = iter(jobs)
        running: list[Future[JobResult]] = []
        results: list[JobResult] = []
        until = math.inf
        while True:
            # Begin new jobs before the results: the caller writes the results to disk, and the lanes should work in the
            # meantime.
            for job in islice(waiting, 2 * self._count - len(running)):
                self._host.start()  # here, because bubblewrap ends with the thread that has started it
                running.append(self._threads.submit(self._grade, job))
            if results and (time.monotonic() >= until or not running):
                yield results
                results, until = [], math.inf
            if not running and not results:
                return
            done, _ = wait(running, max(0.0, until - time.monotonic()) if results else None, FIRST_COMPLETED)
            results += [future.result() for future in running if future in done]
            running = [future for future in running if future not in done]
            until = min(until, time.monotonic() + TOGETHER_SECONDS) if results else math.inf

    def _grade(self, job: Job) -> JobResult:
        about = {"worker": platform.node(), "machine": machine_kind()}
        return msgspec.structs.replace(self._result(job), student=job.student, notebook=job.notebook, **about)

    def _result(self, job: Job) -> JobResult:
        """Return the result of a job from a free lane, or from a new one if none is free or if the lane ends."""
        source = self._terms.sources[job.notebook]
        for _ in range(TRIES):
            lane = self._free_lane()
            try:
                result = validated(lane.grade(job, self._terms.limits), source)
            except (ChannelError, OSError):
                self._end(lane)
                if lane.overdue:
                    return JobResult(job.student, job.notebook, unreadable(source, lane.overdue))
                continue
            except ValueError as error:
                self._end(lane)
                return JobResult(job.student, job.notebook, None, f"its grade was refused: {error}")
            if result.isolation_failure is not None:
                raise IsolationError(result.isolation_failure)
            self._free.append(lane)
            return result
        reason = f"the grading process ended {TRIES} times while it graded this submission"
        return JobResult(job.student, job.notebook, None, reason)

    def _free_lane(self) -> _Lane:
        with self._lock:
            while self._free:
                lane = self._free.pop()
                if not multiprocessing.connection.wait([lane.connection], timeout=0):
                    return lane
                self._end(lane)  # a lane without a job sends nothing, so this one has ended
            if self._is_closed:
                raise IsolationError("grading was stopped")
            lane = self._new_lane(len(self._lanes))
            self._lanes.append(lane)
        if self._is_closed:  # meanwhile
            lane.close()
        return lane

    def _end(self, lane: _Lane) -> None:
        self._lanes.remove(lane)
        lane.close()

    def _new_lane(self, place: int) -> _Lane:
        roles: tuple[Role, ...] = ("server", "judge server")
        # The planner comes first, because it plans while the host prepares its memory for the servers.
        planner = self._fork_planner() if self._planner is None else None
        servers = [self._host.fork(role, self._terms.modules) for role in roles]
        if planner is not None:
            self._begin_planning(planner)
        groups = []
        for server in servers:
            process, has_namespaces = handshake(server, self._terms.level, self._host)
            group = control_group(process, self._terms.limits, self._shares[place % len(self._shares)])
            groups += [group] if group else []
        if self._terms.level.separates_submissions and not has_namespaces:
            # The kernel denies namespaces inside those of the host. So each submission gets its own host, which the
            # lane starts; the lane itself runs outside of the host's namespaces.
            for server in servers:
                server.close()
            servers = []
            if self._unsandboxed_host is None:
                self._unsandboxed_host = HostProcess(LEVELS["process"])
                self._hosts.callback(self._unsandboxed_host.close, CLOSE_SECONDS)
                self._begin_planning(self._fork_planner())
        ours, theirs = socket.socketpair()
        # the kernel sends the id of the process at the other end
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with theirs:
            self._order_lane([theirs, *servers])
        for server in servers:
            server.close()
        return _Lane(ours, groups)

    def _fork_planner(self) -> socket.socket:
        return (self._unsandboxed_host or self._host).fork("planner", self._terms.modules)

    def _begin_planning(self, planner: socket.socket) -> None:
        if self._planner is not None:
            self._planner.close()
        self._planner = planner
        with contextlib.suppress(ChannelError, OSError):  # the order for a lane will fail
            send(planner, self._terms)

    def _order_lane(self, sockets: list[socket.socket]) -> None:
        """Send the sockets of a new lane to the planner, which is started again if it has ended."""
        assert self._planner is not None
        for _ in range(TRIES):
            with contextlib.suppress(ChannelError, OSError):
                socket.send_fds(self._planner, [b"l"], [end.fileno() for end in sockets])
                return
            self._begin_planning(self._fork_planner())
