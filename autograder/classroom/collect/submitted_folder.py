"""Write submissions to nbgrader's folder, and store those that they replace; a newer one is never overwritten."""

from __future__ import annotations

import datetime
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from autograder.classroom.submission_record import CollectedSubmission
from autograder.course.paths import write_files
from autograder.grade.batch.course_folders import AssignmentFolders
from autograder.grade.batch.student_submission import replaced_folder
from autograder.grade.submission.submitted_files import (
    LARGEST_NOTEBOOK,
    UnreadableSubmission,
    attachments,
    digest,
    is_about_the_machine,
    plain_file,
    reason_of,
)
from autograder.grade.wire.limits import Limits

TIMESTAMP = "timestamp.txt"
LIMITS = Limits()

KEPT = {
    "unknown": "the folder contains other work, and neither has a submission time; move that work away to collect this",
    "changed": "the files were changed after they had been collected; move them away to collect again",
}
Placing = Literal[
    "new", "newer than before", "as before", "older than what is there", "kept as it is", "cannot be placed"
]


@dataclass(frozen=True)
class SubmissionFiles:
    """A submission in memory: its files by path in the student's folder, its time, and the platform's number."""

    files: dict[str, bytes]
    handed_in: datetime.datetime | None
    sequence: int
    in_time: bool = True

    @property
    def digest(self) -> str:
        """A hash of names and contents."""
        return digest(b"", self.files)


def place(
    folders: AssignmentFolders,
    student: str,
    work: SubmissionFiles,
    entry: CollectedSubmission | None,
    earlier: Path,
    is_in_time: Callable[[str, datetime.datetime | None, bool], bool] = lambda *_: True,
) -> tuple[Placing, str]:
    """Write a submission to submitted/STUDENT/ASSIGNMENT/, unless that folder is newer or was changed by hand.

    `known` is the submission that was collected for this student before, and `earlier` the folder for submissions that
    do not count. `is_in_time` takes the student, the time of a submission, and whether the platform calls it late; one
    that is in time counts more than a later one that is not.

    Returns:
        The action, and the reason for it ("" if it is obvious).
    """
    try:
        folder = folders.submitted(student)
        if folder.is_symlink() or folder.parent.is_symlink():
            return "cannot be placed", "the student's folder in submitted/ is a link; remove it"
        if not folder.exists():
            _write(folder, work)
            return "new", ""
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        present = _present(folders, student, entry)
        present = replace(present, in_time=is_in_time(student, present.handed_in, bool(entry and entry.late)))
        if present.files == work.files:
            _stamp(folder, work.handed_in or present.handed_in)
            return "as before", ""
        age = _age(work, present, entry)
        if age in KEPT:
            return "kept as it is", KEPT[age]
        keep_earlier(work if age == "older" else present, earlier)
        if age == "newer":
            _write(folder, work)
        if present.in_time and not work.in_time:
            return "older than what is there", "late; the last submission in time counts"
        return ("newer than before" if age == "newer" else "older than what is there"), ""
    except (OSError, UnreadableSubmission) as error:  # for example, a file that has the name of the student's folder
        if isinstance(error, OSError) and is_about_the_machine(error):
            raise
        return "cannot be placed", f"an existing file in submitted/ is in the way: {reason_of(error)}"


def keep_earlier(work: SubmissionFiles, earlier: Path) -> None:
    """Store a submission that is not the latest, unless it is already stored."""
    time = f"{work.handed_in:%Y-%m-%d %H.%M.%S}" if work.handed_in else ""
    folder = earlier / (time or str(work.sequence or work.digest[:12]))
    if not folder.exists():
        _write(folder, work)


def _age(
    work: SubmissionFiles, present: SubmissionFiles, entry: CollectedSubmission | None
) -> Literal["newer", "older", "unknown", "changed"]:
    if work.in_time != present.in_time and (entry is None or entry.digest == present.digest):
        return "newer" if work.in_time else "older"
    for new, old in ((work.handed_in, present.handed_in), (work.sequence, present.sequence)):
        if new and old and new != old:
            return "newer" if new > old else "older"  # type: ignore[operator]
    if entry is None:
        return "unknown"
    # If the digests agree, it is the same submission, of which more files are recognized now.
    return "changed" if entry.digest != present.digest else "newer"


def is_kept(folders: AssignmentFolders, student: str, work: SubmissionFiles) -> bool:
    """Return whether a submission is stored as an earlier one, next to the one that counts."""
    earlier = folders.earlier(student).glob("*/")
    return folders.submitted(student).is_dir() and any(_files_in(folder) == work.files for folder in earlier)


def _files_in(folder: Path) -> dict[str, bytes]:
    files, _ = attachments(folder, LIMITS)
    for path in sorted(folder.rglob("*.ipynb")):
        files[path.relative_to(folder).as_posix()] = plain_file(path, LARGEST_NOTEBOOK)
    return files


def _present(folders: AssignmentFolders, student: str, entry: CollectedSubmission | None) -> SubmissionFiles:
    folder = folders.submitted(student)
    files = _files_in(folder)
    time = folders.submission_time(student).time
    return SubmissionFiles(files, time.replace(tzinfo=datetime.UTC) if time else None, entry.sequence if entry else 0)


def _write(folder: Path, work: SubmissionFiles) -> None:
    """Write a folder completely or not at all."""
    with replaced_folder(folder) as fresh:
        write_files(fresh, work.files)
        _stamp(fresh, work.handed_in)


def _stamp(folder: Path, handed_in: datetime.datetime | None) -> None:
    """Write the time as nbgrader does (`Exchange.timestamp_format`, 0.9.6)."""
    if handed_in is not None:
        time = handed_in.astimezone(datetime.UTC)
        (folder / TIMESTAMP).write_text(f"{time:%Y-%m-%d %H:%M:%S} UTC", "utf-8")
