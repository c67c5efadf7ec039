"""Results that arrive together are written together: the gradebook is the same, and nothing on disk is lost."""

import errno
import os
import re
import shutil
import sqlite3
from contextlib import closing

import pytest

from autograder.classroom.policy_names import fill_names, listed_students
from autograder.classroom.submission_record import keep_students
from autograder.errors import UnfinishedError
from autograder.grade.batch.assignment import QUIET, Options, grade_assignment
from autograder.grade.batch.course_folders import open_class
from autograder.grade.batch.dry_run import dry_run
from autograder.grade.batch.student_rows import print_report, with_names
from autograder.grade.batch.student_submission import StudentSubmission
from tests.cluster.fake_backend import FakeBackend
from tests.cluster.small_class import make_class

SCORES = """
SELECT student.id, grade_cell.name, grade.auto_score, autograder_grade.submission FROM student
JOIN submitted_assignment ON submitted_assignment.student_id = student.id
JOIN submitted_notebook ON submitted_notebook.assignment_id = submitted_assignment.id
JOIN grade ON grade.notebook_id = submitted_notebook.id JOIN base_cell AS grade_cell ON grade_cell.id = grade.cell_id
JOIN autograder_grade ON autograder_grade.student = student.id ORDER BY 1, 2
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """A class of ten in a gradebook without grades."""
    folder = make_class(tmp_path_factory.mktemp("known") / "class", 10)
    nobody = shutil.move(folder / "submitted", folder / "later")
    shutil.copytree(folder / "later" / "student0000", folder / "submitted" / "student0000")
    grade_assignment("small", folder, Options(), open_backend=FakeBackend(1))
    shutil.rmtree(folder / "submitted")
    shutil.move(nobody, folder / "submitted")
    return folder


def scores(folder):
    """Return every student's points for every cell in the gradebook, and the hash of the submission."""
    with closing(sqlite3.connect(folder / "gradebook.db")) as book:
        return book.execute(SCORES).fetchall()


def graded(known, folder, together):
    """Return the rows of the class and of the gradebook, for this number of results at once."""
    shutil.copytree(known, folder)
    rows = grade_assignment("small", folder, Options(), open_backend=FakeBackend(together))
    return [row.student for row in rows], scores(folder)


def test_together_or_one_by_one_is_the_same_gradebook(known, tmp_path):
    """Ten students written one by one, in threes, and all in one transaction: every cell has the same points."""
    one_by_one = graded(known, tmp_path / "1", 1)
    assert [
        (f"student{number:04}", cell, points) for number in range(10) for cell, points in (("t", 2.0), ("u", 1.0))
    ] == [row[:3] for row in one_by_one[1]]
    assert one_by_one == graded(known, tmp_path / "3", 3) == graded(known, tmp_path / "10", 10)


def change_grades(folder, change, *values):
    """Change rows of the gradebook, as another program would."""
    with closing(sqlite3.connect(folder / "gradebook.db")) as book, book:
        book.execute(f"UPDATE grade SET {change}", values)


def test_points_that_another_program_wrote_are_restored_and_named(known, tmp_path):
    """Unlike a person's points and extra credit, they are not kept: the next run names the cells, the run after it none."""
    folder = tmp_path / "class"
    shutil.copytree(known, folder)
    grade_assignment("small", folder, Options(), open_backend=FakeBackend(10))
    change_grades(folder, "extra_credit = 0.5")
    change_grades(folder, "auto_score = 0 WHERE auto_score = 2")
    [moved, *_] = dry_run("small", folder, Options(), QUIET, FakeBackend(10))
    note = "another program had changed the points of t, which are restored"
    assert (2.0, 4.0, (note,)) == (moved.before, moved.after, moved.reasons)
    rows = grade_assignment("small", folder, Options(), open_backend=FakeBackend(10))
    assert [(4.0, (note,))] * 10 == [(row.score, row.notes) for row in rows]
    again = grade_assignment("small", folder, Options(), open_backend=FakeBackend(10))
    assert [(4.0, (), True)] * 10 == [(row.score, row.notes, row.unchanged) for row in again]


def test_a_cell_that_a_person_graded_does_not_wait(known, tmp_path):
    """Also if a program has marked it again as one that a person has to grade, and after every submission is graded again."""
    folder = tmp_path / "class"
    shutil.copytree(known, folder)
    grade_assignment("small", folder, Options(), open_backend=FakeBackend(10))
    change_grades(folder, "manual_score = 1, needs_manual_grade = 1")
    for force in (False, True):
        rows = grade_assignment("small", folder, Options(force=force), open_backend=FakeBackend(10))
        assert [(2.0, 0)] * 10 == [(row.score, row.waiting) for row in rows]


def test_names_of_the_classs_list_reach_the_gradebook(known, tmp_path):
    """A student without a name gets name and address of roster.csv or of `collect`; a name that is there already stays."""
    folder = tmp_path / "class"
    shutil.copytree(known, folder)
    grade_assignment("small", folder, Options(), open_backend=FakeBackend(10))
    with closing(sqlite3.connect(folder / "gradebook.db")) as book, book:
        book.execute("UPDATE student SET last_name = 'Own', first_name = 'Name' WHERE id = 'student0002'")
    rows = [
        f'student000{number},"{name}",{number}@b.org' for number, name in enumerate(["Doe, Jr., Jo", "李小龙", "Other"])
    ]
    (folder / "roster.csv").write_text("\n".join(["student_id,name,email", *rows]), "utf-8")
    keep_students(folder, {"student0003": "Roe, Al", "student0009": "", "nobody": "X, Y"})
    folders = open_class(folder, "small")
    names = fill_names(folders, listed_students(folders))
    assert {"Doe, Jr., Jo", "李小龙", "Own, Name", "Roe, Al"} == set(names.values())
    with closing(sqlite3.connect(folder / "gradebook.db")) as book:
        found = book.execute("SELECT last_name, first_name, email FROM student ORDER BY id LIMIT 4").fetchall()
    expected = [
        ("Doe, Jr.", "Jo", "0@b.org"),
        ("李小龙", "", "1@b.org"),
        ("Own", "Name", "2@b.org"),
        ("Roe", "Al", None),
    ]
    assert expected == found


def test_the_report_has_what_changed_and_a_summary(known, tmp_path, capsys):
    """A row for each graded submission, changed penalty, problem and untimed late one; the summary counts all; `--all` prints all."""
    folder = tmp_path / "class"
    shutil.copytree(known, folder)
    rows = grade_assignment("small", folder, Options(feedback="name"), open_backend=FakeBackend(10))
    print_report(rows)
    first = capsys.readouterr().out
    assert 9 == first.count("student000")
    assert "9 graded, 1 unchanged, mean 3.0 of 3\n" in first
    (folder / "submitted" / "student0001" / "small" / "timestamp.txt").write_text("2026-10-03 12:00:00 UTC")
    (folder / "policy.toml").write_text("late.percent_a_day = 10\n[assignments.small]\ndue = 2026-10-02T13:00:00Z\n")
    rows = grade_assignment("small", folder, Options(feedback="name"), open_backend=FakeBackend(10))
    rows = with_names(rows, {}, {"student0002"})
    print_report(rows)
    said = capsys.readouterr().out
    assert ["student0001", "student0002"] == re.findall("^student000.", said, re.MULTILINE)
    assert "the penalty was 0" in said
    assert "10 unchanged, mean 3.0 of 3, 1 with another late penalty, 1 late without a time\n" in said
    print_report(rows, everyone=True)
    assert 10 == capsys.readouterr().out.count("student000")


def test_a_full_disk_keeps_what_came_before_in_the_batch(known, tmp_path, monkeypatch):
    """The fifth of ten folders that are written together cannot be: four students have their grade, and --resume adds the others."""
    folder = tmp_path / "class"
    shutil.copytree(known, folder)
    write, written = StudentSubmission.write_folder, []

    def full(work):
        if len(written) == 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "small.ipynb")
        written.append(work.student)
        write(work)

    monkeypatch.setattr(StudentSubmission, "write_folder", full)
    with pytest.raises(UnfinishedError, match="No space left"):
        grade_assignment("small", folder, Options(force=True), open_backend=FakeBackend(10))
    assert written == sorted({student for student, *_ in scores(folder)})
    monkeypatch.undo()
    rows = grade_assignment("small", folder, Options(resume=True), open_backend=FakeBackend(10))
    assert written == [row.student for row in rows if row.unchanged]
    assert 20 == len(scores(folder))
