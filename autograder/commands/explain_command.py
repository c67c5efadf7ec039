"""The command `explain`: its options, and the separate process in which the program runs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from autograder.commands.carried_out import CommandError, carried_out
from autograder.commands.explain_run import ExplainRun
from autograder.commands.partial_answer import PartialAnswer
from autograder.locale.translations import in_english, translated
from autograder.run_in_fork import EndedError, LateError, run_in_fork

OWN_WORDS = "Write the program's own arguments after `--`: `autograder explain FILE -- ARGUMENTS`"


def add_to(verbs: Any) -> None:
    """Add the command and its options to the parser."""
    explain = verbs.add_parser(
        "explain",
        help=translated("explain an autograd error or a wrong gradient in a program, and suggest a fix"),
        epilog=translated("Arguments after `--` are passed to the program."),
        allow_abbrev=False,
    )
    program = explain.add_mutually_exclusive_group(required=True)
    program.add_argument(
        "program",
        nargs="?",
        metavar="FILE[::FUNCTION]",
        help=translated("a script, one function of it, a notebook (NOTEBOOK.ipynb[::CELL]), or - for standard input"),
    )
    program.add_argument(
        "-m", dest="module", metavar="MODULE", help=translated("module to run, as with `python -m MODULE`")
    )
    program.add_argument("-c", dest="code", metavar="CODE", help=translated("program to run, as a string"))
    explain.add_argument(
        "--steps", action="store_true", help=translated("print all findings, and describe every step in words")
    )
    explain.add_argument("--json", action="store_true", help=translated("one JSON object on standard output"))
    explain.add_argument("--no-repair", action="store_true", help=translated("do not search for fixes"))
    explain.add_argument(
        "--budget",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help=translated("time limit in seconds (default: 60)"),
    )
    explain.add_argument(
        "--check-gradients",
        action="store_true",
        help=translated("compare every gradient with finite differences of its loss"),
    )
    recorded = explain.add_mutually_exclusive_group()
    recorded.add_argument(
        "--only-step",
        type=_step,
        metavar="N",
        help=translated("record the Nth backward call; only compare the gradients of the others"),
    )
    recorded.add_argument(
        "--last-step", dest="only_step", action="store_const", const=0, help=translated("record the last backward call")
    )
    explain.add_argument("--diff", action="store_true", help=translated("print only a patch with the best fix"))
    explain.add_argument(
        "--apply",
        action="store_true",
        help=translated("apply the best fix; keep the original file as FILE.orig"),
    )
    explain.add_argument(
        "--unproven",
        action="store_true",
        help=translated("with --diff or --apply: allow a fix that changes the computed values"),
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help=translated("write a page that needs no network"))
    explain.add_argument("--svg", type=Path, metavar="FILE", help=translated("write the picture of the decisive step"))
    explain.set_defaults(run=_explain)


def _seconds(word: str) -> float:
    with suppress(ValueError):
        if 0 < (seconds := float(word)) < 1e6:
            return seconds
    raise argparse.ArgumentTypeError(
        in_english("{word} is not a valid time; give a number of seconds such as 60", word=word)
    )


def _step(word: str) -> int:
    with suppress(ValueError):
        if (number := int(word)) > 0:
            return number
    raise argparse.ArgumentTypeError(in_english("there is no step {word}; the first is 1", word=word))


def _explain(chosen: argparse.Namespace) -> int:
    if chosen.program == "-":
        chosen.program, chosen.code = None, sys.stdin.read()
        chosen.shown = "<stdin>"
    else:
        chosen.shown = chosen.program or chosen.module or "<string>"
    with PartialAnswer() as partial, tempfile.TemporaryDirectory(prefix="autograder-") as root:
        explanation = ExplainRun(chosen, partial, root)
        here = argparse.Namespace(**vars(chosen) | {"run": lambda _: explanation.run()})
        return _watched(chosen, here, partial)


def _watched(chosen: argparse.Namespace, here: argparse.Namespace, partial: PartialAnswer) -> int:
    """Run the command in a separate process, which is killed when the time is up, and return the exit code."""
    try:
        return run_in_fork(lambda: carried_out(here, "explain"), chosen.budget)
    except LateError:
        return _answered_late(chosen, partial)
    except EndedError as error:
        raise CommandError(
            in_english(
                "{program}: the program ended the Python process ({reason}), so it could not be recorded. Remove that "
                "call, or name a function that does not make it.",
                program=chosen.shown,
                reason=str(error),
            )
        ) from None


def _answered_late(chosen: argparse.Namespace, partial: PartialAnswer) -> int:
    """Print the preliminary answer when the time is up."""
    found = partial.found()
    if found is None:
        raise CommandError(
            in_english(
                "{program}: it was still running after {seconds} seconds. Make the run shorter, or give it more "
                "time with --budget.",
                program=chosen.shown,
                seconds=f"{chosen.budget:g}",
            )
        )
    print(found[1], end="")
    return found[0]
