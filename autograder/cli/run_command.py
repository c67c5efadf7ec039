"""The end of every command: its exit code, and one sentence if it failed."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from autograder.errors import AutograderError, UnfinishedError
from autograder.locale.translations import retold, translatable, translated
from autograder.requirements import require

WRONG_USE = 2
INTERRUPTED = {
    "grade": translatable(" Grades so far are kept; run the same command with --resume to continue."),
}


class CommandError(UnfinishedError):
    """The last step of a command failed; the message gives the reason."""


def run_command(chosen: argparse.Namespace, verb: str) -> int:
    """Run a command and return its exit code; an error is printed in one sentence."""
    try:
        require(verb)
        code = chosen.run(chosen)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader closed the pipe (`| head`); this avoids a second BrokenPipeError at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USE
    except KeyboardInterrupt:
        told = translated("{command} was interrupted.", command=verb) + translated(INTERRUPTED.get(verb, ""))
        print(f"\nautograder: {told}", file=sys.stderr)
        return 128 + signal.SIGINT
    except AutograderError as error:
        print(error.words, end="", file=sys.stderr)
        print(f"autograder: {retold(str(error))}", file=sys.stderr)
        return WRONG_USE
