"""The command `rehearse`: what grading will make of a source, before anybody has handed in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.commands.number_options import count
from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST
from autograder.locale.translations import translated


def add_to(verbs: Any) -> None:
    """Adds the command and its options to the parser's verbs."""
    rehearse = verbs.add_parser(
        "rehearse", help=translated("grade a source's own answers: can each test be judged, and how?")
    )
    rehearse.add_argument("assignment", help="a lesson's name")
    rehearse.add_argument(
        "--course", type=Path, metavar="DIR", help="holds source/ASSIGNMENT (default: class/ in a clone, else here)"
    )
    rehearse.add_argument("--jobs", type=count, default=0, help="notebooks at once (default: one for each core)")
    rehearse.add_argument("--isolation", choices=tuple(LEVELS), default=STRONGEST, help="as for `grade`")
    rehearse.add_argument(
        "--two-processes",
        action="store_true",
        help="a test that cannot be judged from outside the submission marks nobody",
    )
    rehearse.add_argument(
        "--mutants",
        type=count,
        metavar="N",
        default=40,
        help="play a class too: N mutants of the model answers, and cheats that know no solution (default: 40; 0: neither)",
    )
    rehearse.set_defaults(run=_rehearse)


def _rehearse(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.grade.batch.rehearsals import rehearse_assignment
    from autograder.grade.rehearsal.rehearsal_report import print_rehearsal
    from autograder.grade.rehearsal.rehearsal_steps import shown_steps

    with shown_steps() as on_step:
        found = rehearse_assignment(
            chosen.assignment,
            chosen.course or CLASS,
            chosen.isolation,
            chosen.jobs,
            two_processes=chosen.two_processes,
            mutants=chosen.mutants,
            on_step=on_step,
        )
    for rehearsal, play in found:
        print_rehearsal(rehearsal, play)
    return 1 if any(rehearsal.remarks or (play and play.cheated) for rehearsal, play in found) else 0
