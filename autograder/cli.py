"""The command line: which words belong to which command, and the tests; `autograder/commands` has the rest."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from autograder.commands import (
    atlas_command,
    book_command,
    course_commands,
    desk_commands,
    explain_command,
    grade_command,
    release_command,
    validate_command,
)
from autograder.commands.carried_out import WRONG_USE, carried_out
from autograder.commands.translated_help import TranslatedHelpParser
from autograder.locale.translations import translated

NOT_OURS = ("unrecognized", "explicit argument", "not allowed with")
"""What argparse says of words that are the program's own, where they stand before `--`."""


class _Parser(TranslatedHelpParser):
    """Says what was wrong in one sentence, without the usage block."""

    def error(self, message: str) -> NoReturn:
        more = f"`{self.prog} --help` shows what there is"
        if self.prog == "autograder explain" and any(sign in message for sign in NOT_OURS):
            more = explain_command.OWN_WORDS
        self.exit(WRONG_USE, f"{self.prog}: {message}. {more}.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0 all is well, 1 the answer is no, 2 the command could not be carried out."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["test"] and not {"-h", "--help"} & set(words):  # other arguments are pytest's, options included
        return carried_out(argparse.Namespace(run=lambda _: _test(words[1:])), "test")
    words, arguments = _split(words) if words[:1] == ["explain"] else (words, [])
    given = argparse.Namespace(arguments=arguments, words=words)
    parser = _parser()
    chosen, unknown = parser.parse_known_args(words, given)
    if unknown:
        parser.prog = f"autograder {words[0]}"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return carried_out(chosen, words[0])


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """Return our arguments, before `--`, and the program's own arguments after it."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="autograder", description=translated("See what autograd holds, fix what breaks it."))
    verbs = parser.add_subparsers(required=True, metavar="VERB", parser_class=_Parser)
    course_commands.add_to(verbs)
    explain_command.add_to(verbs)
    atlas_command.add_to(verbs)
    release_command.add_to(verbs)
    book_command.add_to(verbs)
    grade_command.add_to(verbs)
    validate_command.add_to(verbs)
    desk_commands.add_to(verbs)
    _add_test(verbs)
    verbs.add_parser("doctor", help=translated("say what this machine has and lacks")).set_defaults(run=_doctor)
    return parser


def _add_test(verbs: Any) -> None:
    """Add the help of `test`; `_test` reads its options."""
    test = verbs.add_parser(
        "test",
        help=translated("run the tests, except the slow ones"),
        epilog=translated("Other arguments are passed to pytest; `python -m pytest --help` lists them."),
    )
    chosen = test.add_mutually_exclusive_group()
    chosen.add_argument("--quick", action="store_true", help=translated("run a selection while you edit"))
    chosen.add_argument("--slow", action="store_true", help=translated("run only the slow tests"))
    chosen.add_argument("--all", action="store_true", help=translated("run all tests"))


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


def _doctor(chosen: argparse.Namespace) -> int:
    from autograder.doctor import examine

    findings = examine()
    for finding in findings:
        print(f"{finding.what:12} {finding.found}" + (f"\n{'':12} {finding.advice}" if finding.advice else ""))
    return 1 if any(finding.advice for finding in findings) else 0
