"""The bookkeeping of jobs and workers, in many random histories, without a network."""

import itertools
import random

import pytest

from autograder.grade.where.cluster.client.job_board import FAILURES, JobBoard, ticket_of
from autograder.grade.where.grading_job import Job


def jobs(count: int) -> list[Job]:
    """Returns jobs of as many students."""
    return [Job(f"student {number}", "n", b"", {}) for number in range(count)]


def source_of(all_jobs):
    """Returns what gives one new ticket after another."""
    waiting = iter(all_jobs)
    return lambda: ticket_of(job) if (job := next(waiting, None)) else None


def assigned(board, new):
    """Returns all that can be assigned now."""
    return list(iter(lambda: board.assign(new), None))


def test_a_token_says_nothing_of_the_student():
    """What the cluster sees of a job names no student, and two tokens of one student differ."""
    [job] = jobs(1)
    one, other = ticket_of(job), ticket_of(job)
    assert "student 0" not in repr(one.job)
    assert one.token != other.token
    assert "student 0" == one.student


def test_a_worker_has_at_most_twice_as_many_jobs_as_it_grades_at_once():
    """Jobs are taken one by one from the source, and only as many as the workers hold."""
    board = JobBoard()
    taken = []
    new = source_of(jobs(100))
    board.join("a", 2)
    board.join("b", 1)
    for ticket, worker in assigned(board, lambda: taken.append(1) or new()):
        assert board.has(ticket, worker)
    assert 6 == len(taken)
    assert {"a": 4, "b": 2} == {worker: len(board.on(worker)) for worker in board.workers}


@pytest.mark.parametrize("seed", range(60))
def test_every_job_ends_once_whatever_happens(seed):
    """Workers join, are lost, fail and answer late, at random: each job ends exactly once, and none is on two workers."""
    chance = random.Random(seed)
    board, names = JobBoard(), itertools.count()
    new, ended = source_of(jobs(200)), []
    board.join(f"w{next(names)}", 2)
    for _ in range(20_000):
        assigned(board, new)
        held = [ticket for worker in board.workers for ticket in board.on(worker)]
        assert len(held) == len(set(map(id, held)))
        if len(ended) == 200:
            break
        worker = chance.choice(board.workers)
        what = chance.random()
        if what < 0.03:
            ended += board.lose(worker)
            board.join(f"w{next(names)}", chance.randint(1, 3))
        elif what < 0.05:
            board.take_back(worker)
            board.join(f"w{next(names)}", 1)
        elif what < 0.1:
            board.join(f"w{next(names)}", 1) if len(board.workers) < 5 else None
        elif tickets := board.on(worker):
            ticket = chance.choice(tickets)
            if what < 0.13:
                ended += [ticket] if board.give_up(ticket, worker) else []
            elif what < 0.15:
                ended += [ticket] if board.lose_one(ticket, worker) else []
            else:
                board.finish(ticket, worker)
                ended.append(ticket)
    assert sorted(f"student {number}" for number in range(200)) == sorted(ticket.student for ticket in ended)
    assert board.is_empty


def test_a_job_that_takes_workers_down_is_told_from_its_neighbours():
    """One of 40 jobs ends every worker that runs it: that one alone ends without an answer, after three workers."""
    board, names = JobBoard(), itertools.count()
    new, finished, blamed, lost = source_of(jobs(40)), [], [], 0
    board.join(f"w{next(names)}", 2)
    board.join(f"w{next(names)}", 2)
    while len(finished) + len(blamed) < 40:
        assigned(board, new)
        worker = next(worker for worker in board.workers if board.on(worker))
        ticket = board.on(worker)[0]
        if ticket.student == "student 7":
            lost += 1
            blamed += board.lose(worker)
            board.join(f"w{next(names)}", 2)
        else:
            board.finish(ticket, worker)
            finished.append(ticket)
    assert ["student 7"] == [ticket.student for ticket in blamed]
    assert 3 == lost == blamed[0].losses


def test_a_suspect_has_its_worker_for_itself():
    """Two jobs that lost two workers run one after the other, with nothing beside them; then the worker gets others."""
    board = JobBoard()
    new = source_of(jobs(30))
    board.join("a", 1)
    assigned(board, new)
    suspects = board.on("a")
    for lost, joined in (("a", "b"), ("b", "c")):
        board.lose(lost)
        board.join(joined, 1)
        assigned(board, new)
    for suspect in suspects:
        assert [suspect] == board.on("c")
        assert suspect.alone
        board.finish(suspect, "c")
        assigned(board, new)
    assert 2 == len(board.on("c"))
    assert not any(ticket.alone for ticket in board.on("c"))


def test_a_job_that_fails_is_tried_on_other_workers():
    """The grader's own failure is tried on three workers, then it is the answer."""
    board = JobBoard()
    new = source_of(jobs(1))
    for worker in "abcd":
        board.join(worker, 1)
    tried = []
    while True:
        [(ticket, worker)] = assigned(board, new)
        tried.append(worker)
        if board.give_up(ticket, worker):
            break
    assert FAILURES == len(tried) == len(set(tried))
