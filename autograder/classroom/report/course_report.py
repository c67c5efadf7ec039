"""Reports over several assignments: the change since the previous assignment, and each student's points in the course."""

from __future__ import annotations

import statistics
from dataclasses import replace

import msgspec

from autograder.classroom.policy_names import checked_policy, listed_students
from autograder.classroom.report.class_report import ClassReport
from autograder.classroom.report.grading_records import ClassGrades, read_class_grades
from autograder.classroom.submission_record import read_record
from autograder.grade.batch.classroom import Classroom, opened_gradebook
from autograder.grade.policy import CoursePolicy, course_total

FELL = 0.25  # decrease of the share of the points from which on a student is listed


class StudentChange(msgspec.Struct, frozen=True):
    """A student whose share of the points fell: id, name, and the share before and now."""

    student: str
    name: str
    before: float
    now: float


class AssignmentChange(msgspec.Struct, frozen=True):
    """The change since the previous assignment."""

    before: str
    mean_before: float  # its mean share of the points
    mean_now: float  # the mean share of the points in this assignment
    fell: list[StudentChange]  # the students who lost a quarter of the points or more, the largest loss first
    missing: list[str]  # the students who submitted the previous assignment but not this one


class CourseLine(msgspec.Struct, frozen=True):
    """A student's points in the whole course, and the assignments that were dropped."""

    student: str
    name: str
    points: float
    max_points: float
    dropped: tuple[str, ...]


def graded_assignments(classroom: Classroom) -> list[str]:
    """Return the assignments with grades, by due date and then by name."""
    if not classroom.has_gradebook:
        return []
    with opened_gradebook(classroom) as book:
        known = [
            (assignment.duedate is None, str(assignment.duedate or ""), assignment.name)
            for assignment in book.assignments
            if assignment.num_submissions
        ]
    return [name for _, _, name in sorted(known)]


def change_since(classroom: Classroom, report: ClassReport) -> AssignmentChange | None:
    """Return the change since the previous assignment; None for the first one."""
    names = graded_assignments(classroom)
    place = names.index(report.assignment)
    if not place:
        return None
    before, now = (read_class_grades(replace(classroom, assignment=name)) for name in names[place - 1 : place + 1])
    left = checked_policy(classroom).left
    shares = _shares(before, left), _shares(now, left)
    people = read_record(classroom.folder, report.assignment)
    both = [student for student in shares[0] if student in shares[1]]
    fell = [
        StudentChange(
            student, people[student].name if student in people else "", shares[0][student], shares[1][student]
        )
        for student in both
        if shares[0][student] - shares[1][student] >= FELL
    ]
    return AssignmentChange(
        before=names[place - 1],
        mean_before=statistics.fmean(shares[0].values()),
        mean_now=statistics.fmean(shares[1].values()),
        fell=sorted(fell, key=lambda change: change.now - change.before),
        missing=sorted(shares[0].keys() - shares[1].keys()),
    )


def course_lines(classroom: Classroom) -> list[CourseLine]:
    """Return a line for each student over all graded assignments, computed with the course's policy."""
    policy = checked_policy(classroom)
    grades = {name: read_class_grades(replace(classroom, assignment=name)) for name in graded_assignments(classroom)}
    listed = listed_students(classroom)
    graded = {student for assignment in grades.values() for student in assignment.scores}
    students = sorted((listed.keys() | graded) - {*policy.left})
    names = {student: person.name for student, person in listed.items()}
    names |= {student: entry.name for name in grades for student, entry in read_record(classroom.folder, name).items()}
    return [_line(student, names.get(student, ""), grades, policy) for student in students]


def _line(student: str, name: str, grades: dict[str, ClassGrades], policy: CoursePolicy) -> CourseLine:
    scores = {
        assignment: (known.scores[student].total if student in known.scores else 0.0, known.max_points)
        for assignment, known in grades.items()
        if student in known.scores or policy.missing != "blank"
    }
    return CourseLine(student, name, *course_total(policy, student, scores))


def _shares(grades: ClassGrades, left: tuple[str, ...]) -> dict[str, float]:
    return {
        student: score.total / grades.max_points if grades.max_points else 1.0
        for student, score in grades.scores.items()
        if student not in left
    }
