"""`grade --dry-run` reports the effect of a run, and the run then has this effect; until then nothing is written."""

import json

import nbformat
import pytest

from autograder import cli
from autograder.course.new_course import ASSIGNMENT, make_course

pytestmark = pytest.mark.thorough


def grade(course, *words) -> int:
    """Run the command."""
    return cli.main(["grade", ASSIGNMENT, "--course", str(course), "--jobs", "1", *words])


def files(course) -> dict[str, bytes]:
    """Return everything in the course's folder except Python's cache of the configuration."""
    return {
        str(path): path.read_bytes() for path in course.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    }


def change_test(course, old: str, new: str) -> None:
    """Change the test in the teacher's source."""
    path = course / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
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

    (course / "submitted" / "ann" / ASSIGNMENT / "timestamp.txt").write_text("2026-10-04 11:00:00 UTC")
    (course / "policy.toml").write_text(
        f"late.percent_a_day = 10\n[assignments.{ASSIGNMENT}]\ndue = 2026-10-03T12:00:00\n"
    )
    assert {"ann": (3.0, 2.7)} == moved(course, capsys)
    assert 2.7 == scores(course, capsys)["ann"]
