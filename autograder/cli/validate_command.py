"""The command `validate-source`: report how the tests of a source will be judged, and which of them are weak."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from autograder.cli.number_options import count
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST
from autograder.locale.translations import translated


def add_to(verbs: Any) -> None:
    """Add the command and its options to the parser."""
    validate = verbs.add_parser(
        "validate-source",
        aliases=["rehearse"],
        help=translated("grade a source's model answers, and report how each test is judged"),
    )
    validate.add_argument("assignment", help="a lesson's name")
    validate.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help="course folder with source/ASSIGNMENT (default: class/ in a clone, else here)",
    )
    validate.add_argument(
        "--jobs", type=count, default=0, help="number of notebooks to grade in parallel (default: one per core)"
    )
    validate.add_argument(
        "--isolation", choices=tuple(LEVELS), default=STRONGEST, help="isolation level, as for `grade`"
    )
    validate.add_argument(
        "--two-processes",
        action="store_true",
        help="never run a test in the submission's process; a test that needs it gives no points",
    )
    validate.add_argument(
        "--mutants",
        type=count,
        metavar="N",
        default=40,
        help="also grade N mutants of the model answers, trivial answers, and cells tagged right or wrong (default: 40; 0: none)",
    )
    validate.set_defaults(run=_validate)


def _validate(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.grade.batch.assignment import validate_assignment
    from autograder.grade.validation.validate import print_report, shown_steps

    with shown_steps() as on_step:
        found = validate_assignment(
            chosen.assignment,
            chosen.course or CLASS,
            chosen.isolation,
            chosen.jobs,
            two_processes=chosen.two_processes,
            mutants=chosen.mutants,
            on_step=on_step,
        )
    for report, mutation in found:
        print_report(report, mutation.lines if mutation else ())
    weak = any(mutation and (mutation.paid or mutation.over_maximum or mutation.misjudged) for _, mutation in found)
    return 1 if weak or any(report.findings for report, _ in found) else 0
