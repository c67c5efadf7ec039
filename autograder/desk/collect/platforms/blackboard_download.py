"""Blackboard's "Assignment File Download": one folder of files, whose names say the assignment, the user and the attempt.

Read in the README of kwurst/bb-file-cleanup and in nbgrader's help on zip_collect (nbgrader/plugins/zipcollect.py, 0.9.6):
`{assignment}_{username}_attempt_{YYYY-MM-DD-HH-MM-SS}_{file}`, and a `.txt` without a file name for each attempt. A download may
hold all attempts of a person. The time is the server's.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict

from autograder.desk.collect.download import Download, DownloadedFile
from autograder.desk.collect.downloaded_hand_in import DownloadedHandIn, Platform

NAME = re.compile(
    r"(?P<before>.+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)",
)
TIME = "%Y-%m-%d-%H-%M-%S"


def _match(path: str) -> re.Match[str] | None:
    return NAME.fullmatch(path.rpartition("/")[2])


def _hand_ins(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedHandIn]:
    found: dict[tuple[str, str], dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        if (parts := _match(file.path)) is None:
            download.notes.append(f"{file.path} was left out: it has not the form of Blackboard's names")
        else:
            attempt = found[parts["before"], parts["time"]]
            if parts["file"]:
                attempt[parts["file"]] = file
    return [_hand_in(before, time, files, zone) for (before, time), files in found.items()]


def _hand_in(before: str, time: str, files: dict[str, DownloadedFile], zone: datetime.tzinfo) -> DownloadedHandIn:
    # Both the assignment and the username may hold underscores: the roster says which of the ends is a username.
    words = before.split("_")
    ends = ["_".join(words[number:]) for number in range(len(words) - 1, 0, -1)] or [before]
    return DownloadedHandIn(
        key=before,
        name="",
        identities=(
            {"login": ends[0]} | {f"login with {number} underscores": end for number, end in enumerate(ends[1:], 1)},
        ),
        files=files,
        handed_in=_time(time, zone),
    )


def _time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, TIME).replace(tzinfo=zone)
    except ValueError:
        return None


BLACKBOARD = Platform("blackboard", lambda path: _match(path) is not None, _hand_ins)
