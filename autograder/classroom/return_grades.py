"""The `return` command: fill in the grades in the platform's worksheet, and zip the feedback for upload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autograder.classroom.platforms import FORMS
from autograder.classroom.policy_names import checked_policy, listed_students
from autograder.classroom.report.grading_records import ClassGrades, read_class_grades
from autograder.classroom.roster import Person, Roster, identifying_columns, people_in, words_of
from autograder.classroom.submission_record import CollectedSubmission, read_record
from autograder.classroom.table_file import TableFile, read_table
from autograder.classroom.worksheet import GradeColumn, WorksheetForm, feedback_pages, number_in, zip_of
from autograder.course.paths import write_results
from autograder.errors import InputError, printable, printable_list
from autograder.grade.batch.course_folders import AssignmentFolders, open_class

# Identifiers that both a worksheet and the course may contain, the most reliable first. A name is used only if it is the
# only identifier and belongs to one student.
KINDS = ("student", "canvas", "login", "email", "number")


def match_rows(
    rows: list[tuple[int, Person]], students: list[str], record: Mapping[str, CollectedSubmission], roster: Roster
) -> tuple[dict[int, str], list[int]]:
    """Return the student of each row that has one, and the rows that were matched by name only.

    Rows are given by their numbers in the worksheet, and students by their ids in the gradebook. The record is that of
    `collect`; the roster may be empty.
    """
    class_list = Roster([_known(student, record.get(student), roster) for student in students])
    matches: dict[int, str] = {}
    by_name: list[int] = []
    for number, person in rows:
        student = _by_identifier(person, class_list) or _by_participant(person, class_list, record)
        if student is None and len(listed := class_list.find("words", person.name)) == 1:
            student = listed[0].student
            by_name.append(number)
        if student is not None:
            matches[number] = student
    return _without_doubtful_names(matches, by_name)


def _known(student: str, entry: CollectedSubmission | None, roster: Roster) -> Person:
    """Return a student with the identifiers in the roster and in the record."""
    listed = next(iter(roster.find("student", student)), Person(student, "", {}))
    identifiers = listed.known | (entry.known if entry else {})
    if entry and entry.platform == "canvas":  # a group's submission has the ID of one member
        identifiers = {"canvas": entry.key} | identifiers
    return Person(student, (entry.name if entry else "") or listed.name, identifiers)


def _by_identifier(person: Person, class_list: Roster) -> str | None:
    """Return the student who has one of the person's identifiers, also as nbgrader's id."""
    marks = [(kind, person.known[kind]) for kind in KINDS if kind in person.known]
    marks += [("student", value) for _, value in marks]
    return next((people[-1].student for mark in marks if (people := class_list.find(*mark))), None)


def _by_participant(person: Person, class_list: Roster, record: Mapping[str, CollectedSubmission]) -> str | None:
    """Return the student with this participant number if the names agree: in another assignment, Moodle's numbers differ."""
    people = class_list.find("participant", person.known.get("participant", ""))
    if not people:
        return None
    student = people[-1].student
    name = record[student].name if student in record else ""
    return None if name and person.name and words_of(name) != words_of(person.name) else student


def _without_doubtful_names(matches: dict[int, str], by_name: list[int]) -> tuple[dict[int, str], list[int]]:
    """Remove rows that were matched by name if another row belongs to the same student."""
    rows = Counter(matches.values())
    doubtful = {number for number in by_name if rows[matches[number]] > 1}
    certain = {number: student for number, student in matches.items() if number not in doubtful}
    return certain, [number for number in by_name if number not in doubtful]


GRADES, FEEDBACK = "grades.csv", "feedback.zip"
LONGEST_LIST = 12
EXACT = 1e-9  # differences that sums of decimals have
Scale = float | Literal["platform"] | None


@dataclass(frozen=True)
class ReturnedGrades:
    """The result of `return`."""

    files: list[Path]  # the paths of the written files
    graded: int  # the number of students who got a grade in the worksheet
    with_feedback: int  # the number of students with pages in the zip
    remarks: list[str]  # notes for the teacher, one line each


class _Return:
    """One worksheet, and the grades to write into it."""

    def __init__(
        self,
        folders: AssignmentFolders,
        form: WorksheetForm,
        table: TableFile,
        roster: Roster,
        column: str | None,
        scale: Scale,
    ) -> None:
        self.folders, self.form, self.table = folders, form, table
        self.grades: ClassGrades = read_class_grades(folders)
        self.record: dict[str, CollectedSubmission] = read_record(folders.folder, folders.assignment)
        self.column: GradeColumn = form.grade_column(table, folders.assignment, column)
        self.maximum = self._maximum(scale)
        if self.column.number in identifying_columns(table):
            raise InputError(
                f"{table.name}: the column {printable(self.column.title)} identifies students. Name the column of grades"
            )
        self.people: dict[int, Person] = dict(people_in(table))
        policy = checked_policy(folders)
        self.excused, self.left = policy.excluded(folders.assignment), set(policy.left)
        students = sorted(self.grades.scores.keys() | self.excused)
        self.rows, self.by_name = match_rows(list(self.people.items()), students, self.record, roster)
        if not self.rows:
            raise InputError(
                f"no row of {table.name} is one of the {len(students)} students with a grade. Download the worksheet of this course"
            )
        self._refuse_doubles()
        self.unknown = sorted(self.grades.scores.keys() - set(self.rows.values()) - self.left)
        self.ungraded = sorted(set(folders.students()) - self.grades.scores.keys() - self.excused)
        self.empty = {
            row: person
            for row, person in self.people.items()
            if row not in self.rows and table.rows[row][self.column.number].strip() in ("", "-")
        }
        absent = {*listed_students(folders), *self.ungraded} - {*self.grades.scores, *self.excused}
        others = [(row, person) for row, person in self.people.items() if row not in self.rows]
        # the listed students without a grade by row, and the rows that were matched by name only
        self.absent, self.absent_by_name = match_rows(others, sorted(absent), self.record, roster)
        self.zeros = self._zeros() if policy.missing == "zero" else []
        self.blanks = policy.missing == "zero" and len(self.zeros) < len(self.empty)

    def _zeros(self) -> list[int]:
        """Return the rows that get 0, because their students have submitted nothing.

        If a submission is not graded or has no row, these are only rows of listed students without a submission.
        """
        if not self.unknown and not self.ungraded:
            return list(self.empty)
        certain = {row: student for row, student in self.absent.items() if row not in self.absent_by_name}
        return [row for row, student in certain.items() if row in self.empty and student not in self.ungraded]

    def _maximum(self, scale: Scale) -> float:
        """Return the maximum of the written grades. Raise InputError if they cannot be scaled."""
        if scale is None:
            return self.grades.max_points
        maximum = number_in(self.column.max_points) if scale == "platform" else scale
        if maximum is None:
            raise InputError(f"{self.table.name} does not state the platform's maximum. Give it, as in --scale 100")
        if maximum <= 0 or self.grades.max_points <= 0:
            raise InputError(f"{self.grades.max_points:g} points cannot be scaled to {maximum:g}. Omit --scale")
        return maximum

    def _points(self, student: str) -> float:
        total = self.grades.scores[student].total
        return total * self.maximum / self.grades.max_points if self.maximum != self.grades.max_points else total

    def _refuse_doubles(self) -> None:
        """Raise InputError if a student has two rows: platforms write one (Canvas lists all sections in one cell), so one is wrong."""
        for student, times in Counter(self.rows.values()).items():
            if times > 1:
                rows = " and ".join(str(row + 2) for row, owner in self.rows.items() if owner == student)
                raise InputError(
                    f"{self.table.name} has the student {printable(student)} in {times} rows ({rows}). Download it again, or leave one row "
                    "for each student"
                )

    def changes(self) -> dict[tuple[int, int], str]:
        """Return the new text of each cell that changes, by row and column."""
        written = {(row, self.column.number): self.column.written(0.0) for row in self.zeros}
        for row, student in self.rows.items():
            if self.table.rows[row][self.column.number].strip() in self.column.keep:
                continue
            if student not in self.excused:
                written[row, self.column.number] = self.column.written(self._points(student))
            elif self.column.excused is not None and student not in self.left:
                written[row, self.column.number] = self.column.excused
        return written

    def pages(self) -> tuple[dict[str, bytes], set[str], list[str]]:
        """Return the feedback pages by path in the zip, their students, and the students whose pages the platform cannot map."""
        tables: dict[str, bytes] = {}
        with_pages, without = set(), []
        for row, student in self.rows.items():
            entry, person = self.record.get(student), self.people[row]
            start = self.form.feedback_name(student, person.known, person.name, entry.upload_name if entry else "")
            pages = feedback_pages(self.folders, student)
            if pages and not start:
                without.append(student)
            elif pages:
                with_pages.add(student)
                tables |= {f"{start}{name}": page for name, page in pages.items()}
        return tables, with_pages, without

    def remarks(self) -> Iterator[str]:
        """Yield the notes for the teacher."""
        ours, theirs = self.grades.max_points, number_in(self.column.max_points)
        if self.maximum != ours:
            yield f"grades were scaled from {ours:g} to {self.maximum:g} points, and rounded to two decimals"
        elif any(abs(round(score.total, 2) - score.total) > EXACT for score in self.grades.scores.values()):
            yield "grades were rounded to two decimals"
        if theirs is not None and theirs != self.maximum:
            change = "add --scale" if self.maximum == ours else "omit the number after --scale"
            yield (
                f"the platform's maximum is {theirs:g}, and that of the grades {self.maximum:g}: change one of the two, or {change}"
            )
        fixed = [row for row in self.rows if self.table.rows[row][self.column.number].strip() in self.column.keep]
        texts = sorted({self.table.rows[row][self.column.number].strip() for row in fixed})
        yield from _counted(fixed, "{} marked {} by the platform, left unchanged", texts)
        yield from _counted(self.unknown, "{} with a grade but without a row in the worksheet: {}", self.unknown)
        if self.blanks:
            yield from _counted(self.ungraded, "{} with a submission that is not graded yet: {}", self.ungraded)
            yield "missing submissions were left blank, because a row may belong to one of these students"
        zeros = [self._shown(row) for row in self.zeros]
        yield from _counted(zeros, "{} without a submission, with 0 points: {}", zeros)
        without = [self._shown(row) for row in self.people if row not in {*self.rows, *self.zeros}]
        yield from _counted(without, "{} without a grade, whose cells were left as they are: {}", without)
        names = [self.rows[row] for row in self.by_name]
        yield from _counted(names, "{} matched by name only, to be checked: {}", names)
        excused = sorted((self.excused - self.left) & set(self.rows.values()))
        yield from _counted(excused, "{} excused by policy.toml: {}", excused)
        scores = self.grades.scores
        counting = sorted(set(self.rows.values()) & scores.keys() - self.excused)
        waiting = [student for student in counting if scores[student].waiting]
        yield from _counted(waiting, "{} with answers that a person has still to grade: {}", waiting)

    def _shown(self, row: int) -> str:
        """Return the id of a row's student; if the class does not list the student, the name or an identifier in the row."""
        person = self.people[row]
        identifiers = (f"{kind} {value}" for kind, value in person.known.items() if value != "-")
        return self.absent.get(row) or person.name or next(identifiers, "a row")


def return_grades(
    assignment: str,
    course: Path,
    to: str,
    worksheet: Path,
    out: Path,
    roster: Roster,
    column: str | None = None,
    scale: Scale = None,
) -> ReturnedGrades:
    """Write OUT/grades.csv, the worksheet with grades, and OUT/feedback.zip.

    `to` is the platform, by the name of its form. The worksheet is the file as downloaded, and is not modified.
    `column` is the title of the grade column; None searches for the assignment's name. `scale` is the maximum to scale
    the points to, or "platform" for that of the worksheet; None leaves them as they are.

    Raises:
        InputError: the worksheet belongs to another platform or course, the points cannot be scaled, the folder cannot be written
            to, or the assignment has not been graded yet.
    """
    folders = open_class(course, assignment, without_submissions=True)
    table = read_table(worksheet)
    target = out / GRADES
    if target.exists() and target.samefile(worksheet):
        raise InputError(f"{printable(str(target))} is the worksheet itself. Name another folder with --out")
    work = _Return(folders, FORMS[to], table, roster, column, scale)
    changes, (pages, people, without) = work.changes(), work.pages()
    files = {target: table.with_cells(changes), out / FEEDBACK: zip_of(pages)}
    write_results(out, files, ". Name another folder")
    remarks = [*work.remarks(), *_counted(without, "{} whose feedback the platform cannot assign: {}", without)]
    return ReturnedGrades([target, out / FEEDBACK], len(changes), len(people), remarks)


def _counted(of: list[Any], words: str, names: list[str]) -> Iterator[str]:
    if of:
        comma = "; " if any("," in name for name in names) else ", "  # for example “Doe, Jane; Roe, Richard”
        count = f"{len(of)} student{'s' if len(of) > 1 else ''}"
        yield words.format(count, printable_list(names, LONGEST_LIST, comma))
