"""Folders: nbgrader's own STUDENT/ASSIGNMENT/, its exchange's inbound/, or a shared folder with one folder for each student.

The exchange's folders are named STUDENT+ASSIGNMENT+TIME[+RANDOM] (nbgrader/exchange/default/submit.py, 0.9.6), with the
time in UTC unless `Exchange.timezone` is set; nbgrader's folders contain a timestamp.txt.
"""

from __future__ import annotations

import contextlib
import datetime
from collections import defaultdict

from autograder.classroom.collect.download import (
    Download,
    DownloadedFile,
    DownloadedSubmission,
    DownloadError,
    Platform,
)
from autograder.errors import printable_list
from autograder.grade.submission_time import read_time

TIMESTAMP = "timestamp.txt"
LONGEST_TIME = 100
# folders with submissions in the exchange and in a course; folders next to them do not contain submissions
SUBMISSION_FOLDERS = ("inbound", "submitted")
LONGEST_LIST = 8


def _submissions(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedSubmission]:
    submissions: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.partition("/")
        if inside:
            submissions[folder][inside] = file
        else:
            download.notes.append(f"{file.path} was left out: it is not in a student's folder")
    if holder := next((name for name in SUBMISSION_FOLDERS if name in submissions), ""):
        others = printable_list(sorted(name for name in submissions if name != holder), LONGEST_LIST)
        download.notes.extend([f"{others}: left out, because the submissions are in {holder}"] if others else [])
        inner = [DownloadedFile(path, file.read) for path, file in submissions[holder].items()]
        return _submissions(Download(inner, download.notes), zone, assignment)
    every = [_submission(folder, files, zone, assignment) for folder, files in submissions.items()]
    return [submission for submission in every if submission.files]


def _submission(
    folder: str, files: dict[str, DownloadedFile], zone: datetime.tzinfo, assignment: str
) -> DownloadedSubmission:
    student, *exchange_parts = folder.split("+")
    if exchange_parts and exchange_parts[0] != assignment:
        files = {}  # the exchange has all assignments in one folder
    inside = {path.partition("/")[2]: file for path, file in files.items() if path.startswith(f"{assignment}/")}
    files = inside or files
    return DownloadedSubmission(
        key=folder,
        name=student,
        identities=({"student": student, "login": student, "email": student, "number": student, "words": student},),
        files={path: file for path, file in files.items() if path != TIMESTAMP},
        handed_in=(_utc(exchange_parts[1], zone) if len(exchange_parts) > 1 else None) or _stamp(files, zone),
    )


def _stamp(files: dict[str, DownloadedFile], zone: datetime.tzinfo) -> datetime.datetime | None:
    file = files.get(TIMESTAMP)
    with contextlib.suppress(DownloadError):
        return _utc(file.read(LONGEST_TIME).decode(errors="replace"), zone) if file else None
    return None


def _utc(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time as nbgrader reads it: in UTC, unless the text contains a zone, which must be the given one."""
    return read_time(text) or read_time(text, zone)


NBGRADER = Platform("nbgrader", lambda path: "/" in path, _submissions)
