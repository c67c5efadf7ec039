"""The demo class is processed from a platform's zip to returned grades, with the commands of its own README."""

import csv
import json
import re
import shlex
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from autograder import cli
from autograder.classroom.demo_class import ABSENT, COUNT, LESSON, make_demo_class
from autograder.classroom.similar_report import similar_report
from autograder.errors import InputError

HANDED_IN = COUNT - ABSENT
KEPT = {"s4017": 0.8, "s4036": 0.9}  # two days late, and one; s4005 is within the grace period, s4023 has an extension


def test_the_class_holds_40_hand_ins_and_no_answers(tmp_path):
    """Each is a notebook as it was released, with this student's answers; the same seed makes the same class."""
    make_demo_class(tmp_path / "one")
    make_demo_class(tmp_path / "two")
    assert (tmp_path / "one" / "download.zip").read_bytes() == (tmp_path / "two" / "download.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one" / "download.zip") as archive:
        texts = [archive.read(name).decode() for name in archive.namelist()]
    assert HANDED_IN == len(texts)
    assert not [text for text in texts if "# wrong:" in text or "# answer:" in text]
    assert 30 < len(set(texts))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path):
    """One sentence is printed, and nothing is written."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match="not an empty folder"):
        make_demo_class(tmp_path)
    assert ["mine.txt"] == [path.name for path in tmp_path.iterdir()]


def test_the_page_for_teachers_has_the_same_commands(tmp_path):
    """The commands in docs/classroom.md are those of the class's README, which the next test runs."""
    make_demo_class(tmp_path / "demo")
    readme = re.findall(r"^ +(autograder .+)$", (tmp_path / "demo" / "README.txt").read_text("utf-8"), re.M)
    page = (Path(__file__).parents[3] / "docs" / "classroom.md").read_text("utf-8")
    tried = page.partition("cd demo\n")[2].partition("```")[0].splitlines()
    assert readme == tried


@pytest.mark.thorough
def test_its_readme_leads_from_the_zip_to_returned_grades(tmp_path, monkeypatch, capsys, bubblewrap):
    """The README's commands show what the class was made for; Canvas' file has nbgrader's points, less the penalties."""
    make_demo_class(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    commands = re.findall(r"^ +autograder (.+)$", Path("README.txt").read_text("utf-8"), re.M)
    for command in commands:
        assert cli.main(shlex.split(command)) == 0, command
    printed = capsys.readouterr().out
    assert f"0 of {HANDED_IN} answers; {HANDED_IN} have no points yet" in printed
    assert f"feedback of {HANDED_IN} students" in printed
    assert "silences the counter" in Path("report.html").read_text("utf-8")
    assert [("s4012", "s4031")] == [pair.students for pair in similar_report(LESSON, Path()).pairs]

    assert cli.main(["report", LESSON, "--course", ".", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["alpha"] > 0.6
    found = [one["statistics"]["discrimination"] for one in report["exercises"] if one["max_points"]]
    assert len(found) - 1 <= sum(value is not None and value > 0.1 for value in found)

    expected = {student: KEPT.get(student, 1) * points for student, points in points_of_tests().items()}
    assert expected | {"s4001": 0.0, "s4002": "EX"} == pytest.approx(grades(), abs=0.005)
    answers = Path("reading", LESSON, "answers.csv")
    rows = list(csv.DictReader(answers.read_text("utf-8-sig").splitlines()))
    with answers.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(row | {"points": "1.5"} for row in rows)
    for command in (commands[2], commands[1], commands[-1]):  # read, grade, return
        cli.main(shlex.split(command))
    marked = {student: points + 1.5 * KEPT.get(student, 1) for student, points in expected.items()}
    assert marked | {"s4001": 0.0, "s4002": "EX"} == pytest.approx(grades(), abs=0.005)


def points_of_tests() -> dict[str, float]:
    """Return each student's points of the automatic tests in nbgrader's database."""
    places = "JOIN submitted_notebook n ON g.notebook_id = n.id JOIN submitted_assignment a ON n.assignment_id = a.id"
    with closing(sqlite3.connect("gradebook.db")) as book:
        return dict(book.execute(f"SELECT student_id, SUM(auto_score) FROM grade g {places} GROUP BY student_id"))


def grades() -> dict[str, float | str]:
    """Return the grades by login in the returned file."""
    with open("returned/grades.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[2:]
    return {row[2]: row[4] if row[4] == "EX" else float(row[4]) for row in rows if row[4]}
