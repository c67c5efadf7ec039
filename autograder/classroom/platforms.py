"""The formats of the platforms' downloads and worksheets, and the detection of a download's platform."""

from __future__ import annotations

import contextlib
import datetime
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import yaml

from autograder.classroom.collect.download import Download, DownloadedFile, DownloadedSubmission, DownloadError
from autograder.classroom.roster import PARTICIPANT
from autograder.classroom.table_file import TableFile
from autograder.classroom.worksheet import PLAIN_FORM, GradeColumn, WorksheetForm, choose_column, number_in
from autograder.errors import InputError, printable_list
from autograder.grade.submission_time import read_time


@dataclass(frozen=True)
class Platform:
    """The format of one platform's download."""

    name: str  # the platform's name in the option `--from`
    recognises: Callable[[str], bool]  # returns whether a path has the platform's format
    # takes a download, the time zone of times without one, and the assignment; returns its submissions
    submissions: Callable[[Download, datetime.tzinfo, str], list[DownloadedSubmission]]


NamedFile = tuple[re.Match[str], DownloadedFile]
"""A file, and the match of its path."""


def platform_of_names(
    name: str,
    format_name: str,
    names: re.Pattern[str],
    key: Callable[[re.Match[str]], str],
    submission: Callable[[str, list[NamedFile], datetime.tzinfo], DownloadedSubmission],
) -> Platform:
    """Return a platform that writes the person into the path of each file; other files are left out with a note.

    `submission` takes a key, the files whose paths have it, and the time zone of times without one.
    """

    def submissions(download: Download, zone: datetime.tzinfo, _: str) -> list[DownloadedSubmission]:
        groups: dict[str, list[NamedFile]] = defaultdict(list)
        for file in download.files:
            if parts := names.fullmatch(file.path):
                groups[key(parts)].append((parts, file))
            else:
                download.notes.append(f"{file.path} was left out: its name does not have {format_name} format")
        return [submission(group, files, zone) for group, files in groups.items()]

    return Platform(name, lambda path: names.fullmatch(path) is not None, submissions)


# Gradescope's "Export Submissions": a folder for each submission, and a YAML file that names the students.
#
# Source: public programs that read such an export. `assignment_N_export/submission_metadata.yml` maps the folder's name,
# `submission_N`, to `:submitters:` (each with `:name:`, `:sid:`, `:email:`) and `:created_at:`. Students who submitted
# together share an entry. The export contains only the active submission of each student.

GRADESCOPE_METADATA = "submission_metadata.yml"
LARGEST_METADATA = 64 * 2**20
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _gradescope_submissions(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedSubmission]:
    about = next((file for file in download.files if file.path.rpartition("/")[2] == GRADESCOPE_METADATA), None)
    if about is None:
        raise DownloadError(
            f"there is no {GRADESCOPE_METADATA}, the list of submissions in Gradescope's export. Export again"
        )
    entries = _known(about)
    root = about.path.removesuffix(GRADESCOPE_METADATA)
    submissions: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.removeprefix(root).partition("/")
        if inside and folder in entries:
            submissions[folder][inside] = file
        elif file is not about:
            download.notes.append(f"{file.path} was left out: {GRADESCOPE_METADATA} does not name its folder")
    return [_gradescope_submission(folder, entry, submissions[folder]) for folder, entry in entries.items()]


def _known(about: DownloadedFile) -> dict[str, dict[str, Any]]:
    try:
        entries = yaml.load(about.read(LARGEST_METADATA), LOADER)  # one of PyYAML's safe loaders
    except (yaml.YAMLError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise DownloadError(f"{GRADESCOPE_METADATA} cannot be read ({reason}). Export again") from None
    if not isinstance(entries, dict):
        raise DownloadError(f"{GRADESCOPE_METADATA} lists no submission. Export again")
    return {str(name): entry for name, entry in entries.items() if isinstance(entry, dict)}


def _gradescope_submission(
    folder: str, entry: dict[str, Any], files: dict[str, DownloadedFile]
) -> DownloadedSubmission:
    listed = entry.get(":submitters")
    people = [person for person in listed if isinstance(person, dict)] if isinstance(listed, list) else []
    return DownloadedSubmission(
        key=folder,
        name=", ".join(str(person.get(":name") or "") for person in people),
        identities=tuple(
            {
                "email": str(person.get(":email") or ""),
                "number": str(person.get(":sid") or ""),
                "words": str(person.get(":name") or ""),
            }
            for person in people
        ),
        files=files,
        handed_in=read_time(str(entry.get(":created_at"))),
    )


# Moodle's "Download all submissions": a folder, or file names with a common prefix, for each participant.
#
# Source: mod/assign/locallib.php and mod/assign/feedback/file/importziplib.php of moodle/moodle. Names begin with
# `[Group-]Full name_N_assignsubmission_file/…` since 4.1, before that with another `_` at the end; without folders, the
# file names have this prefix. They begin with `Participant_N_…` if marking is anonymous. A team's names contain the
# team's name and number; the number is missing for people without a team (classes/downloader.php). Otherwise N is the
# participant's number in this assignment, not the user's. `_` in a name replaces a space. Times are in the grading
# worksheet, not in the zip.
#
# The columns of that worksheet are recognized by their contents because the headings are translated (source:
# mod/assign/gradingtable.php, mod/assign/feedback/offline/importgradeslib.php and
# mod/assign/feedback/file/importziplib.php of moodle/moodle). The column of maximum grades follows the column of grades
# and has the same value in all rows. Feedback files are mapped back by the second part of a folder's name, the
# participant's number.

FIRST_GRADE = 2  # the columns before it identify the student


def _moodle_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if not table.rows or not all(PARTICIPANT.fullmatch(row[0].strip()) for row in table.rows):
        raise InputError(
            f"{table.name} is not Moodle's grading worksheet: its first column has no identifiers such as “Participant 17”. "
            "Download the grading worksheet of this assignment"
        )
    if wanted is not None:
        if (number := table.column(wanted)) is None:
            raise InputError(f"{table.name} has no column {wanted!r}")
        return GradeColumn(number, table.header[number])
    maximum = table.column("Maximum grade")
    if maximum is None and (number := table.column("Grade")) is not None:
        return GradeColumn(number, table.header[number])  # the teacher has removed the column of maximum grades
    if maximum is None:
        maximum = next((number for number in range(FIRST_GRADE, len(table.header)) if _is_maximum(table, number)), None)
    if maximum is None or maximum < FIRST_GRADE:
        raise InputError(
            f"{table.name} has no column for maximum grades, perhaps because the assignment is graded on a scale. Name the "
            "column of the grades with --column"
        )
    return GradeColumn(maximum - 1, table.header[maximum - 1], table.rows[0][maximum].strip())


def _is_maximum(table: TableFile, number: int) -> bool:
    cells = {row[number].strip() for row in table.rows}
    before = [row[number - 1].strip() for row in table.rows]
    is_grade = all(cell in ("", "-") or number_in(cell) is not None for cell in before)
    return len(cells) == 1 and number_in(next(iter(cells))) is not None and is_grade


def _moodle_feedback_name(student: str, identifiers: dict[str, str], name: str, upload_name: str) -> str:
    if "participant" not in identifiers:
        return ""
    shown = name.replace("_", " ").replace("/", " ").strip() or "Participant"
    return f"{shown}_{identifiers['participant']}_assignfeedback_file/"


MOODLE_NAME = re.compile(
    r"(?:.*/)?(?P<name>[^_/]+)(?:_(?P<number>\d+))?_assignsubmission_(?P<kind>[a-z]+)_?(?:/(?P<inside>.+)|(?P<suffix>[^/]*))"
)


def _moodle_submission(key: str, files: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    name, number = files[0][0]["name"], files[0][0]["number"] or ""
    return DownloadedSubmission(
        key=key,
        name=name,
        identities=({"participant": number, "words": name, "words without group": name.partition("-")[2]},),
        files={parts["inside"] or parts["suffix"] or "online text": file for parts, file in files},
    )


# Blackboard's "Assignment File Download": one folder of files, whose names contain the assignment, the user and the attempt.
#
# Sources: the README of kwurst/bb-file-cleanup and nbgrader's help on zip_collect (nbgrader/plugins/zipcollect.py,
# 0.9.6): `{assignment}_{username}_attempt_{YYYY-MM-DD-HH-MM-SS}_{file}`, and a `.txt` without a file name for each
# attempt, whose first line is `Name: {name} ({username})` (the reader of CodeGra-de/CodeGra.de). A download may contain
# all attempts of a person. The times are those of the server.
#
# The worksheet is the "Work Offline" file: commas or tabs, UTF-8 or UTF-16; the heading of a grade column ends with `|` and
# its id. Headings as public programs read them: `Title [Total Pts: 10 Score] |1281892`. The keys are the username and the
# column's id. Blackboard does not import feedback, so the folders in our zip are named for the people who hand it out.

BLACKBOARD_COLUMN = re.compile(r"^(?P<title>.*?)\s*(?:\[Total Pts:(?P<kind>[^\]]*)\]\s*(?:\|\d+)?|\|\d+)$")


def _blackboard_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if table.column("Username") is None:
        raise InputError(f"{table.name} is not Blackboard's grade file: it has no column Username. Download it again")
    columns = {number: match for number, name in enumerate(table.header) if (match := BLACKBOARD_COLUMN.match(name))}
    titles = {
        number: re.sub(r"\s*\[.*$", "", match["title"]).strip()
        for number, match in columns.items()
        if not re.search(r"\bup to\b", match["kind"] or "")  # a total, which Blackboard computes
    }
    number = choose_column(table, titles, assignment, wanted)
    points = re.search(r"[\d.,]+", columns[number]["kind"] or "")
    return GradeColumn(number, titles[number], points[0] if points else "")


BLACKBOARD_NAME = re.compile(
    r"(?s:.*/)?(?P<before>[^/\n]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_(?P<file>[^/\n]+)|\.txt)"
)
BLACKBOARD_WHO = re.compile(r"[^:\n]+: *(?P<name>[^\n]+?) \((?P<login>[^()\s]+)\)\s*(?:\n|$)")
ABOUT = ""  # replaces the file name of the text about an attempt
LONGEST_TEXT = 2**20


def _blackboard_submission(_: str, named: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    first = named[0][0]
    files = {parts["file"] or ABOUT: file for parts, file in named}
    about = files.pop(ABOUT, None)
    login, name = _who(about) if about else ("", "")
    # The assignment and the username may contain underscores: the text or the roster decides which suffix is the username.
    words = first["before"].split("_")
    ends = ["_".join(words[number:]) for number in range(len(words) - 1, 0, -1)] or [first["before"]]
    usernames = {f"login with {number} underscores": end for number, end in enumerate(ends)}
    return DownloadedSubmission(
        key=first["before"],
        name=name,
        identities=({"login": login or ends[0]} | usernames,),
        files=files,
        handed_in=_blackboard_time(first["time"], zone),
    )


def _who(about: DownloadedFile) -> tuple[str, str]:
    """Return the username and the name in an attempt's text file; ("", "") if it has another format."""
    try:
        text = about.read(LONGEST_TEXT).decode("utf-8-sig", errors="replace")
    except DownloadError:
        return "", ""
    person = BLACKBOARD_WHO.match(text)
    return (person["login"], person["name"]) if person else ("", "")


def _blackboard_time(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    try:
        return datetime.datetime.strptime(text, "%Y-%m-%d-%H-%M-%S").replace(tzinfo=zone)
    except ValueError:
        return None


# Canvas' "Download Submissions": one folder of files, whose names contain the student, a late mark and the attachment.
#
# Source: lib/content_zipper.rb of instructure/canvas-lms. Names have the form `{sortable
# name}[_LATE]_{user}_{attachment}_{file}`, with the name in lower case and only word characters;
# `[LATE_]anon_{id}_{attachment}_{file}` if grading is anonymous; and `…_text.html` or `…_link.html` for a submission
# without a file. Names before 2016 contain hyphens, and some contain "late". The entry of a group has the group's name
# and the number of one member. The zip contains each person's latest submission, without its time: its entries have the
# time of the download. Attachment numbers increase, so of two downloads the later submission has the higher number.
#
# The worksheet is the exported gradebook: a header, an optional row on posting, a row of points, then the students (source:
# lib/gradebook_exporter.rb and lib/gradebook_importer.rb of instructure/canvas-lms). The heading of an assignment's column
# ends with its id in parentheses; students are identified by ID. `EX` marks an excused student, and `N/A` one to whom the
# assignment was not given.

CANVAS_TITLE = r"\s*\(\d+\)$"
CANVAS_TOTALS = re.compile(r"(Current|Final|Override|Unposted) (Score|Points|Grade)")


def _canvas_column(table: TableFile, assignment: str, wanted: str | None) -> GradeColumn:
    if (ids := table.column("ID")) is None or table.column("Section", "SIS Login ID") is None:
        raise InputError(f"{table.name} is not Canvas' gradebook: it has no columns ID and Section. Export it again")
    titles = {
        number: re.sub(CANVAS_TITLE, "", name).strip()
        for number, name in enumerate(table.header)
        if re.search(CANVAS_TITLE, name) and not CANVAS_TOTALS.search(name)
    }
    number = choose_column(table, titles, assignment, wanted)
    # The row's words are translated, so it is found by its content: the first row without an ID and with a number.
    points = next(
        (row[number] for row in table.rows if not row[ids].strip() and re.match(r"\s*[\d.,]+\s*$", row[number])), ""
    )
    return GradeColumn(number, titles[number], points.strip(), frozenset({"EX", "N/A"}), "EX")


CANVAS_NAME = re.compile(
    r"(?s:.*/)?(?:(?P<name>[\w-]+?)_)??(?P<late>(?i:LATE_))?(?:anon_(?P<anonymous>[^\W_]+)|(?P<user>\d+))_"
    r"(?:(?P<attachment>\d+)_(?P<file>[^/\n]+)|(?P<typed>text|link)\.html(?:-\d+)?)"
)


def _canvas_submission(key: str, files: list[NamedFile], zone: datetime.tzinfo) -> DownloadedSubmission:
    first, last = files[0][0], max(files, key=lambda file: int(file[0]["attachment"] or 0))[0]
    identity = {"canvas": key} if first["user"] else {"anonymous": key}
    if first["name"]:
        identity["joined"] = first["name"]
    return DownloadedSubmission(
        key=key,
        name=first["name"] or "",
        identities=(identity,),
        files={parts["file"] or f"{parts['typed']}.html": file for parts, file in files},
        sequence=int(last["attachment"] or 0),
        late=first["late"] is not None,
        # Canvas reads the first two numbers between underscores as the user and the attachment (app/models/assignment.rb,
        # infer_comment_context_from_filename).
        upload_name=f"{first['name'] or 'anon'}_{key}_{last['attachment']}" if last["attachment"] else "",
    )


# Folders: nbgrader's own STUDENT/ASSIGNMENT/, its exchange's inbound/, or a shared folder with one folder for each student.
#
# The exchange's folders are named STUDENT+ASSIGNMENT+TIME[+RANDOM] (nbgrader/exchange/default/submit.py, 0.9.6), with the
# time in UTC unless `Exchange.timezone` is set; nbgrader's folders contain a timestamp.txt.

NBGRADER_TIMESTAMP = "timestamp.txt"
LONGEST_TIME = 100
# folders with submissions in the exchange and in a course; folders next to them do not contain submissions
SUBMISSION_FOLDERS = ("inbound", "submitted")
LONGEST_LIST = 8


def _nbgrader_submissions(download: Download, zone: datetime.tzinfo, assignment: str) -> list[DownloadedSubmission]:
    submissions: dict[str, dict[str, DownloadedFile]] = defaultdict(dict)
    for file in download.files:
        folder, _, inside = file.path.partition("/")
        if inside:
            submissions[folder][inside] = file
        else:
            download.notes.append(f"{file.path} was left out: it is not in a student's folder")
    if holder := next((name for name in SUBMISSION_FOLDERS if name in submissions), ""):
        others = printable_list(sorted(name for name in submissions if name != holder), LONGEST_LIST)
        download.notes.extend([f"{others}: left out, because the submissions are in {holder}"] if others else [])
        inner = [DownloadedFile(path, file.read) for path, file in submissions[holder].items()]
        return _nbgrader_submissions(Download(inner, download.notes), zone, assignment)
    every = [_nbgrader_submission(folder, files, zone, assignment) for folder, files in submissions.items()]
    return [submission for submission in every if submission.files]


def _nbgrader_submission(
    folder: str, files: dict[str, DownloadedFile], zone: datetime.tzinfo, assignment: str
) -> DownloadedSubmission:
    student, *exchange_parts = folder.split("+")
    if exchange_parts and exchange_parts[0] != assignment:
        files = {}  # the exchange has all assignments in one folder
    inside = {path.partition("/")[2]: file for path, file in files.items() if path.startswith(f"{assignment}/")}
    files = inside or files
    return DownloadedSubmission(
        key=folder,
        name=student,
        identities=({"student": student, "login": student, "email": student, "number": student, "words": student},),
        files={path: file for path, file in files.items() if path != NBGRADER_TIMESTAMP},
        handed_in=(_utc(exchange_parts[1], zone) if len(exchange_parts) > 1 else None) or _stamp(files, zone),
    )


def _stamp(files: dict[str, DownloadedFile], zone: datetime.tzinfo) -> datetime.datetime | None:
    file = files.get(NBGRADER_TIMESTAMP)
    with contextlib.suppress(DownloadError):
        return _utc(file.read(LONGEST_TIME).decode(errors="replace"), zone) if file else None
    return None


def _utc(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time as nbgrader reads it: in UTC, unless the text contains a zone, which must be the given one."""
    return read_time(text) or read_time(text, zone)


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform("gradescope", lambda path: path.rpartition("/")[2] == GRADESCOPE_METADATA, _gradescope_submissions),
        platform_of_names(
            "moodle", "Moodle's", MOODLE_NAME, lambda parts: parts["number"] or parts["name"], _moodle_submission
        ),
        platform_of_names(
            "blackboard",
            "Blackboard's",
            BLACKBOARD_NAME,
            lambda parts: f"{parts['before']}_attempt_{parts['time']}",
            _blackboard_submission,
        ),
        platform_of_names(
            "canvas",
            "Canvas'",
            CANVAS_NAME,
            lambda parts: parts["user"] or f"anon_{parts['anonymous']}",
            _canvas_submission,
        ),
        Platform("nbgrader", lambda path: "/" in path, _nbgrader_submissions),
    )
}
FORMS = {
    form.name: form
    for form in (
        WorksheetForm("canvas", _canvas_column, lambda *about: f"{about[-1]}_" if about[-1] else ""),
        WorksheetForm("moodle", _moodle_column, _moodle_feedback_name),
        WorksheetForm("blackboard", _blackboard_column, lambda student, known, *_: f"{known.get('login') or student}/"),
        PLAIN_FORM,
    )
}


def platform_of(download: Download, name: str) -> Platform:
    """Return the platform of this name, or for "auto" the one whose format most files have. Raise DownloadError if there is none."""
    if name != "auto":
        return PLATFORMS[name]
    counted = {
        name: sum(platform.recognises(file.path) for file in download.files) for name, platform in PLATFORMS.items()
    }
    if counted["gradescope"]:
        return PLATFORMS["gradescope"]  # one file of this name is sufficient
    best = max(counted, key=lambda name: counted[name])  # of equal counts, the first one has the strictest format
    if not counted[best]:
        raise DownloadError(
            f"its file names do not match a known platform ({', '.join(PLATFORMS)}). Download all submissions of one "
            "assignment at once, or make a folder for each student"
        )
    fitting = max((name for name in counted if name != "nbgrader"), key=lambda name: counted[name])
    # every file in a folder has nbgrader's format
    if best == "nbgrader" and 2 * counted[fitting] > len(download.files):
        odd = next(file.path for file in download.files if not PLATFORMS[fitting].recognises(file.path))
        download.notes.append(
            f"{counted[fitting]} of {len(download.files)} files have the format of {fitting}, and {odd} does not. To read each "
            "folder as one student's submission instead, add --from nbgrader"
        )
        best = fitting
    return PLATFORMS[best]
