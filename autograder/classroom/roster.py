"""The list of students in a class, read from a platform's CSV or from the course's own with a column `student_id`."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from autograder.classroom.table_file import TableFile, read_table
from autograder.errors import InputError, printable
from autograder.grade.submission_time import looks_like_time, read_time

FILE = "roster.csv"  # the course's own list, in the course's folder

# The kinds of information about a student, and the column headings for each. Canvas: gradebook_exporter.rb, and its list of
# groups. Moodle: mod/assign/gradingtable.php. nbgrader: "Managing the database". Blackboard and Gradescope: as public tools
# read their downloads.
KINDS = {
    "student": ("student_id", "nbgrader_id"),
    "login": ("SIS Login ID", "Username", "login_id", "login"),
    "number": ("SIS User ID", "ID number", "Student ID", "SID", "user_id", "number"),
    "email": ("Email address", "Email"),
    "canvas": ("ID", "canvas_user_id"),
    "name": ("Student", "Full name", "Name"),
    "last name": ("Last Name", "LastName", "last_name"),
    "first name": ("First Name", "FirstName", "first_name"),
    "group": ("group", "group_name"),
    "role": ("Role",),
}
# The columns for nbgrader's ids, unless the teacher names one: the first that has a different value for every student.
IDS = ("student", "login", "number", "email", "canvas", "name", "participant")
PARTICIPANT = re.compile(r"\D*?(\d+)")  # Moodle's "Participant 17", in any language
NOBODY = re.compile(r".*(points possible|manual posting).*|student, test|test student", re.IGNORECASE)
LONGEST_ID = 100
MOODLES_FEWEST, MOODLES_USUAL = 5, 7  # columns of a worksheet; some sites remove a few


@dataclass(frozen=True)
class Person:
    """A student in a roster file."""

    student: str  # nbgrader's id
    name: str  # the name on the platform
    # the student's identifiers in the file, by kind: "login", "number", "email", "canvas", "participant", "handed in"
    known: dict[str, str]
    group: str = ""  # the name of the group that submits together; "" without a group


class Roster:
    """The students of a class; empty without a file."""

    def __init__(self, people: list[Person]) -> None:
        self.people = people
        self._known: dict[tuple[str, str], list[Person]] = defaultdict(list)
        for person in people:
            for kind, value in (person.known | {"student": person.student}).items():
                self._known[kind, same_word(value)].append(person)
            self._known["words", words_of(person.name)].append(person)
            self._known["joined", joined(person.name)].append(person)

    def find(self, kind: str, value: str) -> list[Person]:
        """Return the students with this value: "words" compares names in any word order, "joined" without spaces and punctuation."""
        form = {"words": words_of, "joined": joined}.get(kind, same_word)(value)
        return self._known.get((kind, form), []) if form else []

    def group(self, name: str) -> list[Person]:
        """Return the members of the group with this name."""
        return [person for person in self.people if name and same_word(person.group) == same_word(name)]

    def members(self, person: Person) -> list[Person]:
        """Return everyone who submits together with this person, including the person."""
        return [member for member in self.people if member.group == person.group] if person.group else [person]


def read_roster(path: Path, student_column: str | None = None) -> Roster:
    """Return the class in a CSV file: the platform's own, as downloaded, or one with columns `student_id`, `name`, `email`, ….

    `student_column` contains nbgrader's ids; None means the first of login, number and email that every row has.

    Raises:
        InputError: it is not such a table, or contains a student twice.
    """
    table = read_table(path)
    people = [person for _, person in people_in(table, student_column)]
    if not people:
        raise InputError(f"{table.name} lists no student")
    for value in _doubles(people):
        raise InputError(f"{table.name} has the student {printable(value)} twice. Leave one row for each student")
    return Roster(_with_ids(people, table))


def people_in(table: TableFile, student_column: str | None = None) -> list[tuple[int, Person]]:
    """Return the index and the contents of each row that describes a student; `student` is still "".

    Raises:
        InputError: the table has no column of names, logins or other identifiers, or no column named `student_column`.
    """
    columns = _columns(table)
    if student_column is not None:
        if (number := table.column(student_column)) is None:
            raise InputError(
                f"{table.name} has no column {student_column!r}; it has {', '.join(map(printable, table.header))}"
            )
        columns["student"] = number
    people = [(number, _person(row, columns)) for number, row in enumerate(table.rows) if not _is_staff(row, columns)]
    return [(number, person) for number, person in people if not _is_placeholder_row(person)]


def identifying_columns(table: TableFile) -> set[int]:
    """Return the indices of the columns that identify the student of a row."""
    return set(_columns(table).values())


def is_student_id(text: str) -> bool:
    """Return whether a text can be the name of a student's folder."""
    return (
        0 < len(text.encode(errors="replace")) <= LONGEST_ID
        and text.isprintable()
        and text == text.strip()
        and not text.startswith((".", "-"))
        and not set(text) & set('/\\:*?"<>|+')
    )


def id_from_name(name: str) -> str:
    """Return a student's id made from a name, such as "lopez-maria" from "López, María"; "" if no letter is left."""
    return "-".join(re.findall(r"\w+", _plain(name)))[:LONGEST_ID]


def same_word(text: str) -> str:
    """Return a form in which different spellings of a login or email are equal."""
    return unicodedata.normalize("NFKC", text).strip().casefold()


def words_of(name: str) -> str:
    """Return the words of a name in alphabetical order, so that "Doe, Jane" and "Jane Doe" are equal."""
    return " ".join(sorted(re.findall(r"\w+", _plain(name))))


def joined(name: str) -> str:
    """Return the letters of a name without separators, as Canvas writes it at the beginning of a file's name."""
    return re.sub(r"\W", "", unicodedata.normalize("NFC", name)).casefold()


def _plain(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def _columns(table: TableFile) -> dict[str, int]:
    """Return the index of each known column, by kind."""
    columns = {kind: number for kind, names in KINDS.items() if (number := table.column(*names)) is not None}
    if "canvas" in columns and table.column("Section", "SIS Login ID", "canvas_user_id") is None:
        columns["number"] = columns.pop("canvas")  # only Canvas' own files contain Canvas' ids
    if _is_moodles(table, columns):
        columns = {kind: number for kind, number in columns.items() if number} | {"participant": 0}
        columns |= _moodle_columns(table, columns)
    if not {"name", "last name", "student", "login", "participant", "email"} & columns.keys():
        raise InputError(
            f"{table.name} is not a class list: no column contains a name, a login, an email or a student_id; "
            f"its columns are {', '.join(map(printable, table.header[:8]))}"
        )
    return columns


def _is_moodles(table: TableFile, columns: dict[str, int]) -> bool:
    """Return whether the first column contains Moodle's "Participant 17" in some language, whatever its heading is."""
    cells = [row[0].strip() for row in table.rows]
    if not cells or len(table.header) < MOODLES_FEWEST or not all(map(PARTICIPANT.fullmatch, cells)):
        return False
    if table.column("ID") != 0:
        return 0 not in columns.values()  # a known heading, such as student_id, with values such as s001
    # The German heading of Moodle's column is "ID", which many other tables use for logins.
    is_known = bool(columns.keys() - {"number", "group", "role"})
    return not is_known and len(table.header) >= MOODLES_USUAL and not any(map(str.isdigit, cells))


def _moodle_columns(table: TableFile, columns_by_kind: dict[str, int]) -> dict[str, int]:
    """Return the columns of the name, the address and the time in Moodle's worksheet, recognized by their contents."""
    columns = dict(enumerate(map(set, zip(*table.rows, strict=True))))
    emails = [number for number, cells in columns.items() if all("@" in cell for cell in cells)]
    times = [
        number
        for number, cells in columns.items()
        if all(map(looks_like_time, cells - {"", "-"})) and cells - {"", "-"}
    ]
    read = [number for number in times if read_time(max(columns[number], key=looks_like_time))]
    # If marking is anonymous, this column contains a status, which has few different values.
    is_name = 2 * len(columns[1]) > len(table.rows) and not all(cell.rstrip().endswith("-") for cell in columns[1])
    by_kind = {"email": emails, "handed in": read or times, "name": [1] if is_name else []}
    # The first time is that of the submission; the time of the grade follows later.
    return {kind: numbers[0] for kind, numbers in by_kind.items() if numbers and kind not in columns_by_kind}


def _person(row: list[str], columns: dict[str, int]) -> Person:
    values = {kind: text for kind, number in columns.items() if kind != "role" and (text := row[number].strip())}
    if "participant" in values and (participant := PARTICIPANT.fullmatch(values["participant"])):
        values["participant"] = participant[1]
    parts = (values.pop("last name", ""), values.pop("first name", ""))
    name = values.pop("name", "") or ", ".join(part for part in parts if part)
    return Person("", name, values, values.pop("group", ""))


def _with_ids(people: list[Person], table: TableFile) -> list[Person]:
    for kind in IDS:
        ids = [_id(person, kind) for person in people]
        if all(map(is_student_id, ids)) and len(set(map(same_word, ids))) == len(ids):
            return [replace(person, student=student) for person, student in zip(people, ids, strict=True)]
        if kind == "student" and any(ids):
            wrong = next((student for student in ids if not is_student_id(student)), "")
            raise InputError(f"{table.name}: {printable(wrong)} cannot be the name of a student's folder")
    raise InputError(
        f"{table.name} does not have a column with a different folder name for each student. Add a column student_id"
    )


def _id(person: Person, kind: str) -> str:
    if kind == "name":
        return id_from_name(person.name)
    value = person.known.get(kind, "")
    return f"participant-{value}" if kind == "participant" and value else value


def _doubles(people: list[Person]) -> Iterator[str]:
    """Yield the identifiers that occur in two rows."""
    for kind in IDS:
        counted = Counter(same_word(person.known[kind]) for person in people if kind in person.known)
        yield from (value for value, count in counted.items() if count > 1)


def _is_placeholder_row(person: Person) -> bool:
    """Return whether a row of Canvas' file is not about a student: points, posting, the test student."""
    return not (person.known or person.name) or NOBODY.fullmatch(person.name) is not None


def _is_staff(row: list[str], columns: dict[str, int]) -> bool:
    """Return whether the row describes a teacher or assistant, such as in Gradescope's roster."""
    return "role" in columns and row[columns["role"]].strip().casefold() not in ("", "student")
