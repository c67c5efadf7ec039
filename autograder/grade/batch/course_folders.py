"""The folder of a class in nbgrader's layout: the paths of its files, and the settings in its own nbgrader_config.py."""

from __future__ import annotations

import contextlib
import datetime
import os
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from nbgrader.api import Gradebook, MissingEntry, Student
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError
from traitlets import TraitError
from traitlets.config.loader import Config, PyFileConfigLoader

from autograder.course.author_cells import is_authors
from autograder.course.canonical import NotebookError, read
from autograder.course.nbgrader_release import configure
from autograder.course.paths import ROOT, SOLUTIONS
from autograder.course.variants.declared_changes import read_changes
from autograder.course.variants.variant import seed_in_metadata
from autograder.course.variants.variant_record import HandedOut, other_owners, read_record
from autograder.errors import InputError, printable
from autograder.grade.batch.gradebook import why_unusable
from autograder.grade.nbgrader_adapter import (
    add_assignment,
    changed_cells,
    open_gradebook,
    transaction,
    update_structure,
)
from autograder.grade.policy import read_policy
from autograder.grade.sandbox.isolation import IsolationLevel
from autograder.grade.submission.submitted_files import LARGEST_NOTEBOOK, UnreadableSubmission, plain_file, reason_of
from autograder.grade.submission.teacher.source import AssignmentSource, files_next_to_source
from autograder.grade.submission.teacher.source_reader import SourceReader
from autograder.grade.submission_time import known_zone, read_time
from autograder.grade.wire.limits import SETTINGS, Limits

CONFIG = "nbgrader_config.py"
STEPS = ("submitted", "autograded", "feedback")
OUTSIDE_ONLY = "two_processes"
"""The setting with which a test that cannot be judged outside the submission's process does not give points."""
LONGEST_TIME = 100  # bytes of timestamp.txt


@dataclass(frozen=True)
class CourseFolders:
    """The paths of a course's files."""

    folder: Path  # root folder of the course
    sources: Path  # folder with a folder for each assignment
    steps: dict[str, Path]  # nbgrader's folders "submitted", "autograded" and "feedback"
    gradebook: str  # URL of the gradebook, with an absolute path
    course_id: str  # nbgrader's id of the course
    is_configured: bool  # whether the course has its own configuration

    @property
    def source_folders(self) -> tuple[Path, ...]:
        """The folders that may contain sources. A class without a configuration may also be graded with the clone's lessons."""
        return (self.sources,) if self.is_configured else (self.sources, SOLUTIONS)


def read_config(folder: Path) -> Config | None:
    """Return the configuration in a folder's nbgrader_config.py, None without the file. Raise InputError if it fails."""
    if not (folder / CONFIG).is_file():
        return None
    # The file may name plugins next to it, as for nbgrader's own commands (baseapp.py, 0.9.6).
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        with contextlib.chdir(folder):
            return PyFileConfigLoader(CONFIG, path=str(folder)).load_config()
    except Exception as error:  # it is the teacher's program and may raise anything
        raise InputError(f"{folder / CONFIG} cannot be used ({type(error).__name__}: {error})") from None


def read_course(folder: Path) -> CourseFolders:
    """Return the paths of the files of the course in a folder: nbgrader's layout, or the paths in nbgrader_config.py."""
    config = read_config(folder)
    settings = Config() if config is None else config
    if "root" not in settings.CourseDirectory:
        settings.CourseDirectory.root = str(folder)
    try:
        course = CourseDirectory(config=settings)
        root = folder / course.root
        steps = {step: root / getattr(course, f"{step}_directory") for step in STEPS}
    except TraitError as error:
        raise InputError(f"{folder / CONFIG}: {error}") from None
    if course.directory_structure != CourseDirectory.directory_structure.default_value:
        raise InputError(
            f"{folder / CONFIG}: the directory_structure is {course.directory_structure!r}; `grade` works with nbgrader's "
            f"own, STEP/STUDENT/ASSIGNMENT. Grade in a course with that layout, or use `nbgrader autograde`"
        )
    gradebook = _absolute(course.db_url, root)
    course_id = course.course_id or "default_course"
    return CourseFolders(root, root / course.source_directory, steps, gradebook, course_id, config is not None)


def _absolute(address: str, root: Path) -> str:
    """Return the gradebook's URL; the path of a SQLite file is made absolute, and its folder is created."""
    try:
        url = make_url(address)
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InputError(f"CourseDirectory.db_url cannot be used: {error}") from None
    if url.get_backend_name() == "postgresql":
        return address
    if url.get_backend_name() != "sqlite" or not url.database:
        raise InputError(
            f"the gradebook is {url.render_as_string()}; `grade` writes gradebooks in a SQLite file, "
            "such as sqlite:///gradebook.db, or in PostgreSQL"
        )
    path = root / url.database
    path.parent.mkdir(parents=True, exist_ok=True)  # SQLite creates a missing file, but not a missing folder
    return f"sqlite:///{path}"


@dataclass(frozen=True)
class SubmissionTime:
    """The time of a submission in UTC without a zone, as nbgrader stores it, or the reason why it cannot be read."""

    time: datetime.datetime | None = None
    problem: str | None = None


@dataclass(frozen=True)
class AssignmentFolders(CourseFolders):
    """The folders of an assignment in a nbgrader course."""

    assignment: str  # nbgrader's name for the assignment, which is its folder's name in `sources`

    def submitted(self, student: str) -> Path:
        """Return the folder with a student's submitted files."""
        return self.steps["submitted"] / student / self.assignment

    def earlier(self, student: str) -> Path:
        """Return the folder of a student's collected submissions that do not count, each in a folder named by its time."""
        return self.folder / "collected" / self.assignment / "earlier" / student

    def autograded(self, student: str) -> Path:
        """Return the folder for a student's graded notebooks."""
        return self.steps["autograded"] / student / self.assignment

    def feedback(self, student: str) -> Path:
        """Return the folder for a student's feedback."""
        return self.steps["feedback"] / student / self.assignment

    def students(self) -> list[str]:
        """Return the students who have submitted something, or whose folder cannot be opened, sorted by name."""
        try:
            return sorted(name for name in os.listdir(self.steps["submitted"]) if not _is_missing(self.submitted(name)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    @property
    def has_gradebook(self) -> bool:
        """Whether the gradebook exists; a gradebook in PostgreSQL is assumed to exist."""
        url = make_url(self.gradebook)
        path = Path(url.database or "")
        return url.get_backend_name() != "sqlite" or (path.is_file() and path.stat().st_size > 0)

    def notebooks(self) -> list[Path]:
        """Return the source notebooks, sorted by name."""
        return sorted(path for path in (self.sources / self.assignment).glob("*.ipynb") if path.is_file())

    def read_sources(self, level: IsolationLevel, limits: Limits) -> tuple[dict[str, AssignmentSource], list[str]]:
        """Return the assignment's sources by name, and a note for each file next to them that is left out.

        Notebooks with AUTOTEST lines are run at this level, within these limits.
        """
        files, notes = files_next_to_source(self.sources / self.assignment)
        with SourceReader(level, limits, self.settings(), self.folder) as reader:
            return {path.stem: reader.read(path, files) for path in self.notebooks()}, notes

    def variants(self) -> dict[str, int]:
        """Return the seed of each student who received a personal notebook."""
        return read_record(self.folder).students(self.assignment, read_changes(self.sources, self.assignment))

    def handed_out(self) -> HandedOut:
        """Return the record of the personal notebooks, which is empty if no student received one."""
        return read_record(self.folder).assignments.get(self.assignment, HandedOut("", {}))

    def other_variants(self) -> dict[str, list[str]]:
        """Return, for each student who submitted a variant of somebody else, the students who were given it."""
        handed_out, variant_owners = self.handed_out(), dict[str, list[str]]()
        for student in self.students() if handed_out.students else ():
            for path in sorted(self.submitted(student).glob("*.ipynb")):
                with contextlib.suppress(OSError, UnreadableSubmission):
                    seed = seed_in_metadata(plain_file(path, LARGEST_NOTEBOOK))
                    owners = other_owners(student, seed, handed_out.students, handed_out.former)
                    variant_owners |= {} if owners is None else {student: owners}
        return variant_owners

    def any_prediction(self) -> bool:
        """Return whether policy.toml gives a prediction its points for any outcome."""
        return read_policy(self.folder)[0].of(self.assignment).predictions == "completion"

    def settings(self) -> Config:
        """Return nbgrader's configuration, from the class's own file or else from the clone, with the paths of this class."""
        config = read_config(self.folder) or read_config(ROOT) or Config()
        configure(config)
        course = config.CourseDirectory
        course.root, course.source_directory = str(self.folder), str(self.sources)
        course.db_url, course.course_id = self.gradebook, self.course_id
        for step, path in self.steps.items():
            course[f"{step}_directory"] = str(path)
        return config

    def submission_time(self, student: str, folder: Path | None = None) -> SubmissionTime:
        """Return the time in `timestamp.txt` of a student's submission, or of another folder."""
        path = (folder or self.submitted(student)) / "timestamp.txt"
        try:
            text = plain_file(path, LONGEST_TIME).decode(errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return SubmissionTime()
        except (OSError, UnreadableSubmission) as error:
            return SubmissionTime(problem=f"timestamp.txt cannot be read ({reason_of(error)}); counted as on time")
        time = read_time(text)
        if time is None:  # it may contain an abbreviation of the zone in which `nbgrader collect` writes times
            zone = known_zone(str(self.settings().Exchange.get("timezone", "UTC")))
            time = read_time(text, zone) if zone else None
        if time is None:
            shown = printable(text) or "nothing"
            return SubmissionTime(problem=f"timestamp.txt says {shown!r}, which is not a time; counted as on time")
        return SubmissionTime(time.astimezone(datetime.UTC).replace(tzinfo=None))


def _is_missing(path: Path) -> bool:
    try:
        os.lstat(path)
    except OSError as error:  # any other error becomes the reason for the grade
        return isinstance(error, (FileNotFoundError, NotADirectoryError))
    return False


def open_class(folder: Path, assignment: str, *, without_submissions: bool = False) -> AssignmentFolders:
    """Return the class in a folder, with the paths that its nbgrader_config.py sets.

    With `without_submissions`, submissions may be missing, because nothing will be written.

    Raises:
        InputError: the folder, the assignment or a submission is missing, the folder is read-only, or nbgrader_config.py cannot be used.
    """
    course = read_course(course_folder(folder))
    sources = next((place for place in course.source_folders if (place / assignment).is_dir()), None)
    # The name is also used for the folders of students, grades and records, so it must not lead to another folder.
    if sources is None or assignment == ".." or PurePath(assignment).name != assignment or not assignment:
        raise InputError(_no_source(course.source_folders, assignment))
    folders = AssignmentFolders(**vars(course) | {"sources": sources}, assignment=assignment)
    if not folders.notebooks():
        raise InputError(f"there is no notebook in {sources / assignment}. Put the assignment's source notebook there")
    if not without_submissions:
        _check_submissions(folders)
    return folders


def course_folder(folder: Path) -> Path:
    """Return the absolute path of a course's folder. Raise InputError if it is missing."""
    folder = folder.resolve()
    if not folder.is_dir():
        raise InputError(f"there is no folder {printable(str(folder))}. Name the course's folder with --course")
    return folder


def _check_submissions(folders: AssignmentFolders) -> None:
    submitted = folders.steps["submitted"]
    if not folders.students():
        raise InputError(
            f"no student has submitted {folders.assignment!r}: there is no {submitted}/STUDENT/{folders.assignment}/. "
            f"Collect first, or name another folder with --course"
        )
    if not os.access(folders.folder, os.W_OK):
        raise InputError(
            f"the gradebook cannot be written to {folders.folder}. Copy the course to a folder that you can write to"
        )


def _no_source(places: tuple[Path, ...], assignment: str) -> str:
    names = sorted({printable(path.name) for folder in places for path in folder.glob("*/") if path.is_dir()})
    if names:
        return f"there is no assignment {assignment!r}. Known assignments: {', '.join(names)}"
    return (
        f"there is no source of {assignment!r}: {places[0]}/{assignment}/ is missing. Put it there, or name the course's folder "
        "with --course. The sources of this course's own lessons are in its repository: grade them in a clone"
    )


def check_release(folders: AssignmentFolders) -> None:
    """Raise InputError if a notebook in the course's release folder contains cells of the author."""
    folder = folders.folder / CourseDirectory(config=folders.settings()).release_directory / folders.assignment
    for path in sorted(folder.glob("*.ipynb")):
        try:
            cells = read(path).cells
        except NotebookError:
            continue
        if count := sum(is_authors(cell.metadata) for cell in cells):
            raise InputError(
                f"{printable(str(path))} has {count} of the author's cells (tagged answer, right or wrong), which students must not "
                "get. Write `from autograder.course.nbgrader_release import configure` and `configure(c)` into "
                f"nbgrader_config.py, run `nbgrader generate_assignment {folders.assignment} --force`, and release it again"
            )


def register(folders: AssignmentFolders, sources: list[AssignmentSource], *, accept_source: bool = False) -> None:
    """Add the assignment to the gradebook with nbgrader's own command, if it is new or its cells have changed.

    With `accept_source`, the gradebook is updated even if the source has gained or lost cells after the class was
    graded.

    Raises:
        InputError: the source has gained or lost cells, or nbgrader does not add the assignment.
    """
    cells = {source.name: [cell.cell for cell in source.cells] for source in sources}
    with opened_gradebook(folders) as book:
        lost, gained = changed_cells(book, folders.assignment, cells)
        if not lost and not gained and all(_is_known(book, folders.assignment, source) for source in sources):
            return
        if (lost or gained) and not accept_source:
            changes = [f"{verb} {', '.join(ids)}" for verb, ids in (("lost", lost), ("gained", gained)) if ids]
            raise InputError(
                f"the source of {folders.assignment!r} has {' and '.join(changes)} since the class was graded, and nothing was "
                "changed. To grade by the new source, add --accept-source: points of lost cells are dropped, other manual points "
                "stay"
            )
        with transaction(book):
            if lost or gained:
                update_structure(book, folders.assignment, cells)
    tests = {source.name: {cell.id: cell.text for cell in source.tests} for source in sources}
    reason = add_assignment(folders.settings(), folders.assignment, folders.notebooks(), tests)
    if reason is not None:
        raise InputError(f"nbgrader does not add {folders.assignment!r} to the gradebook: {reason}")


@contextlib.contextmanager
def opened_gradebook(folders: AssignmentFolders) -> Iterator[Gradebook]:
    """Open the gradebook. Raise InputError if it is damaged, locked, or of another version of nbgrader."""
    try:
        with open_gradebook(folders.gradebook, folders.course_id) as gradebook:
            gradebook.db.query(Student).first()  # fails if the gradebook is older and lacks a column
            yield gradebook
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise InputError(why_unusable(folders.gradebook, error)) from None


def _is_known(gradebook: Gradebook, assignment: str, source: AssignmentSource) -> bool:
    try:
        notebook = gradebook.find_notebook(source.name, assignment)
    except MissingEntry:
        return False
    stored = {cell.name: cell.checksum for cell in notebook.source_cells}
    return stored == {cell.id: cell.cell.metadata.nbgrader["checksum"] for cell in source.cells if cell.id}


def limits_of(settings: Config, chosen: dict[str, float]) -> Limits:
    """Return the limits of one submission; settings in `chosen` override those of the course's `c.Autograder`."""
    course_settings = settings.get("Autograder", Config())
    names = [*SETTINGS, OUTSIDE_ONLY]
    if unknown := sorted(set(course_settings) - set(names)):
        raise InputError(f"c.Autograder.{unknown[0]} is not a setting; use one of {', '.join(names)}")
    numbers = {
        name: value for name, value in {**course_settings, **chosen}.items() if name in SETTINGS and value is not None
    }
    try:
        values: dict[str, Any] = {SETTINGS[name].field: SETTINGS[name].value(value) for name, value in numbers.items()}
        timeout = Execute(config=settings).timeout
    except (ValueError, TraitError) as error:
        raise InputError(f"the limits cannot be used: {error}") from None
    limits = replace(Limits(), **values)
    if "cell_seconds" in numbers:
        return limits
    # None or a negative number is nbgrader's "no limit" for a cell.
    seconds = float(timeout) if timeout and timeout > 0 else limits.submission_seconds
    return replace(limits, cell_seconds=seconds)


def forbids_one_process(settings: Config) -> bool:
    """Return whether the course's configuration forbids tests in the submission's own process."""
    return bool(settings.get("Autograder", Config()).get(OUTSIDE_ONLY, False))
