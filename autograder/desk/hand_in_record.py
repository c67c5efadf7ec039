"""What was collected for an assignment, kept beside the course: who is whom, and by which name the platform knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from autograder.course.file_replacement import replace_file
from autograder.errors import InputError
from autograder.printable import printable

FOLDER = "collected"
FILE = "hand_ins.json"
STUDENTS = "students.json"


Kept = TypeVar("Kept", bound=dict)


class RecordError(InputError):
    """What was collected earlier cannot be read; the message names the file."""


class CollectedHandIn(msgspec.Struct, frozen=True, kw_only=True):
    """A student's hand-in that lies in nbgrader's folder.

    Attributes:
        platform: where it came from.
        key: what the platform calls the person in file names of this assignment.
        name: the person's name as the platform shows it; "" if it shows none.
        known: what else identifies the person, by kind, as in a roster.
        handed_in: when, as an ISO time in UTC; "" if nobody knows.
        sequence: the platform's own number, which grows with each later hand-in; 0 if it has none.
        late: whether the platform says that it was late.
        digest: of the files as they were collected.
        upload_name: the beginning of a file name that the platform maps back to the person; "" if it maps none.
        notebooks: by the notebook's name, how its file was recognised; "" by its exact name.
    """

    platform: str
    key: str
    name: str = ""
    known: dict[str, str] = {}
    handed_in: str = ""
    sequence: int = 0
    late: bool = False
    digest: str = ""
    upload_name: str = ""
    notebooks: dict[str, str] = {}


def record_folder(course: Path, assignment: str) -> Path:
    """Returns the folder for what is known of an assignment's hand-ins."""
    return course / FOLDER / assignment


def read_record(course: Path, assignment: str) -> dict[str, CollectedHandIn]:
    """Returns what was collected, by student; nothing if nothing was.

    Raises:
        RecordError: the file is damaged.
    """
    return _read(record_folder(course, assignment) / FILE, dict[str, CollectedHandIn])


def write_record(course: Path, assignment: str, record: dict[str, CollectedHandIn]) -> None:
    """Writes what was collected, whole or not at all."""
    _write(record_folder(course, assignment) / FILE, record)


def read_students(course: Path) -> dict[str, str]:
    """Returns the names of all students who stood in a list that `collect` was given, by nbgrader's id.

    Raises:
        RecordError: the file is damaged.
    """
    return _read(course / FOLDER / STUDENTS, dict[str, str])


def keep_students(course: Path, names: dict[str, str]) -> None:
    """Keeps who is in the class, with those who were kept before; a student may never hand in anything."""
    if names:
        _write(course / FOLDER / STUDENTS, read_students(course) | names)


def _read(path: Path, form: type[Kept]) -> Kept:
    try:
        return msgspec.json.decode(path.read_bytes(), type=form)
    except FileNotFoundError:
        return form()
    except (OSError, msgspec.DecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecordError(
            f"{printable(str(path))} cannot be read ({reason}). Move it away, and collect again"
        ) from None


def _write(path: Path, kept: dict) -> None:
    replace_file(path, msgspec.json.format(msgspec.json.encode(kept, order="deterministic"), indent=1))
