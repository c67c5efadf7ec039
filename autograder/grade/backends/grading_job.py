"""Grading jobs, their results and facts about a machine as plain data, and the interface of a backend."""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import os
import platform
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec

from autograder.grade.sandbox.isolation import IsolationLevel, known_level
from autograder.grade.sandbox.warmup import late_modules
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.teacher.source import AssignmentSource, GradingPlan
from autograder.grade.wire.limits import MEBIBYTE, Limits
from autograder.requirements import PACKAGE

PACKAGES = ("torch", "nbgrader", "ipython")


@cache
def deciding_versions() -> dict[str, str]:
    """Return the versions on which a grade depends: Python, the grader, and all packages that a submission can import here."""
    folders = [Path(entry) for entry in sys.path if Path(entry).is_dir()]
    installed = {path.name for folder in folders for path in folder.glob("*.*-info")}  # names and versions of packages
    return handshake_versions() | {"installed": hashlib.sha256(repr(sorted(installed)).encode()).hexdigest()[:12]}


def handshake_versions() -> dict[str, str]:
    """Return the versions that another machine must have as well: Python, the grading packages, and the exact code of this package."""
    digest = hashlib.sha256()
    for file in sorted(PACKAGE.rglob("*.py")):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    grader = f"{importlib.metadata.version('autograd-er')} ({digest.hexdigest()[:12]})"
    packages = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | packages | {"grader": grader}


def difference(theirs: dict[str, str]) -> str:
    """Return the differences between another machine's `handshake_versions` and ours; "" if they are equal."""
    ours = handshake_versions()
    names = [name for name in ours if theirs.get(name) != ours[name]]
    return "; ".join(f"{name} {theirs.get(name, 'missing')} there, {ours[name]} here" for name in names)


@cache
def machine_kind() -> str:
    """Return the processor's name and number and the memory, such as "x86_64, AMD EPYC 7B13, 16 processors, 64 GiB"."""
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    processor = f", {model[1]}" if model else ""
    return f"{platform.machine()}{processor}, {os.cpu_count()} processors, {memory:.0f} GiB"


# of a graded notebook: the student's notebook, its outputs, and the recordings of wrong answers
LARGEST_NOTEBOOK = 128 * MEBIBYTE
LONGEST_TEXT = 100_000  # characters of a reason, comment or note; the message of a check has a few hundred
MOST_NOTES = 10_000


class Job(msgspec.Struct, frozen=True):
    """The notebook of one student, to be graded."""

    student: str
    notebook: str
    data: bytes  # content of the notebook file
    files: dict[str, bytes]  # the other submitted files
    plan: GradingPlan = GradingPlan()  # the way its tests are judged
    variant: int | None = None  # seed of the notebook variant that the student received; None for the common notebook
    pictures: bool = False  # whether wrong answers are recorded for the feedback


class JobResult(msgspec.Struct, frozen=True):
    """The grade of a job's notebook."""

    student: str
    notebook: str
    grade: NotebookGrade | None  # the grade; None if the grader itself failed
    failure: str = ""  # the reason of the failure; "" if the grader did not fail
    worker: str = ""  # name of the machine, or of the worker of a cluster, that graded the notebook
    machine: str = ""  # processors and memory of that machine
    # the reason why submissions cannot be isolated as the terms require; None if they can
    isolation_failure: str | None = None


class _StoredCell(msgspec.Struct):
    cell_type: str
    source: str | list[str]
    metadata: dict[str, Any]


class _StoredNotebook(msgspec.Struct):
    cells: list[_StoredCell]
    metadata: dict[str, Any]
    nbformat: int


def validated(result: JobResult, source: AssignmentSource) -> JobResult:
    """Return a result from another process, checked to be fit for the gradebook.

    A submission that has taken over the process that grades it can send anything.

    Raises:
        ValueError: its cells are not those of the source, points are not between 0 and the maximum, a text or the
            notebook is too large, or the notebook cannot be read.
    """
    grade = result.grade
    if grade is None:
        _check_texts([result.failure])
        return result
    most = {cell.id: cell.points for cell in source.graded}
    if grade.cells.keys() != most.keys() or not grade.comments.keys() <= source.by_id.keys():
        raise ValueError("it has other cells than the source")
    for name, cell in grade.cells.items():
        if cell.max_points != most[name] or not 0 <= (cell.points or 0.0) <= cell.max_points:  # also False for nan
            raise ValueError(
                f"the cell {name!r} has {cell.points} of {cell.max_points} points; its maximum is {most[name]}"
            )
    times = [grade.seconds, *(cell.seconds for cell in grade.cells.values())]
    if not all(0 <= seconds < math.inf for seconds in times) or len(grade.notes) > MOST_NOTES:
        raise ValueError("it contains a time that is not a number of seconds, or too many notes")
    reasons = (cell.reason for cell in grade.cells.values())
    _check_texts([grade.ended, *grade.notes, *reasons, *(text for text in grade.comments.values() if text)])
    if len(grade.notebook) > LARGEST_NOTEBOOK:
        raise ValueError(f"the graded notebook has more than {LARGEST_NOTEBOOK // MEBIBYTE} MiB")
    try:
        msgspec.json.decode(grade.notebook, type=_StoredNotebook)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"the graded notebook cannot be read ({error})") from None
    return result


def _check_texts(texts: Iterable[str]) -> None:
    if any(len(text) > LONGEST_TEXT for text in texts):
        raise ValueError(f"it has a text of more than {LONGEST_TEXT} characters")


class GradingTerms(msgspec.Struct, frozen=True, dict=True):
    """The settings that are the same for every job of a course, as they are sent to another process or machine."""

    sources: dict[str, AssignmentSource]  # the teacher's notebooks, by name
    level_name: str  # isolation of the submissions
    limits: Limits  # resources that one submission may use
    seed: int  # seed from which inputs are drawn

    @property
    def level(self) -> IsolationLevel:
        """The isolation level."""
        return known_level(self.level_name)

    @property
    def name(self) -> str:
        """A hash of the job's settings and sources, which names it."""
        return hashlib.sha256(msgspec.msgpack.encode(self, order="deterministic")).hexdigest()[:16]

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The modules that cells of the sources will import, or will make PyTorch import."""
        cells = (cell for source in self.sources.values() for cell in source.cells)
        return late_modules(cell.text for cell in cells if cell.cell.cell_type == "code")


class Backend(ABC):
    """A place where one job after another is graded by the same terms: this machine, or a cluster."""

    @abstractmethod
    def batches(self, jobs: Iterable[Job]) -> Iterator[list[JobResult]]:
        """Yield the results of all jobs, each list within a second of its first result.

        The longer a caller takes for one list, the longer is the next one, so a caller can write the results of a list
        together. Jobs are taken from the iterable only when the backend can begin them, or keep them in reserve. It
        raises IsolationError if submissions cannot be isolated as the terms require.
        """

    def grade(self, jobs: Iterable[Job]) -> Iterator[JobResult]:
        """Yield the results of `batches` one by one. It raises the same errors as `batches`."""
        for results in self.batches(jobs):
            yield from results


OpenBackend = Callable[[GradingTerms], AbstractContextManager[Backend]]
"""Returns a backend that grades by these terms, as a context manager."""
