"""Folders: nbgrader's own STUDENT/ASSIGNMENT/, its exchange's inbound/, or a shared folder with one folder for each student.

The exchange's folders are named STUDENT+ASSIGNMENT+TIME[+RANDOM] (nbgrader/exchange/default/submit.py, 0.9.6), with the
time in UTC unless `Exchange.timezone` is set; nbgrader's folders contain a timestamp.txt.
"""

from __future__ import annotations

import contextlib
import datetime
from collections import defaultdict

from autograder.classroom.collect.download import Download, DownloadedFile, DownloadedHandIn, DownloadError, Platform
from autograder.classroom.written_time import parse_time
from autograder.errors import printable

TIMESTAMP = "timestamp.txt"


LONGEST_TIME = 100


# folders with submissions in the exchange and in a course; folders next to them do not contain submissions
HOLDERS = ("inbound", "submitted")


LONGEST_LIST = 8


def _hand_ins(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedHandIn]:
    hand_ins: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.partition("/")
        if inside:
            hand_ins[folder][inside] = file
        else:
            download.notes.append(f"{file.path} was left out: it is not in a student's folder")
    if holder := next((name for name in HOLDERS if name in hand_ins), ""):
        others = ", ".join(sorted(printable(name) for name in hand_ins if name != holder)[:LONGEST_LIST])
        download.notes.extend([f"{others}: left out, because the submissions are in {holder}"] if others else [])
        inner = [DownloadedFile(path, file.read) for path, file in hand_ins[holder].items()]
        return _hand_ins(Download(inner, download.notes), zone, assignment)
    every = [_hand_in(folder, files, zone, assignment) for folder, files in hand_ins.items()]
    return [hand_in for hand_in in every if hand_in.files]


def _hand_in(folder: str, files: dict[str, DownloadedFile], zone: datetime.tzinfo, assignment: str) -> DownloadedHandIn:
    student, *rest = folder.split("+")
    if rest and rest[0] != assignment:
        files = {}  # the exchange has all assignments in one folder
    inside = {path.partition("/")[2]: file for path, file in files.items() if path.startswith(f"{assignment}/")}
    files = inside or files
    return DownloadedHandIn(
        key=folder,
        name=student,
        identities=({"student": student, "login": student, "email": student, "number": student, "words": student},),
        files={path: file for path, file in files.items() if path != TIMESTAMP},
        handed_in=(_utc(rest[1], zone) if len(rest) > 1 else None) or _stamp(files, zone),
    )


def _stamp(files: dict[str, DownloadedFile], zone: datetime.tzinfo) -> datetime.datetime | None:
    file = files.get(TIMESTAMP)
    with contextlib.suppress(DownloadError):
        return _utc(file.read(LONGEST_TIME).decode(errors="replace"), zone) if file else None
    return None


def _utc(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time as nbgrader reads it: in UTC, unless the text contains a zone, which must be the given one."""
    return parse_time(text) or parse_time(text, zone)


NBGRADER = Platform("nbgrader", lambda path: "/" in path, _hand_ins)
