"""Explains public programs and notebooks as they are, or with one fault put in, and measures the time to the first answer.

    python -m tests.benchmarks.real FOLDER

`real.toml` lists them with repository, commit and expected answer. FOLDER contains a clone (or a bare one) of each
repository, named OWNER+NAME; nothing is downloaded. The first answer is due within three times the plain run plus 3 s if
the plain run takes up to 5 s, and within a minute otherwise. The exit code is 1 if an answer is wrong or late.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Column, Table

LIST = Path(__file__).with_suffix(".toml")
SHORT, TIMES, MORE, BUDGET = 5.0, 3, 3.0, 60.0
ENVIRONMENT = {**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(Path(__file__).parents[2])}


@dataclass(frozen=True)
class RealProgram:
    """A program of a public repository, the replacements in its text, and the expected answer."""

    repository: str
    commit: str
    file: str
    outcome: str
    line: str = ""
    needs: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    changes: list[tuple[str, str]] = field(default_factory=list)

    def write(self, clones: Path, folder: Path) -> Path:
        """Write the program and the files that it needs, and return its path."""
        git = ["git", "-C", str(clones / self.repository.replace("/", "+"))]
        listed = subprocess.check_output([*git, "ls-tree", "-rz", "--name-only", self.commit, self.file, *self.needs])
        for name in listed.decode().split("\0")[:-1]:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(subprocess.check_output([*git, "show", f"{self.commit}:{name}"]))
        path = folder / self.file
        text = path.read_text()
        for old, new in self.changes:
            if old not in text:
                raise ValueError(f"{self.file}: {old!r} is not in the text")
            text = text.replace(old, new)
        path.write_text(text)
        return path


def plain_seconds(program: RealProgram, path: Path) -> float:
    """Return the duration of a plain run; of a notebook, of its code cells without magics."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
        text = re.sub(r"(?m)^[%!]", "# ", "\n".join("".join(cell["source"]) for cell in cells))
    script = path.with_name("plain_run.py")
    script.write_text(text)
    began = time.monotonic()
    subprocess.run(
        [sys.executable, script.name, *program.arguments], cwd=path.parent, env=ENVIRONMENT, capture_output=True
    )
    script.unlink()
    return time.monotonic() - began


def answer(program: RealProgram, path: Path) -> tuple[dict[str, Any], float, float]:
    """Return the answer of `explain --json`, and the seconds to the first answer and to the whole."""
    command = [sys.executable, "-m", "autograder", "explain", "--json", path.name, "--", *program.arguments]
    began, first = time.monotonic(), None
    with (
        tempfile.TemporaryFile("w+") as output,
        subprocess.Popen(
            command, cwd=path.parent, env=ENVIRONMENT, stdout=output, stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        for line in process.stderr or ():
            if "Looking for fixes" in line and first is None:
                first = time.monotonic() - began
        process.wait()
        whole = time.monotonic() - began
        output.seek(0)
        text = output.read()
    return json.loads(text) if text else {"outcome": None, "harms": [], "gradients": {}}, first or whole, whole


def lines_of(found: dict[str, Any]) -> list[str]:
    """Return the texts of the lines that an answer names as the cause."""
    places = [place for harm in found["harms"] for place in harm["mutated_at"]]
    return [place["text"] for place in [*places, *(fault["place"] for fault in found.get("graph_faults", ()))]]


def main() -> int:
    """Print a row for each program, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    clones = parser.parse_args().folder
    headings = ("program", "plain s", "first s", "all s", "in time", "outcome", "line", "runs", "names")
    table = Table(*(Column(name, overflow="fold") for name in headings), box=SIMPLE)
    right = timely = 0
    programs = [RealProgram(**row) for row in tomllib.loads(LIST.read_text())["program"]]
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            path = program.write(clones, Path(folder))
            plain = plain_seconds(program, path)
            found, first, whole = answer(program, path)
        is_timely = first <= (TIMES * plain + MORE if plain <= SHORT else BUDGET)
        lines = lines_of(found)
        is_right = found["outcome"] == program.outcome and (program.line in lines or not (program.line or lines))
        right, timely = right + is_right, timely + is_timely
        row = (
            f"{program.repository} {program.file}", f"{plain:.1f}", f"{first:.1f}", f"{whole:.1f}",
            "yes" if is_timely else "NO", f"{found['outcome']}{'' if is_right else ' NO'}", "; ".join(lines),
            str(found.get("runs", "")), ", ".join(found["gradients"]),
        )  # fmt: skip
        table.add_row(*row)
        print(*row, sep=" | ", file=sys.stderr, flush=True)
    Console(width=180).print(table)
    print(f"right: {right} of {len(programs)}; first answer in time: {timely} of {len(programs)}")
    return 0 if right == timely == len(programs) else 1


if __name__ == "__main__":
    sys.exit(main())
