"""Which job is on which worker, and what becomes of it when a worker is lost: decided here, with no network."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from autograder.grade.where.grading_job import Job

LOSSES = 2  # of workers, after which a job that was there each time runs alone
FAILURES = 3  # of the grader itself over one job, on different workers where there are some
WORKER_FAILURES = 3  # in a row, after which a worker gets no more jobs


@dataclass(eq=False)
class Ticket:
    """A job that is not finished.

    Attributes:
        job: without the student's name; `student` is a random token.
        student: the name, which stays here.
        losses: workers that were lost while they had it.
        failures: answers that were none.
        avoid: workers that gave these.
        alone: whether it has a worker of its own.
    """

    job: Job
    student: str
    losses: int = 0
    failures: int = 0
    avoid: set[str] = field(default_factory=set)
    alone: bool = False

    @property
    def token(self) -> str:
        """By which the cluster knows the job."""
        return self.job.student


@dataclass
class _Seat:
    """A worker that grades; it has as many jobs again in reserve, so that it never waits for the network."""

    slots: int
    tickets: list[Ticket] = field(default_factory=list)
    failures: int = 0

    @property
    def has_room(self) -> bool:
        return len(self.tickets) < 2 * self.slots


class JobBoard:
    """All jobs of a batch that are begun and not finished, and the workers."""

    def __init__(self) -> None:
        self._seats: dict[str, _Seat] = {}
        self._waiting: deque[Ticket] = deque()
        self._suspects: deque[Ticket] = deque()
        self._reserved = ""

    @property
    def workers(self) -> list[str]:
        """The addresses of all workers that grade."""
        return list(self._seats)

    @property
    def slots(self) -> int:
        """How many submissions are graded at once."""
        return sum(seat.slots for seat in self._seats.values())

    @property
    def is_empty(self) -> bool:
        """Whether every job that was begun is finished."""
        return not (self._waiting or self._suspects or any(seat.tickets for seat in self._seats.values()))

    def on(self, worker: str) -> list[Ticket]:
        """Returns the jobs that a worker has."""
        return list(self._seats[worker].tickets) if worker in self._seats else []

    def has(self, ticket: Ticket, worker: str) -> bool:
        """Returns whether a job is still with this worker; an answer from another one comes too late."""
        return worker in self._seats and ticket in self._seats[worker].tickets

    def join(self, worker: str, slots: int) -> None:
        """Adds a worker."""
        self._seats.setdefault(worker, _Seat(slots))

    def assign(self, new: Callable[[], Ticket | None]) -> tuple[Ticket, str] | None:
        """Returns a job and the worker that is to have it; None if there is no job, or no room.

        Args:
            new: returns a job that was not begun yet, None if there is none; asked only when a worker has room.
        """
        return self._assign_alone() or self._assign_beside_others(new)

    def finish(self, ticket: Ticket, worker: str) -> None:
        """Takes a job off the board."""
        self._leave(ticket, worker).failures = 0

    def give_up(self, ticket: Ticket, worker: str) -> bool:
        """Notes that a worker's answer was none. Returns whether the job has had its tries; else it waits for another worker."""
        self._leave(ticket, worker).failures += 1
        ticket.failures += 1
        ticket.avoid.add(worker)
        if ticket.failures >= FAILURES:
            return True
        self._waiting.append(ticket)
        return False

    def lose_one(self, ticket: Ticket, worker: str) -> bool:
        """Notes that a worker's grading process ended over a job. Returns whether the job is finished by that, as in `lose`."""
        was_alone = ticket.alone
        self._leave(ticket, worker).failures += 1
        ticket.losses += 1
        if not was_alone:
            (self._suspects if ticket.losses >= LOSSES else self._waiting).append(ticket)
        return was_alone

    def _leave(self, ticket: Ticket, worker: str) -> _Seat:
        seat = self._seats[worker]
        seat.tickets.remove(ticket)
        self._reserved = "" if ticket.alone else self._reserved
        ticket.alone = False
        return seat

    def is_failing(self, worker: str) -> bool:
        """Returns whether a worker has failed so often in a row that it should get no more."""
        return worker in self._seats and self._seats[worker].failures >= WORKER_FAILURES

    def take_back(self, worker: str) -> None:
        """Removes a worker that is not to blame, such as one behind a lost connection; its jobs wait again."""
        for ticket in self._remove(worker):
            ticket.alone = False
            self._waiting.appendleft(ticket)

    def lose(self, worker: str) -> list[Ticket]:
        """Removes a lost worker. Returns the jobs that are finished by that: each was alone when it took a worker down once more."""
        finished = []
        for ticket in self._remove(worker):
            ticket.losses += 1
            if ticket.alone:
                finished.append(ticket)
            else:
                (self._suspects if ticket.losses >= LOSSES else self._waiting).append(ticket)
        return finished

    def _remove(self, worker: str) -> list[Ticket]:
        self._reserved = "" if self._reserved == worker else self._reserved
        return self._seats.pop(worker).tickets if worker in self._seats else []

    def _assign_alone(self) -> tuple[Ticket, str] | None:
        """A suspect gets a worker that has nothing else; until one is empty, it gets nothing new."""
        if not self._suspects or not self._seats:
            return None
        if not self._reserved:
            self._reserved = min(self._seats, key=lambda worker: len(self._seats[worker].tickets))
        if self._seats[self._reserved].tickets:
            return None
        ticket = self._suspects.popleft()
        ticket.alone = True
        return self._sit(ticket, self._reserved)

    def _assign_beside_others(self, new: Callable[[], Ticket | None]) -> tuple[Ticket, str] | None:
        free = [worker for worker, seat in self._seats.items() if seat.has_room and worker != self._reserved]
        if not free:
            return None
        free.sort(key=lambda worker: len(self._seats[worker].tickets) / self._seats[worker].slots)
        for ticket in self._waiting:
            others = [worker for worker in free if worker not in ticket.avoid]
            if others or ticket.avoid >= self._seats.keys():
                self._waiting.remove(ticket)
                return self._sit(ticket, (others or free)[0])
        begun = new()
        return None if begun is None else self._sit(begun, free[0])

    def _sit(self, ticket: Ticket, worker: str) -> tuple[Ticket, str]:
        self._seats[worker].tickets.append(ticket)
        return ticket, worker


def ticket_of(job: Job) -> Ticket:
    """Returns the ticket of a new job: the cluster sees a random token instead of the student's name."""
    token = secrets.token_hex(12)
    return Ticket(msgspec.structs.replace(job, student=token), job.student)
