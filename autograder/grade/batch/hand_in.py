"""Everything that one student submitted for one assignment, and the autograded folder that is written from it."""

from __future__ import annotations

import datetime
import os
import shutil
from pathlib import Path

from nbgrader.utils import find_all_files

from autograder.grade.batch.classroom import Classroom
from autograder.grade.submission.notebook_grade import NotebookGrade
from autograder.grade.submission.source import AssignmentSource
from autograder.grade.submission.submission_run import unreadable
from autograder.grade.submission.untrusted_notebook import UnreadableSubmission, attachments, digest, notebook_bytes
from autograder.grade.wire.limits import Limits


class HandIn:
    """One student's work while it is graded.

    Attributes:
        notebooks: the bytes of each notebook of the assignment that can be read, by name.
        grades: by notebook; those that cannot be read have theirs from the start.
        digest: hash of all submitted files.
        notes: what a teacher should know.
    """

    def __init__(
        self, classroom: Classroom, student: str, sources: dict[str, AssignmentSource], limits: Limits
    ) -> None:
        self.student, self._classroom, self._sources = student, classroom, sources
        folder = classroom.submitted(student)
        self.notebooks: dict[str, bytes] = {}
        self.grades: dict[str, NotebookGrade] = {}
        self.files: dict[str, bytes] = {}
        self.notes: list[str] = []
        if folder.is_dir() and not folder.is_symlink():
            self.files, self.notes = attachments(folder, limits)
        reasons = []
        for name, source in sources.items():
            try:
                self.notebooks[name] = self._read(folder, name, limits)
            except UnreadableSubmission as error:
                self.grades[name] = unreadable(source, str(error))
                reasons.append(f"{name}: {error}")
        unknown = sorted(path.stem for path in folder.glob("*.ipynb") if path.stem not in sources)
        self.notes += [f"{name}.ipynb is not a notebook of this assignment and was left out" for name in unknown]
        self.digest = digest(repr((self.notebooks, reasons)).encode(), self.files)
        self.timestamp: datetime.datetime | None = classroom.timestamp(student)

    @property
    def complete(self) -> bool:
        """Whether every notebook has its grade."""
        return self.grades.keys() == self._sources.keys()

    def write_folder(self) -> None:
        """Writes the autograded folder, whole or not at all: the notebooks, the student's files, and the teacher's over them."""
        target = self._classroom.autograded(self.student)
        fresh = target.with_name(f".{target.name}.writing")
        shutil.rmtree(fresh, ignore_errors=True)
        for name, data in (self.files | self._teachers_files() | self._notebooks()).items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.chmod(path, 0o444)  # as nbgrader leaves them
        if target.exists():
            shutil.rmtree(target)
        fresh.replace(target)

    def _read(self, folder: Path, name: str, limits: Limits) -> bytes:
        if folder.is_symlink() or not folder.is_dir():
            raise UnreadableSubmission(f"{folder.name} is a link or a file, not a folder")
        return notebook_bytes(folder / f"{name}.ipynb", limits)

    def _notebooks(self) -> dict[str, bytes]:
        files = {f"{name}.ipynb": graded.notebook.encode() for name, graded in self.grades.items()}
        if self.timestamp is not None:
            files["timestamp.txt"] = f"{self.timestamp} UTC".encode()
        return files

    def _teachers_files(self) -> dict[str, bytes]:
        folder = self._classroom.sources / self._classroom.assignment
        ignored = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.ipynb"]
        paths = [Path(path) for path in find_all_files(str(folder), ignored)]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths}

    def for_worker(self) -> dict[str, bytes]:
        """Returns the files that the notebook may open while it runs: the student's, and the teacher's where both have one."""
        return self.files | self._teachers_files()
