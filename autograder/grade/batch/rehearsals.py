"""The rehearsals of an assignment's sources: run where something that decides them has changed, else read from the gradebook."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from autograder.grade.batch.course.classroom import open_class
from autograder.grade.batch.course.course_config import forbids_one_process, limits_of
from autograder.grade.batch.records.gradebook import GradingRecords
from autograder.grade.rehearsal.play.class_play import ClassPlay
from autograder.grade.rehearsal.play.played_class import play_class
from autograder.grade.rehearsal.rehearsal import Rehearsal, rehearse
from autograder.grade.rehearsal.rehearsal_steps import OnStep, unseen
from autograder.grade.sandbox.isolation.levels import require_level
from autograder.grade.sandbox.launch import ServerPool, parallel_jobs
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import Graders, GradingTerms
from autograder.grade.where.local_processes import GraderProcesses


def rehearsals_of(
    sources: Iterable[AssignmentSource],
    records: GradingRecords,
    deciding: object,
    processes: Graders,
    *,
    forbid_one_process: bool = False,
    on_step: OnStep = unseen,
) -> dict[str, Rehearsal]:
    """Returns the rehearsal of each source by the notebook's name.

    Args:
        sources: the teacher's notebooks.
        records: where rehearsals are kept.
        deciding: what else a result depends on: level, limits and versions.
        processes: where the answers are graded.
        forbid_one_process: whether a test that cannot be judged in two processes marks nobody.
        on_step: called when one of a rehearsal's hand-ins is begun.

    Raises:
        IsolationError: the servers do not start.
        RehearsalError: the grader failed.
    """
    found = {}
    for source in sources:
        key = hashlib.sha256(repr((source.digest, deciding, forbid_one_process)).encode()).hexdigest()
        known = records.rehearsal(source.name, key)
        if known is None:
            found[source.name] = rehearse(source, processes, forbid_one_process=forbid_one_process, on_step=on_step)
            records.keep_rehearsal(source.name, key, msgspec.json.encode(found[source.name]).decode())
        else:
            found[source.name] = msgspec.json.decode(known, type=Rehearsal)
    return found


def rehearse_assignment(
    assignment: str,
    course: Path,
    isolation: str,
    jobs: int = 0,
    *,
    two_processes: bool = False,
    mutants: int = 0,
    on_step: OnStep = unseen,
) -> list[tuple[Rehearsal, ClassPlay | None]]:
    """Returns of each notebook the rehearsal and the played class; writes nothing, and nobody has to have submitted anything.

    Args:
        assignment: its folder's name in the sources.
        course: the class's folder.
        isolation: the name of the isolation level.
        jobs: how many hand-ins are graded at once; 0 takes one for each core.
        two_processes: whether a test that cannot be judged in two processes marks nobody.
        mutants: how many mutants of the model answers are played, beside the cheats; 0 plays no class.
        on_step: called when one of the hand-ins is begun.

    Raises:
        ClassError: there is no such class or assignment.
        IsolationError: the machine does not reach the level.
        RehearsalError: the grader failed.
    """
    level, count = require_level(isolation), parallel_jobs(jobs)
    classroom = open_class(course, assignment, before_hand_in=True)
    settings = classroom.settings()
    limits = limits_of(settings, {})
    sources = {source.name: source for source in classroom.read_sources(level, limits)}
    terms = GradingTerms(sources, level, limits, secrets.randbits(63))
    forbid = two_processes or forbids_one_process(settings)
    with ServerPool(level, count) as servers, GraderProcesses(terms, count, servers) as processes:
        found = [
            (source, rehearse(source, processes, forbid_one_process=forbid, on_step=on_step))
            for source in sources.values()
        ]
    with ServerPool(level, count) as servers:
        return [
            (rehearsal, play_class(source, rehearsal, terms, count, servers, mutants, on_step) if mutants else None)
            for source, rehearsal in found
        ]
