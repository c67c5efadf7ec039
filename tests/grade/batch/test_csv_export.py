"""`nbgrader export` with our plugin: the table is read back whole, and no name in it is a formula."""

import csv

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbgrader.plugins import CsvExportPlugin

from autograder.grade.batch.csv_export import QuotedCsvExport, harmless_cell, plain_cell
from tests.classroom.made_grades import open_gradebook
from tests.commands import nbgrader
from tests.grade.names import ODD_NAMES

NAMES = [*ODD_NAMES, "plain", 'quo"ted', "@sum", "+49", "＝1", "a,b;c\td"]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with a gradebook in which the students have odd names; one of them handed something in, after two weeks."""
    folder = tmp_path_factory.mktemp("course")
    with open_gradebook(folder) as gradebook:
        for name in ("ps1", "ps2"):
            gradebook.add_assignment(name)
            gradebook.add_notebook("problem", name)
            gradebook.add_grade_cell("cell", "problem", name, max_score=5, cell_type="code")
        for name in NAMES:
            gradebook.add_student(name, first_name=name, last_name="Doe, Jane", email="=cmd()")
        for assignment, penalty in (("ps1", 1), ("ps2", 9)):
            gradebook.add_submission(assignment, "plain")
            gradebook.find_grade("cell", "problem", assignment, "plain").manual_score = 4.5
            gradebook.find_submission_notebook("problem", assignment, "plain").late_submission_penalty = penalty
        gradebook.db.commit()
    return folder


def exported(course, exporter=QuotedCsvExport, **options) -> str:
    """Return what an exporter writes, by default ours."""
    with open_gradebook(course) as gradebook:
        exporter(to=str(course / "grades.csv"), **options).export(gradebook)
    return (course / "grades.csv").read_text("utf-8")


def test_every_student_has_one_whole_row(course):
    """Python's csv and pandas read the same rows: one for each student, and every value in its column; no score is negative."""
    text = exported(course)
    rows = list(csv.DictReader(text.splitlines()))
    table = pandas.read_csv(course / "grades.csv", dtype=str, keep_default_na=False)
    assert [list(row.values()) for row in rows] == table.values.tolist()
    assert 2 * len(NAMES) == len(rows)
    assert {"Doe, Jane"} == {row["last_name"] for row in rows}
    points = [
        tuple(row[name] for name in ("raw_score", "late_submission_penalty", "score", "max_score"))
        for row in rows
        if row["student_id"] == "plain"
    ]
    assert [("4.5", "1.0", "3.5", "5.0"), ("4.5", "9.0", "0.0", "5.0")] == points


@given(st.text() | st.from_regex(r"[ '=＝\\xu0]{1,5}\w*", fullmatch=True))
def test_a_cell_is_harmless_and_read_back(value):
    """No cell begins like a formula, every character is visible, and the reader, who strips cells, gets the same value."""
    cell = harmless_cell(value)
    assert cell[:1] not in set("=+-@＝＋－＠")
    assert cell.isprintable()
    assert value == plain_cell(cell.strip())


def test_the_columns_are_nbgraders(course):
    """The heading is that of nbgrader's own exporter, whose rows have too many columns here (0.9.6)."""
    ours, stock = exported(course).splitlines(), exported(course, CsvExportPlugin).splitlines()
    assert ours[0] == stock[0]
    assert len(next(csv.reader([stock[-1]]))) > len(ours[0].split(","))


@pytest.mark.slow
def test_nbgrader_uses_it(course):
    """The command writes the same file if the course's configuration names our exporter."""
    text = "c = get_config()\nfrom autograder.grade.batch.csv_export import configure_export\nconfigure_export(c)\n"
    (course / "nbgrader_config.py").write_text(text)
    before = exported(course)
    nbgrader(course, "export")
    assert before == (course / "grades.csv").read_text("utf-8")


def test_options_choose_rows(course):
    """`--student` and `--assignment` choose them, as for nbgrader's own exporter."""
    rows = exported(course, student=["plain"], assignment=["ps2"]).splitlines()
    assert [("plain", "ps2")] == [(row["student_id"], row["assignment"]) for row in csv.DictReader(rows)]
