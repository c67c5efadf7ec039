"""The exceptions whose message is one sentence for the user: the problem, the expectation, and what to do.

Code that shows errors to a user (the command line, a notebook) catches `AutograderError`; any other exception is a bug
in this package or in the program that it runs. Verdicts on a student's answer are not errors: see
`autograder.check.message`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Self

from autograder.locale.messages import Message


class AutograderError(Exception):
    """Any error that a user can correct.

    Attributes:
        words: the output of the user's own program, if it explains the error; it is shown above the message.
    """

    words = ""

    @classmethod
    def of(cls, text: str, /, **values: object) -> Self:
        """Return the error with the message of a text and values; see `Message`."""
        return cls(Message(text, **values))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows for the error: the sentence, without frames of this package."""
        return [f"{type(self).__name__}: {self}"]


class InputError(AutograderError, ValueError):
    """A program, notebook, recording, course or option that the user gave cannot be used."""


class SetupError(AutograderError, RuntimeError):
    """This machine or installation lacks something that the command needs."""


class UnfinishedError(AutograderError, RuntimeError):
    """The work began and could not be finished; the message describes the stored part."""


def as_utf8(text: str) -> str:
    """Return the text with lone surrogates replaced, because they can be neither sent nor stored as UTF-8."""
    return text.encode("utf-8", "replace").decode()


def message_of(error: BaseException | None) -> str:
    """Return an exception's message; "" for None, or if its `__str__` raises an exception.

    Lone surrogates, such as in the name of a file that is not UTF-8, are replaced.
    """
    try:
        return "" if error is None else as_utf8(str(error))
    except Exception:
        return ""


ESCAPED_BYTES = range(0xDC80, 0xDD00)  # Python's file functions decode bytes that are not UTF-8 as these (PEP 383)


def printable(text: str) -> str:
    r"""Return the text with control, formatting and undecodable characters as visible escapes such as `\x1b`.

    In a terminal, escape sequences would be executed, and directional marks would reorder the text. The result can be
    encoded as UTF-8. Text that begins or ends with a space, and empty text, is quoted.
    """
    shown = "".join(letter if letter.isprintable() else _escape(letter) for letter in text)
    return shown if shown and shown == shown.strip() else f"'{shown}'"


def printable_list(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the texts, such as names of students, as one printable text: "a, b and 3 more"; "" without any."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(map(printable, texts[:most])) + more


def html_with_code(text: str) -> str:
    """Return a text as HTML, with the parts between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _escape(letter: str) -> str:
    if ord(letter) in ESCAPED_BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
