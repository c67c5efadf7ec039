"""The matching of a worksheet's rows to the students of the gradebook."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from autograder.classroom.hand_in_record import CollectedHandIn
from autograder.classroom.roster import Person, Roster, same_word, words_of

# Identifiers that both a worksheet and the course may contain, the most reliable first. A name is used only if it is the
# only identifier and belongs to one student.
KINDS = ("student", "canvas", "login", "email", "number")


def match_rows(
    rows: list[tuple[int, Person]], students: list[str], record: Mapping[str, CollectedHandIn], roster: Roster
) -> tuple[dict[int, str], list[int]]:
    """Return the student of each row that has one, and the rows that were matched by name only.

    Args:
        rows: the rows of the worksheet, by number.
        students: the ids in the gradebook.
        record: the record of each student from `collect`.
        roster: the course's list of students, which may be empty.
    """
    known, names = _known(students, record, roster)
    found: dict[int, str] = {}
    by_name: list[int] = []
    for number, person in rows:
        student = _by_mark(person, known) or _by_participant(person, known, record)
        if student is None and len(listed := names.get(words_of(person.name), set())) == 1:
            student = next(iter(listed))
            by_name.append(number)
        if student is not None:
            found[number] = student
    return _each_once(found, by_name)


def _by_mark(person: Person, known: Mapping[tuple[str, str], str]) -> str | None:
    """Return the student who has one of the person's identifiers, also as nbgrader's id."""
    marks = [(kind, same_word(person.known[kind])) for kind in KINDS if kind in person.known]
    return next((known[mark] for mark in [*marks, *(("student", value) for _, value in marks)] if mark in known), None)


def _by_participant(
    person: Person, known: Mapping[tuple[str, str], str], record: Mapping[str, CollectedHandIn]
) -> str | None:
    """Return the student with this participant number if the names agree: in another assignment, Moodle's numbers differ."""
    student = known.get(("participant", person.known.get("participant", "")))
    name = record[student].name if student and student in record else ""
    return None if name and person.name and words_of(name) != words_of(person.name) else student


def _known(
    students: list[str], record: Mapping[str, CollectedHandIn], roster: Roster
) -> tuple[dict[tuple[str, str], str], dict[str, set[str]]]:
    known: dict[tuple[str, str], str] = {}
    names: dict[str, set[str]] = defaultdict(set)
    for student in students:
        entry = record.get(student)
        listed = roster.find("student", student)
        marks = (listed[0].known if listed else {}) | (entry.known if entry else {}) | {"student": student}
        if (
            entry and entry.platform == "canvas" and "canvas" not in marks
        ):  # a group's submission has the ID of one member
            marks["canvas"] = entry.key
        known |= {
            (kind, same_word(value)): student
            for kind, value in marks.items()
            if kind in (*KINDS, "participant") and value
        }
        name = (entry.name if entry else "") or (listed[0].name if listed else "")
        names[words_of(name)].add(student)
    names.pop("", None)
    return known, names


def _each_once(found: dict[int, str], by_name: list[int]) -> tuple[dict[int, str], list[int]]:
    """Remove rows that were matched by name if another row belongs to the same student."""
    rows: dict[str, list[int]] = defaultdict(list)
    for number, student in found.items():
        rows[student].append(number)
    doubtful = {number for listed in rows.values() if len(listed) > 1 for number in listed if number in by_name}
    return {number: one for number, one in found.items() if number not in doubtful}, [
        n for n in by_name if n not in doubtful
    ]
