"""From each platform's download to returned grades, by command: a class of 40, one late by a day, one excused, two of one name."""

import csv
import io
import json
import re
import zipfile

import pytest
from nbgrader.api import Gradebook

from autograder import cli
from tests.classroom import downloads, made_class
from tests.classroom.made_class import ABSENT, ASSIGNMENT, LATE, STUDENTS, MadeStudent

RIGHT = "def warm_days(temperatures, limit):\n    return sum(t > limit for t in temperatures) + 0 * {number}"
SOLVED = [student for student in downloads.HERE if student.number % 3]
EXCUSED = STUDENTS[6]
POLICY = """
[late]
percent_a_day = 10

[assignments.first]
due = 2026-10-03T15:00:00Z
excused = ["{excused}"]
"""


@pytest.fixture
def solved(monkeypatch):
    """Two students of three have the answer right; all answers differ, so that each is known by its own."""
    for student in SOLVED:
        monkeypatch.setitem(made_class.ANSWERED, student.login, RIGHT.format(number=student.number))


def own_table(path):
    """Write the table of a teacher who does not use a platform."""
    rows = [["student_id", "name", "points"], *([one.login, one.sortable, ""] for one in STUDENTS)]
    return downloads.write_csv(path, rows)


def gradescope_table(path):
    """Write a table by Gradescope's numbers, as its roster has them."""
    rows = [["SID", "Email", "points"], *([str(one.number), one.email, ""] for one in STUDENTS)]
    return downloads.write_csv(path, rows)


# Platform: download, roster, worksheet, how a row names its student, the grade's column, and how late work is seen.
WALKS = {
    "canvas": (downloads.canvas_zip, downloads.canvas_gradebook, None, lambda row: int(row[1]) - 4000, "First steps (311)"),
    "moodle": (downloads.moodle_zip, downloads.moodle_worksheet, None, lambda row: int(row[2][1:6]), "Grade"),
    "blackboard": (
        downloads.blackboard_zip, downloads.blackboard_gradebook, None, lambda row: int(row[2][1:]),
        "First steps [Total Pts: 5 Score] |1281892",
    ),
    "gradescope": (
        downloads.gradescope_zip, downloads.gradescope_roster, gradescope_table, lambda row: int(row[0]), "points",
    ),
    "nbgrader": (downloads.exchange_folder, own_table, None, lambda row: int(row[0][1:]), "points"),
    "a shared folder": (downloads.shared_folder, own_table, None, lambda row: int(row[0][1:]), "points"),
}  # fmt: skip
TIMES_KNOWN = ("moodle", "blackboard")


def student_id(platform: str, student: MadeStudent) -> str:
    """Return the name that a student gets in the gradebook: the first of the roster's columns that everybody has."""
    return {"moodle": student.email, "gradescope": str(student.number)}.get(platform, student.login)


@pytest.mark.slow
@pytest.mark.parametrize("platform", WALKS)
def test_from_the_download_to_returned_grades(platform, tmp_path, capsys, solved, bubblewrap):
    """Each student's own points and page come back by the platform's own keys; late, excused and absent ones as they should."""
    download, roster, table, number_of, column = WALKS[platform]
    course = made_class.course(tmp_path)
    zipped, listed = download(tmp_path / "download"), roster(tmp_path / "listed.csv")
    worksheet = table(tmp_path / "table.csv") if table else listed
    (course / "policy.toml").write_text(POLICY.format(excused=student_id(platform, EXCUSED)))
    to = platform if platform in ("canvas", "moodle", "blackboard") else "csv"
    at = ["--course", str(course)]
    back = ["return", ASSIGNMENT, *at, "--to", to, "--worksheet", str(worksheet), "--out", str(tmp_path / "out")]
    back += ["--column", "First steps"] if platform in ("canvas", "blackboard") else []

    collected = cli.main(["collect", str(zipped), ASSIGNMENT, *at, "--roster", str(listed), "--timezone", "UTC"])
    assert collected == (1 if platform == "canvas" else 0), capsys.readouterr().out
    assert 0 == cli.main(["grade", ASSIGNMENT, *at]), capsys.readouterr().err
    capsys.readouterr()
    assert 0 == cli.main(["report", ASSIGNMENT, *at, "--json"])
    report = json.loads(capsys.readouterr().out)["report"]
    assert 0 == cli.main(back), capsys.readouterr().err

    expected = {one.number: points(one, platform) for one in downloads.HERE}
    assert expected == returned(tmp_path / "out" / "grades.csv", number_of, column)
    counting = {number: most for number, most in expected.items() if number != EXCUSED.number}
    if (
        platform == "canvas"
    ):  # those that Canvas itself marks keep their mark in the file, and their points in the report
        counting |= {number: 3.0 * (STUDENTS[number - 1] in SOLVED) for number in (20, 21)}
    assert sorted(counting.values()) == report["scores"]
    assert 1 == report["excused"]
    check_pages(tmp_path / "out" / "feedback.zip")


def points(student: MadeStudent, platform: str) -> float | str:
    """Return the expected grades: a word if Canvas has one; nothing for students who are excused on other platforms."""
    if student == EXCUSED:
        return "EX" if platform == "canvas" else ""
    if platform == "canvas" and student.number in (20, 21):
        return {20: "EX", 21: "N/A"}[student.number]
    shared = {9: STUDENTS[7]}.get(student.number, student) if platform == "gradescope" else student
    again = platform == "blackboard" and student.number % 7 == 0  # the second attempt came a day later
    late = platform in TIMES_KNOWN and (again or student in LATE)
    return 3.0 * (shared in SOLVED) * (0.9 if late else 1.0)


def returned(path, number_of, column) -> dict[int, float | str]:
    """Return the cells of the grade's column, by the student's number."""
    data = path.read_bytes()
    text = data.decode("utf-16") if data.startswith(b"\xff\xfe") else data.decode("utf-8-sig")
    header, *rows = csv.reader(io.StringIO(text), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    place = header.index(column)
    people = [row for row in rows if len(row) > 1 and "Points Possible" not in row[0] and row[1] not in ("", "99")]
    here = {number_of(row): row[place] for row in people if STUDENTS[number_of(row) - 1] not in ABSENT}
    return {number: text if text in ("", "EX", "N/A") else float(text) for number, text in here.items()}


def check_pages(path) -> None:
    """Each student's page shows this student's answer."""
    with zipfile.ZipFile(path) as archive:
        pages = [archive.read(name).decode() for name in archive.namelist()]
    assert 40 == len(pages)
    words = [" ".join(re.sub(r"<[^>]+>", "", page).split()) for page in pages]
    numbers = [
        {int(found) for found in re.findall(r"(?:return |0 \* )(\d+)", page.replace("return sum", ""))}
        for page in words
    ]
    assert len({frozenset(one) for one in numbers}) >= 39  # two handed in together on Gradescope


@pytest.mark.slow
def test_what_a_person_gave_goes_back_and_survives_regrading(tmp_path, capsys, solved, bubblewrap):
    """A mark for the written question is in the report and in the worksheet, also after the test has changed and all is graded again."""
    course, listed = made_class.course(tmp_path), own_table(tmp_path / "listed.csv")
    at = ["--course", str(course)]
    cli.main(["collect", str(downloads.shared_folder(tmp_path / "shared")), ASSIGNMENT, *at, "--roster", str(listed)])
    assert 0 == cli.main(["grade", ASSIGNMENT, *at])
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "course") as book:
        grade = book.find_grade("summary", ASSIGNMENT, ASSIGNMENT, SOLVED[0].login)
        grade.manual_score, grade.needs_manual_grade = 1.5, False
        book.db.commit()
    back = ["return", ASSIGNMENT, *at, "--to", "csv", "--worksheet", str(listed), "--out", str(tmp_path / "out")]
    source = course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    for _ in range(2):
        assert 0 == cli.main(back)
        read = returned(tmp_path / "out" / "grades.csv", lambda row: int(row[0][1:]), "points")
        assert 4.5 == read[SOLVED[0].number]
        capsys.readouterr()
        assert 0 == cli.main(["report", ASSIGNMENT, *at, "--json"])
        assert 4.5 == max(json.loads(capsys.readouterr().out)["report"]["scores"])
        source.write_text(source.read_text("utf-8").replace("15.0, 15.1", "15.0, 15.2"), "utf-8")
        assert 0 == cli.main(["grade", ASSIGNMENT, *at])
