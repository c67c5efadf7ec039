"""All files that one student submitted for one assignment, and the autograded folder that is written from them."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from autograder.errors import as_utf8, printable
from autograder.grade.batch.course_folders import AssignmentFolders
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.submitted_files import (
    UnreadableSubmission,
    attachments,
    digest,
    is_about_the_machine,
    notebook_bytes,
    without_clashes,
)
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.wire.limits import Limits

# a fixed name: one derived from the assignment's name could exceed the maximum length of a name
WRITING = ".autograder-writing"
LONGEST_LIST = 10


class StudentSubmission:
    """One student's submission while it is graded: files by path, grades by notebook, and notes for the teacher."""

    def __init__(
        self,
        folders: AssignmentFolders,
        student: str,
        sources: dict[str, AssignmentSource],
        limits: Limits,
        earlier: Path | None = None,
    ) -> None:
        """Read a student's folder, or the folder of an earlier submission."""
        self.student, self._folders, self._sources = student, folders, sources
        self.folder = folder = earlier or folders.submitted(student)
        self.key = student if earlier is None else f"{student}/{earlier.name}"  # unique in a run
        self._course_files = next((source.files for source in sources.values()), {})  # the same for all notebooks
        self.notebooks: dict[str, bytes] = {}  # the readable notebooks of the assignment
        self.grades: dict[str, NotebookGrade] = {}  # notebooks that cannot be read are graded from the start
        self.graded_by: dict[str, dict[str, str]] = {}  # the worker and the kind of machine, by notebook
        obstacle = _obstacle(folder, student)
        attached, notes = ({}, []) if obstacle else attachments(folder, limits)
        written = {*self._course_files, "timestamp.txt", *(f"{name}.ipynb" for name in sources)}
        self.files, clashes = without_clashes(attached, written)
        self.notes = [*notes, *clashes, *([] if obstacle else _unknown_notebooks(folder, sources))]
        for name, source in sources.items():
            try:
                if obstacle:
                    raise UnreadableSubmission(obstacle)
                self.notebooks[name] = notebook_bytes(folder / f"{name}.ipynb", limits)
            except UnreadableSubmission as error:
                self.grades[name] = unreadable(source, str(error))
        reasons = [f"{name}: {graded.ended}" for name, graded in self.grades.items()]
        self.digest = digest(repr((self.notebooks, reasons, self.notes)).encode(), self.files)
        self.timestamp: datetime.datetime | None = folders.submission_time(student, folder).time

    @property
    def complete(self) -> bool:
        """Whether every notebook is graded."""
        return self.grades.keys() == self._sources.keys()

    @property
    def has_id(self) -> bool:
        """Whether the folder's name can be a student's id: SQLite, and so nbgrader's gradebook, can only store UTF-8."""
        return as_utf8(self.student) == self.student

    def swap_with_counting_submission(self, instead: StudentSubmission) -> None:
        """Exchange the folder of this earlier submission and that of the one that has counted."""
        time = f"{instead.timestamp:%Y-%m-%d %H.%M.%S}" if instead.timestamp else instead.digest[:12]
        goal = self.folder.with_name(time)
        instead.folder.rename(goal if not goal.exists() else goal.with_name(f"{time} {instead.digest[:12]}"))
        self.folder.rename(instead.folder)

    def write_folder(self) -> None:
        """Write the autograded folder, completely or not at all: the notebooks, the student's files, and the teacher's files.

        The teacher's files replace those of the student. A student's file that cannot be written there, for example
        because its path is too long, is left out with a note.
        """
        files = {f"{name}.ipynb": graded.notebook.encode() for name, graded in self.grades.items()}
        if self.timestamp is not None:
            files["timestamp.txt"] = f"{self.timestamp} UTC".encode()
        with replaced_folder(self._folders.autograded(self.student)) as folder:
            for name, data in (self._course_files | files).items():
                write_file(folder / name, data)
            for name in sorted(self.files.keys() - self._course_files.keys()):
                try:
                    write_file(folder / name, self.files[name])
                except OSError as error:
                    if is_about_the_machine(error):
                        raise
                    self.notes.append(f"{printable(name)} is not in the autograded folder: {error.strerror}")


def _obstacle(folder: Path, student: str) -> str:
    """Return the reason why a submitted folder cannot be read; "" if it can."""
    if as_utf8(student) != student:
        return "the name of the student's folder is not UTF-8, so the gradebook cannot store it; rename the folder"
    try:
        if link := next((path for path in (folder.parent, folder) if path.is_symlink()), None):
            return f"{printable(link.name)} is a link, not a folder"
        os.scandir(folder).close()
    except NotADirectoryError:
        return f"{printable(folder.name)} is a file, not a folder"
    except OSError as error:
        return f"the folder {printable(folder.name)} cannot be opened ({error.strerror})"
    return ""


def _unknown_notebooks(folder: Path, sources: dict[str, AssignmentSource]) -> list[str]:
    names = sorted(path.stem for path in folder.glob("*.ipynb") if path.stem not in sources)
    notes = [f"{printable(name)}.ipynb is not a notebook of this assignment and was left out" for name in names]
    more = len(notes) - LONGEST_LIST
    return [*notes[:LONGEST_LIST], *([f"{more} more notebooks were left out"] if more > 0 else [])]


@contextlib.contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """Yield a new, empty folder, which replaces the target after the block; not at all if the block raises OSError."""
    fresh = target.with_name(WRITING)
    _remove(fresh)
    fresh.mkdir(parents=True)
    try:
        yield fresh
        _remove(target)
        fresh.replace(target)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def write_file(path: Path, data: bytes, mode: int = 0o444) -> None:
    """Write a file, and create the folders above it. The default mode is read-only, as for nbgrader's graded files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.chmod(path, mode)


def _remove(path: Path) -> None:
    """Remove a folder or a file; a link is removed without its target."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)
