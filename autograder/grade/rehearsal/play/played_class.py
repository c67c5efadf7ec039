"""A played class from its start to a teacher's sentences: the processes that it needs, and what to look at afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from autograder.grade.rehearsal.play.behaviour import differences
from autograder.grade.rehearsal.play.class_play import ClassPlay, Director
from autograder.grade.rehearsal.rehearsal import Rehearsal
from autograder.grade.rehearsal.rehearsal_steps import OnStep, unseen
from autograder.grade.sandbox.launch import ServerPool
from autograder.grade.submission.connection.server_client import ServerClient
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.where.grading_job import GradingTerms
from autograder.grade.where.local_processes import GraderProcesses

SAMPLE = 40  # mutants that are graded unless the teacher asks for another number
CELL_SECONDS = 10.0  # a mutant may never end
SUBMISSION_SECONDS = 40.0
SHOWN = 8  # of the mutants that pass


def play_class(
    source: AssignmentSource,
    rehearsal: Rehearsal,
    terms: GradingTerms,
    jobs: int,
    servers: ServerPool,
    sample: int,
    on_step: OnStep = unseen,
) -> ClassPlay:
    """Grades mutants of the model answers and cheats, and returns which of them got points.

    Args:
        source: the teacher's notebook.
        rehearsal: of this source.
        terms: as hand-ins are graded; a played one has less time.
        jobs: how many at once.
        servers: at the level of the terms.
        sample: how many mutants.
        on_step: called when one of the hand-ins is begun.

    Raises:
        IsolationError: the servers do not start.
    """
    limits = msgspec.structs.replace(
        terms.limits,
        cell_seconds=min(terms.limits.cell_seconds, CELL_SECONDS),
        submission_seconds=min(terms.limits.submission_seconds, SUBMISSION_SECONDS),
    )
    with (
        GraderProcesses(terms._replace(limits=limits), jobs, servers) as processes,
        ServerClient(terms.level, limits) as server,
    ):
        director = Director(source, rehearsal)
        return director.play(processes, lambda suspects: differences(source, suspects, server), sample, on_step)


def sentences(play: ClassPlay) -> Iterator[str]:
    """Yields what a teacher should know of a played class: figures first, then what to look at, cheats before mutants."""
    if play.note:
        yield play.note
        return
    yield (
        f"mutants of the model answers: {play.tried} of {play.possible} tried, {play.refused} refused, {play.alike} do what the "
        f"model answer does, {len(play.passing)} pass all tests and do something else"
    )
    yield f"cheats that know no solution: {play.cheats} tried, {len(play.cheated)} tests give points to some"
    for test, names in play.cheated.items():
        yield f"{test}: this test passes with {_listed(names)}; add an input for which that is wrong"
    for mutant in play.passing[:SHOWN]:
        yield f"{mutant.answer}: {mutant.edit} passes all tests, though {mutant.difference}"
    if len(play.passing) > SHOWN:
        yield f"and {len(play.passing) - SHOWN} more mutants pass"


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
