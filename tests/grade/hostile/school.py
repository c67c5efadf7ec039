"""A class folder for the attacks: a right and a wrong submission are graded just before and just after each one, by their names."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import nbformat

from tests.grade.hostile.attacks import ATTACKS, PORT, Attack
from tests.grade.hostile.forged_messages import TAKEOVERS
from tests.grade.hostile.honest import HONEST
from tests.grade.hostile.lesson import ASSIGNMENT, POINTS, RIGHT, WRONG, submitted, write_source
from tests.grade.hostile.odd_files import ODD
from tests.grade.hostile.wall_attacks import WALLS

FULL = sum(POINTS.values())
EVERY_ATTACK = [*ATTACKS, *WALLS, *TAKEOVERS]
KINDS = {
    "attacks": [attack.name for attack in ATTACKS],
    "walls": [attack.name for attack in WALLS],
    "takeovers": [attack.name for attack in TAKEOVERS],
    "files": [*ODD],
    "honest": [*HONEST],
}


class Case(NamedTuple):
    """One attack, accident or honest oddity: the student who hands it in, its threat, and the points that it deserves."""

    student: str
    threat: str
    name: str
    deserved: float


@contextlib.contextmanager
def listener() -> Iterator[None]:
    """Listens on a port of this machine that no submission should reach."""
    with socket.create_server(("127.0.0.1", PORT), backlog=50):
        yield


def case_of(threat: str, name: str, deserved: float) -> Case:
    """Return the case; the student's name sorts it between its controls."""
    return Case(f"{threat}-{re.sub('[^a-z0-9]+', '-', name.lower())}-2", threat, name, deserved)


def enrol(folder: Path, *, only: Collection[str] = ()) -> list[Case]:
    """Write the source, the cases and their controls into a class folder, and returns the cases.

    Args:
        folder: the class's folder, empty.
        only: names of cases; without any, all of them.
    """
    write_source(folder)
    cases = [(case_of(a.threat, a.name, 0.0), a) for a in EVERY_ATTACK if not only or a.name in only]
    for case, attack in cases:
        hand_in(folder, case.student, answers(attack))
    files = [case_of("D", name, 0.0) for name in ODD if not only or name in only]
    for case in files:
        ODD[case.name](place(folder, case.student))
    honest = [case_of("honest", name, work.deserved) for name, work in HONEST.items() if not only or name in only]
    for case in honest:
        notebook = submitted(HONEST[case.name].answers)
        HONEST[case.name].change(notebook)
        (place(folder, case.student) / f"{ASSIGNMENT}.ipynb").write_text(nbformat.writes(notebook), "utf-8")
    everyone = [*(case for case, _ in cases), *files, *honest]
    for case in everyone:
        hand_in(folder, right_beside(case), RIGHT)
        hand_in(folder, wrong_beside(case), WRONG)
    return everyone


def answers(attack: Attack) -> dict[str, str]:
    """Return the answers that an attack submits."""
    given = {"scaled": attack.scaled, "mean_square": attack.mean_square, "number": attack.number}
    return {name: text or WRONG[name] for name, text in given.items()} | (
        {"number": "number = globals().get('number', 0)"} if not attack.number else {}
    )


def right_beside(case: Case) -> str:
    """Return the student with the right answers who is graded just before the case."""
    return case.student[:-1] + "1"


def wrong_beside(case: Case) -> str:
    """Return the student with the wrong answers who is graded just after the case."""
    return case.student[:-1] + "3"


def hand_in(folder: Path, student: str, given: dict[str, str]) -> None:
    """Write one plain submission."""
    target = place(folder, student) / f"{ASSIGNMENT}.ipynb"
    target.write_text(nbformat.writes(submitted(given)), "utf-8")


def place(folder: Path, student: str) -> Path:
    """Return a student's folder for the assignment, which is created if it is missing."""
    target = folder / "submitted" / student / ASSIGNMENT
    target.mkdir(parents=True, exist_ok=True)
    return target
