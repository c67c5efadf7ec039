"""Moodle's "Download all submissions": a folder, or file names with a common prefix, for each participant.

Source: mod/assign/locallib.php and mod/assign/feedback/file/importziplib.php of moodle/moodle. Names begin with
`[Group-]Full name_N_assignsubmission_file/…` since 4.1, before that with another `_` at the end; without folders, the
file names have this prefix. They begin with `Participant_N_…` if marking is anonymous. A team's names contain the
team's name and number; the number is missing for people without a team (classes/downloader.php). Otherwise N is the
participant's number in this assignment, not the user's. `_` in a name replaces a space. Times are in the grading
worksheet, not in the zip.
"""

from __future__ import annotations

import datetime
import re
from collections import defaultdict

from autograder.classroom.collect.download import Download, DownloadedFile
from autograder.classroom.collect.downloaded_hand_in import DownloadedHandIn, Platform

NAME = re.compile(
    r"(?:.*/)?(?P<name>[^_/]+)(?:_(?P<number>\d+))?_assignsubmission_(?P<kind>[a-z]+)_?(?:/(?P<inside>.+)|(?P<beside>[^/]*))"
)


def _hand_ins(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedHandIn]:
    found: dict[str, list[tuple[re.Match[str], DownloadedFile]]] = defaultdict(list)
    for file in download.files:
        if (parts := NAME.fullmatch(file.path)) is None:
            download.notes.append(f"{file.path} was left out: its name does not have Moodle's format")
        else:
            found[parts["number"] or parts["name"]].append((parts, file))
    return [_hand_in(key, files) for key, files in found.items()]


def _hand_in(key: str, files: list[tuple[re.Match[str], DownloadedFile]]) -> DownloadedHandIn:
    name, number = files[0][0]["name"], files[0][0]["number"] or ""
    return DownloadedHandIn(
        key=key,
        name=name,
        identities=({"participant": number, "words": name, "words without group": name.partition("-")[2]},),
        files={parts["inside"] or parts["beside"] or "online text": file for parts, file in files},
        upload_name=f"{name}_{number}_assignfeedback_file",
    )


MOODLE = Platform("moodle", lambda path: NAME.fullmatch(path) is not None, _hand_ins)
