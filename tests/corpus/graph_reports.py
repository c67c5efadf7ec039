"""Programs from public reports whose fault is not an in-place modification, and what `explain` says of each.

`reports/graph_faults.py` holds them, each under a line `# %% NAME`, with the variants `bug` and `fixed` and the marks of
`tests/corpus/programs.py`: `harm` marks a line that has to be named.
"""

from __future__ import annotations

import builtins
import keyword
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from autograder.tape import explain_program
from autograder.tape.recording.verdict_types import GraphFault, Verdict
from autograder.tape.repair.trial.program_factory import factory_of_text
from tests.corpus.programs import CELL, DECLARATION, take

FILE = Path(__file__).parent / "reports" / "graph_faults.py"
LINES, PATHS = re.compile(r"\bline (\d+)"), re.compile(r"\b[a-z_]\w*(?:\.\w+)+\b")
WORDS = {
    *keyword.kwlist,
    *dir(builtins),
    *["torch", "functional_call", "parameters", "inputs", "model", "optimizer", "p", "name"],
}

CHECK = """
import re

def check(names):
    for name in names:
        root, *path = re.findall(r"\\w+", name)
        value = globals().get(root)
        for one in path if value is not None else ():
            value = value[int(one)] if one.isdigit() else getattr(value, one)
        assert value is None or value.grad is not None, name
"""


@dataclass(frozen=True)
class GraphReport:
    """A program with a fault of the graph.

    Attributes:
        name: its name in the file.
        outcome: what plain PyTorch does.
        bug, fixed: the faulty and the repaired text.
        lines: the marked lines, of which one has to be named.
    """

    name: str
    outcome: str
    bug: str
    fixed: str
    lines: frozenset[int]


@dataclass(frozen=True)
class GraphJudgement:
    """What is right of an answer.

    Attributes:
        outcome: the outcome is the declared one.
        line: a marked line is named.
        false: words of the text that do not occur in the program.
        change: whether the suggested change does what it is to do; None without one.
        silent: whether the repaired program gets no note.
    """

    outcome: bool
    line: bool
    false: tuple[str, ...]
    change: bool | None
    silent: bool


@cache
def graph_reports(file: Path = FILE) -> tuple[GraphReport, ...]:
    """Returns the programs of a file."""
    return tuple(report_of(cell) for cell in CELL.split(file.read_text())[1:])


def report_of(cell: str) -> GraphReport:
    """Returns the program of a cell, whose first line is its name."""
    name, _, text = cell.partition("\n")
    declared = {match["variant"]: match["outcome"] for line in text.splitlines() if (match := DECLARATION.match(line))}
    bug, marks = take(text, "bug", set(declared))
    return GraphReport(name.strip(), declared["bug"], bug, take(text, "fixed", set(declared))[0], marks["harm"])


def judge_report(report: GraphReport) -> GraphJudgement:
    """Returns what is right of the answers for both variants."""
    texts = (report.bug, report.fixed)
    verdict, right = (explain_program(factory_of_text(text, file="program.py")).verdict for text in texts)
    named = [fault for fault in verdict.graph_faults if fault.place.line in report.lines]
    shown = next((fault for fault in (*named, *verdict.graph_faults) if fault.diff), None)
    return GraphJudgement(
        verdict.outcome == report.outcome,
        bool(named),
        tuple(false_words(report, verdict)),
        None if shown is None else does_as_told(report, shown),
        (right.outcome, right.graph_faults, right.notes) == ("correct", (), ()),
    )


def false_words(report: GraphReport, verdict: Verdict) -> list[str]:
    """Returns the lines, tensors and code in the text on graph faults that the program does not contain."""
    count, words = report.bug.count("\n"), set(re.findall(r"\w+", report.bug)) | WORDS
    text = " ".join(f"{fault.sentence} {fault.change}" for fault in verdict.graph_faults)
    tensors = {one.name for fault in verdict.graph_faults for one in fault.tensors}
    paths = [path for path in (*PATHS.findall(text), *tensors) if not path.startswith("torch.")]
    parts = [part for path in paths for part in re.findall(r"\w+", path)]
    parts = [part for part in parts if not part.isdigit() and part not in ("weight", "bias", "grad", "detach", "data")]
    false = [f"line {line}" for line in LINES.findall(text) if not 0 < int(line) <= count]
    return false + [part for part in parts if part not in words and not part.endswith("_grad")]


def does_as_told(report: GraphReport, fault: GraphFault) -> bool:
    """Returns whether the program ends after the change, and the named parameters that were not trained get a gradient."""
    with tempfile.TemporaryDirectory(prefix="autograder-report-") as folder:
        path = Path(folder) / "program.py"
        path.write_text(report.bug)
        patch = subprocess.run(["patch", "-p1"], input=fault.diff, text=True, cwd=folder, capture_output=True)
        names = [one.name for one in fault.tensors if one.is_untrained]
        path.write_text(f"{path.read_text()}\n{CHECK}\ncheck({names})\n")
        ran = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True)
        return patch.returncode == ran.returncode == 0
