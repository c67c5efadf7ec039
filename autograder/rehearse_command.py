"""The command `rehearse`: what grading will make of a source, before anybody has handed in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST


def add_to(verbs: Any) -> None:
    """Adds the command and its options to the parser's verbs."""
    rehearse = verbs.add_parser("rehearse", help="grade a source's own answers: can each test be judged, and how?")
    rehearse.add_argument("assignment", help="a lesson's name")
    rehearse.add_argument(
        "--course", type=Path, metavar="DIR", help="holds source/ASSIGNMENT (default: class/ in a clone, else here)"
    )
    rehearse.add_argument("--jobs", type=int, default=0, help="notebooks at once (default: one for each core)")
    rehearse.add_argument("--isolation", choices=tuple(LEVELS), default=STRONGEST, help="as for `grade`")
    rehearse.add_argument(
        "--two-processes",
        action="store_true",
        help="a test that cannot be judged from outside the submission marks nobody",
    )
    rehearse.set_defaults(run=_rehearse)


def _rehearse(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.grade.batch.rehearsals import rehearse_assignment
    from autograder.grade.rehearsal.rehearsal_report import print_rehearsal

    rehearsals = rehearse_assignment(
        chosen.assignment, chosen.course or CLASS, chosen.isolation, chosen.jobs, two_processes=chosen.two_processes
    )
    for rehearsal in rehearsals:
        print_rehearsal(rehearsal)
    return 1 if any(rehearsal.remarks for rehearsal in rehearsals) else 0
