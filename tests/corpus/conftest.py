"""Prints what the tape got right of the corpus, family by family, at the end of the run."""

from __future__ import annotations

from collections import defaultdict

import pytest

FIGURES = pytest.StashKey[dict]()
COLUMNS = {"outcome": "outcome right", "line": "harmful line", "saved": "saving line", "forecast": "forecast"}


def pytest_configure(config):
    """One table for the session."""
    config.stash[FIGURES] = {}


@pytest.fixture(scope="session")
def figures(pytestconfig) -> dict:
    """The judgement of each program that a test has asked for."""
    return pytestconfig.stash[FIGURES]


def pytest_terminal_summary(terminalreporter, config):
    """The figures, one line for each family and one for all."""
    if not (figures := config.stash[FIGURES]):
        return
    families = defaultdict(list)
    for program, judgement in figures.items():
        families["module" if program.function else program.family].append(judgement)
        families["all"].append(judgement)
    terminalreporter.section("the corpus against the tape")
    terminalreporter.line(row("", [*COLUMNS.values(), "false alarms", "innocent lines", "undisturbed"]))
    for family in sorted(families, key=lambda name: (name == "all", name)):
        terminalreporter.line(row(family, cells(families[family])))


def cells(judgements: list) -> list[str]:
    """Returns "right/asked" for each column; of false alarms "raised/right programs"."""
    return [share(judgements, name) for name in (*COLUMNS, "alarm", "innocent", "undisturbed")]


def share(judgements: list, name: str) -> str:
    """Returns how many are true of those that are not None."""
    asked = [value for judgement in judgements if (value := getattr(judgement, name)) is not None]
    return f"{sum(asked)}/{len(asked)}"


def row(head: str, texts: list[str]) -> str:
    """Returns one line of the table."""
    return f"{head:<22}" + "".join(f"{text:>15}" for text in texts)
