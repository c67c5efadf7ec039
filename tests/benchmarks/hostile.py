"""Counts contained attacks: every attack is graded with a right and a wrong control, by this grader and by nbgrader.

    python -m tests.benchmarks.hostile [--graders bubblewrap process stock] [--kinds walls takeovers] [--only WORD]
    [--json FILE]

An attack is contained if it gets no more points than its answer deserves, its controls get exactly the points that they
deserve, and the batch finishes. Attacks on graders without isolation (level process, stock) each run in a separate
bubblewrap container, so that they cannot damage this machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.course.paths import ROOT
from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST
from autograder.grade.wire.limits import MEBIBYTE, Limits
from tests.grade.hostile.lesson import ASSIGNMENT
from tests.grade.hostile.school import FULL, KINDS, Case, enrol, listener, right_beside, wrong_beside

LIMITS = Limits(cell_seconds=2, submission_seconds=8, memory_bytes=512 * MEBIBYTE)
STOCK_SECONDS = 200


def main() -> None:
    """Print a table and, with --json, writes what happened to each attack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graders", nargs="+", default=[*LEVELS, "stock"])
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], choices=KINDS)
    parser.add_argument("--only", default="", metavar="WORD", help="of a case's name")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    # nbgrader starts the programs `alembic` and `jupyter`.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if chosen.inside:
        _grade(Path(chosen.inside[0]), chosen.inside[1])
        return
    names = [name for kind in chosen.kinds for name in KINDS[kind] if chosen.only in name]
    if not names:
        parser.error(f'no case of these kinds has "{chosen.only}" in its name')
    outcome = {grader: judged(grader, names) for grader in chosen.graders}
    for grader, found in outcome.items():
        attacks = {name: verdict for name, verdict in found.items() if not name.startswith("honest")}
        honest = {name: verdict for name, verdict in found.items() if name.startswith("honest")}
        print(
            f"{grader}: contained {_count(attacks)} of {len(attacks)}; honest work right {_count(honest)} of {len(honest)}"
        )
        for name, verdict in found.items():
            if verdict:
                print(f"    {name}: {verdict}")
    if chosen.json:
        chosen.json.write_text(json.dumps(outcome, indent=1))


def judged(grader: str, names: list[str]) -> dict[str, str]:
    """Return, for each case with one of these names, "" if it was contained, or else a description of the failure."""
    with tempfile.TemporaryDirectory(prefix="school-") as folder:
        school = Path(folder)
        cases = enrol(school, only=names)
        if grader == STRONGEST:
            _grade(school, grader)
            return {f"{case.threat}: {case.name}": verdict(school, case) for case in cases}
        found = {}
        for number, case in enumerate(cases, 1):
            name = f"{case.threat}: {case.name}"
            found[name] = _alone(school, case, grader)
            print(
                f"{grader}, {number} of {len(cases)}, {name}: {found[name] or 'contained'}", file=sys.stderr, flush=True
            )
        return found


def verdict(school: Path, case: Case) -> str:
    """Return "" where a case and its controls have the points that they deserve."""
    wanted = {case.student: case.deserved, right_beside(case): FULL, wrong_beside(case): 0.0}
    words = []
    for student, deserved in wanted.items():
        got = points(school, student)
        if got != deserved:
            who = {"1": "the right control", "3": "the wrong control"}.get(student[-1], "it")
            words.append(f"{who} has {'no grade' if got is None else f'{got:g}'} instead of {deserved:g}")
    graded = school / "autograded" / case.student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb"
    if graded.exists() and '"LEAKED' in _outputs(graded):
        words.append("it saw what it must not see")
    return "; ".join(words)


def points(school: Path, student: str) -> float | None:
    """Return a student's points from the gradebook, without cells that a person grades; None without a grade."""
    try:
        with Gradebook(f"sqlite:///{school / 'gradebook.db'}") as gradebook:
            submission = gradebook.find_submission(ASSIGNMENT, student)
            grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
            settled = all(grade.auto_score is not None or grade.needs_manual_grade for grade in grades)
            return submission.score if settled else None
    except MissingEntry:
        return None
    except Exception as error:  # an attack may have broken the database itself
        print(f"the gradebook is broken: {error}", file=sys.stderr)
        return None


def _alone(school: Path, case: Case, grader: str) -> str:
    """Grade a case and its controls in a separate class and container."""
    with _folder() as folder:
        small = Path(folder)
        shutil.copytree(school / "source", small / "source")
        for student in (right_beside(case), case.student, wrong_beside(case)):
            source = school / "submitted" / student
            subprocess.run(["cp", "-a", str(source), str(_made(small / "submitted"))], check=True)
        wall = shlex.split(
            "bwrap --unshare-all --die-with-parent --ro-bind / / --proc /proc --dev /dev --tmpfs /tmp "
            f"--tmpfs {Path.home()}/.cache --bind {folder} {folder} --chdir {ROOT}"
        )
        command = [sys.executable, "-m", "tests.benchmarks.hostile", "--inside", folder, grader]
        limited = ["prlimit", f"--as={8 << 30}", "--fsize=500000000", "--nproc=2000", *command]
        environment = os.environ | {"GRADERS_TOKEN": "secret", "HOME": folder}
        try:
            subprocess.run([*wall, *limited], timeout=STOCK_SECONDS, env=environment, capture_output=True)
        except subprocess.TimeoutExpired:
            return f"the batch did not finish within {STOCK_SECONDS} s; " + verdict(small, case)
        return verdict(small, case)


def _grade(school: Path, grader: str) -> None:
    if grader != "stock":
        os.environ["GRADERS_TOKEN"] = "secret"
        with listener():
            options = Options(isolation=grader, limits=LIMITS)
            grade_assignment(ASSIGNMENT, school, options)
        return
    for words in (["generate_assignment", ASSIGNMENT], ["autograde", ASSIGNMENT, "--Execute.timeout=20"]):
        subprocess.run([sys.executable, "-m", "nbgrader", *words], cwd=school)


def _outputs(path: Path) -> str:
    cells = json.loads(path.read_text("utf-8")).get("cells", [])
    return json.dumps([cell.get("outputs") for cell in cells])


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A temporary folder; an attack may leave one inside another a thousand times, where Python's own removal gives up."""
    folder = tempfile.mkdtemp(prefix="class-")
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", folder], check=True)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def _count(found: dict[str, str]) -> int:
    return sum(not words for words in found.values())


if __name__ == "__main__":
    main()
