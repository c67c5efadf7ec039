"""The settings in a course's own nbgrader_config.py: the paths of its files, and the limits of one submission."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import Execute
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from traitlets import TraitError
from traitlets.config.loader import Config, PyFileConfigLoader

from autograder.course.paths import SOLUTIONS
from autograder.errors import InputError
from autograder.grade.wire.limits import SETTINGS, Limits

FILE = "nbgrader_config.py"
STEPS = ("submitted", "autograded", "feedback")
OUTSIDE_ONLY = "two_processes"
"""The setting with which a test that cannot be judged outside the submission's process does not give points."""


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
    if not (folder / FILE).is_file():
        return None
    # The file may name plugins next to it, as for nbgrader's own commands (baseapp.py, 0.9.6).
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    try:
        with contextlib.chdir(folder):
            return PyFileConfigLoader(FILE, path=str(folder)).load_config()
    except Exception as error:  # it is the teacher's program and may raise anything
        raise InputError(f"{folder / FILE} cannot be used ({type(error).__name__}: {error})") from None


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
        raise InputError(f"{folder / FILE}: {error}") from None
    if course.directory_structure != CourseDirectory.directory_structure.default_value:
        raise InputError(
            f"{folder / FILE}: the directory_structure is {course.directory_structure!r}; `grade` works with nbgrader's "
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


def limits_of(settings: Config, chosen: dict[str, float]) -> Limits:
    """Return the limits of one submission; settings in `chosen` override those of the course's `c.Autograder`."""
    course_settings = settings.get("Autograder", Config())
    known = [*SETTINGS, OUTSIDE_ONLY]
    if unknown := sorted(set(course_settings) - set(known)):
        raise InputError(f"c.Autograder.{unknown[0]} is not a setting; use one of {', '.join(known)}")
    given = {
        name: value for name, value in {**course_settings, **chosen}.items() if name in SETTINGS and value is not None
    }
    try:
        values: dict[str, Any] = {SETTINGS[name].field: SETTINGS[name].value(value) for name, value in given.items()}
        timeout = Execute(config=settings).timeout
    except (ValueError, TraitError) as error:
        raise InputError(f"the limits cannot be used: {error}") from None
    limits = replace(Limits(), **values)
    if "cell_seconds" in given:
        return limits
    # None or a negative number is nbgrader's "no limit" for a cell.
    seconds = float(timeout) if timeout and timeout > 0 else limits.submission_seconds
    return replace(limits, cell_seconds=seconds)


def forbids_one_process(settings: Config) -> bool:
    """Return whether the course's configuration forbids tests in the submission's own process."""
    return bool(settings.get("Autograder", Config()).get(OUTSIDE_ONLY, False))
