"""The planner, which plans a course once, and its forks, the lanes, which each grade one submission after another."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
from typing import NoReturn

from autograder.grade.backends.grading_job import GradingTerms, Job, JobResult
from autograder.grade.sandbox import namespaces
from autograder.grade.sandbox.isolation import IsolationError
from autograder.grade.sandbox.shell import Shell
from autograder.grade.submission.cell_planner import CellPlanner
from autograder.grade.submission.server_client import ServerClient
from autograder.grade.submission.submission_grader import SubmissionGrader
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.wire.channel import ChannelError, receive, send
from autograder.grade.wire.limits import MEBIBYTE

LARGEST = 1 << 32  # bytes of one message from the main process, which is trusted
LANE_BYTES = 2048 * MEBIBYTE  # memory that a lane may add, or twice the memory of a submission if that is more


def serve(control: socket.socket) -> None:
    """Plan the course that arrives through the control socket, and fork a lane for each set of sockets: for jobs, and for servers."""
    terms = receive(control, GradingTerms, largest=LARGEST)
    planner = CellPlanner(Shell.instance())
    for source in terms.sources.values():
        planner.plans(source, terms.seed)  # planned once, because each lane is a fork that contains the plans
    with contextlib.suppress(ChannelError, OSError):
        while True:
            byte, descriptors, _, _ = socket.recv_fds(control, 1, 3)
            if not byte:
                return
            if os.fork() == 0:
                control.close()
                _begin([socket.socket(fileno=number) for number in descriptors], terms, planner)
            for number in descriptors:
                os.close(number)


def _begin(sockets: list[socket.socket], terms: GradingTerms, planner: CellPlanner) -> NoReturn:
    try:
        namespaces.set_parent_death_signal()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process, which then closes the socket
        # so that it ends one test or one grade before the machine runs out of memory
        more = max(LANE_BYTES, 2 * terms.limits.memory_bytes)
        namespaces.lower_limit(resource.RLIMIT_AS, namespaces.address_space() + more)
        jobs, *servers = sockets
        jobs.sendall(b"p")  # with this byte, the kernel sends the id of this process
        workers, judges = servers or (None, None)  # without servers, each submission starts its own host
        with (
            ServerClient(terms.level, terms.limits, workers, "server", terms.modules) as worker_client,
            ServerClient(terms.level, terms.limits, judges, "judge server", terms.modules) as judge_client,
        ):
            grader = SubmissionGrader(worker_client, judge_client, planner)
            with contextlib.suppress(ChannelError):  # the main process closed the socket, or was interrupted
                while True:
                    send(jobs, _result(grader, terms, receive(jobs, Job, largest=LARGEST)))
    except BaseException as error:  # this process must not continue as a second planner
        os.write(2, f"lane: {error!r}\n".encode())
    finally:
        os._exit(0)


def _result(grader: SubmissionGrader, terms: GradingTerms, job: Job) -> JobResult:
    source = terms.sources[job.notebook]
    try:
        student_source = source if job.variant is None else source.variant(job.variant)
        grade = grader.grade(student_source, job.data, job.files, terms.seed, job.plan, pictures=job.pictures)
        return JobResult(job.student, job.notebook, grade)
    except IsolationError as error:
        return JobResult(job.student, job.notebook, None, isolation_failure=str(error))
    except MemoryError:
        reason = "grading it took more memory than the grader has for one submission"
        return JobResult(job.student, job.notebook, unreadable(source, reason))
    except Exception as error:  # the batch continues, and the teacher reads the error
        return JobResult(job.student, job.notebook, None, f"the grader failed ({type(error).__name__}: {error})")
