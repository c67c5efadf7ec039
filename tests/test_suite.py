"""The command `test`: what each selection runs, how it is dealt out, and what is said of skipped tests."""

from collections import Counter
from pathlib import Path

import pytest

from autograder import cli
from tests import units
from tests.corpus.programs import programs


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        ([], "not slow"),
        (["--quick"], "not slow and not thorough"),
        (["--slow"], "slow"),
        (["--all"], ""),
        (["--quick", "-x"], "not slow and not thorough"),
    ],
)
def test_a_selection_is_an_expression_of_markers(words, marks, monkeypatch):
    """`test` and `test --slow` together are `test --all`; other words are handed on."""
    called = []
    monkeypatch.setattr(pytest, "main", lambda arguments: called.append(arguments) or 0)
    assert 0 == cli.main(["test", *words])
    arguments = called[0]
    assert marks == arguments[arguments.index("-m") + 1]
    assert ("-x" in words) == ("-x" in arguments)


def test_help_lists_the_selections(capsys):
    """`test --help` shows the options of this command, not those of pytest."""
    with pytest.raises(SystemExit):
        cli.main(["test", "--help"])
    shown = capsys.readouterr().out
    assert [option for option in cli.TESTS if f"\n  {option} " not in shown] == []
    assert "usage: autograder test" in shown


def test_other_words_are_pytests(monkeypatch):
    """A file or an option by itself reaches pytest as it is."""
    called = []
    monkeypatch.setattr(pytest, "main", lambda arguments: called.append(arguments) or 0)
    cli.main(["test", "tests/view", "-k", "scene"])
    assert [["tests/view", "-k", "scene"]] == called


def test_all_tests_of_a_program_stand_together():
    """Whatever the file, so that a worker records each program once; a file without programs is one unit."""
    tests = (
        "tests/corpus/test_tape.py::test_outcome",
        "tests/repair/test_corpus.py::test_repairs_hold_without_the_tape",
    )
    for program in programs():
        assert 1 == len({units.unit_of(f"{test}[{program.name}]") for test in tests})
    assert "test_house.py" == units.unit_of("tests/test_house.py::test_rooms_import_one_way[view]")
    assert "browser" == units.unit_of("tests/browser/test_lesson.py::test_it[answer]")


def test_the_corpus_is_dealt_out_evenly():
    """No share is twice as large as another, and `test --quick` has a share of each kind of outcome."""
    shares = Counter(units.unit_of(f"tests/corpus/test_tape.py::test_outcome[{one.name}]") for one in programs())
    assert max(shares.values()) < 2 * min(shares.values())
    quick = {
        one.outcome
        for one in programs()
        if units.unit_of(f"tests/corpus/test_tape.py::test_outcome[{one.name}]") in units.QUICK
    }
    assert 4 == len(quick)


def test_what_is_named_as_long_exists():
    """A renamed file would fall back to the end of the queue unnoticed."""
    tests = Path(__file__).parent
    assert [] == [name for name in (*units.LONGEST, *units.CORPUS, *units.THOROUGH) if not (tests / name).exists()]


def test_skipped_tests_are_summed_up():
    """Each reason once, with the number of its tests and how to have what was missing."""
    reasons = ["Skipped: no Chromium: install it", "Skipped: no npm", "Skipped: no Chromium: install it"]
    assert ["skipped: 2 tests (no Chromium: install it)", "skipped: 1 test (no npm)"] == units.skipped_lines(reasons)


def test_what_the_hour_of_ci_leaves_out_has_others_of_its_kind():
    """Every kind of outcome that an exhaustive share of the corpus holds is in a share that CI runs, too."""
    outcomes = {True: set(), False: set()}
    for one in programs():
        unit = units.unit_of(f"tests/corpus/test_tape.py::test_outcome[{one.name}]")
        outcomes[unit in units.EXHAUSTIVE].add(one.outcome)
    assert set(units.EXHAUSTIVE) < set(units.SLOW)
    assert outcomes[True] <= outcomes[False]
