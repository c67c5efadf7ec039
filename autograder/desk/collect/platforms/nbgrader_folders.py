"""Folders: nbgrader's own STUDENT/ASSIGNMENT/, its exchange's inbound/, or a shared folder with one for each student.

The exchange's folders are named STUDENT+ASSIGNMENT+TIME[+RANDOM] (nbgrader/exchange/default/submit.py, 0.9.6), the time in UTC;
nbgrader's folders hold a timestamp.txt.
"""

from __future__ import annotations

import contextlib
import datetime
from collections import defaultdict

from dateutil.parser import parse

from autograder.desk.collect.download import Download, DownloadedFile, DownloadError
from autograder.desk.collect.downloaded_hand_in import DownloadedHandIn, Platform

TIMESTAMP = "timestamp.txt"
LONGEST_TIME = 100


def _hand_ins(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedHandIn]:
    found: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.partition("/")
        if inside:
            found[folder][inside] = file
        else:
            download.notes.append(f"{file.path} was left out: it lies in no student's folder")
    if len(found) == 1 and (only := next(iter(found))) in ("submitted", "inbound"):
        inner = [DownloadedFile(path, file.read) for path, file in found[only].items()]
        return _hand_ins(Download(inner, download.notes), zone, assignment)
    every = [_hand_in(folder, files, assignment) for folder, files in found.items()]
    return [one for one in every if one.files]


def _hand_in(folder: str, files: dict[str, DownloadedFile], assignment: str) -> DownloadedHandIn:
    student, *rest = folder.split("+")
    if rest and rest[0] != assignment:
        files = {}  # the exchange keeps all assignments in one folder
    own = {path.partition("/")[2]: file for path, file in files.items() if path.startswith(f"{assignment}/")}
    files = own or files
    return DownloadedHandIn(
        key=folder,
        name=student,
        identities=({"student": student, "login": student, "email": student, "number": student, "words": student},),
        files={path: file for path, file in files.items() if path != TIMESTAMP},
        handed_in=(parse_time(rest[1]) if len(rest) > 1 else None) or _stamp(files),
    )


def _stamp(files: dict[str, DownloadedFile]) -> datetime.datetime | None:
    file = files.get(TIMESTAMP)
    with contextlib.suppress(DownloadError):
        return parse_time(file.read(LONGEST_TIME).decode(errors="replace")) if file else None
    return None


def parse_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Returns the time that a text says, of this zone if it names none; None if it says no time."""
    with contextlib.suppress(ValueError, OverflowError):
        time = parse(text.strip())
        return time if time.tzinfo else time.replace(tzinfo=zone)
    return None


NBGRADER = Platform("nbgrader", lambda path: "/" in path, _hand_ins)
