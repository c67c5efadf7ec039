"""Which student got which variant: `variants.json` in the course's folder, written when they are handed out and read by the grader."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from autograder.course.file_replacement import replace_file
from autograder.course.variants.declared_changes import FILE as DECLARED
from autograder.course.variants.declared_changes import DeclaredChanges, VariantError

FILE = "variants.json"


class HandedOut(msgspec.Struct, frozen=True):
    """The variants of one assignment.

    Attributes:
        changes: the hash of what was declared when they were made.
        students: each student's seed.
    """

    changes: str
    students: dict[str, int]


class VariantRecord(msgspec.Struct, frozen=True):
    """The variants of a course.

    Attributes:
        seed: the course's own, from which each student's is derived.
        assignments: what was handed out, by assignment.
    """

    seed: str
    assignments: dict[str, HandedOut] = {}

    def seed_of(self, who: str) -> int:
        """Returns the seed of a student, or of a group that works together; the same for every assignment."""
        return int(hashlib.sha256(f"{self.seed} {who}".encode()).hexdigest()[:12], 16)

    def students(self, assignment: str, changes: DeclaredChanges) -> dict[str, int]:
        """Returns the seed of each student who got a variant of an assignment.

        Raises:
            VariantError: what was declared has changed since, so that the variants would be others.
        """
        handed_out = self.assignments.get(assignment)
        if handed_out is None:
            return {}
        if handed_out.changes != changes.digest:
            raise VariantError(
                f"{DECLARED} says something else of {assignment} than when its variants were handed out, so nobody's own "
                f"notebook can be made again. Put back what it said; or hand out again, and take {assignment} out of "
                f"{FILE} before"
            )
        return handed_out.students

    def with_students(self, assignment: str, changes: DeclaredChanges, students: dict[str, int]) -> VariantRecord:
        """Returns the record with more students, or with those of a new assignment."""
        known = self.students(assignment, changes)
        handed_out = HandedOut(changes.digest, dict(sorted((known | students).items())))
        return VariantRecord(self.seed, self.assignments | {assignment: handed_out})

    def write(self, course: Path) -> None:
        """Writes the file, completely or not at all."""
        replace_file(course / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def read_record(course: Path) -> VariantRecord:
    """Returns a course's record; where there is no file, an empty one with a new seed.

    Raises:
        VariantError: the file cannot be read.
    """
    try:
        return msgspec.json.decode((course / FILE).read_bytes(), type=VariantRecord)
    except FileNotFoundError:
        return VariantRecord(str(secrets.randbits(63)))
    except (OSError, msgspec.MsgspecError) as error:
        raise VariantError(
            f"{course / FILE} cannot be read ({error}), and it says who got which variant. Put a copy of it back"
        ) from None
