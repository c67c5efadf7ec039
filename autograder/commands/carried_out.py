"""How every command ends: its exit code, and one sentence where it could not be carried out."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from autograder.errors import AutograderError, UnfinishedError
from autograder.installation.requirements import require
from autograder.locale.translations import retold, translatable, translated

WRONG_USE = 2
INTERRUPTED = {
    "grade": translatable(" What was graded so far is kept; the same command with --resume continues."),
}


class CommandError(UnfinishedError):
    """A command could not do its last step; the message says which and why."""


def carried_out(chosen: argparse.Namespace, verb: str) -> int:
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
        told = translated("{command} was interrupted.", command=verb) + translated(INTERRUPTED.get(verb, ""))
        print(f"\nautograder: {told}", file=sys.stderr)
        return 128 + signal.SIGINT
    except AutograderError as error:
        print(error.words, end="", file=sys.stderr)
        print(f"autograder: {retold(str(error))}", file=sys.stderr)
        return WRONG_USE
