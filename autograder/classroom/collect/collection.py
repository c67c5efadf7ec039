"""The `collect` command: copy each submission of a download to nbgrader's folder, or ask the teacher about it, and report both."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from autograder.classroom.collect.download import DownloadError, open_download
from autograder.classroom.collect.questions import (
    Answers,
    AttributedSubmission,
    MatchQuestion,
    attribute_submissions,
    question_of,
    read_answers,
    write_questions,
)
from autograder.classroom.collect.submission_files import ReadableSubmission, readable, shapes_in
from autograder.classroom.collect.submitted_folder import Placing, SubmissionFiles, is_kept, keep_earlier, place
from autograder.classroom.platforms import platform_of
from autograder.classroom.roster import Person, Roster
from autograder.classroom.submission_record import (
    CollectedSubmission,
    keep_students,
    read_record,
    record_folder,
    write_record,
)
from autograder.errors import UnfinishedError, printable, printable_list
from autograder.grade.batch.course_folders import AssignmentFolders, open_class
from autograder.grade.policy import read_policy
from autograder.grade.submission_time import read_time
from autograder.grade.validation.validate import text_table

START = datetime.datetime.min.replace(tzinfo=datetime.UTC)


@dataclass(frozen=True)
class CollectedLine:
    """A student's line in the report of `collect`."""

    student: str  # nbgrader's id
    name: str  # the name on the platform
    placing: Placing  # the action for the latest submission
    # how the submission was matched (if not by an id), late marks, and files that were left out
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Collection:
    """The result of `collect`."""

    platform: str  # the platform whose format the download has
    lines: list[CollectedLine]  # one line for each student with a submission, sorted by id
    missing: list[Person]  # the people of the roster without a submission, in this download and before
    earlier: list[Person]  # the people of the roster who are not in this download, but in an earlier one
    questions: list[MatchQuestion]
    table: Path | None  # the table with the questions; None if everything is decided
    notes: list[str]  # the files of the download that were left out, one line each
    zone: str  # the time zone of times without one; "" if the course does not set it


def collect(
    download: Path,
    assignment: str,
    course: Path,
    roster: Roster,
    platform: str = "auto",
    zone: datetime.tzinfo = datetime.UTC,
) -> Collection:
    """Copy each submission of a download to submitted/STUDENT/ASSIGNMENT/ of the course.

    The download is the platform's zip, or a folder. With an empty roster, the platform's names are used as student ids.
    The platform may be "auto"; the zone is that of times without one.

    Raises:
        DownloadError: it is not such a download, or belongs to another assignment; nothing is written.
        InputError: the course or the assignment does not exist, or a time has no zone, and neither has the course; nothing is written.
        UnfinishedError: a file cannot be written to the course's folder.
    """
    folders = open_class(course, assignment, without_submissions=True)
    try:
        return _collect(folders, download, roster, platform, zone)
    except OSError as error:
        raise UnfinishedError(
            f"{printable(str(error.filename or folders.folder))} cannot be written ({error.strerror}); what was placed so far "
            "is kept. Correct that, then run the same command again"
        ) from None


def _collect(
    folders: AssignmentFolders, download: Path, roster: Roster, platform: str, zone: datetime.tzinfo
) -> Collection:
    assignment = folders.assignment
    shapes = shapes_in(folders.sources / folders.assignment)
    folder = record_folder(folders.folder, assignment)
    answers = read_answers(folder, zone)
    record = read_record(folders.folder, assignment)
    with open_download(download) as files:
        chosen = platform_of(files, platform)
        downloads = chosen.submissions(files, zone, assignment)
        works = [readable(downloaded, shapes, answers.notebooks) for downloaded in downloads]
        _check_assignment(works, download, assignment)
        submissions, questions = attribute_submissions(works, roster, answers)
        collector = _Collector(folders, chosen.name, record, answers, zone)
        for submission in (submission for listed in submissions.values() for submission in listed):
            collector.time(submission)  # a time without a zone stops the command before anything is written
        folders.steps["submitted"].mkdir(parents=True, exist_ok=True)
        lines = [collector.settle(student, attributed) for student, attributed in sorted(submissions.items())]
    write_record(folders.folder, assignment, record)
    keep_students(folders.folder, {person.student: person.name for person in roster.people})
    questions += collector.questions
    table = write_questions(folder, questions, answers, {work.downloaded.key for work in works})
    absent = [person for person in roster.people if person.student not in submissions]
    before = record.keys() | set(folders.students())
    earlier = [person for person in absent if person.student in before]
    missing = [person for person in absent if person.student not in before]
    open_questions = [question for question in questions if not _is_answered(question, answers)]
    if unread := collector.unread_times:
        files.notes.append(
            f"{len(unread)} times in the list could not be read, such as “{min(unread)}”: without another time, these "
            "submissions count as on time"
        )
    return Collection(chosen.name, lines, missing, earlier, open_questions, table, files.notes, str(zone))


class _Collector:
    """Places the submissions of one download, and notes them in the record."""

    def __init__(
        self,
        folders: AssignmentFolders,
        platform: str,
        record: dict[str, CollectedSubmission],
        answers: Answers,
        zone: datetime.tzinfo,
    ) -> None:
        self.folders, self.platform, self.record = folders, platform, record
        self.answers, self.zone = answers, zone
        self.policy, _ = read_policy(folders.folder)
        self.questions: list[MatchQuestion] = []
        self.unread_times: set[str] = set()

    def settle(self, student: str, submissions: list[AttributedSubmission]) -> CollectedLine:
        """Place the latest of a student's submissions, store the others, and return the student's line."""
        *others, last = sorted(submissions, key=lambda submission: self._order(student, submission))
        earlier = self.folders.earlier(student)
        for submission in others:
            keep_earlier(self._read(submission, student), earlier)
        if not last.work.names:
            self._ask(last)
            return CollectedLine(
                student, last.person.name, "cannot be placed", tuple(_remarks(last, "no file was submitted"))
            )
        work = self._read(last, student)
        placing: Placing = "as before"
        reason = ""
        # With "best", `grade` may have put another submission into submitted/.
        if not (self.policy.counts == "best" and is_kept(self.folders, student, work)):
            placing, reason = place(self.folders, student, work, self.record.get(student), earlier, self._is_in_time)
        if placing in ("new", "newer than before", "as before"):
            self.record[student] = self._collected(last, work)
        self._ask(last)
        if last.work.downloaded.late and work.handed_in is None:
            question = question_of(last, "it was late, and the download does not say by how much")
            self.questions.append(replace(question, submission=_number(last)))
        return CollectedLine(student, last.person.name, placing, tuple(_remarks(last, reason, len(others))))

    def _ask(self, submission: AttributedSubmission) -> None:
        notebooks = submission.work.notebooks
        self.questions += [
            question_of(submission, why, submission.work.files[path].path) for path, why in notebooks.unknown.items()
        ]

    def _read(self, submission: AttributedSubmission, student: str) -> SubmissionFiles:
        in_time, time, sequence = self._order(student, submission)
        return SubmissionFiles(submission.work.read(), None if time == START else time, sequence, in_time)

    def _order(self, student: str, submission: AttributedSubmission) -> tuple[bool, datetime.datetime, int]:
        """Return a key by which the greatest of a student's submissions counts."""
        downloaded, time = submission.work.downloaded, self.time(submission)
        return self._is_in_time(student, time, downloaded.late), time or START, downloaded.sequence

    def _is_in_time(self, student: str, time: datetime.datetime | None, late: bool) -> bool:
        """Return whether a submission is in time, by the platform if its time is unknown; True if the last one counts."""
        if self.policy.counts != "last-in-time":
            return True
        return self.policy.is_in_time(self.folders.assignment, student, time) if time else not late

    def time(self, submission: AttributedSubmission) -> datetime.datetime | None:
        """Return the time of a submission in UTC, or None if it is unknown. Raise InputError if its time zone is missing."""
        downloaded = submission.work.downloaded
        stated, listed = (
            self.answers.time(downloaded.key, _number(submission)) or downloaded.handed_in,
            submission.person.known.get("handed in", "-"),
        )
        time = stated or read_time(listed, self.zone)
        if time is None and listed != "-":
            self.unread_times.add(listed)
        return time.astimezone(datetime.UTC).replace(microsecond=0) if time else None

    def _collected(self, submission: AttributedSubmission, work: SubmissionFiles) -> CollectedSubmission:
        downloaded = submission.work.downloaded
        return CollectedSubmission(
            platform=self.platform,
            key=downloaded.key,
            name=submission.person.name or downloaded.name,
            known=submission.person.known,
            handed_in=work.handed_in.isoformat() if work.handed_in else "",
            sequence=downloaded.sequence,
            late=downloaded.late,
            digest=work.digest,
            upload_name=downloaded.upload_name,
            notebooks={name: match.how for name, match in submission.work.notebooks.found.items()},
        )


def _check_assignment(works: list[ReadableSubmission], download: Path, assignment: str) -> None:
    unknown = [why for work in works for why in work.notebooks.unknown.values()]
    if not works:
        raise DownloadError(f"{printable(download.name)} contains no submission")
    if unknown and not any(work.notebooks.found for work in works):
        raise DownloadError(
            f"none of the {len(unknown)} notebooks in {printable(download.name)} is one of {assignment}. Name the assignment that "
            "was downloaded"
        )


def _number(submission: AttributedSubmission) -> str:
    return str(submission.work.downloaded.sequence or "")


def _is_answered(question: MatchQuestion, answers: Answers) -> bool:
    if question.file:
        return question.file in answers.notebooks
    if question.submission:
        return answers.time(question.hand_in, question.submission) is not None
    return question.hand_in in answers.students


def _remarks(submission: AttributedSubmission, reason: str, others: int = 0) -> Iterator[str]:
    notebooks = submission.work.notebooks
    if submission.how:
        yield f"student found {submission.how}" if submission.how.startswith("by") else submission.how
    yield from (
        f"{match.path} is taken as {name}.ipynb, {match.how}" for name, match in notebooks.found.items() if match.how
    )
    yield from (f"{path}: {why}" for path, why in notebooks.unknown.items())
    yield from (f"there is no {name}.ipynb" for name in notebooks.missing)
    if submission.work.downloaded.late:
        yield "late, says the platform"
    if others:
        yield f"{others} earlier submission{'s' if others > 1 else ''} kept"
    yield from submission.work.notes
    if reason:
        yield reason


def as_json(collection: Collection) -> str:
    """Return the collection as one JSON object."""
    fields = msgspec.to_builtins(collection, enc_hook=str)
    rows = {name: [list(row.values()) for row in fields[name]] for name in ("lines", "missing", "earlier", "questions")}
    return json.dumps({"version": 1} | fields | rows, indent=2)


LONGEST_LIST = 20


def print_collection(collection: Collection, command: str) -> None:
    """Print a table of the submissions, the students without one, and the open questions or else the next command."""
    console = Console()
    rows = [(line.student, line.name, line.placing, "; ".join(line.remarks)) for line in collection.lines]
    console.print(text_table(("student", "name", "", "remarks"), rows), highlight=False)
    for line in _lines(collection, command):
        console.print(Text(line), highlight=False, soft_wrap=True)


def _lines(collection: Collection, command: str) -> list[str]:
    counted = Counter(line.placing for line in collection.lines)
    placed = ", ".join(f"{count} {placing}" for placing, count in counted.items())
    lines = [f"\n{len(collection.lines)} students have a submission ({collection.platform}): {placed}"]
    if collection.missing:
        names = printable_list([person.student for person in collection.missing], LONGEST_LIST)
        lines.append(f"{len(collection.missing)} without a submission: {names}")
    if collection.earlier:
        names = printable_list([person.student for person in collection.earlier], LONGEST_LIST)
        lines.append(f"{len(collection.earlier)} submitted before and are not in this download: {names}")
    if collection.zone:
        lines.append(f"Times without a zone were read as {collection.zone}.")
    lines += [printable(note) for note in collection.notes[:LONGEST_LIST]]
    if len(collection.notes) > LONGEST_LIST:
        lines.append(f"{len(collection.notes) - LONGEST_LIST} more files were left out")
    lines += map(_question, collection.questions[:LONGEST_LIST])
    if collection.table:
        count = len(collection.questions)
        open_questions = f"{count} open question{'' if count == 1 else 's'}"
        lines.append(f"{open_questions}: fill in {collection.table}, then run the same command again")
    else:
        lines.append(f"Everything was matched. Next: {command}")
    return lines


def _question(question: MatchQuestion) -> str:
    key = question.hand_in if question.hand_in != question.person else ""
    return "? " + ", ".join(printable(part) for part in (question.person, key, question.file, question.why) if part)
