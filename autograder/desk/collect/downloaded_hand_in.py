"""What one person handed in, as a platform's download has it: before it is known who that is to nbgrader."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import NamedTuple

from autograder.desk.collect.download import Download, DownloadedFile


class DownloadedHandIn(NamedTuple):
    """One hand-in of one person, or of several who handed in together.

    Attributes:
        key: what the platform calls the person in file names; the same in the next download of this assignment.
        name: the person's or group's name as far as the file names tell it; "" where they are anonymous.
        identities: for each person who handed this in, what is known, such as {"canvas": "4711"} or {"email": "a@b.org"}; the
            kinds are those of `Roster.find`, the surest first.
        files: by the path that they had for the student.
        handed_in: when, if the download says so; aware of its time zone.
        sequence: grows with each later hand-in of a person where the platform numbers them, else 0.
        late: whether the platform says that it was late.
        upload_name: the beginning of a file name that the platform maps back to this person; "" if it maps none.
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
    """How one platform names the files of its download.

    Attributes:
        name: as the option `--from` has it.
        recognises: whether a path is of its form.
        hand_ins: reads the hand-ins of an assignment; times without a zone are of the one given.
    """

    name: str
    recognises: Callable[[str], bool]
    hand_ins: Callable[[Download, datetime.tzinfo, str], list[DownloadedHandIn]]
