"""The parser, and the commands `test` and `doctor`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from autograder.cli import classroom_commands, course_commands, explain_command, grade_command, release_command
from autograder.cli.run_command import WRONG_USE, run_command
from autograder.locale.line_breaks import wrap_text
from autograder.locale.translations import translatable, translated
from autograder.requirements import version

ARGPARSE_SAYS = (
    translatable("usage:"),
    translatable("positional arguments:"),
    translatable("options:"),
    translatable("show this help message and exit"),
)
"""The texts that argparse adds to each help (Python 3.11)."""


class _HelpFormatter(argparse.HelpFormatter):
    """Breaks lines in any language; argparse's formatter breaks only at spaces."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrap_text(text, width, indent, indent))


NOT_OURS = ("unrecognized", "explicit argument", "not allowed with")
"""Parts of argparse's messages about words that belong to the explained program but precede `--`."""


class _Parser(argparse.ArgumentParser):
    """Has its help in the reader's language, and prints an error in one sentence, in English and without the usage block."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_HelpFormatter, **options)

    def format_help(self) -> str:
        """Return the help."""
        text = super().format_help()
        for words in ARGPARSE_SAYS:
            text = text.replace(words, translated(words))
        return text

    def error(self, message: str) -> NoReturn:
        more = f"`{self.prog} --help` lists the commands and options"
        if self.prog == "autograder explain" and any(sign in message for sign in NOT_OURS):
            more = explain_command.OWN_WORDS
        self.exit(WRONG_USE, f"{self.prog}: {message}. {more}.\n")


class _Version(argparse.Action):
    """Prints the version and ends the command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"autograder {version()}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 for success, 1 for a negative result, 2 if the command could not be run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # other arguments, including options, are passed to pytest
    if words[:1] == ["test"] and not {"-h", "--help"} & set(words):
        return run_command(argparse.Namespace(run=lambda _: _test(words[1:])), "test")
    # the arguments of `explain` after `--` belong to the explained program
    end = words.index("--") if words[:1] == ["explain"] and "--" in words else len(words)
    words, arguments = words[:end], words[end + 1 :]
    parser = _parser()
    chosen, unknown = parser.parse_known_args(words, argparse.Namespace(arguments=arguments, words=words))
    if unknown:
        parser.prog = f"autograder {words[0]}"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return run_command(chosen, words[0])


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="autograder", description=translated("See what autograd saves, and fix wrong gradients."))
    parser.add_argument("--version", action=_Version, nargs=0, help=translated("print the version and exit"))
    subparsers = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    course_commands.add_to(subparsers)
    explain_command.add_to(subparsers)
    course_commands.add_atlas(subparsers)
    release_command.add_to(subparsers)
    course_commands.add_book(subparsers)
    grade_command.add_to(subparsers)
    grade_command.add_validate_source(subparsers)
    classroom_commands.add_to(subparsers)
    _add_test(subparsers)
    subparsers.add_parser("doctor", help=translated("check which requirements this machine meets")).set_defaults(
        run=_doctor
    )
    return parser


def _add_test(subparsers: Any) -> None:
    """Add the help of `test`; `_test` reads its options."""
    test = subparsers.add_parser(
        "test",
        help=translated("run the tests, except the slow ones"),
        epilog=translated("Other arguments are passed to pytest; `python -m pytest --help` lists them."),
    )
    chosen = test.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_true", help=translated("run a selection while you edit"))
    chosen.add_argument("--slow", action="store_true", help=translated("run only the slow tests"))
    chosen.add_argument("--all", action="store_true", help=translated("run all tests"))


# Markers of pyproject.toml for each choice. `test` and `test --slow` do not overlap; together they are `test --all`.
TESTS = {"--quick": "not slow and not thorough", "--slow": "slow", "--all": ""}
# `loadscope` keeps the groups of tests/conftest.py together; without reordering, the longest group remains first.
ON_BOTH_CORES = ["-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]


def _test(words: list[str]) -> int:
    import pytest

    from autograder.course.paths import ROOT

    os.chdir(ROOT)
    # Without bytecode, each of the hundreds of processes that the tests start would compile the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    chosen = next((word for word in words if word in TESTS), "")
    others = [word for word in words if word not in TESTS]
    if not chosen and any(os.path.exists(word.partition("::")[0]) for word in others):
        return int(pytest.main(others))  # named tests run even if they are slow
    return int(pytest.main(["-m", TESTS.get(chosen, "not slow"), *ON_BOTH_CORES, *others]))


def _doctor(chosen: argparse.Namespace) -> int:
    from autograder.cli.doctor import examine

    findings = examine()
    for finding in findings:
        print(f"{finding.what:12} {finding.found}" + (f"\n{'':12} {finding.advice}" if finding.advice else ""))
    return 1 if any(finding.advice for finding in findings) else 0
