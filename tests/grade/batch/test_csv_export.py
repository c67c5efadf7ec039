"""`nbgrader export` with our plugin: the table is read back whole, and no name in it is a formula."""

import csv
import os
import sys

import pandas
import pytest
from nbgrader.api import Gradebook

from tests.commands import nbgrader
from tests.grade.names import ODD_NAMES

NAMES = [*ODD_NAMES, "plain", 'quo"ted', "@sum", "+49", "＝1", "a,b;c\td"]


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course with a gradebook in which the students have odd names; one of them handed something in."""
    # nbgrader starts the program `alembic` to make a gradebook.
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        gradebook.add_assignment("ps1")
        gradebook.add_notebook("problem", "ps1")
        gradebook.add_grade_cell("cell", "problem", "ps1", max_score=5, cell_type="code")
        for name in NAMES:
            gradebook.add_student(name, first_name=name, last_name="Doe, Jane", email="=cmd()")
        gradebook.add_submission("ps1", "plain")
        gradebook.find_grade("cell", "problem", "ps1", "plain").manual_score = 4.5
        gradebook.find_submission_notebook("problem", "ps1", "plain").late_submission_penalty = 1
        gradebook.db.commit()
    return tmp_path


def exported(course, setting: str, *words) -> str:
    """Return what `nbgrader export` wrote, with the exporter that a setting names."""
    (course / "nbgrader_config.py").write_text(f"c = get_config()\n{setting}\n")
    nbgrader(course, "export", *words)
    return (course / "grades.csv").read_text("utf-8")


OURS = "from autograder.grade.batch.csv_export import configure_export\nconfigure_export(c)"


def test_every_student_has_one_whole_row(course):
    """Python's csv and pandas read the same rows: one for each student, and every value in its column."""
    text = exported(course, OURS)
    rows = list(csv.DictReader(text.splitlines()))
    table = pandas.read_csv(course / "grades.csv", dtype=str, keep_default_na=False)
    assert [list(row.values()) for row in rows] == table.values.tolist()
    assert len(NAMES) == len(rows)
    assert {"Doe, Jane"} == {row["last_name"] for row in rows}
    [plain] = [row for row in rows if row["student_id"] == "plain"]
    assert ("4.5", "1.0", "3.5", "5.0") == tuple(
        plain[name] for name in ("raw_score", "late_submission_penalty", "score", "max_score")
    )


def test_no_cell_is_a_formula_or_an_escape_sequence(course):
    """No cell begins like a formula, and control characters are removed."""
    text = exported(course, OURS)
    cells = [cell for row in csv.reader(text.splitlines()) for cell in row]
    assert [] == [cell for cell in cells if cell[:1] in set("=+-@\t\r＝")]
    assert text.replace("\n", "").isprintable()


def test_the_columns_are_nbgraders(course):
    """The heading is that of nbgrader's own exporter, whose rows have too many columns here (0.9.6)."""
    ours, stock = exported(course, OURS).splitlines(), exported(course, "").splitlines()
    assert ours[0] == stock[0]
    assert len(next(csv.reader([stock[-1]]))) > len(ours[0].split(","))


def test_options_are_nbgraders(course):
    """`--student` and `--assignment` choose rows, as they do for nbgrader's own exporter."""
    rows = exported(course, OURS, "--student", "['plain']", "--assignment", "['ps1']").splitlines()
    assert ["plain"] == [row["student_id"] for row in csv.DictReader(rows)]
