"""The `read` command: a table of the answers that are graded by hand, whose points and comments it transfers to the gradebook."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import msgspec
from nbgrader.api import Comment, Grade
from nbgrader.utils import is_grade, is_solution, is_task

from autograder.classroom.policy_names import checked_policy
from autograder.classroom.report.grading_records import GradedNotebook, read_class_grades
from autograder.classroom.submission_record import read_json
from autograder.classroom.table_file import TableFile, read_table
from autograder.classroom.worksheet import number_in
from autograder.course.canonical import read
from autograder.course.paths import write_results
from autograder.errors import InputError, printable
from autograder.grade.batch.course_folders import AssignmentFolders, open_class, opened_gradebook
from autograder.grade.batch.csv_export import plain_cell, spreadsheet
from autograder.grade.batch.gradebook import cell_rows, exclusive_lock

CODE = 8  # letters of an answer's code; with 15,000 answers, two codes collide once in 40 courses


class WrittenQuestion(msgspec.Struct, frozen=True):
    """A manually graded cell: the notebook's name, nbgrader's id of the cell, and its points."""

    notebook: str
    cell: str
    max_points: float


class WrittenAnswer(msgspec.Struct, frozen=True):
    """The answer of one student."""

    code: str  # a pseudonym for the student and the question
    student: str  # nbgrader's id
    question: WrittenQuestion
    text: str  # the answer as it was graded
    points: float | None  # the points from manual grading; None if not graded yet
    comment: str  # the grader's comment


def questions(folders: AssignmentFolders) -> list[WrittenQuestion]:
    """Return the manually graded cells of an assignment's sources, in order."""
    return [
        WrittenQuestion(path.stem, cell.metadata.nbgrader.grade_id, float(cell.metadata.nbgrader.get("points") or 0))
        for path in folders.notebooks()
        for cell in read(path).cells
        if is_task(cell) or (is_grade(cell) and is_solution(cell))
    ]


def written_answers(folders: AssignmentFolders, salt: str) -> list[WrittenAnswer]:
    """Return all answers of the present students that are or will be graded by hand, in the order of their codes.

    Without the salt of the codes, a code cannot be attributed to a student.
    """
    asked = {(question.notebook, question.cell): question for question in questions(folders)}
    notebooks: dict[tuple[str, str], GradedNotebook] = {}
    answers, former_students, assignment = [], checked_policy(folders).left, folders.assignment
    with opened_gradebook(folders) as book:
        comments = {
            tuple(place): comment for *place, comment in cell_rows(book, assignment, Comment, Comment.manual_comment)
        }
        by_hand = Grade.needs_manual_grade | Grade.manual_score.is_not(None)
        for student, notebook, cell, points in cell_rows(book, assignment, Grade, Grade.manual_score).filter(by_hand):
            if (question := asked.get((notebook, cell))) is None or student in former_students:
                continue
            if (student, notebook) not in notebooks:
                notebooks[student, notebook] = GradedNotebook(folders, student, notebook)
            text = notebooks[student, notebook].answer((cell,))
            code = hashlib.sha256(f"{salt} {student} {notebook} {cell}".encode()).hexdigest()[:CODE]
            comment = comments.get((student, notebook, cell)) or ""
            answers.append(WrittenAnswer(code, student, question, text, points, comment))
    order = {question: number for number, question in enumerate(asked.values())}
    return sorted(answers, key=lambda answer: (order[answer.question], answer.code))


COLUMNS = ("answer", "question", "of", "text", "points", "comment")
SHORT = re.compile(r"#(\w+)")


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """The points (None if not graded yet) and the comment that a grader gave an answer."""

    points: float | None
    comment: str


def sheet(answers: list[WrittenAnswer], columns: tuple[str, ...] = COLUMNS) -> bytes:
    """Return the contents of the table's file, including known points and comments."""
    rows = []
    for answer in answers:
        points, most = "" if answer.points is None else f"{answer.points:g}", f"{answer.question.max_points:g}"
        cells = (answer.code, answer.question.cell, most, printable(answer.text), points, answer.comment)
        row = dict(zip(COLUMNS, cells, strict=True))
        rows.append([row.get(name, "") for name in columns])
    return spreadsheet(columns, rows)


def read_sheet(
    path: Path,
    answers: dict[str, WrittenAnswer],
    short: dict[str, str],
    points: str = "points",
    *,
    gone: Collection[str] = (),
) -> dict[str, Mark]:
    """Return the marks in the table, by the answer's code.

    Answers are given by code, and comments by their abbreviation. `gone` contains the codes of earlier answers, whose
    rows are ignored if the student has left.

    Raises:
        InputError: a column is missing, or a cell is invalid; the message contains the row.
    """
    table = read_table(path)
    places = {name: table.column(name) for name in ("answer", points)}
    if missing := [name for name, place in places.items() if place is None]:
        raise InputError(f"{printable(str(path))} has no column {missing[0]!r}. Move it away to get a new one")
    marks = {}
    for number, row in enumerate(table.rows, 2):
        code, filled = row[places["answer"] or 0], row[places[points] or 0].strip()
        if code in answers:
            marks[code] = _mark(table, row, places[points] or 0, answers[code], short, number)
        elif filled and code not in gone:
            raise InputError(f"{table.name}, row {number}: no answer has the code {printable(code)}")
    return marks


def read_short_comments(path: Path) -> dict[str, str]:
    """Return the reusable comments by abbreviation, none without the file. Raise InputError if a column is missing."""
    if not path.exists():
        return {}
    table = read_table(path)
    short, comment = table.column("short"), table.column("comment")
    if short is None or comment is None:
        raise InputError(f"{printable(str(path))} needs the columns short and comment")
    return {row[short].strip().removeprefix("#"): row[comment].strip() for row in table.rows}


def _mark(
    table: TableFile, row: list[str], place: int, answer: WrittenAnswer, short: dict[str, str], number: int
) -> Mark:
    points = number_in(row[place]) if row[place].strip() else None
    if row[place].strip() and (points is None or not 0 <= points <= answer.question.max_points):
        raise InputError(
            f"{table.name}, row {number}: {printable(row[place])} is not a number of points from 0 to "
            f"{answer.question.max_points:g}"
        )
    comment = table.column("comment")
    written = row[comment].strip() if comment is not None else ""
    if unknown := [word for word in SHORT.findall(written) if word not in short]:
        raise InputError(f"{table.name}, row {number}: no comment is called #{unknown[0]}. Add it to comments.csv")
    return Mark(points, SHORT.sub(lambda match: short[match[1]], plain_cell(written)))


FOLDER, ANSWERS, SECOND, STATE, COMMENTS = "reading", "answers.csv", "second_reading.csv", "state.json", "comments.csv"
SECOND_POINTS = "second_points"


class ReadingState(msgspec.Struct):
    """The contents of the tables when they were written: the salt of the codes, and the mark of each answer, now or before."""

    salt: str = msgspec.field(default_factory=lambda: secrets.token_hex(16))
    marks: dict[str, Mark] = {}


@dataclass(frozen=True)
class SecondReading:
    """The agreement of two graders: the number of answers that both graded, of equal points, and the mean difference in points."""

    answers: int
    same: int
    mean_difference: float


@dataclass(frozen=True)
class Reading:
    """The result of `read`."""

    table: Path  # the table to continue with
    answers: int  # the number of answers
    waiting: int  # the number of answers without points
    taken: int  # the number of answers whose points or comment were new in the table and are now in the gradebook
    second: SecondReading | None  # the agreement with a second grader; None without a second grader


def read_answers(assignment: str, course: Path, sample: int = 0) -> Reading:
    """Transfer new points and comments to the gradebook, and write the tables again.

    `sample` is the number of answers for a second grader, from the best to the worst; 0 leaves the second table
    unchanged.

    Raises:
        InputError: a cell of a table is invalid (nothing is written then), or the assignment has no answers to grade by hand.
    """
    folders = open_class(course, assignment, without_submissions=True)
    read_class_grades(folders)
    folder = folders.folder / FOLDER / assignment
    state = read_json(folder / STATE, ReadingState, "Move its folder away, and read again")
    answers = written_answers(folders, state.salt)
    if not answers:
        raise InputError(f"{assignment} has no answers to grade by hand")
    taken = _take(folders, folder, state, answers)
    answers = written_answers(folders, state.salt)
    second = _second_reading(folder / SECOND, answers, state)
    state.marks |= {answer.code: Mark(answer.points, answer.comment) for answer in answers}
    files = {folder / STATE: msgspec.json.encode(state), folder / ANSWERS: sheet(answers)}
    if sample:
        columns = tuple(SECOND_POINTS if name == "points" else name for name in COLUMNS if name != "comment")
        files[folder / SECOND] = sheet(evenly_spaced(answers, sample), columns)
    write_results(folder, files, ". Entries of the tables are in the gradebook")
    waiting = sum(answer.points is None for answer in answers)
    return Reading(folder / ANSWERS, len(answers), waiting, taken, second)


def evenly_spaced(answers: list[WrittenAnswer], count: int) -> list[WrittenAnswer]:
    """Return `count` answers that have points, evenly spaced from the worst to the best, in the order of their codes."""
    graded = (answer for answer in answers if answer.points is not None)
    ranked = sorted(graded, key=lambda answer: (answer.points or 0.0, answer.code))
    if count >= len(ranked):
        return sorted(ranked, key=lambda answer: answer.code)
    step = (len(ranked) - 1) / max(count - 1, 1)
    return sorted((ranked[round(number * step)] for number in range(count)), key=lambda answer: answer.code)


def _take(folders: AssignmentFolders, folder: Path, state: ReadingState, answers: list[WrittenAnswer]) -> int:
    """Write the changed marks of the table to the gradebook; marks that were given in formgrader meanwhile stay."""
    if not (folder / ANSWERS).exists():
        return 0
    answers_by_code = {answer.code: answer for answer in answers}
    comments = read_short_comments(folders.folder / FOLDER / COMMENTS)
    filled = read_sheet(folder / ANSWERS, answers_by_code, comments, gone=state.marks.keys())
    new = {code: mark for code, mark in filled.items() if mark != state.marks.get(code, Mark(None, ""))}
    if new:
        with exclusive_lock(folders.gradebook, folders.assignment), opened_gradebook(folders) as book:
            for code, mark in new.items():
                question = answers_by_code[code].question
                place = (question.cell, question.notebook, folders.assignment, answers_by_code[code].student)
                grade = book.find_grade(*place)
                grade.manual_score, grade.needs_manual_grade = mark.points, mark.points is None
                book.find_comment(*place).manual_comment = mark.comment or None
            book.db.commit()  # all marks or none
    return len(new)


def _second_reading(path: Path, answers: list[WrittenAnswer], state: ReadingState) -> SecondReading | None:
    if not path.exists():
        return None
    answers_by_code = {answer.code: answer for answer in answers}
    filled = read_sheet(path, answers_by_code, {}, SECOND_POINTS, gone=state.marks.keys())
    both = [(answers_by_code[code].points, mark.points) for code, mark in filled.items()]
    differences = [abs(first - second) for first, second in both if first is not None and second is not None]
    if not differences:
        return None
    return SecondReading(len(differences), differences.count(0.0), sum(differences) / len(differences))
