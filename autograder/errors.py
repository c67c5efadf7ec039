"""The exceptions whose message is one sentence for the user: what was seen, what was expected, what to do.

Code that shows errors to a user (the command line, a notebook) catches `AutograderError`; any other exception is a fault of
this package or of the program that it runs. Verdicts on a learner's answer are not errors: see `autograder.check.message`.
"""

from __future__ import annotations


class AutograderError(Exception):
    """Any error that a user can do something about.

    Attributes:
        words: what the user's own program printed, where that tells why; shown above the message.
    """

    words = ""


class InputError(AutograderError, ValueError):
    """What was given cannot be used: a program, a notebook, a recording, a course or an option."""


class SetupError(AutograderError, RuntimeError):
    """This machine or this installation lacks something that the command needs."""


class UnfinishedError(AutograderError, RuntimeError):
    """The work began and could not be finished; the message says what was kept."""


def as_utf8(text: str) -> str:
    """Returns the text with letters that are none replaced: half of a surrogate pair can be neither sent nor stored."""
    return text.encode("utf-8", "replace").decode()


def message_of(error: BaseException | None) -> str:
    """Returns an exception's message; "" for none, and where its own `__str__` raises, as that of somebody's program may.

    Letters that are none, as in the name of a file that is not UTF-8, are replaced.
    """
    try:
        return "" if error is None else as_utf8(str(error))
    except Exception:
        return ""
