"""`read`: answers without names, points and comments that reach nbgrader's gradebook, a second reader."""

import csv
import io

import nbformat
import pytest

from autograder import cli
from autograder.classroom.reading import read_answers
from autograder.classroom.report.class_report import class_report
from autograder.classroom.report.report_page import report_html
from autograder.errors import InputError
from autograder.grade.batch.course_folders import open_class
from autograder.grade.sandbox.isolation import LEVELS
from tests.classroom import made_class
from tests.classroom.made_class import ASSIGNMENT
from tests.classroom.made_grades import give_grades, open_gradebook
from tests.classroom.simulated_class import ASSIGNMENT as SIMULATED
from tests.classroom.simulated_class import simulate
from tests.grade import plain_course

STUDENTS = [f"student{number:02}" for number in range(12)]


@pytest.fixture
def course(tmp_path):
    """A graded class of twelve, all of whom wrote a summary that waits for a person."""
    course = made_class.course(tmp_path)
    give_grades(
        course, {student: {"test_warm_days": 3.0, "summary": None} for student in STUDENTS}, comments=("summary",)
    )
    for student in STUDENTS:
        path = course / "autograded" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(
            made_class.notebook(made_class.STUDENTS[0]).replace(b"assert True", f"by {student[::-1]}".encode())
        )
    return course


def table(path) -> list[dict[str, str]]:
    """Return the rows of a table, as Python's csv module reads them."""
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8-sig"))))


def fill(path, column: str, **values) -> None:
    """Fill in cells of a column by the answer's code, as a person would in a spreadsheet, and other columns with `comment_CODE`."""
    rows = table(path)
    for row in rows:
        row[column] = values.get(row["answer"], row[column])
        if f"comment_{row['answer']}" in values:
            row["comment"] = values[f"comment_{row['answer']}"]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), "utf-8")


def grades(course) -> dict[str, tuple[float | None, bool, str | None]]:
    """Return the grade of each student's summary in nbgrader's gradebook."""
    with open_gradebook(course) as book:
        place = ("summary", ASSIGNMENT, ASSIGNMENT)
        return {
            one: (
                (found := book.find_grade(*place, one)).manual_score,
                found.needs_manual_grade,
                book.find_comment(*place, one).manual_comment,
            )
            for one in STUDENTS
        }


def student_of(row: dict[str, str]) -> str:
    """Return who wrote the answer of a row: each text is the student's name backwards."""
    return row["text"].removeprefix("by ")[::-1]


def test_points_and_comments_reach_the_gradebook_without_a_name_in_the_table(course):
    """Each student gets the right mark, a short comment is expanded, and formgrader shows the filled-in values."""
    done = read_answers(ASSIGNMENT, course)
    rows = table(done.table)
    assert (12, 12, 0) == (done.answers, done.waiting, done.taken)
    assert set(STUDENTS) == {student_of(row) for row in rows} != {row["answer"] for row in rows}
    assert not any(student in done.table.read_text("utf-8") for student in STUDENTS)
    assert [student_of(row) for row in rows] != STUDENTS

    (course / "reading" / "comments.csv").write_text("short,comment\nunits,Say the units.\n", "utf-8")
    first, second = rows[:2]
    fill(
        done.table,
        "points",
        **{first["answer"]: "1.5", second["answer"]: "0", f"comment_{first['answer']}": "Good. #units"},
    )
    again = read_answers(ASSIGNMENT, course)
    assert (10, 2) == (again.waiting, again.taken)
    found = grades(course)
    assert (1.5, False, "Good. Say the units.") == found[student_of(first)]
    assert (0.0, False, None) == found[student_of(second)]
    assert 10 == sum(mark == (None, True, None) for mark in found.values())
    assert 0 == read_answers(ASSIGNMENT, course).taken


def test_a_mark_given_in_formgrader_stays(course):
    """A table that was written before it does not take it back; one that was changed since does."""
    rows = table(read_answers(ASSIGNMENT, course).table)
    with open_gradebook(course) as book:
        grade = book.find_grade("summary", ASSIGNMENT, ASSIGNMENT, student_of(rows[0]))
        grade.manual_score, grade.needs_manual_grade = 2.0, False
        book.db.commit()
    done = read_answers(ASSIGNMENT, course)
    assert (2.0, False, None) == grades(course)[student_of(rows[0])]
    fill(done.table, "points", **{rows[0]["answer"]: ""})
    read_answers(ASSIGNMENT, course)
    assert (None, True, None) == grades(course)[student_of(rows[0])]


@pytest.mark.parametrize(("points", "comment", "sentence"), [
    ("3", "", "row 2: 3 is not a number of points from 0 to 2"),
    ("good", "", "row 2: good is not a number of points"),
    ("0_1", "", "row 2: 0_1 is not a number of points"),
    ("1", "#unknown", "row 2: no comment is called #unknown"),
])  # fmt: skip
def test_what_cannot_be_is_named_and_nothing_is_written(course, points, comment, sentence):
    """One sentence with the row; the other rows are not taken either."""
    done = read_answers(ASSIGNMENT, course)
    rows = table(done.table)
    fill(
        done.table,
        "points",
        **{rows[0]["answer"]: points, f"comment_{rows[0]['answer']}": comment, rows[1]["answer"]: "1"},
    )
    with pytest.raises(InputError, match=sentence):
        read_answers(ASSIGNMENT, course)
    assert {(None, True, None)} == set(grades(course).values())


@pytest.mark.parametrize("by_policy", [True, False], ids=["policy.toml", "nbgrader db student remove"])
def test_a_student_who_left_is_not_read(course, by_policy):
    """Their rows disappear from the table, filled in or not, and all other marks are transferred, also in later runs."""
    done = read_answers(ASSIGNMENT, course)
    rows = table(done.table)
    gone = student_of(rows[3])
    fill(done.table, "points", **{row["answer"]: "1" for row in rows})
    if by_policy:
        (course / "policy.toml").write_text(f'left = ["{gone}"]', "utf-8")
    else:
        with open_gradebook(course) as book:
            book.remove_student(gone)
    for taken in (11, 0):
        done = read_answers(ASSIGNMENT, course)
        assert (11, 0, taken) == (done.answers, done.waiting, done.taken)
        assert gone not in map(student_of, table(done.table))


def test_a_second_reader_gets_answers_from_the_worst_to_the_best(course, capsys):
    """Without the first reader's points; the agreement is that of the two columns."""
    done = read_answers(ASSIGNMENT, course)
    given = {row["answer"]: str(number % 5 / 2) for number, row in enumerate(table(done.table))}
    fill(done.table, "points", **given)
    assert 0 == cli.main(["read", ASSIGNMENT, "--course", str(course), "--sample", "4"])
    sheet = course / "reading" / ASSIGNMENT / "second_reading.csv"
    rows = table(sheet)
    assert ["answer", "question", "of", "text", "second_points"] == list(rows[0])
    assert {"0.0", "2.0"} < {given[row["answer"]] for row in rows}
    fill(sheet, "second_points", **{row["answer"]: "1" for row in rows})
    capsys.readouterr()
    assert 0 == cli.main(["read", ASSIGNMENT, "--course", str(course)])
    second = read_answers(ASSIGNMENT, course).second
    differences = [abs(float(given[row["answer"]]) - 1) for row in rows]
    assert (4, differences.count(0), sum(differences) / 4) == (second.answers, second.same, second.mean_difference)
    assert f"A second reader gave {differences.count(0)} of 4 answers the same points" in capsys.readouterr().out
    cli.main(["read", ASSIGNMENT, "--course", str(course), "--sample", "40"])
    assert 12 == len(table(sheet))


def test_the_report_has_what_a_person_gave(tmp_path):
    """A manual mark counts instead of the test's, an answer that still waits counts nowhere, as computed from the rows by hand."""
    students = simulate(tmp_path, 30)
    with open_gradebook(tmp_path) as book:
        for number, mark in enumerate((0.5, 1.5, None, None, None)):
            grade = book.find_grade("exercise_0", SIMULATED, SIMULATED, students[number].student)
            grade.manual_score, grade.needs_manual_grade = mark, mark is None
        book.db.commit()
    marks = [0.5, 1.5, *(2.0 * (one.answers["exercise_0"] is None) for one in students[5:])]
    found = class_report(open_class(tmp_path, SIMULATED, without_submissions=True))
    first = found.exercises[0]
    assert (3, marks.count(2.0)) == (first.waiting, first.correct)
    assert first.statistics.difficulty == pytest.approx(sum(marks) / 2 / 27)
    assert "to be read" in report_html(found)


def test_an_answer_in_a_cell_without_metadata_is_listed(tmp_path):
    """Students without nbgrader's metadata are read like the others; the next `grade` writes the pages of those with a new mark."""
    if LEVELS["bubblewrap"].obstacle:
        pytest.skip(LEVELS["bubblewrap"].obstacle)
    retyped, bare = (
        plain_course.answered({"explain_mean": "undefined"}),
        plain_course.answered({"explain_mean": "not a number"}),
    )
    retyped.cells[-1] = nbformat.v4.new_markdown_cell("undefined")
    for cell in bare.cells:
        cell.metadata.clear()
    written = plain_course.answered({"explain_mean": "an error"})
    course = plain_course.make_class(tmp_path, {"ann": retyped, "bob": bare, "cem": written})
    plain_course.grade_class(course)
    reading = read_answers(plain_course.ASSIGNMENT, course)
    assert (3, 3) == (reading.answers, reading.waiting)
    texts = "".join(str(row) for row in table(reading.table))
    assert all(text in texts for text in ("undefined", "not a number", "an error"))

    pages = {student: plain_course.page(course, student).read_text("utf-8") for student in ("ann", "bob", "cem")}
    [row] = [row for row in table(reading.table) if row["text"] == "not a number"]
    fill(reading.table, "points", **{row["answer"]: "1", f"comment_{row['answer']}": "Which number?"})
    read_answers(plain_course.ASSIGNMENT, course)
    assert all(row.unchanged for row in plain_course.grade_class(course))
    after = {student: plain_course.page(course, student).read_text("utf-8") for student in pages}
    assert "Which number?" in after["bob"]
    assert after == pages | {"bob": after["bob"]}
