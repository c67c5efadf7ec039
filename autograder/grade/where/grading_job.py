"""What is graded and what comes of it: the same plain data on this machine and on another. Also, what a place to grade at offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.judging_plan import JudgingPlan
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.wire.limits import Limits


class Job(msgspec.Struct, frozen=True):
    """One notebook of one student.

    Attributes:
        data: its bytes.
        files: the other files that were submitted.
        plan: how its tests are judged.
        variant: the seed of the notebook that the student was handed; None for the one that all get.
        pictures: whether wrong answers are recorded, for the feedback.
    """

    student: str
    notebook: str
    data: bytes
    files: dict[str, bytes]
    plan: JudgingPlan = JudgingPlan()
    variant: int | None = None
    pictures: bool = False


class JobResult(msgspec.Struct, frozen=True):
    """The grade of a job's notebook.

    Attributes:
        grade: None if the grader itself failed.
        failure: why it did; "" if it did not.
        worker: the name of the machine, or of the worker of a cluster, that graded it.
        machine: what kind of machine that is.
    """

    student: str
    notebook: str
    grade: NotebookGrade | None
    failure: str = ""
    worker: str = ""
    machine: str = ""


class GradingTerms(NamedTuple):
    """What is the same for every job.

    Attributes:
        sources: the teacher's notebooks, by name.
        level: how submissions are isolated.
        limits: what one submission may use.
        seed: from which inputs are drawn.
    """

    sources: dict[str, AssignmentSource]
    level: IsolationLevel
    limits: Limits
    seed: int


class Graders(ABC):
    """What grades one job after another by the same terms."""

    @abstractmethod
    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yields every job's result as soon as it is there, with those that came at the same time.

        The longer a caller is busy with a list, the longer is the next one: who writes results writes a list in one go.
        Jobs are taken from the iterable only when there is room.

        Raises:
            IsolationError: no submission can be isolated as the terms ask.
        """

    def grade(self, jobs: Iterable[Job]) -> Iterator[JobResult]:
        """Yields the results of `batches` one by one; raises what that does."""
        for results in self.batches(jobs):
            yield from results


class GradingPlace(Protocol):
    """Where a class is graded: this machine, or a cluster."""

    def graders(self, terms: GradingTerms) -> AbstractContextManager[Graders]:
        """Returns what grades by these terms."""
