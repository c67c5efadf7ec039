"""Counts the right answers of `explain` for the training scripts in `tests/corpus/scripts`, and measures the cost.

    python -m tests.benchmarks.scripts [NAME ...]

Each script is explained in a separate process. Every offered repair is applied by `patch`, and the script is then
trained in plain PyTorch together with its correct version; losses and gradients of every backward call, and the final
parameters, are compared. Times depend on other load. Memory is a multiple of the script's own run. After them, the
programs of `tests/corpus/reports`, whose faults are not in-place modifications, and their repaired versions. The exit
code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

from tests.corpus.graph_reports import GraphReport, graph_reports, judge_report
from tests.corpus.script_answers import ScriptAnswer, ScriptJudgement, ask, judge
from tests.corpus.script_runs import run_script
from tests.corpus.whole_scripts import Script, scripts

SCREEN, SECONDS, BEYOND = 25, 60.0, 500 * 2**20
MARKS = {True: "yes", False: "NO", None: ""}


def main() -> int:
    """Print the table and the totals, and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only these scripts")
    names = parser.parse_args().names
    chosen = [script for script in scripts() if not names or script.name in names]
    rows = [measure(script) for script in chosen]
    totals = {}
    if rows:
        Console(width=130).print(table_of(rows))
        totals = totals_of(rows)
        print(f"{'runs, median and most':28} {median(runs_of(rows)):g}, {max(runs_of(rows))}")
    totals |= totals_of_reports([report for report in graph_reports() if not names or report.name in names])
    for name, (count, of, share) in totals.items():
        print(f"{name:28} {count:>3} of {of:>3}   (aim {share:.0%}){'' if count >= share * of else '   MISSED'}")
    return 0 if all(count >= share * of for count, of, share in totals.values()) else 1


def totals_of_reports(reports: list[GraphReport]) -> dict[str, tuple[int, int, float]]:
    """Return the totals of the programs whose faults are not in-place modifications, and print what is wrong of each."""
    judged = [(report, judge_report(report)) for report in reports]
    for report, one in judged:
        print(f"{report.name:40} {one}", flush=True)
    changes = [one.change for _, one in judged if one.change is not None]
    count = len(judged)
    return {
        "graph fault: outcome": (sum(one.outcome for _, one in judged), count, 1.0),
        "graph fault: line": (sum(one.line for _, one in judged), count, 0.8),
        "graph fault: no false word": (sum(not one.false for _, one in judged), count, 1.0),
        "graph fault: change works": (sum(changes), len(changes), 1.0),
        "graph fault: repaired, no note": (sum(one.silent for _, one in judged), count, 1.0),
    }


Row = tuple[Script, ScriptAnswer | None, ScriptJudgement | None, int]


def measure(script: Script) -> Row:
    """Return a script with its answer, the evaluation of the answer, and the bytes that the script itself needs."""
    plain = run_script(script).memory
    try:
        answer = ask(script)
    except EOFError:
        return script, None, None, plain
    judged = judge(script, answer.found)
    print(f"{script.name}: {answer.seconds:.0f} s", *judged.false_proven, file=sys.stderr, flush=True)
    return script, answer, judged, plain


def totals_of(rows: list[Row]) -> dict[str, tuple[int, int, float]]:
    """Return, for each kind of question, the number of right answers, the number of questions, and the target share."""
    answered = [(answer, judged, plain) for _, answer, judged, plain in rows if answer and judged]
    judged = [one for _, one, _ in answered]
    broken = [one for one in judged if one.line is not None]
    right = [one for one in judged if one.line is None]
    saved = [one for one in broken if one.saved is not None]

    def counted(some: list, share: float = 1.0) -> tuple[int, int, float]:
        return sum(map(bool, some)), len(some), share

    return {
        "answered": (len(answered), len(rows), 1.0),
        "outcome": counted([one.outcome for one in judged]),
        "a harmful line": counted([one.line for one in broken], 0.95),
        "every harmful line": counted([one.lines for one in broken], 0.95),
        "no innocent line": counted([not one.innocent for one in broken], 0.95),
        "saving line": counted([one.saved for one in saved], 0.95),
        "true repair offered": counted([one.offered for one in broken], 0.8),
        "true repair first": counted([one.first for one in broken], 0.8),
        "nothing false proven": counted([not one.false_proven for one in broken]),
        "no false alarm": counted([not one.alarm for one in right]),
        f"screen of {SCREEN} lines": counted([answer.screen <= SCREEN for answer, _, _ in answered]),
        f"within {SECONDS:g} s": counted([answer.seconds <= SECONDS for answer, _, _ in answered], 0.95),
        "memory 2 x plain + 500 MB": counted(
            [answer.memory <= 2 * plain + BEYOND for answer, _, plain in answered], 0.95
        ),
    }


def runs_of(rows: list[Row]) -> list[int]:
    """Return how often each script was run."""
    return [answer.found.get("runs", 0) for _, answer, _, _ in rows if answer]


def table_of(rows: list[Row]) -> Table:
    """Return a row for each script."""
    names = ("script", "outcome", "lines", "saved", "offered", "first", "screen", "s", "x memory", "runs")
    table = Table(*(Column(name, justify="left" if name == "script" else "right") for name in names), box=SIMPLE)
    for script, answer, judged, plain in rows:
        if answer is None or judged is None:
            table.add_row(script.name, "NO ANSWER")
            continue
        marks = (judged.outcome and not judged.alarm, judged.lines, judged.saved, judged.offered, judged.first)
        costs = (
            f"{answer.screen}",
            f"{answer.seconds:.1f}",
            f"{answer.memory / plain:.2f}",
            f"{answer.found.get('runs', 0)}",
        )
        table.add_row(script.name, *(MARKS[mark] for mark in marks), *costs)
    return table


if __name__ == "__main__":
    sys.exit(main())
