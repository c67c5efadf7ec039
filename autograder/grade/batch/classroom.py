"""A class's folder in nbgrader's layout: where submissions are, where grades go, and nbgrader's settings for both."""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
import zoneinfo
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from nbgrader.api import Gradebook, MissingEntry, Student
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from traitlets.config import Config

from autograder.course.nbgrader_release import configure
from autograder.course.paths import ROOT
from autograder.course.variants.declared_changes import NOTHING, read_changes
from autograder.course.variants.variant_record import read_record
from autograder.errors import InputError
from autograder.grade.batch.course_config import read_config, read_course
from autograder.grade.batch.grading_lock import why_unusable
from autograder.grade.nbgrader_adapter import (
    add_assignment,
    changed_cells,
    open_gradebook,
    transaction,
    update_structure,
)
from autograder.grade.policy.submission_time import read_time
from autograder.grade.sandbox.isolation.isolation_level import IsolationLevel
from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file, reason_of
from autograder.grade.submission.teacher.release_steps import excluded_files
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.submission.teacher.teacher_files import files_beside
from autograder.grade.wire.limits import Limits
from autograder.printable import printable

LONGEST_TIME = 100  # bytes of timestamp.txt


class ClassError(InputError):
    """There is no such class or assignment, or it cannot be graded; the message says what to do."""


@dataclass(frozen=True)
class SubmissionTime:
    """When work was submitted.

    Attributes:
        time: in UTC, without a zone, as nbgrader stores it; None if it is not known.
        problem: why a time that is there cannot be read; None if it can, or if there is none.
    """

    time: datetime.datetime | None = None
    problem: str | None = None


class Classroom(NamedTuple):
    """One class and one assignment.

    Attributes:
        folder: the course's root.
        assignment: nbgrader's name for it, which is its folder's name in `sources`.
        sources: the folder with the source of every assignment.
        steps: nbgrader's folders "submitted", "autograded" and "feedback"; each holds STUDENT/ASSIGNMENT/.
        gradebook: the gradebook's URL, as SQLAlchemy and nbgrader write it.
        course_id: nbgrader's id of the course in the gradebook.
    """

    folder: Path
    assignment: str
    sources: Path
    steps: dict[str, Path]
    gradebook: str
    course_id: str

    def submitted(self, student: str) -> Path:
        """The folder that a student's files were submitted to."""
        return self.steps["submitted"] / student / self.assignment

    def autograded(self, student: str) -> Path:
        """The folder for a student's graded notebooks."""
        return self.steps["autograded"] / student / self.assignment

    def feedback(self, student: str) -> Path:
        """The folder for a student's feedback."""
        return self.steps["feedback"] / student / self.assignment

    def students(self) -> list[str]:
        """Returns everyone who submitted something, or whose folder cannot be looked into, by name."""
        try:
            with os.scandir(self.steps["submitted"]) as entries:
                return sorted(entry.name for entry in entries if self._may_hold_work(entry))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _may_hold_work(self, student: os.DirEntry[str]) -> bool:
        try:
            os.lstat(Path(student.path, self.assignment))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # what is wrong will be the reason for the grade
        return True

    @property
    def has_gradebook(self) -> bool:
        """Whether there is a gradebook; one in PostgreSQL is taken to be there."""
        url = make_url(self.gradebook)
        path = Path(url.database or "")
        return url.get_backend_name() != "sqlite" or (path.is_file() and path.stat().st_size > 0)

    def course_files(self) -> tuple[dict[str, bytes], list[str]]:
        """Return the files beside the notebooks that replace a student's, and a note for each that is left out."""
        files, notes = files_beside(self.sources / self.assignment)
        excluded = excluded_files(self.settings(), self.assignment)
        return {name: data for name, data in files.items() if name not in excluded}, notes

    def notebooks(self) -> list[Path]:
        """Returns the source notebooks, by name."""
        return sorted(path for path in (self.sources / self.assignment).glob("*.ipynb") if path.is_file())

    def read_sources(self, level: IsolationLevel, limits: Limits) -> list[AssignmentSource]:
        """Returns the assignment's notebooks; those with AUTOTEST lines run at this level, within these limits."""
        paths = self.notebooks()
        files, _ = files_beside(self.sources / self.assignment)
        from autograder.grade.submission.teacher.autotests import AutotestRunner  # imports PyTorch

        with AutotestRunner(level, limits, self.settings(), self.folder) as autotests:
            return [AssignmentSource.read(path, autotests, files) for path in paths]

    def variants(self) -> dict[str, int]:
        """Returns the seed of each student who was handed a notebook of their own.

        Raises:
            VariantError: the record cannot be read, or does not fit what is declared now.
        """
        changes = read_changes(self.sources).get(self.assignment, NOTHING)
        return read_record(self.folder).students(self.assignment, changes)

    def settings(self) -> Config:
        """Returns nbgrader's configuration, from the class's own file or else the clone's, with the paths of this class."""
        config = read_config(self.folder) or read_config(ROOT) or Config()
        configure(config)
        course = config.CourseDirectory
        course.root, course.source_directory = str(self.folder), str(self.sources)
        course.db_url, course.course_id = self.gradebook, self.course_id
        for step, path in self.steps.items():
            course[f"{step}_directory"] = str(path)
        return config

    def submission_time(self, student: str) -> SubmissionTime:
        """Return when a student's work was submitted, as `timestamp.txt` says."""
        path = self.submitted(student) / "timestamp.txt"
        try:
            text = plain_file(path, LONGEST_TIME).decode(errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return SubmissionTime()
        except (OSError, UnreadableSubmission) as error:
            return SubmissionTime(problem=f"timestamp.txt cannot be read ({reason_of(error)}); counted as on time")
        time = read_time(text)
        if time is None:  # it may have an abbreviation of the zone in which `nbgrader collect` writes times
            with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError, ValueError):
                time = read_time(text, zoneinfo.ZoneInfo(str(self.settings().Exchange.get("timezone", "UTC"))))
        if time is None:
            shown = printable(text) or "nothing"
            return SubmissionTime(problem=f"timestamp.txt says {shown!r}, which is not a time; counted as on time")
        return SubmissionTime(time.astimezone(datetime.UTC).replace(tzinfo=None))


def open_class(folder: Path, assignment: str, *, before_hand_in: bool = False) -> Classroom:
    """Returns the class in a folder, with the paths that its nbgrader_config.py names.

    Args:
        folder: the course's.
        assignment: its folder's name.
        before_hand_in: whether nobody has to have submitted anything yet, and nothing is going to be written.

    Raises:
        ClassError: there is no such folder or assignment, nobody submitted anything, or the folder is read-only.
        CourseConfigError: nbgrader_config.py cannot be used.
    """
    course = read_course(course_folder(folder))
    sources = next((place for place in course.source_folders if (place / assignment).is_dir()), None)
    if sources is None or not _is_folder_name(assignment):
        raise ClassError(_no_source(course.source_folders, assignment))
    classroom = Classroom(course.root, assignment, sources, course.steps, course.gradebook, course.course_id)
    _check_source(classroom)
    if not before_hand_in:
        _check_hand_ins(classroom)
    return classroom


def course_folder(folder: Path) -> Path:
    """Returns a course's folder, as an absolute path.

    Raises:
        ClassError: there is none.
    """
    folder = folder.resolve()
    if not folder.is_dir():
        raise ClassError(f"there is no folder {printable(str(folder))}. Name the course's folder with --course")
    return folder


def _is_folder_name(assignment: str) -> bool:
    """Returns whether a name leads to nowhere else: folders of students, grades and records are called by it, too."""
    return assignment != ".." and PurePath(assignment).name == assignment != ""


def _check_source(classroom: Classroom) -> None:
    source = classroom.sources / classroom.assignment
    if not classroom.notebooks():
        raise ClassError(f"there is no notebook in {source}. Put the assignment's source notebook there")


def _check_hand_ins(classroom: Classroom) -> None:
    submitted = classroom.steps["submitted"]
    if not classroom.students():
        raise ClassError(
            f"nobody has submitted {classroom.assignment!r}: there is no {submitted}/STUDENT/{classroom.assignment}/. "
            f"Collect first, or name another folder with --course"
        )
    if not os.access(classroom.folder, os.W_OK):
        raise ClassError(
            f"{classroom.folder} cannot be written, and the gradebook goes there. Copy the course to a folder of your own"
        )


def _no_source(places: tuple[Path, ...], assignment: str) -> str:
    known = sorted({printable(path.name) for folder in places for path in folder.glob("*/") if path.is_dir()})
    if known:
        return f"there is no assignment {assignment!r}. Known assignments: {', '.join(known)}"
    return (
        f"there is no source of {assignment!r}: {places[0]}/{assignment}/ is missing. Put it there, or name the course's folder "
        "with --course. The sources of this course's own lessons stand in its repository: grade those in a clone"
    )


def register(classroom: Classroom, sources: list[AssignmentSource], *, accept_source: bool = False) -> None:
    """Add the assignment to the gradebook with nbgrader's own command, if it is new or its cells have changed.

    Args:
        classroom: the class.
        sources: the assignment's notebooks.
        accept_source: whether the gradebook follows a source that gained or lost cells after the class was graded.

    Raises:
        ClassError: nbgrader refuses the source, or the source gained or lost cells; the message names them.
    """
    cells = {source.name: [cell.cell for cell in source.cells] for source in sources}
    with opened_gradebook(classroom) as book:
        lost, gained = changed_cells(book, classroom.assignment, cells)
        if not lost and not gained and all(_is_known(book, classroom.assignment, source) for source in sources):
            return
        if (lost or gained) and not accept_source:
            raise ClassError(_changed(classroom.assignment, lost, gained))
        with transaction(book):
            if lost or gained:
                update_structure(book, classroom.assignment, cells)
    tests = {source.name: {cell.id: cell.text for cell in source.tests} for source in sources}
    reason = add_assignment(classroom.settings(), classroom.assignment, classroom.notebooks(), tests)
    if reason is not None:
        raise ClassError(f"nbgrader does not add {classroom.assignment!r} to the gradebook: {reason}")


def _changed(assignment: str, lost: list[str], gained: list[str]) -> str:
    changes = [f"{verb} {', '.join(names)}" for verb, names in (("lost", lost), ("gained", gained)) if names]
    return (
        f"the source of {assignment!r} has {' and '.join(changes)} since the class was graded, and nothing was changed. "
        f"To grade by the new source, add --accept-source: points of lost cells are dropped, other manual points stay"
    )


@contextlib.contextmanager
def opened_gradebook(classroom: Classroom) -> Iterator[Gradebook]:
    """Opens the gradebook for a block.

    Raises:
        ClassError: it is none, was made by another version of nbgrader, or is locked.
    """
    try:
        with open_gradebook(classroom.gradebook, classroom.course_id) as gradebook:
            gradebook.db.query(Student).first()  # of an older gradebook a column is missing
            yield gradebook
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise ClassError(why_unusable(classroom.gradebook, error)) from None


def _is_known(gradebook: Gradebook, assignment: str, source: AssignmentSource) -> bool:
    try:
        notebook = gradebook.find_notebook(source.name, assignment)
    except MissingEntry:
        return False
    stored = {cell.name: cell.checksum for cell in notebook.source_cells}
    return stored == {cell.id: cell.cell.metadata.nbgrader["checksum"] for cell in source.cells if cell.id}
