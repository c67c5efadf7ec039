"""The commands: verbs, arguments and exit codes; the work is done in the rooms."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from autograder import desk_commands, grade_command, rehearse_command
from autograder.errors import AutograderError, UnfinishedError
from autograder.explain_command import ExplainCommand
from autograder.partial_answer import PartialAnswer
from autograder.printable import printable
from autograder.requirements import require
from autograder.run_in_fork import EndedError, LateError, run_in_fork

WRONG_USE = 2
INTERRUPTED = {"grade": " What was graded so far is kept; the same command with --resume continues."}


class CommandError(UnfinishedError):
    """A command could not do its last step; the message says which and why."""


class _Parser(argparse.ArgumentParser):
    """Says what was wrong in one sentence, without the usage block."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_USE, f"{self.prog}: {message}. `{self.prog} --help` shows what there is.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 all is well, 1 the answer is no, 2 the command could not be carried out."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["test"]:  # everything after it belongs to pytest, its options included
        return _carried_out(argparse.Namespace(run=lambda _: _test(words[1:])), "test")
    words, arguments = _split(words) if words[:1] == ["explain"] else (words, [])
    given = argparse.Namespace(arguments=arguments, words=words)
    return _carried_out(_parser().parse_args(words, given), words[0])


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Returns what stands before `--`, which is ours, and what stands behind it, which is the program's."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _carried_out(chosen: argparse.Namespace, verb: str) -> int:
    """Returns the exit code of a command; what went wrong has been said in one sentence by then."""
    try:
        require(verb)
        code = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Who read our output has seen enough, as with `| head`; at its end Python would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USE
    except KeyboardInterrupt:
        print(f"\nautograder: {verb} was interrupted.{INTERRUPTED.get(verb, '')}", file=sys.stderr)
        return 128 + signal.SIGINT
    except AutograderError as error:
        print(f"autograder: {error}", file=sys.stderr)
        return WRONG_USE


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="autograder", description="See what autograd holds, fix what breaks it.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)

    lab = verbs.add_parser("lab", help="open JupyterLab at the course")
    lab.add_argument("lesson", nargs="?", help="a lesson's name, or its beginning, such as 02")
    lab.add_argument("--port", type=int, help="where to serve (default: the first free port from 8888)")
    lab.add_argument("--no-browser", action="store_true", help="only print the address")
    lab.add_argument("--teacher", action="store_true", help="the sources, with nbgrader's tools")
    lab.set_defaults(run=_lab)

    verbs.add_parser("test", help="run the tests: --quick some, --all the slow ones too; other words go to pytest")

    explain = verbs.add_parser(
        "explain",
        help="say what autograd held in a program, where it breaks, what repairs it",
        epilog="Words after `--` are the program's own arguments.",
    )
    program = explain.add_mutually_exclusive_group(required=True)
    program.add_argument(
        "program",
        nargs="?",
        metavar="FILE[::FUNCTION]",
        help="a script, one function of it, a notebook (NOTEBOOK.ipynb[::CELL]), or - for standard input",
    )
    program.add_argument("-m", dest="module", metavar="MODULE", help="what `python -m MODULE` runs")
    program.add_argument("-c", dest="code", metavar="CODE", help="this text")
    explain.add_argument("--steps", action="store_true", help="everything that was found, and every step in words")
    explain.add_argument("--json", action="store_true", help="one JSON object on standard output")
    explain.add_argument("--no-repair", action="store_true", help="do not look for repairs")
    explain.add_argument(
        "--budget", type=_seconds, default=60.0, metavar="SECONDS", help="answer within this time (default: 60)"
    )
    explain.add_argument(
        "--check-gradients", action="store_true", help="compare every gradient with finite differences of its loss"
    )
    recorded = explain.add_mutually_exclusive_group()
    recorded.add_argument(
        "--only-step",
        type=_step,
        metavar="N",
        help="record the Nth backward call; of the others, compare the gradients",
    )
    recorded.add_argument(
        "--last-step", dest="only_step", action="store_const", const=0, help="record the last backward call"
    )
    explain.add_argument("--diff", action="store_true", help="print the best repair as a patch, and nothing else")
    explain.add_argument(
        "--apply", action="store_true", help="make the best repair; the file as it was is kept beside it as FILE.orig"
    )
    explain.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs no network")
    explain.add_argument("--svg", type=Path, metavar="FILE", help="write the picture of the telling step")
    explain.set_defaults(run=_explain)

    atlas = verbs.add_parser("atlas", help="say what an operation of PyTorch keeps for backward")
    which = atlas.add_mutually_exclusive_group()
    which.add_argument("operation", nargs="?", metavar="OP", help="such as exp, torch.exp, Tensor.exp_, F.relu, @")
    which.add_argument("--json", action="store_true", help="the whole table, as one JSON object")
    which.add_argument("--diff", nargs=2, metavar=("A", "B"), help="what changed between two releases of PyTorch")
    atlas.set_defaults(run=_atlas)

    check = verbs.add_parser("check", help="check a learner's notebook from the terminal")
    check.add_argument("notebook", type=Path)
    check.set_defaults(run=_check)

    release = verbs.add_parser("release", help="make notebooks/ from solutions/")
    release.add_argument("--check", action="store_true", help="only say which cells drifted")
    release.add_argument("--seed", type=int, help="write a variant with other numbers to class/variants/SEED instead")
    release.set_defaults(run=_release)

    new = verbs.add_parser("new", help="make a small nbgrader course that works, to begin with")
    new.add_argument("folder", type=Path, metavar="DIR", help="is made; has to be empty")
    new.set_defaults(run=_new)

    grade_command.add_to(verbs)
    rehearse_command.add_to(verbs)
    desk_commands.add_to(verbs)

    verbs.add_parser("doctor", help="say what this machine has and lacks").set_defaults(run=_doctor)
    return parser


def _seconds(word: str) -> float:
    seconds = float(word)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{word} is no time to work with; give a number of seconds such as 60")
    return seconds


def _step(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError(f"there is no step {word}; the first is 1")
    return number


def _lab(chosen: argparse.Namespace) -> int:
    from autograder.course.lab import open_lab

    return open_lab(chosen.lesson, port=chosen.port, browser=not chosen.no_browser, teacher=chosen.teacher)


# What `test` chooses, by the markers in pyproject.toml. Nothing is both in `test` and in `test --slow`; `--all` is the two together.
TESTS = {
    "--quick": "not slow and not thorough",
    "--slow": "slow",
    "--all": "",
}
# Both cores work. `loadscope` keeps together what tests/conftest.py says, the longest first: so the order stays as collected.
ON_BOTH_CORES = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]


def _test(words: list[str]) -> int:
    import pytest

    from autograder.course.paths import ROOT

    os.chdir(ROOT)
    chosen = next((word for word in words if word in TESTS), "")
    others = [word for word in words if word not in TESTS]
    if others and not chosen:
        return int(pytest.main(others))
    return int(pytest.main(["-m", TESTS.get(chosen, "not slow"), *ON_BOTH_CORES, *others]))


def _explain(chosen: argparse.Namespace) -> int:
    if chosen.program == "-":
        chosen.program, chosen.code = None, sys.stdin.read()
        chosen.shown = "<stdin>"
    else:
        chosen.shown = chosen.program or chosen.module or "<string>"
    with PartialAnswer() as partial:
        explanation = ExplainCommand(chosen, partial)
        here = argparse.Namespace(**vars(chosen) | {"run": lambda _: explanation.run()})
        return _watched(chosen, here, partial)


def _watched(chosen: argparse.Namespace, here: argparse.Namespace, partial: PartialAnswer) -> int:
    """Returns the exit code of a command that runs in a process of its own, which is ended when its time is up."""
    try:
        return run_in_fork(lambda: _carried_out(here, "explain"), chosen.budget)
    except LateError:
        return _answered_late(chosen, partial)
    except EndedError as error:
        raise CommandError(
            f"{chosen.shown}: the program ended Python itself ({error}), so nothing is known of it. Take that out, or name "
            "one function that does not do it."
        ) from None


def _answered_late(chosen: argparse.Namespace, partial: PartialAnswer) -> int:
    """Prints what was known when the time was up."""
    found = partial.found()
    if found is None:
        raise CommandError(
            f"{chosen.shown}: it was still running after {chosen.budget:g} seconds. Make the run shorter, or give it more "
            "time with --budget."
        )
    print(found[1], end="")
    return found[0]


def _atlas(chosen: argparse.Namespace) -> int:
    from autograder.tape.atlas.answers import difference, of_operation, summary, whole_table

    if chosen.json:
        print(whole_table(), end="")
    elif chosen.diff:
        print(difference(*chosen.diff))
    else:
        print(summary() if chosen.operation is None else of_operation(chosen.operation))
    return 0


def _check(chosen: argparse.Namespace) -> int:
    from autograder.course.attempt import attempt

    verdicts = attempt(chosen.notebook)
    for verdict in verdicts:
        print(f"{verdict.points:g}/{verdict.max_points:g}  {verdict.exercise}: {verdict.status}")
        if verdict.status == "incorrect":
            print("\n".join(f"       {line}" for line in verdict.message.splitlines()))
    print(f"{sum(v.points for v in verdicts):g} of {sum(v.max_points for v in verdicts):g} points")
    return 0 if all(verdict.status == "correct" for verdict in verdicts) else 1


def _release(chosen: argparse.Namespace) -> int:
    from autograder.course.release import drift, release, release_variant

    if chosen.seed is not None:
        print(f"released to {release_variant(chosen.seed)}")
        return 0
    if not chosen.check:
        print("\n".join(f"released {name}" for name in release()))
        return 0
    lines = drift()
    if lines:
        print("\n".join(lines))
        print("notebooks/ is generated; edit solutions/ instead, run `autograder release` and commit both.")
    return 1 if lines else 0


def _new(chosen: argparse.Namespace) -> int:
    from autograder.course.new_course import ASSIGNMENT, make_course

    make_course(chosen.folder)
    there = shlex.quote(printable(str(chosen.folder)))
    print(f"{there} holds a course. Grade its hand-ins: autograder grade {ASSIGNMENT} --course {there}")
    return 0


def _doctor(chosen: argparse.Namespace) -> int:
    from autograder.doctor import examine

    findings = examine()
    for finding in findings:
        print(f"{finding.what:12} {finding.found}" + (f"\n{'':12} {finding.advice}" if finding.advice else ""))
    return 1 if any(finding.advice for finding in findings) else 0
