"""The assignment of submissions to students, and a table of open questions that a teacher fills in and the next run reads."""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.classroom.collect.download import DownloadedSubmission
from autograder.classroom.collect.submission_files import ReadableSubmission
from autograder.classroom.roster import Person, Roster, id_from_name, is_student_id, joined, words_of
from autograder.classroom.table_file import read_table
from autograder.course.paths import replace_file
from autograder.errors import InputError, printable
from autograder.grade.batch.csv_export import plain_cell, spreadsheet
from autograder.grade.submission_time import read_time

FILE = "to_match.csv"
COLUMNS = ("hand_in", "file", "person", "why", "student", "notebook", "handed_in", "submission")
IGNORE = "-"  # the answer for "ignore this submission", or "not a notebook"


@dataclass(frozen=True)
class MatchQuestion:
    """One row: a submission, why it could not be matched, and the columns that a teacher fills in."""

    hand_in: str  # the platform's name for the person
    file: str  # the path in the download; "" for the whole submission
    person: str  # the name, as far as it is known
    why: str
    student: str = ""  # to fill in: nbgrader's id, or "-" to ignore the submission
    notebook: str = ""  # to fill in: the notebook's name, or "-" if the file is not one
    handed_in: str = ""  # to fill in: the time of submission, in the course's time zone
    # the platform's number of the submission whose time is asked for; "" for every submission of the person
    submission: str = ""


@dataclass(frozen=True)
class Answers:
    """The answers of a teacher: students by the person's key, notebooks by the file's path, times by key and submission."""

    students: dict[str, str]
    notebooks: dict[str, str]
    times: dict[tuple[str, str], datetime.datetime]
    rows: list[MatchQuestion]

    def time(self, key: str, submission: str) -> datetime.datetime | None:
        """Return the time of a submission; the time of an earlier one of the same person is not valid for it."""
        return self.times.get((key, submission)) or self.times.get((key, ""))


def read_answers(folder: Path, zone: datetime.tzinfo) -> Answers:
    """Return a teacher's answers, none without a table. Raise InputError if a column is missing, or a time cannot be parsed."""
    path = folder / FILE
    if not path.exists():
        return Answers({}, {}, {}, [])
    table = read_table(path)
    if missing := [name for name in COLUMNS[:-1] if table.column(name) is None]:
        raise InputError(f"{printable(str(path))} has no column {missing[0]!r}. Move it away, and collect again")
    places = {name: place for name in COLUMNS if (place := table.column(name)) is not None}
    rows = [
        MatchQuestion(**{name: plain_cell(row[place].strip()) for name, place in places.items()}) for row in table.rows
    ]
    times = {(row.hand_in, row.submission): _time(row, path, zone) for row in rows if row.handed_in}
    return Answers(
        {row.hand_in: row.student for row in rows if row.student},
        {row.file: row.notebook.removesuffix(".ipynb") for row in rows if row.notebook},
        times,
        rows,
    )


def write_questions(folder: Path, questions: list[MatchQuestion], answers: Answers, asked: set[str]) -> Path | None:
    """Write the table, earlier rows first, and return its path; delete it if it would be empty.

    Open questions about the people in `asked`, those of this download, are replaced; questions of other downloads stay.

    Return None if there are no questions.
    """
    path = folder / FILE
    kept = [row for row in answers.rows if row.student or row.notebook or row.handed_in or row.hand_in not in asked]
    known = {(row.hand_in, row.file, row.submission) for row in kept}
    rows = [*kept, *(row for row in questions if (row.hand_in, row.file, row.submission) not in known)]
    if not rows:
        path.unlink(missing_ok=True)
        return None
    replace_file(path, spreadsheet(COLUMNS, ([getattr(row, column) for column in COLUMNS] for row in rows)))
    return path if questions else None


def _time(row: MatchQuestion, path: Path, zone: datetime.tzinfo) -> datetime.datetime:
    time = read_time(row.handed_in, zone)
    if time is None:
        raise InputError(
            f"{printable(str(path))}: {printable(row.handed_in)} is not a valid time; write it as 2026-10-03 14:10"
        )
    return time


# columns of the roster that match a kind of `DownloadedSubmission.identities`, and kinds that are only names
SAME_AS = {"words without group": "words"}
BY_NAME = ("words", "joined")
WITHOUT_ROSTER = ("student", "login", "number", "email", "canvas", "anonymous")


@dataclass(frozen=True)
class Match:
    """A person and how they were identified; or None and the reason why the person is unknown."""

    person: Person | None
    how: str


def match_people(submission: DownloadedSubmission, roster: Roster, answers: dict[str, str]) -> list[Match]:
    """Return everyone who made this submission; with an empty roster, the platform's names are used as student ids.

    `answers` contains the students that the teacher named, by the submission's key.
    """
    if submission.key in answers:
        return [_answered(answers[submission.key], submission, roster)]
    if (team := roster.group(submission.name)) and not roster.find("words", submission.name):
        return [Match(person, f"by the group {submission.name}") for person in team]
    matches = [_match(identity, submission, roster) for identity in submission.identities]
    return matches or [Match(None, "the download does not say whose it is")]


def _answered(student: str, submission: DownloadedSubmission, roster: Roster) -> Match:
    if people := roster.find("student", student):
        return Match(people[0], "as you said")
    if not is_student_id(student):
        return Match(None, f"{student!r} cannot be the name of a student's folder")
    return Match(Person(student, submission.name, {}), "as you said")


def _match(identity: dict[str, str], submission: DownloadedSubmission, roster: Roster) -> Match:
    if not roster.people or "anonymous" in identity:
        return _named_by_platform(identity, submission)
    for kind, value in identity.items():
        column = "login" if kind.startswith("login ") else SAME_AS.get(kind, kind)
        people = roster.find(column, value)
        if column == "participant":
            people = [person for person in people if _may_be(submission.name, person.name)]
        if len(people) == 1:
            return Match(people[0], "by name" if column in BY_NAME else "")
        if people:
            return Match(None, f"{len(people)} students have this name")
    return Match(None, "no student of the roster has this name or number")


def _may_be(shown: str, listed: str) -> bool:
    """Return whether two names may belong to one person.

    Moodle numbers teams and participants separately, so the same number may mean both; it also drops accents.
    """
    shares_a_word = bool(set(words_of(shown).split()) & set(words_of(listed).split()))
    return not listed or shares_a_word or joined(listed) in joined(shown)


def _named_by_platform(identity: dict[str, str], submission: DownloadedSubmission) -> Match:
    student = next((identity[kind] for kind in WITHOUT_ROSTER if identity.get(kind)), "")
    student = student or id_from_name(submission.name)
    if "anonymous" in identity or "student" in identity or student == submission.key:
        how = ""
    else:
        how = "the platform's own name, as there is no roster"
    if not is_student_id(student):
        return Match(None, "its name cannot be that of a student's folder, and there is no roster")
    return Match(Person(student, submission.name, identity), how)


@dataclass(frozen=True)
class AttributedSubmission:
    """A submission of a known student, with the way in which the student was identified."""

    person: Person
    how: str
    work: ReadableSubmission


def attribute_submissions(
    works: list[ReadableSubmission], roster: Roster, answers: Answers
) -> tuple[dict[str, list[AttributedSubmission]], list[MatchQuestion]]:
    """Return the submissions of each student, and a question for each submission whose student is unknown."""
    submissions: dict[str, list[AttributedSubmission]] = defaultdict(list)
    questions = []
    for work in works:
        if answers.students.get(work.downloaded.key) == IGNORE:
            continue
        for match in match_people(work.downloaded, roster, answers.students):
            if match.person is None:
                questions.append(MatchQuestion(work.downloaded.key, "", work.downloaded.name, match.how))
            else:
                submissions[match.person.student].append(AttributedSubmission(match.person, match.how, work))
    for student, submission, person in list(_shared(submissions, roster)):
        how = f"submitted by {submission.person.student} for the group"
        submissions[student].append(AttributedSubmission(person, how, submission.work))
    return _without_doubts(submissions, questions)


def _shared(
    submissions: dict[str, list[AttributedSubmission]], roster: Roster
) -> Iterator[tuple[str, AttributedSubmission, Person]]:
    """Yield the group members who did not submit anything, each with the submissions of another member."""
    for listed in list(submissions.values()):
        for person in roster.members(listed[0].person):
            if person.student not in submissions:
                yield from ((person.student, submission, person) for submission in listed)


def _without_doubts(
    submissions: dict[str, list[AttributedSubmission]], questions: list[MatchQuestion]
) -> tuple[dict[str, list[AttributedSubmission]], list[MatchQuestion]]:
    """Remove students to whom submissions of two people on the platform were matched by name alone."""
    for student, listed in list(submissions.items()):
        keys = {submission.work.downloaded.key for submission in listed}
        if len(keys) > 1 and any(submission.how == "by name" for submission in listed):
            del submissions[student]
            why = f"{len(keys)} people of the platform match {student}"
            questions += [question_of(submission, why) for submission in listed]
    return submissions, questions


def question_of(submission: AttributedSubmission, why: str, file: str = "") -> MatchQuestion:
    """Return a question about a submission, or about one of its files."""
    return MatchQuestion(
        submission.work.downloaded.key, file, submission.person.name or submission.work.downloaded.name, why
    )
