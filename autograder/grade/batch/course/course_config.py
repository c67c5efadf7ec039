"""What a course's own nbgrader_config.py says: where its files lie, and what one submission may use."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from traitlets import Bool, Float, Integer, TraitError
from traitlets.config import Config, Configurable, PyFileConfigLoader

from autograder.course.paths import SOLUTIONS
from autograder.errors import InputError
from autograder.grade.wire.limits import MEBIBYTE, Limits
from autograder.installation.requirements import install_command

FILE = "nbgrader_config.py"
STEPS = ("submitted", "autograded", "feedback")
STANDARD = Limits()


class CourseConfigError(InputError):
    """A course's nbgrader_config.py cannot be used; the message names the setting."""


class CourseFolders(NamedTuple):
    """Where a course's files lie.

    Attributes:
        root: the folder that relative paths start from.
        sources: holds a folder for each assignment.
        steps: nbgrader's folders "submitted", "autograded" and "feedback".
        gradebook: its URL, with an absolute path.
        course_id: nbgrader's id of the course.
        is_configured: whether the course has a configuration of its own.
    """

    root: Path
    sources: Path
    steps: dict[str, Path]
    gradebook: str
    course_id: str
    is_configured: bool

    @property
    def source_folders(self) -> tuple[Path, ...]:
        """Where sources may lie, the first that has one counts: the clone's lessons may be graded in a class that has none."""
        return (self.sources,) if self.is_configured else (self.sources, SOLUTIONS)


class Autograder(Configurable):
    """What one submission may use, and how it is judged: `c.Autograder.cell_seconds = 60` and the like, in nbgrader_config.py."""

    cell_seconds = Float(None, allow_none=True, min=0.1, help="for one cell; else nbgrader's own Execute.timeout").tag(
        config=True
    )
    submission_seconds = Float(STANDARD.submission_seconds, min=1, help="for all cells together").tag(config=True)
    memory_mib = Integer(STANDARD.memory_bytes // MEBIBYTE, min=64, help="MiB of memory").tag(config=True)
    processes = Integer(STANDARD.processes, min=1, help="processes and threads at once").tag(config=True)
    output_mib = Integer(STANDARD.output_bytes // MEBIBYTE, min=1, help="MiB of text and pictures shown").tag(
        config=True
    )
    file_mib = Integer(STANDARD.file_bytes // MEBIBYTE, min=1, help="MiB of the largest file written").tag(config=True)
    disk_mib = Integer(STANDARD.disk_bytes // MEBIBYTE, min=1, help="MiB of all files written").tag(config=True)
    picture_seconds = Float(STANDARD.picture_seconds, min=0, help="for the pictures of wrong answers; 0 for none").tag(
        config=True
    )
    two_processes = Bool(False, help="a test that cannot be judged in two processes marks nobody").tag(config=True)


def read_config(folder: Path) -> Config | None:
    """Returns what the nbgrader_config.py of a folder sets, None if there is no such file.

    Raises:
        CourseConfigError: running it fails.
    """
    if not (folder / FILE).is_file():
        return None
    if str(folder) not in sys.path:
        sys.path.append(
            str(folder)
        )  # it may name plugins beside it, as for nbgrader's own commands (baseapp.py, 0.9.6)
    try:
        with contextlib.chdir(folder):
            return PyFileConfigLoader(FILE, path=str(folder)).load_config()
    except Exception as error:  # noqa: BLE001 - it is the teacher's program and may raise anything
        raise CourseConfigError(f"{folder / FILE} cannot be used ({type(error).__name__}: {error})") from None


def read_course(folder: Path) -> CourseFolders:
    """Returns where the files of the course in a folder lie: nbgrader's layout, or what nbgrader_config.py says.

    Raises:
        CourseConfigError: the configuration cannot be used.
    """
    config = read_config(folder)
    settings = Config() if config is None else config
    if "root" not in settings.CourseDirectory:
        settings.CourseDirectory.root = str(folder)
    try:
        course = CourseDirectory(config=settings)
        root = folder / course.root
        steps = {step: root / getattr(course, f"{step}_directory") for step in STEPS}
    except TraitError as error:
        raise CourseConfigError(f"{folder / FILE}: {error}") from None
    if course.directory_structure != CourseDirectory.directory_structure.default_value:
        raise CourseConfigError(
            f"{folder / FILE}: the directory_structure is {course.directory_structure!r}; `grade` works with nbgrader's "
            f"own, STEP/STUDENT/ASSIGNMENT. Grade in a course of that form, or with `nbgrader autograde`"
        )
    gradebook = _absolute(course.db_url, root)
    course_id = course.course_id or "default_course"
    return CourseFolders(root, root / course.source_directory, steps, gradebook, course_id, config is not None)


def _absolute(address: str, root: Path) -> str:
    """Returns the gradebook's URL; of a SQLite file with an absolute path, in a folder that exists."""
    try:
        url = make_url(address)
        url.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError) as error:
        raise CourseConfigError(f"CourseDirectory.db_url: {error}") from None
    except ImportError as error:
        raise CourseConfigError(
            f"the gradebook {url.render_as_string()} needs a package that is not installed ({error}). Install it with "
            f"`{install_command('cluster')}` and begin the address with postgresql+psycopg://"
        ) from None
    if url.get_backend_name() == "postgresql":
        return address
    if url.get_backend_name() != "sqlite" or not url.database:
        raise CourseConfigError(
            f"the gradebook is {url.render_as_string()}; `grade` writes gradebooks in a SQLite file, "
            "such as sqlite:///gradebook.db, or in PostgreSQL"
        )
    path = root / url.database
    path.parent.mkdir(parents=True, exist_ok=True)  # SQLite makes a missing file, not a missing folder
    return f"sqlite:///{path}"


def limits_of(settings: Config, chosen: dict[str, float]) -> Limits:
    """Returns what one submission may use.

    Args:
        settings: the course's configuration.
        chosen: what was chosen for this run, by the names of `Autograder`; it goes before the course's own settings.

    Raises:
        CourseConfigError: a setting has a name or a value that means nothing.
    """
    own = settings.get("Autograder", Config())
    known = Autograder.class_trait_names(config=True)
    if unknown := sorted(set(own) - set(known)):
        raise CourseConfigError(f"c.Autograder.{unknown[0]} means nothing; there are {', '.join(sorted(known))}")
    try:
        given = Autograder(config=settings, **chosen)
        seconds = given.cell_seconds or Execute(config=settings).timeout
    except TraitError as error:
        raise CourseConfigError(f"the limits cannot be used: {error}") from None
    return msgspec.structs.replace(
        STANDARD,
        # None or a negative number is nbgrader's "no limit" for a cell.
        cell_seconds=float(seconds) if seconds and seconds > 0 else given.submission_seconds,
        submission_seconds=given.submission_seconds,
        memory_bytes=given.memory_mib * MEBIBYTE,
        processes=given.processes,
        output_bytes=given.output_mib * MEBIBYTE,
        file_bytes=given.file_mib * MEBIBYTE,
        disk_bytes=given.disk_mib * MEBIBYTE,
        picture_seconds=given.picture_seconds,
    )


def forbids_one_process(settings: Config) -> bool:
    """Returns whether the course's configuration lets no test run in the submission's own process."""
    return bool(Autograder(config=settings).two_processes)
