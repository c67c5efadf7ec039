"""Validates the sources of an assignment: again where something that decides the result has changed, else from the gradebook."""

from __future__ import annotations

import dataclasses
import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path

import msgspec

from autograder.grade.batch.classroom import open_class
from autograder.grade.batch.course_config import forbids_one_process, limits_of
from autograder.grade.batch.gradebook import GradingRecords
from autograder.grade.sandbox.isolation.levels import require_level
from autograder.grade.sandbox.launch import parallel_jobs
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.validation.made_up_submissions import OnStep, ignore_step
from autograder.grade.validation.mutation_test import MutationReport, mutation_test, short_limits
from autograder.grade.validation.validate import SourceReport, validate_source
from autograder.grade.where.grading_job import Graders, GradingTerms
from autograder.grade.where.local_processes import LocalBackend


def source_reports(
    sources: Iterable[AssignmentSource],
    records: GradingRecords,
    deciding: object,
    graders: Graders,
    *,
    forbid_in_process: bool = False,
    all_in_process: bool = False,
    on_step: OnStep = ignore_step,
) -> dict[str, SourceReport]:
    """Return the report on each source by the notebook's name, and keep it in the gradebook.

    Args:
        sources: the teacher's notebooks.
        records: where reports are kept.
        deciding: what else a result depends on: level, limits and versions.
        graders: where the made-up submissions are graded.
        forbid_in_process: whether a test that cannot be judged outside the submission's process gives points to nobody.
        all_in_process: whether every test is judged in process.
        on_step: called when the grading of a made-up submission begins.

    Raises:
        IsolationError: the sandbox does not start.
        ValidationError: the grader failed.
    """
    reports = {}
    for source in sources:
        rules = (source.digest, deciding, forbid_in_process, all_in_process, SourceReport.__struct_fields__)
        key = hashlib.sha256(repr(rules).encode()).hexdigest()
        known = records.rehearsal(source.name, key)
        if known is None:
            report = validate_source(
                source,
                graders,
                forbid_in_process=forbid_in_process,
                all_in_process=all_in_process,
                on_step=on_step,
            )
            records.keep_rehearsal(source.name, key, msgspec.json.encode(report).decode())
        else:
            report = msgspec.json.decode(known, type=SourceReport)
        reports[source.name] = report
    return reports


def validate_assignment(
    assignment: str,
    course: Path,
    isolation: str,
    jobs: int = 0,
    *,
    two_processes: bool = False,
    mutants: int = 0,
    on_step: OnStep = ignore_step,
) -> list[tuple[SourceReport, MutationReport | None]]:
    """Return of each notebook the report and the mutation test; writes nothing, and needs no submission.

    Args:
        assignment: its folder's name in the sources.
        course: the class's folder.
        isolation: the name of the isolation level.
        jobs: how many submissions are graded at once; 0 takes one for each core.
        two_processes: whether a test that cannot be judged outside the submission's process gives points to nobody.
        mutants: how many mutants of the model answers are graded, along with the trivial answers; 0 grades neither.
        on_step: called when the grading of a made-up submission begins.

    Raises:
        ClassError: there is no such class or assignment.
        IsolationError: the machine does not reach the level.
        ValidationError: the grader failed.
    """
    level, count = require_level(isolation), parallel_jobs(jobs)
    classroom = open_class(course, assignment, before_hand_in=True)
    settings = classroom.settings()
    limits = limits_of(settings, {})
    sources = {source.name: source for source in classroom.read_sources(level, limits)}
    terms = GradingTerms(sources, level, limits, secrets.randbits(63))
    forbid = two_processes or forbids_one_process(settings)
    with LocalBackend(level, count) as machine, machine.graders(terms) as graders:
        reports = [
            (source, validate_source(source, graders, forbid_in_process=forbid, on_step=on_step))
            for source in sources.values()
        ]
    if not mutants:
        return [(report, None) for _, report in reports]
    short = dataclasses.replace(terms, limits=short_limits(limits))
    with LocalBackend(level, count) as machine, machine.graders(short) as graders:
        return [(report, mutation_test(source, report, graders, mutants, on_step)) for source, report in reports]
