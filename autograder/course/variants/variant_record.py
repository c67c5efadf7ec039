"""The record of each student's variant: `variants.json` in the course, written by the handout and read by the grader."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path

import msgspec

from autograder.course.paths import replace_file
from autograder.course.variants.declared_changes import FILE as DECLARED
from autograder.course.variants.declared_changes import DeclaredChanges, VariantError

FILE = "variants.json"


class HandedOut(msgspec.Struct, frozen=True):
    """The variants of one assignment."""

    changes: str  # the hash of the declared differences at the time of the handout
    students: dict[str, int]  # the seed of each student
    # the seeds of notebooks that a student got before; None for the notebook without variants
    former: dict[str, list[int | None]] = {}


class VariantRecord(msgspec.Struct, frozen=True):
    """The variants of a course."""

    seed: str  # the course's seed, from which each student's seed is derived
    assignments: dict[str, HandedOut] = {}  # the handed-out variants, by assignment

    def seed_of(self, who: str) -> int:
        """Return the seed of a student, or of a group that works together; it is the same for every assignment."""
        return int(hashlib.sha256(f"{self.seed} {who}".encode()).hexdigest()[:12], 16)

    def students(self, assignment: str, changes: DeclaredChanges) -> dict[str, int]:
        """Return the seed of each student who got a variant of an assignment.

        Raises:
            VariantError: the declared differences have changed, so the variants cannot be reproduced.
        """
        handed_out = self.assignments.get(assignment)
        if handed_out is None:
            return {}
        if handed_out.changes != changes.digest:
            raise VariantError(
                f"the section {assignment} of {DECLARED} has changed since its variants were handed out, so the students' "
                f"notebooks cannot be generated again. Restore its earlier content, or remove {assignment} from {FILE}"
            )
        return handed_out.students

    def replaced(self, assignment: str, students: dict[str, int], submitted: Collection[str]) -> dict[str, int | None]:
        """Return the seed for each student who has another notebook already; None stands for the notebook without a variant."""
        handed_out = self.assignments.get(assignment)
        seeds = handed_out.students if handed_out else {}
        return {
            student: seeds.get(student)
            for student, seed in students.items()
            if (student in seeds or student in submitted) and seeds.get(student) != seed
        }

    def with_students(
        self, assignment: str, changes: DeclaredChanges, students: dict[str, int], replaced: Mapping[str, int | None]
    ) -> VariantRecord:
        """Return the record with more students, or with a new assignment; a replaced notebook remains among the former ones."""
        seeds = self.students(assignment, changes)
        former = dict(self.assignments[assignment].former) if assignment in self.assignments else {}
        for student, seed in replaced.items():
            former[student] = [*former.get(student, []), seed]
        handed_out = HandedOut(changes.digest, dict(sorted((seeds | students).items())), former)
        return VariantRecord(self.seed, self.assignments | {assignment: handed_out})

    def write(self, course: Path) -> None:
        """Write the file, completely or not at all."""
        replace_file(course / FILE, msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")


def other_owners(
    student: str, carried: int | None, students: Mapping[str, int], former: Mapping[str, list[int | None]]
) -> list[str] | None:
    """Return the students who were given a variant that somebody else submitted: [] if nobody was given it.

    `carried` is the seed in the submission, None if it is not a variant; `former` are the seeds of notebooks that a
    student got before. Return None if this student was given it, or it is not a variant.
    """

    def given(name: str) -> list[int | None]:
        return [students.get(name), *former.get(name, [])]

    if carried is None or carried in given(student):
        return None
    return sorted(name for name in students.keys() | former.keys() if carried in given(name))


def read_record(course: Path) -> VariantRecord:
    """Return a course's record; without a file, an empty one with a new seed.

    Raises:
        VariantError: the file cannot be read.
    """
    try:
        return msgspec.json.decode((course / FILE).read_bytes(), type=VariantRecord)
    except FileNotFoundError:
        return VariantRecord(str(secrets.randbits(63)))
    except (OSError, msgspec.MsgspecError) as error:
        raise VariantError(
            f"{course / FILE} cannot be read ({error}), and it contains the students' variants. Restore a copy of the file"
        ) from None
