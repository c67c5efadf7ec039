"""A class with personal notebooks: each submission is graded by the student's own solution, whatever is submitted."""

import json
import shutil

import nbformat
import pytest

from autograder import cli
from autograder.classroom.report.class_report import class_report
from autograder.classroom.report.report_page import report_html
from autograder.classroom.similar_report import similar_report
from autograder.course.canonical import read
from autograder.course.new_course import ASSIGNMENT, make_course
from autograder.course.variants.declared_changes import read_changes
from autograder.course.variants.variant import vary
from autograder.course.variants.variant_record import read_record
from autograder.grade.batch.course_folders import open_class

pytestmark = pytest.mark.thorough

DECLARED = """
[warm_days.names]
limit = ["bound", "threshold"]

[[warm_days.choices]]
exercise = "test_warm_days"
differs = "whether warm or cold days are counted"
replace = ["> limit", "above the limit", "15) == 3", "[15.0, 15.1]"]
by = [["< limit", "below the limit", "15) == {cold}", "[15.0, 14.9]"]]
""".replace("warm_days.", f"{ASSIGNMENT}.")
STUDENTS = ("ann", "ben", "cleo", "dora", "emil", "fay")


@pytest.fixture
def course(tmp_path):
    """A course of nbgrader's own form with six students, whose notebooks were handed out."""
    course = make_varied_course(tmp_path / "course")
    shutil.rmtree(course / "submitted")
    assert 0 == release(course)
    return course


def make_varied_course(course):
    """Make a course whose assignment varies, with a roster and the three submissions of a new course."""
    make_course(course)
    rows = (course / "source" / ASSIGNMENT / "temperatures.csv").read_text().splitlines()
    cold = sum(float(row.split(",")[-1]) < 15 for row in rows[1:])
    (course / "source" / "variants.toml").write_text(DECLARED.replace("{cold}", str(cold)))
    (course / "roster.csv").write_text("student_id,name\n" + "\n".join(f"{one},{one}" for one in STUDENTS) + "\n")
    # The record of a class whose seed is known, so that the test always sees the same class.
    (course / "variants.json").write_text('{"seed": "5"}')
    return course


def release(course, *options):
    """Run the command that hands out a notebook to each student."""
    words = ["release", ASSIGNMENT, "--for-each", str(course / "roster.csv"), "--course", str(course)]
    return cli.main([*words, *options])


def own_source(course, student):
    """Return a student's notebook with the model answer in it."""
    changes = read_changes(course / "source", ASSIGNMENT)
    seed = read_record(course).students(ASSIGNMENT, changes)[student]
    return vary(read(course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"), seed, changes)


def answer(notebook):
    """Return the text of the answer cell."""
    return next(
        cell.source for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "warm_days"
    )


def hand_in(course, student, text, *, notebook=None):
    """Put an answer into a student's notebook, and submit it."""
    folder = course / "handouts" / (notebook or student) / ASSIGNMENT
    handed_out = nbformat.read(folder / f"{ASSIGNMENT}.ipynb", 4)
    for cell in handed_out.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "warm_days":
            cell.source = text
    target = course / "submitted" / student / ASSIGNMENT
    target.mkdir(parents=True, exist_ok=True)
    nbformat.write(handed_out, target / f"{ASSIGNMENT}.ipynb")
    (target / "temperatures.csv").write_bytes((folder / "temperatures.csv").read_bytes())


def scores(course, capsys):
    """Grade, and returns everybody's points for the test."""
    capsys.readouterr()
    cli.main(["grade", ASSIGNMENT, "--course", str(course), "--jobs", "1", "--json"])
    rows = json.loads(capsys.readouterr().out)["students"]
    return {row["student"]: row["cells"][ASSIGNMENT]["test_warm_days"]["points"] for row in rows}


@pytest.mark.slow
def test_each_student_is_graded_by_the_own_key(course, capsys, bubblewrap):
    """Own model answers pass; another student's pass only for equal questions; the submitted notebook does not decide."""
    keys = {student: answer(own_source(course, student)) for student in STUDENTS}
    asked = {student: "below the" in keys[student] for student in STUDENTS}
    assert {True, False} == set(asked.values())
    assert 3 <= len(set(keys.values()))

    for student in STUDENTS:
        hand_in(course, student, keys[student])
    assert dict.fromkeys(STUDENTS, 3.0) == scores(course, capsys)
    page = (course / "feedback" / "ann" / ASSIGNMENT / f"{ASSIGNMENT}.html").read_text()
    assert ("below the" in page) == asked["ann"]

    neighbours = dict(zip(STUDENTS, [*STUDENTS[1:], STUDENTS[0]], strict=True))
    for student, other in neighbours.items():
        hand_in(course, student, keys[other], notebook=other)
    expected = {student: 3.0 * (asked[student] == asked[other]) for student, other in neighbours.items()}
    assert expected == scores(course, capsys)


def test_a_submitted_notebook_is_graded_by_itself(tmp_path, capsys, bubblewrap):
    """Variants for students who have submitted the common notebook need an option; its submissions keep their points.

    A student's own variant is graded by the variant, that of another student too, with a note, whoever is asked something else.
    """
    course = make_varied_course(tmp_path / "course")
    before = scores(course, capsys)
    assert {"ann": 3.0, "ben": 0.0, "cleo": 0.0} == before
    assert 2 == release(course)
    assert "3 students of the list" in (error := capsys.readouterr().err)
    assert "3 of them have submitted it" in error
    assert not (course / "handouts").exists()

    assert 0 == release(course, "--replace")
    assert before == scores(course, capsys)
    keys = {student: answer(own_source(course, student)) for student in STUDENTS}
    for student in ("ann", "ben"):
        hand_in(course, student, keys[student])
    hand_in(course, "cleo", keys["cleo"], notebook="ann")
    assert {"ann": 3.0, "ben": 3.0, "cleo": 3.0} == scores(course, capsys)
    cli.main(["grade", ASSIGNMENT, "--course", str(course), "--json"])
    notes = {row["student"]: row["notes"] for row in json.loads(capsys.readouterr().out)["students"]}
    said = "submitted the notebook of ann, and is graded by the notebook that this student was given"
    assert {"ann": [], "ben": [], "cleo": [said]} == notes


def test_answers_in_the_variant_of_another_student_are_no_beliefs(course, capsys, bubblewrap):
    """The report lists the wrong answer of the student whose variant it is; `similar` lists who submitted whose."""
    for student in ("ann", "cleo"):
        hand_in(course, student, "def warm_days(temperatures, limit):\n    return -1", notebook="ann")
    assert {"ann": 0.0, "cleo": 0.0} == scores(course, capsys)
    folders = open_class(course, ASSIGNMENT)
    report = class_report(folders)
    (exercise,) = [one for one in report.exercises if one.id == "test_warm_days"]
    assert [("ann",)] == [group.students for group in exercise.wrong]
    assert 1 == report.other_variants
    assert "1 submitted the variant of another student" in report_html(report)
    assert {"cleo": ["ann"]} == similar_report(ASSIGNMENT, course).variants
    assert 0 == cli.main(["similar", ASSIGNMENT, "--course", str(course), "--out", str(course / "page.html")])
    assert "1 with the variant of another student" in capsys.readouterr().out
    assert "cleo: that of ann" in (course / "page.html").read_text("utf-8")


def test_more_students_change_nobody(course, capsys):
    """The same command with a longer list adds a student; all others keep their notebooks to the byte."""
    before = {path: path.read_bytes() for path in (course / "handouts").rglob("*.ipynb")}
    (course / "roster.csv").write_text(
        "student_id,name\n" + "\n".join(f"{one},{one}" for one in [*STUDENTS, "gus"]) + "\n"
    )
    assert 0 == cli.main(["release", ASSIGNMENT, "--for-each", str(course / "roster.csv"), "--course", str(course)])
    after = {path: path.read_bytes() for path in (course / "handouts").rglob("*.ipynb")}
    assert before == {path: data for path, data in after.items() if "gus" not in path.parts}
    assert len(before) + 1 == len(after)


def test_nothing_is_handed_out_that_was_not_proven(course, capsys):
    """An alternative whose model answer fails is named, no notebooks are created, and the record is unchanged."""
    declared = course / "source" / "variants.toml"
    declared.write_text(declared.read_text().replace('"below the limit", "15) ==', '"below the limit", "15) == 1 +'))
    before = (course / "variants.json").read_bytes()
    words = ["release", ASSIGNMENT, "--for-each", str(course / "roster.csv"), "--course", str(course)]
    assert 2 == cli.main(words)
    assert "of variants.toml has changed" in capsys.readouterr().err
    assert before == (course / "variants.json").read_bytes()

    (course / "variants.json").write_text('{"seed": "5"}')
    assert 2 == cli.main(words)
    assert "AssertionError" in capsys.readouterr().err
    assert '{"seed": "5"}' == (course / "variants.json").read_text()
    assert [] == list(course.glob(".handouts-*"))


def test_bad_input_gets_one_sentence(course, capsys):
    """A list without an assignment, an assignment without a list, and a source without variants."""
    assert 2 == cli.main(["release", "--for-each", str(course / "roster.csv")])
    assert "requires an assignment" in capsys.readouterr().err
    assert 2 == cli.main(["release", ASSIGNMENT])
    assert "--for-each" in capsys.readouterr().err
    (course / "source" / "variants.toml").unlink()
    words = ["release", ASSIGNMENT, "--for-each", str(course / "roster.csv"), "--course", str(course)]
    assert 2 == cli.main(words)
    assert "has no part that varies" in capsys.readouterr().err
