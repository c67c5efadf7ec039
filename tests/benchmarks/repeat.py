"""Asks `explain` about 100 small programs of the corpus 20 times each, and prints the answers that differ.

    nice -n 19 python -m tests.benchmarks.repeat ANSWERS.jsonl [--times N] [--programs N]

Each answer comes from a new process in an empty folder, and each round from a new Python with another hash seed and an
empty cache for compiled code. That Python loads PyTorch and is forked for each answer. The file receives a line for each
answer; the same command continues after an interruption. The compared parts are the outcome, the lines, the faults of the
graph and the first fix. The exit code is 1 if answers of a program differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from autograder.cli import main
from autograder.course.paths import ROOT
from tests.corpus.programs import Program, programs

SECONDS = 300  # a budget that an idle machine does not need, so that other load does not change the answer


def asked(program: Program) -> dict[str, Any]:
    """Return the compared parts of the answer to a program. The command runs it in a fork of this process."""
    kept = [os.dup(1), os.dup(2)]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path(program.file).write_text(program.source)
        place = f"{program.file}::{program.function}" if program.function else program.file
        with open(".answer", "w") as answers, open(".errors", "w") as errors:
            os.dup2(answers.fileno(), 1)
            os.dup2(errors.fileno(), 2)
        main(["explain", "--json", "--budget", str(SECONDS), place])
        for descriptor in (1, 2):
            os.dup2(kept[descriptor - 1], descriptor)
            os.close(kept[descriptor - 1])
        answer, told = Path(".answer").read_text(), Path(".errors").read_text()
    return compared(json.loads(answer)) if answer else {"refused": told.splitlines()[-1:]}


def compared(found: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of an answer that each run has to repeat."""
    harms = [[harm["tensor"], [place["line"] for place in harm["mutated_at"]]] for harm in found["harms"]]
    fix = [{key: fix[key] for key in ("kind", "line", "after", "proven")} for fix in found["fixes"][:1]]
    faults = [[fault["kind"], fault["place"]["line"]] for fault in found.get("graph_faults", ())]
    line = (found["error"] or {}).get("line")
    return {"outcome": found["outcome"], "line": line, "harms": harms, "faults": faults, "fix": fix}


def known_rows(file: Path) -> list[dict[str, Any]]:
    """Return the answers in the file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def ask_round(number: int, chosen: list[Program], file: Path) -> None:
    """Append the missing answers of one round to the file."""
    import autograder.api  # noqa: F401 - loads PyTorch once for all forks

    done = {(row["program"], row["round"]) for row in known_rows(file)}
    for program in chosen:
        if (program.name, number) not in done:
            row = {"program": program.name, "round": number, "answer": asked(program)}
            with file.open("a") as answers:
                print(json.dumps(row), file=answers)


def ask_all() -> int:
    """Ask the missing questions, print the differences, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--round", type=int, help="ask this round here")
    options = parser.parse_args()
    everything = programs()
    chosen = everything[:: max(1, len(everything) // options.programs)][: options.programs]
    if options.round is not None:
        ask_round(options.round, chosen, options.file)
        return 0
    for number in range(options.times):
        with tempfile.TemporaryDirectory() as cache:
            new = {"TORCHINDUCTOR_CACHE_DIR": cache, "PYTHONHASHSEED": "random"}
            command = [sys.executable, "-m", "tests.benchmarks.repeat", str(options.file.absolute())]
            command += ["--programs", str(options.programs), "--round", str(number)]
            subprocess.run(command, cwd=ROOT, env=os.environ | new, check=True)
    answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in known_rows(options.file):
        answers[row["program"]][json.dumps(row["answer"], sort_keys=True)] += 1
    differing = {name: counts for name, counts in answers.items() if len(counts) > 1}
    for name, counts in differing.items():
        print(name, *(f"\n  {count} times {answer}" for answer, count in counts.most_common()))
    total = sum(map(Counter.total, answers.values()))
    print(f"{total} answers of {len(answers)} programs; the answers of {len(differing)} programs differ")
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(ask_all())
