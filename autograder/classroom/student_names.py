"""Names and e-mail addresses of a class's lists, for nbgrader's gradebook and the tables that are made from it."""

from __future__ import annotations

from collections.abc import Mapping

from autograder.classroom.hand_in_record import read_record, read_students
from autograder.classroom.roster import FILE as ROSTER
from autograder.classroom.roster import Person, read_roster
from autograder.grade.batch.classroom import Classroom, opened_gradebook
from autograder.grade.nbgrader_adapter import transaction

LONGEST = 128  # letters of a name or an address in nbgrader's tables (api.Student, 0.9.6)


def listed_students(classroom: Classroom) -> dict[str, Person]:
    """Return the students of all lists: those that `collect` has read, and the course's own roster.csv."""
    found = {student: Person(student, name, {}) for student, name in read_students(classroom.folder).items()}
    for student, entry in read_record(classroom.folder, classroom.assignment).items():
        found[student] = Person(student, entry.name, entry.known)
    if (classroom.folder / ROSTER).is_file():
        found |= {person.student: person for person in read_roster(classroom.folder / ROSTER).people}
    return found


def untimed_students(classroom: Classroom) -> set[str]:
    """Return the students whose submission the platform marks as late, without a time of submission anywhere."""
    record = read_record(classroom.folder, classroom.assignment)
    late = {student for student, entry in record.items() if entry.late and not entry.handed_in}
    return {student for student in late if classroom.submission_time(student).time is None}


def fill_names(classroom: Classroom, people: Mapping[str, Person]) -> dict[str, str]:
    """Write names and addresses into the gradebook for its students who have none, and return each student's name there."""
    with opened_gradebook(classroom) as book:
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
        names = {one.id: ", ".join(part for part in (one.last_name, one.first_name) if part) for one in book.students}
    return {student: name for student, name in names.items() if name}
