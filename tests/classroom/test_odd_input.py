"""Mistakes of a teacher: each command reports them in one sentence, with exit code 2, and writes nothing."""

import resource
import shutil
import sqlite3

import pytest

from autograder import cli
from autograder.classroom.collect.collection import collect
from autograder.classroom.roster import read_roster
from tests.classroom import downloads, made_class
from tests.classroom.made_class import ASSIGNMENT, NOTEBOOK, answer_of
from tests.classroom.made_grades import give_grades

RETURN = "return first --to canvas --worksheet gradebook.csv --out out"
COLLECT = "collect sub.zip first --roster gradebook.csv"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a course whose class was collected and graded, and with the downloads for it."""
    folder = tmp_path_factory.mktemp("made")
    course = made_class.course(folder)
    roster, zipped = downloads.canvas_gradebook(folder / "gradebook.csv"), downloads.canvas_zip(folder / "sub.zip")
    collect(zipped, ASSIGNMENT, course, read_roster(roster))
    give_grades(course, {one.login: {"test_warm_days": 1.0, "summary": None} for one in downloads.HERE})
    (folder / "own.csv").write_text("student_id,points\nu00001,\n")
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """A copy of it, in which the commands run."""
    shutil.copytree(made, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def contents(folder):
    """Return every path below a folder, and the bytes of files."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def said(words: str, capsys) -> str:
    """Run a command that cannot be carried out, and returns the one line that it says."""
    try:
        code = cli.main([*words.split(), "--course", "course"])
    except SystemExit as error:  # the parser's
        code = error.code
    told = capsys.readouterr()
    assert (2, "", 1) == (code, told.out, told.err.count("\n")), told
    return told.err


def damaged(path):
    """Make the gradebook a file of something else."""
    path.write_text("no gradebook" * 100)


def older(path):
    """Make the gradebook one of an nbgrader that did not know yet who is who on a platform (0.6 added that column)."""
    with sqlite3.connect(path) as book:
        book.execute("ALTER TABLE student DROP COLUMN lms_user_id")
    book.close()


@pytest.mark.parametrize("words", ["report first", "report all", "read first", RETURN, "grade first --dry-run"])
@pytest.mark.parametrize(("change", "sentence"), [
    (damaged, "file is not a database"),
    (older, "no such column: student.lms_user_id). An older nbgrader created it"),
])  # fmt: skip
def test_a_gradebook_that_cannot_be_used(place, capsys, words, change, sentence):
    """Each command that opens it reports the problem and a solution."""
    change(place / "course" / "gradebook.db")
    before = contents(place)
    assert f"gradebook.db cannot be used ({sentence}" in said(words, capsys)
    assert before == contents(place)


@pytest.mark.parametrize("words", ["report first", "report all", "read first", RETURN])
def test_an_empty_file_is_no_gradebook(place, capsys, words):
    """Such as an interrupted copy leaves; nbgrader would fill it with empty tables."""
    (place / "course" / "gradebook.db").write_bytes(b"")
    before = contents(place)
    assert "grades yet. Run `autograder grade" in said(words, capsys)
    assert before == contents(place)


@pytest.mark.parametrize("name", ["../source/first", "./first", "first/", "..", ".", "", "/etc", "firsd"])
@pytest.mark.parametrize("command", ["collect sub.zip {}", "report {} --json", "read {}", "grade {} --dry-run"])
def test_an_assignment_is_the_name_of_a_folder(place, capsys, command, name):
    """A path would lead records, submissions and grades to other folders than those in which they are looked up."""
    before = contents(place)
    words = [name if word == "{}" else word for word in command.split()]
    assert 2 == cli.main([*words, "--course", "course"])
    assert f"there is no assignment {name!r}. Known assignments: first" in capsys.readouterr().err
    assert before == contents(place)


@pytest.mark.parametrize(("words", "sentence"), [
    ("read first --sample -3", "'-3' is not a whole number from 0 up"),
    ("rehearse first --mutants -1", "'-1' is not a whole number from 0 up"),
    ("rehearse first --jobs some", "'some' is not a whole number from 0 up"),
    ("release first --for-each gradebook.csv --seed 3", "cannot be combined with --for-each"),
    ("release first --for-each gradebook.csv --check", "cannot be combined with --for-each"),
    ("release --check --seed 7", "--check cannot be combined with --seed"),
    ("release --check --language zh-CN", "--check cannot be combined with --language"),
    ("release --seed 7 --language zh-CN", "--seed cannot be combined with --language"),
    ("release --replace", "--replace requires --for-each ROSTER.csv"),
    ("release first --to canvas --out out --replace", "--replace requires --for-each ROSTER.csv"),
    ("release --for-credit", "requires --for-each ROSTER.csv, the list of students, or --to PLATFORM"),
    ("release first --to canvas", "--to and --out require each other"),
    ("release --to canvas --out out", "--to requires an assignment"),
    ("return first --to csv --worksheet own.csv --out out --column student_id", "student_id identifies students"),
    ("return first --to canvas --worksheet course --out out", "course cannot be read (Is a directory)"),
    ("harness gradescope first --requirements course", "course cannot be read (Is a directory)"),
])  # fmt: skip
def test_an_option_that_cannot_be(place, capsys, words, sentence):
    """Negative numbers, options that do not go together, a folder for a file, and the column that says who is who."""
    before = contents(place)
    assert sentence in said(words, capsys)
    assert before == contents(place)


def test_a_course_that_is_none(place, capsys):
    """`report all` does not need an assignment, but still reports that the folder is missing."""
    for words in (["report", "all"], ["report", "first"], COLLECT.split(), RETURN.split(), ["read", "first"]):
        assert 2 == cli.main([*words, "--course", "nowhere"])
        assert "nowhere. Name the course's folder with --course" in capsys.readouterr().err


def test_submitted_is_a_file(place, capsys):
    """Submissions cannot be stored, and nothing else is written."""
    shutil.rmtree(place / "course" / "submitted")
    (place / "course" / "submitted").write_text("something else")
    before = contents(place)
    assert "submitted cannot be written (File exists)" in said(COLLECT, capsys)
    assert before == contents(place)


@pytest.mark.parametrize(
    "lies_there", ["a file for the student", "a file for the assignment", "a link for the notebook"]
)
def test_what_lies_in_the_way_of_one_student_stops_nobody_else(place, capsys, lies_there):
    """The student's line reports it, the obstacle is kept, and all other students get their submissions."""
    student = place / "course" / "submitted" / "u00001"
    way = {"student": student, "assignment": student / ASSIGNMENT, "notebook": student / ASSIGNMENT / NOTEBOOK}[
        lies_there.split()[-1]
    ]
    shutil.rmtree(place / "course" / "submitted" / "u00002")
    shutil.rmtree(way) if way.is_dir() else way.unlink()
    way.symlink_to("/etc/passwd") if "link" in lies_there else way.write_text("something else")
    assert 1 == cli.main([*COLLECT.split(), "--course", "course"])
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("u00001"))
    assert "cannot be placed" in line
    assert way.is_symlink() if "link" in lies_there else way.read_text() == "something else"
    assert "return 2" in answer_of(place / "course" / "submitted" / "u00002" / ASSIGNMENT / NOTEBOOK)


@pytest.mark.parametrize(
    "size", [50_000, 100_000], ids=["the lesson does not go in", "the lesson does, the zip does not"]
)
def test_a_class_that_cannot_be_written_leaves_nothing(tmp_path, capsys, size):
    """The disk is full in the middle: the same command can be given again, as the folder is empty."""
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))
        code = cli.main(["demo-class", str(tmp_path / "demo")])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert (2, []) == (code, list((tmp_path / "demo").iterdir()))
    told = capsys.readouterr().err
    assert "cannot be written to" in told
    assert "File too large" in told
