"""Names in policy.toml and in the lists of a class: unknown ones are rejected, known ones are written to the gradebook."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nbgrader.api import Assignment, Student

from autograder.classroom.roster import FILE as ROSTER
from autograder.classroom.roster import Person, read_roster
from autograder.classroom.submission_record import read_record, read_students
from autograder.course.variants.variant_record import read_record as read_variants
from autograder.errors import InputError, printable
from autograder.grade.batch.course_folders import AssignmentFolders, opened_gradebook, read_course
from autograder.grade.nbgrader_adapter import transaction
from autograder.grade.policy import FILE, CoursePolicy, read_policy

LONGEST = 128  # letters of a name or an address in nbgrader's tables (api.Student, 0.9.6)


def listed_students(folders: AssignmentFolders) -> dict[str, Person]:
    """Return the students of all lists: those that `collect` has read, and the course's own roster.csv."""
    people = {student: Person(student, name, {}) for student, name in read_students(folders.folder).items()}
    for student, entry in read_record(folders.folder, folders.assignment).items():
        people[student] = Person(student, entry.name, entry.known)
    if (folders.folder / ROSTER).is_file():
        people |= {person.student: person for person in read_roster(folders.folder / ROSTER).people}
    return people


def untimed_students(folders: AssignmentFolders) -> set[str]:
    """Return the students whose submission the platform marks as late, without a time of submission anywhere."""
    record = read_record(folders.folder, folders.assignment)
    late = {student for student, entry in record.items() if entry.late and not entry.handed_in}
    return {student for student in late if folders.submission_time(student).time is None}


def fill_names(folders: AssignmentFolders, people: Mapping[str, Person]) -> dict[str, str]:
    """Write names and addresses into the gradebook for its students who have none, and return each student's name there."""
    with opened_gradebook(folders) as book:
        with transaction(book):
            for student in book.students:
                person = people.get(student.id, Person(student.id, "", {}))
                if person.name and not (student.last_name or student.first_name):
                    last, _, first = person.name.rpartition(", ")
                    # Without a comma it is unknown which words are the last name.
                    student.last_name, student.first_name = (
                        (last[:LONGEST], first[:LONGEST]) if last else (first[:LONGEST], "")
                    )
                if not student.email and (email := person.known.get("email")):
                    student.email = email[:LONGEST]
        names = {row.id: ", ".join(part for part in (row.last_name, row.first_name) if part) for row in book.students}
    return {student: name for student, name in names.items() if name}


ASSIGNMENT = "assignment. Known assignments have a source folder or are in the gradebook"
STUDENT = (
    "student. Known students have a submission, or are in the gradebook, in roster.csv or in a list that "
    "`autograder collect` has read"
)


_Named = tuple[str, str]
"""A setting of the file, and a name that it contains."""


def checked_policy(folders: AssignmentFolders) -> CoursePolicy:
    """Return the course's policy, empty without the file. Raise InputError if it is wrong, or names somebody or something unknown."""
    policy, _ = read_policy(folders.folder)
    path = folders.folder / FILE
    _refuse_unknown(path, _assignments_in(policy), partial(_known_assignments, folders), ASSIGNMENT)
    _refuse_unknown(path, _students_in(policy), partial(_known_students, folders), STUDENT)
    return policy


def _assignments_in(policy: CoursePolicy) -> list[_Named]:
    named = [("assignments", name) for name in policy.assignments]
    return named + [("drop_lowest", name) for rule in policy.drop_lowest for name in rule.assignments]


def _students_in(policy: CoursePolicy) -> list[_Named]:
    return [("left", student) for student in policy.left] + [
        (f"assignments.{assignment}.{setting}", student)
        for assignment, rules in policy.assignments.items()
        for setting, students in (("extensions", rules.extensions), ("excused", rules.excused))
        for student in students
    ]


def _refuse_unknown(path: Path, named: list[_Named], read_known: Callable[[], Iterable[str]], kind: str) -> None:
    """Raise InputError for the first name that is not a known one."""
    known_names = set(read_known()) if named else set()
    for setting, name in named:
        if name not in known_names:
            near = difflib.get_close_matches(name, sorted(known_names), n=1)
            meant = f" (is “{printable(near[0])}” meant?)" if near else ""
            raise InputError(
                f"{printable(str(path))}: {setting} has “{printable(name)}”{meant}, which is not a known {kind}"
            )


def _known_assignments(folders: AssignmentFolders) -> Iterator[str]:
    for folder in (folders.sources, *read_course(folders.folder).source_folders):
        yield from (path.name for path in folder.glob("*/"))
    yield from _in_gradebook(folders, Assignment.name)


def _known_students(folders: AssignmentFolders) -> Iterator[str]:
    yield from (path.name for path in folders.steps["submitted"].glob("*/"))
    yield from listed_students(folders)
    for handed_out in read_variants(folders.folder).assignments.values():
        yield from handed_out.students
    yield from _in_gradebook(folders, Student.id)


def _in_gradebook(folders: AssignmentFolders, column: Any) -> list[str]:
    if not folders.has_gradebook:
        return []
    with opened_gradebook(folders) as book:
        return [name for (name,) in book.db.query(column)]
