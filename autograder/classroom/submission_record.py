"""The record of an assignment's collected submissions, stored in the course: students, and their names on the platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from autograder.course.paths import replace_file
from autograder.errors import InputError, printable

FOLDER = "collected"
FILE = "hand_ins.json"
STUDENTS = "students.json"


Stored = TypeVar("Stored")


class CollectedSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """A student's submission in nbgrader's folder."""

    platform: str  # the platform that it came from
    key: str  # the platform's name for the person in file names of this assignment
    name: str = ""  # the person's name on the platform; "" if it does not show one
    known: dict[str, str] = {}  # other identifiers of the person, by kind, like those of a roster
    handed_in: str = ""  # the time of submission, in ISO format and UTC; "" if it is unknown
    sequence: int = 0  # the platform's number, which grows with each later submission; 0 if it has no numbers
    late: bool = False  # whether the platform marks the submission as late
    digest: str = ""  # a hash of the files as they were collected
    # the beginning of a file name that the platform maps back to the person; "" if it does not map names
    upload_name: str = ""
    notebooks: dict[str, str] = {}  # the notebook's name → how its file was recognized; "" if by its exact name


def record_folder(course: Path, assignment: str) -> Path:
    """Return the folder for the record of an assignment's submissions."""
    return course / FOLDER / assignment


def read_record(course: Path, assignment: str) -> dict[str, CollectedSubmission]:
    """Return the collected submissions by student, none without a record. Raise InputError if the file is damaged."""
    return read_json(record_folder(course, assignment) / FILE, dict[str, CollectedSubmission])


def write_record(course: Path, assignment: str, record: dict[str, CollectedSubmission]) -> None:
    """Write the collected submissions, completely or not at all."""
    _write(record_folder(course, assignment) / FILE, record)


def read_students(course: Path) -> dict[str, str]:
    """Return the names in all lists that `collect` has read, by nbgrader's id. Raise InputError if the file is damaged."""
    return read_json(course / FOLDER / STUDENTS, dict[str, str])


def keep_students(course: Path, names: dict[str, str]) -> None:
    """Add students to the stored class list, which also contains students who never submit anything."""
    if names:
        _write(course / FOLDER / STUDENTS, read_students(course) | names)


def read_json(path: Path, form: type[Stored], advice: str = "Move it away, and collect again") -> Stored:
    """Return the contents of a file, empty without the file. Raise InputError, with the advice, if it is damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except FileNotFoundError:
        return form()
    except (OSError, msgspec.DecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{printable(str(path))} cannot be read ({reason}). {advice}") from None


def _write(path: Path, content: dict[Any, Any]) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(content, order="deterministic"), indent=1))
