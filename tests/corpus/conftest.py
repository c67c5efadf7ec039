"""Prints what the tape got right of the corpus, family by family, at the end of the run."""

from __future__ import annotations

from collections import defaultdict

COLUMNS = {"outcome": "outcome right", "line": "harmful line", "saved": "saving line", "forecast": "forecast"}


def pytest_terminal_summary(terminalreporter):
    """The figures, one line for each family and one for all; each judgement came with a test's report, from whatever worker."""
    families = defaultdict(list)
    for report in [*terminalreporter.stats.get("passed", []), *terminalreporter.stats.get("failed", [])]:
        for family, judgement in [value for name, value in report.user_properties if name == "judgement"]:
            families[family].append(judgement)
            families["all"].append(judgement)
    if not families:
        return
    terminalreporter.section("the corpus against the tape")
    terminalreporter.line(row("", [*COLUMNS.values(), "false alarms", "innocent lines", "undisturbed"]))
    for family in sorted(families, key=lambda name: (name == "all", name)):
        terminalreporter.line(row(family, cells(families[family])))


def cells(judgements: list) -> list[str]:
    """Returns "right/asked" for each column; of false alarms "raised/right programs"."""
    return [share(judgements, name) for name in (*COLUMNS, "alarm", "innocent", "undisturbed")]


def share(judgements: list, name: str) -> str:
    """Returns how many are true of those that are not None."""
    asked = [value for judgement in judgements if (value := judgement[name]) is not None]
    return f"{sum(asked)}/{len(asked)}"


def row(head: str, texts: list[str]) -> str:
    """Returns one line of the table."""
    return f"{head:<22}" + "".join(f"{text:>15}" for text in texts)
