"""Downloads of a generated class in the format of each platform; the source of each format is given next to it."""

from __future__ import annotations

import csv
import datetime
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.classroom.made_class import ABSENT, LATE, NOTEBOOK, STUDENTS, MadeStudent, notebook

TIME = datetime.datetime(2026, 10, 3, 14, 10, tzinfo=datetime.UTC)
HERE = [student for student in STUDENTS if student not in ABSENT]


def write_zip(path: Path, files: Mapping[str, bytes] | Iterable[tuple[str, bytes]]) -> Path:
    """Write a zip with these files, and returns its path."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items() if isinstance(files, Mapping) else files:
            archive.writestr(name, data)
    return path


def write_csv(path: Path, rows: list[list[str]], delimiter: str = ",", *, quoted: bool = False) -> Path:
    """Write a CSV file as most programs do, and returns its path."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL).writerows(rows)
    path.write_text(text.getvalue(), "utf-8", newline="")
    return path


def canvas_name(student: MadeStudent, attachment: int, file: str = NOTEBOOK) -> str:
    """Return a name as instructure/canvas-lms makes it: lib/content_zipper.rb, get_filename and sanitize_*."""
    name = re.sub(r"\W", "", student.sortable.lower())
    late = "_LATE" if student in LATE else ""
    return f"{name}{late}_{student.canvas}_{attachment}_{file}"


def canvas_zip(path: Path, students: Iterable[MadeStudent] = HERE, first: int = 90000) -> Path:
    """Write Canvas' "Download Submissions"."""
    odd = {2: "first-1.ipynb", 3: "First (1).ipynb", 4: "first (2).ipynb.txt", 5: "homework.ipynb"}
    files = {canvas_name(one, first + one.number, odd.get(one.number, NOTEBOOK)): notebook(one) for one in students}
    files["doejane_77_text.html"] = b"<p>no file</p>"
    return write_zip(path, files)


def canvas_gradebook(path: Path, students: list[MadeStudent] = STUDENTS, **options: object) -> Path:
    """Write Canvas' gradebook: lib/gradebook_exporter.rb, csv_data."""
    header = [
        "Student", "ID", "SIS Login ID", "Section", "First steps (311)", "Other (312)", "Current Score", "Final Score",
    ]  # fmt: skip
    points = ["    Points Possible", "", "", "", "5.00", "10.00", "(read only)", "(read only)"]
    grades = {20: "EX", 21: "N/A", 22: "-", 23: "3.00"}
    rows = [
        [one.sortable, one.canvas, one.login, "S1 and S2", grades.get(one.number, ""), "7.50", "80.1", "70.2"]
        for one in students
    ]
    posting = ["", "", "", "", "Manual Posting", "", "", ""]
    test = ["Student, Test", "99", "9f8e7d", "S1", "", "", "", ""]
    return write_csv(path, [header, posting, points, *rows, test], **options)  # type: ignore[arg-type]


def participant(student: MadeStudent) -> int:
    """Return Moodle's number of a student in this assignment; it is not the user's."""
    return 700 + (student.number * 13) % 43


def moodle_zip(path: Path, *, old: bool = False, anonymous: bool = False) -> Path:
    """Write Moodle's "Download all submissions": mod/assign/locallib.php, download_submissions; 4.1 dropped the last `_`."""
    files = {}
    for one in HERE:
        name = "Participant" if anonymous else one.full.replace("_", " ")
        end = "_" if old else ""
        files[f"{name}_{participant(one)}_assignsubmission_file{end}/{NOTEBOOK}"] = notebook(one)
        files[f"{name}_{participant(one)}_assignsubmission_onlinetext{end}/onlinetext.html"] = b"<p>hello</p>"
    return write_zip(path, files)


def moodle_worksheet(path: Path, *, german: bool = False, anonymous: bool = False) -> Path:
    """Write Moodle's grading worksheet: mod/assign/gradingtable.php, the constructor, col_recordid and col_status; lang/de."""
    if german:
        header = ["ID", "Vollständiger Name", "E-Mail-Adresse", "Status", "Bewertung", "Bestwertung",
                  "Bewertung kann geändert werden", "Zuletzt geändert (Abgabe)",
                  "Zuletzt geändert (Bewertung)", "Kommentare"]  # fmt: skip
    else:
        header = ["Identifier", "Full name", "Email address", "Status", "Grade", "Maximum grade", "Grade can be changed",
                  "Last modified (submission)", "Last modified (grade)", "Feedback comments"]  # fmt: skip
    word, most, none = ("Teilnehmer/in", "5,00", "-") if german else ("Participant ", "5.00", "-")
    rows = []
    for one in STUDENTS:
        there = one in HERE
        hour = 14 + 2 * (one in LATE)
        time = f"Samstag, 3. Oktober 2026, {hour}:10" if german else f"Saturday, 3 October 2026, {hour - 12}:10 PM"
        status = "Submitted for grading" if there else "No submission"
        if one.number == 6:
            status += " - Extension granted until: Monday, 5 October 2026, 12:00 AM"
        rows.append(
            [
                f"{word}{participant(one)}",
                one.full,
                one.email,
                status,
                "",
                most,
                "Yes",
                time if there else "-",
                none,
                "",
            ]
        )
    keep = [0, *range(3, len(header))] if anonymous else range(len(header))
    return write_csv(path, [[row[number] for number in keep] for row in [header, *rows]], quoted=german)


def blackboard_zip(path: Path) -> Path:
    """Write Blackboard's "Assignment File Download", as the README of kwurst/bb-file-cleanup has it; all attempts."""
    files = {}
    for one in HERE:
        for attempt in range(2 if one.number % 7 == 0 else 1):
            time = TIME + datetime.timedelta(days=attempt, hours=2 * (one in LATE))
            before = f"First_steps_{one.login}_attempt_{time:%Y-%m-%d-%H-%M-%S}"
            old = one.number % 7 == 0 and not attempt
            files[f"{before}_{NOTEBOOK}"] = notebook(one, "old = 1" if old else "")
            files[f"{before}.txt"] = b"Name: ...\nDate Submitted: ...\n"
    return write_zip(path, files)


def blackboard_gradebook(path: Path) -> Path:
    """Write Blackboard's "Work Offline" download: tab-separated, in UTF-16; headings as public tools read them."""
    header = ["Last Name", "First Name", "Username", "Student ID", "Last Access", "Availability",
              "First steps [Total Pts: 5 Score] |1281892", "Weighted Total [Total Pts: up to 100] |1281800"]  # fmt: skip
    rows = [[one.last, one.first, one.login, f"S{one.number}", "2026-10-01", "Yes", "", "12.5"] for one in STUDENTS]
    write_csv(path, [header, *rows], "\t", quoted=True)
    path.write_bytes(b"\xff\xfe" + path.read_bytes().decode().encode("utf-16-le"))
    return path


def gradescope_zip(path: Path) -> Path:
    """Write Gradescope's "Export Submissions", as public programs read it; students 8 and 9 handed in together."""
    root, entries, files = "assignment_812_export/", "", {}
    for one in HERE:
        if one.number == 9:
            continue
        together = [one, STUDENTS[8]] if one.number == 8 else [one]
        people = "".join(
            f'  - :name: "{who.full.replace(chr(34), chr(92) + chr(34))}"\n    :sid: "{who.number}"\n    :email: {who.email}\n'
            for who in together
        )
        entries += f"submission_{one.number}:\n  :submitters:\n{people}  :created_at: 2026-10-03 07:10:00.123 -07:00\n  :score: 0.0\n"
        files[f"{root}submission_{one.number}/{NOTEBOOK}"] = notebook(one)
    return write_zip(path, {f"{root}submission_metadata.yml": entries.encode(), **files})


def gradescope_roster(path: Path) -> Path:
    """Write Gradescope's roster: names, SID, email."""
    return write_csv(
        path,
        [["First Name", "Last Name", "SID", "Email"], *([s.first, s.last, str(s.number), s.email] for s in STUDENTS)],
    )


def exchange_folder(path: Path) -> Path:
    """Make the exchange's inbound/ (nbgrader/exchange/default/submit.py, 0.9.6), with an assignment that is not asked for."""
    for one in HERE:
        for minutes, text in ((0, "old = 1"), (5, "")):
            time = (TIME + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%d %H:%M:%S.%f UTC")
            folder = path / "inbound" / f"{one.login}+first+{time}+abc{minutes}"
            folder.mkdir(parents=True)
            (folder / NOTEBOOK).write_bytes(notebook(one, text))
            (folder / "timestamp.txt").write_text(time)
    (path / "inbound" / "u00001+second+2026-10-09 00:00:00.000000 UTC").mkdir()
    (path / "inbound" / "u00001+second+2026-10-09 00:00:00.000000 UTC" / "second.ipynb").write_text("{}")
    return path


def shared_folder(path: Path) -> Path:
    """Make a folder with one for each student, as on a shared drive."""
    for one in HERE:
        (path / one.login).mkdir(parents=True)
        (path / one.login / NOTEBOOK).write_bytes(notebook(one))
    return path
