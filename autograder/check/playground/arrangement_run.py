"""The run of an arrangement: its outcome and its recording."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import nn

from autograder.check.playground.arrangement import text_of
from autograder.check.playground.cards import Arrangement, PlayProgram
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.text.headline import headline

NAMES: dict[str, Any] = {"torch": torch, "nn": nn, "F": nn.functional}
"""The names that every program may use without an import, as in the lessons' first cells."""

SECONDS = 2.0
"""The time limit of one run of an arrangement, in seconds; an arrangement runs at least four times."""


class JudgedArrangement(msgspec.Struct, frozen=True):
    """The outcome of an arrangement, and its recording."""

    outcome: Outcome
    sentence: str
    recording: Recording


def run(
    program: PlayProgram, arrangement: Arrangement, names: dict[str, Any] | None = None, seconds: float = SECONDS
) -> JudgedArrangement:
    """Return the verdict on the arrangement, from several runs of its source.

    Args:
        program: the program.
        arrangement: the order and the forms of its cards.
        names: values that it uses in addition to torch, nn and F; each run gets copies.
        seconds: the time limit of one run.

    Raises:
        ProgramError: it is not Python, or exceeds the time limit.
    """
    text = text_of(program, arrangement)
    recording = record(text, file=program.name, names=NAMES | (names or {}), seconds=seconds)
    return JudgedArrangement(recording.verdict.outcome, headline(recording.verdict), recording)
