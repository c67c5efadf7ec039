"""A submission as a platform's download contains it, before the student is identified."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import NamedTuple

from autograder.classroom.collect.download import Download, DownloadedFile


class DownloadedHandIn(NamedTuple):
    """One submission of one person, or of several who submitted together.

    Attributes:
        key: the platform's name for the person in file names; the same in the next download of this assignment.
        name: the person's or group's name as far as the file names contain it; "" if they are anonymous.
        identities: for each person, the known identifiers, such as {"canvas": "4711"} or {"email": "a@b.org"}; the
            kinds are those of `Roster.find`, the most reliable first.
        files: the files by the path that the student used.
        handed_in: the time of submission, with a time zone; None if the download does not contain it.
        sequence: the platform's number of the submission, which grows with each later one; 0 if it has no numbers.
        late: whether the platform marks the submission as late.
        upload_name: the beginning of a file name that the platform maps back to this person; "" if it does not map
            names.
    """

    key: str
    name: str
    identities: tuple[dict[str, str], ...]
    files: dict[str, DownloadedFile]
    handed_in: datetime.datetime | None = None
    sequence: int = 0
    late: bool = False
    upload_name: str = ""


class Platform(NamedTuple):
    """The format of one platform's download.

    Attributes:
        name: the platform's name in the option `--from`.
        recognises: returns whether a path has the platform's format.
        hand_ins: takes a download, the time zone of times without one, and the assignment; returns its submissions.
    """

    name: str
    recognises: Callable[[str], bool]
    hand_ins: Callable[[Download, datetime.tzinfo, str], list[DownloadedHandIn]]
