"""The demo class is processed from a platform's zip to returned grades, with the commands of its own README."""

import csv
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from autograder import cli
from autograder.desk.demo.demo_class import ABSENT, COUNT, LESSON, DemoError, make_demo_class

HANDED_IN = COUNT - ABSENT


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
    with pytest.raises(DemoError, match="not an empty folder"):
        make_demo_class(tmp_path)
    assert ["mine.txt"] == [path.name for path in tmp_path.iterdir()]


def test_the_page_for_teachers_has_the_same_commands(tmp_path):
    """The commands in docs/teaching.md are those of the class's README, which the next test runs."""
    make_demo_class(tmp_path / "demo")
    readme = re.findall(r"^ +(autograder .+)$", (tmp_path / "demo" / "README.txt").read_text("utf-8"), re.M)
    page = (Path(__file__).parents[3] / "docs" / "teaching.md").read_text("utf-8")
    tried = page.partition("cd demo\n")[2].partition("```")[0].splitlines()
    assert readme == tried


@pytest.mark.thorough
def test_its_readme_leads_from_the_zip_to_returned_grades(tmp_path, monkeypatch, capsys, bubblewrap):
    """Each command of the README: 40 grades in Canvas' file, 40 pages, a report; one day late then costs a tenth."""
    make_demo_class(tmp_path / "demo")
    monkeypatch.chdir(tmp_path / "demo")
    commands = re.findall(r"^ +autograder (.+)$", Path("README.txt").read_text("utf-8"), re.M)
    for command in commands:
        assert cli.main(shlex.split(command)) in (0, 1), command
    said = capsys.readouterr().out
    assert f"{HANDED_IN} grades in" in said
    assert f"feedback of {HANDED_IN} students" in said

    before = grades()
    table = Path("collected", LESSON, "to_match.csv")
    rows = list(csv.DictReader(table.read_text("utf-8-sig").splitlines()))
    late = {row["hand_in"] for row in rows}
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(row | {"handed_in": "2026-10-04 10:00"} for row in rows)
    for command in commands:
        cli.main(shlex.split(command))
    after = grades()
    assert {number: pytest.approx(0.9 * points, abs=0.01) for number, points in before.items() if number in late} == {
        number: after[number] for number in late
    }
    assert {number: points for number, points in before.items() if number not in late} == {
        number: points for number, points in after.items() if number not in late
    }
    assert "students; the page is report.html" in said
    assert "silences the counter" in Path("report.html").read_text("utf-8")


def grades() -> dict[str, float]:
    """Return the points by Canvas' ids in the returned file."""
    with open("returned/grades.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[2:]
    return {row[1]: float(row[4]) for row in rows if row[4]}
