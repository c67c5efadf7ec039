"""A grade is computed again when something that decides it has changed, and only then; `grade --dry-run` foretells what a run does."""

import datetime
import json

import nbformat
import pytest
from nbgrader.api import Gradebook

from autograder import cli
from autograder.course.new_course import ASSIGNMENT as FIRST
from autograder.course.new_course import make_course
from autograder.grade.backends import grading_job
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.wire.limits import Limits
from tests.grade.hostile.lesson import ASSIGNMENT, RIGHT, write_source
from tests.grade.hostile.school import FULL, hand_in, place

pytestmark = pytest.mark.thorough


def grade(course, *words) -> int:
    """Run the command."""
    return cli.main(["grade", FIRST, "--course", str(course), "--jobs", "1", *words])


def files(course) -> dict[str, bytes]:
    """Return everything in the course's folder except Python's cache of the configuration."""
    return {
        str(path): path.read_bytes() for path in course.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def change_test(course, old: str, new: str) -> None:
    """Change the test in the teacher's source."""
    path = course / "source" / FIRST / f"{FIRST}.ipynb"
    notebook = nbformat.read(path, 4)
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    nbformat.write(notebook, path)


def moved(course, capsys) -> dict[str, tuple[float | None, float]]:
    """Return whose marks a run would move."""
    capsys.readouterr()
    grade(course, "--dry-run", "--json")
    return {one["student"]: (one["before"], one["after"]) for one in json.loads(capsys.readouterr().out)["moved"]}


def scores(course, capsys) -> dict[str, float]:
    """Grade, and returns everybody's score."""
    capsys.readouterr()
    grade(course, "--json")
    return {one["student"]: one["score"] for one in json.loads(capsys.readouterr().out)["students"]}


def test_it_foretells_what_a_run_then_does(tmp_path, capsys, bubblewrap):
    """Without grades, without changes, with a changed test, and with a late policy: reported, not written, then done."""
    course = tmp_path / "course"
    make_course(course)
    before = files(course)
    assert {"ann": (None, 3.0), "ben": (None, 0.0), "cleo": (None, 0.0)} == moved(course, capsys)
    assert before == files(course)

    assert {"ann": 3.0, "ben": 0.0, "cleo": 0.0} == scores(course, capsys)
    assert {} == moved(course, capsys)

    change_test(course, "assert warm_days([15.0, 15.1], 15) == 1", "assert warm_days([15.0, 15.1], 15) >= 1")
    before = files(course)
    assert {"ben": (0.0, 3.0)} == moved(course, capsys)
    assert 1 == grade(course, "--dry-run")
    assert "test_warm_days: 0, then 3 of 3" in " ".join(capsys.readouterr().out.split())
    assert before == files(course)
    assert {"ann": 3.0, "ben": 3.0, "cleo": 0.0} == scores(course, capsys)

    (course / "submitted" / "ann" / FIRST / "timestamp.txt").write_text("2026-10-04 11:00:00 UTC")
    (course / "policy.toml").write_text(f"late.percent_a_day = 10\n[assignments.{FIRST}]\ndue = 2026-10-03T12:00:00\n")
    assert {"ann": (3.0, 2.7)} == moved(course, capsys)
    assert 2.7 == scores(course, capsys)["ann"]


LATE = "2026-02-03 04:05:06.000000 UTC"
ZERO = "c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'zero'\n"


@pytest.fixture
def course(bubblewrap, tmp_path):
    """A course in which one student's right work is graded."""
    write_source(tmp_path)
    (tmp_path / "source" / ASSIGNMENT / "data.csv").write_text("1,2")
    hand_in(tmp_path, "ann", RIGHT)
    (place(tmp_path, "ann") / "timestamp.txt").write_text(LATE)
    assert not graded(tmp_path).unchanged
    return tmp_path


def graded(course, **options):
    """Return the student's row after one more run."""
    [row] = grade_assignment(ASSIGNMENT, course, Options(jobs=1, **options))
    return row


def in_gradebook(course, change):
    """Change the assignment's row."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        change(gradebook)
        gradebook.db.commit()


def due(course, year):
    """Set the due date."""
    in_gradebook(
        course, lambda book: setattr(book.find_assignment(ASSIGNMENT), "duedate", datetime.datetime(year, 1, 1))
    )


def test_nothing_changed(course):
    """The same again is not graded again."""
    assert graded(course).unchanged


@pytest.mark.parametrize("name", ["data.csv", "new_helper.py", "img/a.png"])
def test_the_teachers_files(course, name):
    """A data file or a helper module that is changed or added."""
    path = course / "source" / ASSIGNMENT / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("3,4")
    assert not graded(course).unchanged
    assert graded(course).unchanged


def test_a_limit(course):
    """A submission may have needed more seconds."""
    assert not graded(course, limits=Limits(cell_seconds=31)).unchanged


def test_the_graders_own_code(course, monkeypatch, tmp_path_factory):
    """A grade made before a fix of the grader is made again."""
    package = tmp_path_factory.mktemp("autograder")
    monkeypatch.setattr(grading_job, "PACKAGE", package)
    for text in ("before = 1", "before = 2"):
        (package / "judge.py").write_text(text)
        grading_job.deciding_versions.cache_clear()
        assert not graded(course).unchanged
    monkeypatch.undo()
    grading_job.deciding_versions.cache_clear()


def test_a_package_that_was_installed(course, monkeypatch, tmp_path_factory):
    """A model answer or an answer of a student may have needed the missing module."""
    packages = tmp_path_factory.mktemp("packages")
    monkeypatch.syspath_prepend(packages)
    for folder, same in (("nose-1.3.dist-info", False), ("nose", True)):
        (packages / folder).mkdir()
        grading_job.deciding_versions.cache_clear()
        assert graded(course).unchanged is same
    monkeypatch.undo()
    grading_job.deciding_versions.cache_clear()


def test_a_due_date_changes_the_penalty_without_grading(course):
    """Late work loses its points, and has them again when the date is moved or the policy taken back."""
    (course / "nbgrader_config.py").write_text(ZERO)
    due(course, 2025)
    assert (True, 0.0, FULL) == _row(course)
    due(course, 2027)
    assert (True, FULL, 0.0) == _row(course)
    due(course, 2025)
    assert (True, 0.0, FULL) == _row(course)
    (course / "nbgrader_config.py").unlink()
    assert (True, FULL, 0.0) == _row(course)


def _row(course) -> tuple:
    row = graded(course)
    return row.unchanged, row.score, row.late_penalty


def test_a_time_and_an_extension(course):
    """So do the time of submission and an extension; without a due date, an extension has no effect."""
    (course / "nbgrader_config.py").write_text(ZERO)
    in_gradebook(course, lambda book: book.grant_extension(ASSIGNMENT, "ann", days=1))
    assert (True, FULL, 0.0) == _row(course)
    due(course, 2025)
    assert (True, 0.0, FULL) == _row(course)
    (place(course, "ann") / "timestamp.txt").write_text("2024-02-03 04:05:06.000000 UTC")
    assert (True, FULL, 0.0) == _row(course)
    (place(course, "ann") / "timestamp.txt").write_text(LATE)
    in_gradebook(course, lambda book: book.grant_extension(ASSIGNMENT, "ann", days=900))
    assert (True, FULL, 0.0) == _row(course)


def test_marks_of_a_person_are_in_the_score(course):
    """Marks of a person and extra credit are part of the student's score; the points of the tests are stored separately."""

    def enter(book):
        grade = book.find_grade("scaled", ASSIGNMENT, ASSIGNMENT, "ann")
        grade.manual_score, grade.extra_credit = 0.5, 0.25

    in_gradebook(course, enter)
    row = graded(course)
    assert (True, FULL, FULL - 2 + 0.75) == (row.unchanged, row.points, row.score)


def test_a_student_removed_from_the_gradebook(course):
    """A student who was removed there, and hands in the same again, is graded again."""
    in_gradebook(course, lambda book: book.remove_student("ann"))
    row = graded(course)
    assert (False, FULL) == (row.unchanged, row.score)
