"""Formats of files and of times that the generated class does not contain."""

import csv
import datetime
import io
import zoneinfo

import pytest
from babel.dates import format_datetime

from autograder.classroom.collect.collection import collect
from autograder.classroom.return_grades import return_grades
from autograder.classroom.roster import Roster, read_roster
from autograder.grade.submission_time import read_time
from tests.classroom import made_class
from tests.classroom.downloads import write_zip
from tests.classroom.made_class import ASSIGNMENT, NOTEBOOK, STUDENTS, answer_of, notebook
from tests.classroom.made_grades import give_grades

ROSTERS = {
    # instructure/canvas-lms, "Download Course Roster CSV" of a set of groups, as several programs' tests have it
    "canvas groups": (
        "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id\n"
        '"Lee, Ann",101,S1,ann,CS 1,Red,55,7\nBen Ito,102,S2,ben,CS 1,Red,55,7\nKim Po,103,S3,kim,CS 1,,,\nTest Student,104,,,CS 1,,,\n',
        {"ann": "Red", "ben": "Red", "kim": ""},
    ),
    # nbgrader's documentation, "Managing the database": what `nbgrader db student import` takes
    "nbgrader students": ("id,first_name,last_name,email\nann,Ann,Lee,a@x.org\nben,Ben,Ito,b@x.org\n", {"ann": "", "ben": ""}),
    # tests of a program that downloads Gradescope's rosters: staff, and a student without a number
    "gradescope with staff": (
        "First Name,Last Name,SID,Email,Role\nAnn,Lee,7,a@x.org,Student\nBen,Ito,,b@x.org,Student\n"
        "Tea,Cher,9,t@x.org,Instructor\nTee,Ay,8,u@x.org,TA\n",
        {"a@x.org": "", "b@x.org": ""},
    ),
    # Microsoft's spreadsheet leaves out the delimiters of empty cells at the end of a row
    "cells left out at the end": ("student_id,name,group\nann,Ann,Red\nben,Ben\nkim,Kim\n", {"ann": "Red", "ben": "", "kim": ""}),
    # lib/gradebook_exporter.rb: with grading periods, the row on posting has more cells than the header
    "canvas with a longer row": (
        "Student,ID,SIS Login ID,Section,First (1)\n,,,,Manual Posting,,,,\n    Points Possible,,,,5.00\n\"Lee, Ann\",1,ann,S,\n",
        {"ann": ""},
    ),
    # a classic Macintosh's ends of lines, with semicolons in the first row only
    "ends of lines without a newline": ("student_id;name\rann;Lee, Ann\rben;Ito, Ben, Jr.\r", {"ann": "", "ben": ""}),
    # mod/assign/gradingtable.php where submissions are those of teams
    "moodle teams": (
        "Identifier,Full name,Email address,Status,Group,Grade,Maximum grade,Grade can be changed,Last modified (submission),"
        "Last modified (grade),Feedback comments\n"
        "Participant 31,Ann Lee,ann@x.org,-,Red,,5.00,Yes,-,-,\nParticipant 32,Ben Ito,ben@x.org,-,Red,,5.00,Yes,-,-,\n"
        "Participant 33,Kim Po,kim@x.org,-,Default group,,5.00,Yes,-,-,\n",
        {"ann@x.org": "Red", "ben@x.org": "Red", "kim@x.org": "Default group"},
    ),
}  # fmt: skip
GRADEBOOK = 'Student,ID,SIS Login ID,Section,First steps (311)\n    Points Possible,,,,5.00\n"Lee, Ann",101,ann,S,\nBen Ito,102,ben,S,\n'

DOWNLOADS = {
    # spec/lib/content_zipper_spec.rb as of 2014: names with hyphens
    "canvas with hyphens": (GRADEBOOK, {"lee--ann_101_900_first.ipynb": "ann", "ito-ben_102_901_first.ipynb": "ben"}),
    # several programs that read such zips expect the mark in lower case
    "canvas late in lower case": (GRADEBOOK, {"leeann_late_101_900_first.ipynb": "ann", "benito_102_901_first.ipynb": "ben"}),
    # lib/content_zipper.rb: one entry for a group, named like it, with the number of one member
    "canvas groups": (ROSTERS["canvas groups"][0], {"red_101_900_first.ipynb": "ann ben", "pokim_103_901_first.ipynb": "kim"}),
    # classes/downloader.php: a team's folder has the number of the group, which may be that of another participant
    "moodle teams": (ROSTERS["moodle teams"][0], {"Red_33_assignsubmission_file/first.ipynb": "ann@x.org ben@x.org"}),
    # the same: who is in no group hands in for the default group, whose folder has no number
    "moodle default group": (
        ROSTERS["moodle teams"][0],
        {"Red_9_assignsubmission_file/first.ipynb": "ann@x.org ben@x.org",
         "Default group_assignsubmission_file/first.ipynb": "kim@x.org"},
    ),
    # CodeGra-de/CodeGra.de, its reader of Blackboard's text files: "Name: Ann Lee (ann_lee)"
    "blackboard without a roster": (
        "",
        {"Lab_1_ann_lee_attempt_2026-10-03-14-10-00.txt": b"Name: Ann Lee (ann_lee)\nAssignment: Lab_1\n",
         "Lab_1_ann_lee_attempt_2026-10-03-14-10-00_first.ipynb": "ann_lee"},
    ),
    # tests of a program that reads Gradescope's export: no :sid, no :created_at
    "gradescope without numbers": (
        ROSTERS["gradescope with staff"][0],
        {"assignment_1_export/submission_metadata.yml": b"submission_1:\n  :submitters:\n  - :name: Ben Ito\n    :email: b@x.org\n",
         "assignment_1_export/submission_1/first.ipynb": "b@x.org"},
    ),
    # a program that reads a shared folder: surname first, with blanks
    "folders named as people write names": (ROSTERS["nbgrader students"][0], {"LEE Ann/first.ipynb": "ann", "Ben  Ito/first.ipynb": "ben"}),
}  # fmt: skip

WORKSHEETS = {
    "moodle with a column of the teacher's": (
        "moodle",
        'Identifier,Full name,Email address,Status,"first (2), part 1",Grade,Feedback comments\nParticipant 31,Ann Lee,ann@x.org,,,,\n',
        "Participant 31,Ann Lee,ann@x.org,,1.50,,\n",
    ),
    # a class of 2021 at a British university: a worksheet without maximum grades
    "moodle without maximum": (
        "moodle",
        "Identifier,Full name,Email address,Status,Grade,Grade can be changed,Last modified (grade),Feedback comments\n"
        "Participant 31,Ann Lee,ann@x.org,,,Yes,-,\n",
        "Participant 31,Ann Lee,ann@x.org,,1.50,Yes,-,\n",
    ),
    # a program's test: Valencian, decimal commas, no comments
    "moodle with commas": (
        "moodle",
        "Identificador,Nom i cognoms,Adreça electrònica,Estat,Qualificació,Qualificació màxima,Es pot canviar,Modificada,Darrera\n"
        'Participant 7,LEE ANN,ann@x.org,Tramés,,"100,00",Sí,-,-\n',
        'Participant 7,LEE ANN,ann@x.org,Tramés,"1,50","100,00",Sí,-,-\n',
    ),
    # "Overall Grade [Total Pts: up to 100 USAFA Letter]", "MSc Programme [Total Pts: 0 Text]", "PF 25 [Total Pts: 2 Score]"
    "blackboard with letters and texts": (
        "blackboard",
        '"Last Name","First Name","Username","Student ID","Programme [Total Pts: 0 Text] |98","first [Total Pts: 2 Score] |57",'
        '"Overall [Total Pts: up to 100 Letter] |53"\n'
        '"Lee","Ann","ann","c30","MSc","","A"\n',
        '"Lee","Ann","ann","c30","MSc",1.50,"A"\n',
    ),
    # a program's test: headings without an id
    "blackboard without ids": (
        "blackboard",
        "Username,Full Name,first [Total Pts: 10 Score]\nann,\"Lee, Ann\",\n",
        "ann,\"Lee, Ann\",1.50\n",
    ),
    "cells left out at the end": ("csv", "student_id,name,group,points\nann,Ann\n", "ann,Ann,,1.50\n"),
    "canvas with a longer row": (
        "canvas",
        "Student,ID,SIS Login ID,Lab (1),Final Score (2)\n,,,Manual Posting,,,,\n    Points Possible,,,5.00,\n\"Lee, Ann\",1,ann,,\n",
        "\"Lee, Ann\",1,ann,1.50,\n",
    ),
    # names of columns in quotes, with commas and parentheses in a title
    "canvas with a title like an id": (
        "canvas",
        'Student,ID,SIS Login ID,Section,"first (2), part 1 (44)","Other, (45)"\n    Points Possible,,,,5.00,5.00\n"Lee, Ann",1,ann,S,,\n',
        '"Lee, Ann",1,ann,S,1.50,\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "groups"), ROSTERS.values(), ids=ROSTERS)
def test_a_list_of_students(tmp_path, text, groups):
    """Everybody who is a student, by an id that all have, with the group that hands in together."""
    (tmp_path / "roster.csv").write_text(text, "utf-8", newline="")
    assert groups == {one.student: one.group for one in read_roster(tmp_path / "roster.csv").people}


@pytest.mark.parametrize(("listed", "files"), DOWNLOADS.values(), ids=DOWNLOADS)
def test_a_download(tmp_path, listed, files):
    """Each file is stored for the students to whom it belongs, and for no others."""
    course, roster = made_class.course(tmp_path), tmp_path / "roster.csv"
    answers = {path: f"x = {number}" for number, path in enumerate(files)}
    held = {p: who if isinstance(who, bytes) else notebook(STUDENTS[0], answers[p]) for p, who in files.items()}
    if listed:
        roster.write_text(listed, "utf-8")
    collect(write_zip(tmp_path / "x.zip", held), ASSIGNMENT, course, read_roster(roster) if listed else Roster([]))
    found = {path.parent.parent.name: answer_of(path) for path in course.glob(f"submitted/*/{ASSIGNMENT}/{NOTEBOOK}")}
    wanted = {who: answers[path] for path, whose in files.items() if isinstance(whose, str) for who in whose.split()}
    assert wanted == found


@pytest.mark.parametrize(("to", "worksheet", "last"), WORKSHEETS.values(), ids=WORKSHEETS)
def test_a_worksheet(tmp_path, to, worksheet, last):
    """Its last row gets the grade in the right cell, and every other row stays as it was."""
    course, path = made_class.course(tmp_path), tmp_path / "worksheet.csv"
    student = "ann@x.org" if to == "moodle" else "ann"
    give_grades(course, {student: {"test_warm_days": 1.5, "summary": 0.0}})
    path.write_text(worksheet, "utf-8")
    column = "first (2), part 1" if "part 1" in worksheet else None
    return_grades(ASSIGNMENT, course, to, path, tmp_path / "out", Roster([]), column)
    written = (tmp_path / "out/grades.csv").read_text("utf-8")
    assert worksheet.splitlines()[:-1] == written.splitlines()[:-1]
    assert next(csv.reader(io.StringIO(last))) == next(csv.reader(io.StringIO(written.splitlines()[-1])))


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TIME = datetime.datetime(2026, 10, 3, 13, 50, tzinfo=BERLIN)


@pytest.mark.parametrize("text", [
    "Saturday, 3 October 2026, 1:50 PM",  # Moodle's, by its language packs: strftimedaydatetime
    "Samstag, 3. Oktober 2026, 13:50",
    "samedi 3 octobre 2026, 13:50",
    "sábado, 3 de octubre de 2026, 13:50",
    "sábado, 3 de octubre de 2026, 1:50 p. m.",
    "sobota, 3 października 2026, 13:50",
    "суббота, 3 октября 2026, 13:50",
    "2026年10月3日 星期六 13:50",
    "2026년 10월 3일(토요일), 01:50 오후",
    "2026-10-03 13:50:00 CEST",  # nbgrader's, by `Exchange.timezone`
    "2026-10-03 11:50:00 UTC",
    "2026-10-03 07:50:00 -04:00",
    "2026-10-03 13:50",
    "2026-10-03 13.50",
    "3.10.2026 13:50",
    "Oct 3, 2026 1:50 pm",
])  # fmt: skip
def test_one_time_in_many_forms(text):
    """All of them say ten to two in Berlin."""
    assert TIME == read_time(text, BERLIN)


def test_twelve_o_clock_is_noon_or_midnight():
    """In Spanish, as in English, 12:30 p. m. is after noon, and 12:30 a. m. after midnight."""
    day = "sábado, 3 de octubre de 2026, 12:30"
    assert [12, 0] == [read_time(f"{day} {half}", BERLIN).hour for half in ("p. m.", "a. m.")]


@pytest.mark.parametrize("text", [
    pytest.param("Sonntag, 3. Oktober 2026, 13:50", id="another day of the week"),
    pytest.param("السبت، 3 أكتوبر 2026، 1:50 م", id="a half of the day that is not known"),
    pytest.param("2026-10-03 13:50 PST", id="a zone of several countries"),
    pytest.param("2026-10-03 13:50 EST", id="an abbreviation that is a file of the zones' data"),
    pytest.param("2026-10-03 13:50 MST7MDT", id="another such file"),
    pytest.param("Submitted - Extension granted until: Saturday, 3 October 2026, 1:50 PM", id="a sentence"),
    pytest.param("Verlängert bis Samstag, 3. Oktober 2026, 13:50", id="a sentence in German"),
    pytest.param("31. Februar 2026, 13:50", id="no such day"),
    pytest.param("3 2026, 13:50", id="no day"),
    pytest.param("14:10", id="no day at all"),
    pytest.param("3/10/2026 13:50", id="March or October"),
    pytest.param("2026-10-03", id="a day alone, which is not midnight"),
    pytest.param("-", id="none"),
    pytest.param("", id="nothing"),
])  # fmt: skip
def test_what_may_be_another_time_is_none(text):
    """Rather no time than a wrong one."""
    assert read_time(text, BERLIN) is None


LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "sv", "fi", "pl", "cs", "hr", "hu", "ru", "uk", "el", "tr", "zh", "ja")  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_month_of_a_language(language):
    """Babel writes each month's 3rd, with its day of the week; the same day is read."""
    for month in range(1, 13):
        time = datetime.datetime(2026, month, 3, 13, 50, tzinfo=BERLIN)
        form = "y年M月d日 EEEE H:mm" if language in ("zh", "ja", "ko") else "EEEE, d MMMM y, H:mm"
        assert time == read_time(format_datetime(time, form, locale=language), BERLIN)
