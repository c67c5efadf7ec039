"""The command `test`: the tests of each selection, their distribution, and the report on skipped tests."""

import re
from pathlib import Path

import pytest

from autograder import cli
from tests import units


@pytest.mark.parametrize(("words", "marks"), [
    ([], "not slow"),
    (["--quick"], "not slow and not thorough"),
    (["--slow"], "slow"),
    (["--all"], ""),
    (["--quick", "-x"], "not slow and not thorough"),
])  # fmt: skip
def test_a_selection_is_an_expression_of_markers(words, marks, monkeypatch):
    """`test` and `test --slow` together are `test --all`; other words are handed on."""
    called = []
    monkeypatch.setattr(pytest, "main", lambda arguments: called.append(arguments) or 0)
    assert 0 == cli.main(["test", *words])
    arguments = called[0]
    assert marks == arguments[arguments.index("-m") + 1]
    assert ("-x" in words) == ("-x" in arguments)


def test_named_tests_run_as_pytest_runs_them(monkeypatch):
    """A file or a test is passed to pytest without a selection, so that a slow one runs as well."""
    called = []
    monkeypatch.setattr(pytest, "main", lambda arguments: called.append(arguments) or 0)
    for words in (["tests/view", "-k", "scene"], ["tests/test_suite.py::test_skipped_tests_are_summed_up"]):
        assert 0 == cli.main(["test", *words])
        assert words == called.pop()


def test_options_of_pytest_run_on_both_cores(monkeypatch):
    """`test -k scene` chooses from the tests of a plain run, and runs them in the same way."""
    called = []
    monkeypatch.setattr(pytest, "main", lambda arguments: called.append(arguments) or 0)
    cli.main(["test"])
    cli.main(["test", "-k", "scene"])
    assert [*called[0], "-k", "scene"] == called[1]
    assert called[0][called[0].index("-n") + 1] == "2"


def test_named_files_and_tests_exist():
    """A renamed file or test would fall back to the end of the queue, or out of a selection, unnoticed."""
    tests = Path(__file__).parent
    assert [] == [
        name for name in (*units.LONGEST, *units.CORPUS, *units.THOROUGH, *units.SLOW) if not (tests / name).exists()
    ]
    named = [(file, name) for table in (units.SLOW, units.SLOW_TESTS) for file in table for name in table[file]]
    assert [] == [(file, name) for file, name in named if f"def {name}(" not in (tests / file).read_text("utf-8")]


def test_each_unit_belongs_to_one_part():
    """`.ci/run N` repeats the earlier tests, and a unit that a part names exists."""
    named = [unit for part in units.PARTS for unit in part]
    assert len(set(named)) == len(named)
    assert [] == [
        unit for unit in named if not unit.startswith("corpus ") and not (Path(__file__).parent / unit).exists()
    ]
    assert [number for number, part in enumerate(units.PARTS, 1) for _ in part] == list(map(units.part_of, named))
    files = [file.name for file in Path(__file__).parent.rglob("test_*.py")]
    assert set(range(1, len(units.PARTS) + 1)) == set(map(units.part_of, files))


def test_ci_names_files_that_exist():
    """pytest would stop before the first test on a path that is gone, after the whole run before it."""
    root = Path(__file__).parent.parent
    named = re.findall(r"\btests/[\w/.]+", (root / ".ci" / "run").read_text("utf-8"))
    assert len(named) > 3
    assert [] == [path for path in named if not (root / path).exists()]


def test_skipped_tests_are_summed_up():
    """Each reason is listed once, with the number of its tests and a way to run them."""
    reasons = ["Skipped: no Chromium: install it", "Skipped: no npm", "Skipped: no Chromium: install it"]
    assert ["skipped: 2 tests (no Chromium: install it)", "skipped: 1 test (no npm)"] == units.skipped_lines(reasons)
