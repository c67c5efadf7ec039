"""Gradescope's "Export Submissions": a folder for each submission, and a YAML file that names the students.

Source: public programs that read such an export. `assignment_N_export/submission_metadata.yml` maps the folder's name,
`submission_N`, to `:submitters:` (each with `:name:`, `:sid:`, `:email:`) and `:created_at:`. Students who submitted
together share an entry. The export contains only the active submission of each student.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from typing import Any

import yaml

from autograder.classroom.collect.download import (
    Download,
    DownloadedFile,
    DownloadedSubmission,
    DownloadError,
    Platform,
)

METADATA = "submission_metadata.yml"
LARGEST_METADATA = 64 * 2**20
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _submissions(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedSubmission]:
    about = next((file for file in download.files if file.path.rpartition("/")[2] == METADATA), None)
    if about is None:
        raise DownloadError(f"there is no {METADATA}, the list of submissions in Gradescope's export. Export again")
    entries = _known(about)
    root = about.path.removesuffix(METADATA)
    submissions: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.removeprefix(root).partition("/")
        if inside and folder in entries:
            submissions[folder][inside] = file
        elif file is not about:
            download.notes.append(f"{file.path} was left out: {METADATA} does not name its folder")
    return [_submission(folder, entry, submissions[folder], zone) for folder, entry in entries.items()]


def _known(about: DownloadedFile) -> dict[str, dict[str, Any]]:
    try:
        entries = yaml.load(about.read(LARGEST_METADATA), LOADER)  # one of PyYAML's safe loaders
    except (yaml.YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DownloadError(f"{METADATA} cannot be read ({reason}). Export again") from None
    if not isinstance(entries, dict):
        raise DownloadError(f"{METADATA} lists no submission. Export again")
    return {str(name): entry for name, entry in entries.items() if isinstance(entry, dict)}


def _submission(
    folder: str, entry: dict[str, Any], files: dict[str, DownloadedFile], zone: datetime.tzinfo
) -> DownloadedSubmission:
    listed = entry.get(":submitters")
    people = [person for person in listed if isinstance(person, dict)] if isinstance(listed, list) else []
    return DownloadedSubmission(
        key=folder,
        name=", ".join(str(person.get(":name") or "") for person in people),
        identities=tuple(
            {
                "email": str(person.get(":email") or ""),
                "number": str(person.get(":sid") or ""),
                "words": str(person.get(":name") or ""),
            }
            for person in people
        ),
        files=files,
        handed_in=_time(entry.get(":created_at"), zone),
    )


def _time(value: Any, zone: datetime.tzinfo) -> datetime.datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime.datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=datetime.UTC)


GRADESCOPE = Platform("gradescope", lambda path: path.rpartition("/")[2] == METADATA, _submissions)
