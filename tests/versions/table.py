"""One row of Markdown for each release, and the differences from the declarations of the corpus."""

from __future__ import annotations

RIGHT = {
    "outcome": "outcome",
    "line": "harmful line",
    "saved": "saving line",
    "forecast": "forecast",
    "repaired": "proven fix",
}
WRONG = {"alarm": "false alarms", "innocent": "innocent lines", "disturbed": "observer effect"}


def heading() -> str:
    """Return the table's two first lines."""
    names = ("PyTorch", "facts", *RIGHT.values(), *WRONG.values(), "programs that differ")
    return f"| {' | '.join(names)} |\n|{' --- |' * len(names)}"


def row(report: dict) -> str:
    """Return "right/asked" for expected findings, and the number of unexpected findings."""
    facts, programs = report["facts"], list(report["programs"].values())
    passed = facts["tests"] - facts["failures"] - facts["errors"]
    cells = [report["torch"], f"{passed}/{facts['tests']}", *(share(programs, name) for name in RIGHT)]
    cells += [share(programs, "alarm"), share(programs, "innocent"), share(programs, "undisturbed", wanted=False)]
    return f"| {' | '.join([*cells, str(len(differing(report)))])} |"


def share(programs: list[dict], name: str, *, wanted: bool = True) -> str:
    """Return how many have it as wanted, of those that were asked."""
    asked = [program[name] for program in programs if program[name] is not None]
    return f"{sum(value is wanted for value in asked)}/{len(asked)}"


def differing(report: dict) -> dict[str, list[str]]:
    """Return for each program that differs what is not as declared; an empty list where plain PyTorch itself differs."""
    found = {}
    for name, one in report["programs"].items():
        wrong = [words for key, words in RIGHT.items() if key != "repaired" and one[key] is False]
        wrong += [WRONG[key] for key in ("alarm", "innocent") if one[key]]
        wrong += [] if one["undisturbed"] else [WRONG["disturbed"]]
        if wrong or one["instead"]:
            found[name] = wrong
    return found


def differences(report: dict) -> tuple[list[str], int]:
    """Return a line for each program that differs or is not repaired, and how many are not explained by plain PyTorch."""
    lines, programs = [f"\nPyTorch {report['torch']}"], report["programs"]
    for name, wrong in differing(report).items():
        reasons = [programs[name]["instead"], *programs[name]["notes"]]
        lines.append(
            f"- {name}: {', '.join(wrong) or 'as PyTorch does'} ({'; '.join(filter(None, reasons)) or 'no reason known'})"
        )
    without = [name for name, one in programs.items() if one["repaired"] is False]
    lines.append(f"- without a proven fix: {', '.join(without) or 'none'}")
    failed = report["facts"]["failures"] + report["facts"]["errors"]
    return lines, failed + sum(1 for wrong in differing(report).values() if wrong)
