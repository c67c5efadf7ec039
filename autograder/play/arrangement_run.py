"""An arrangement is judged by running it: what happened, and what autograd held."""

from __future__ import annotations

from typing import Any

import msgspec
import torch
from torch import nn

from autograder.play.arrangement import text_of
from autograder.play.cards import Arrangement, PlayProgram
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Outcome
from autograder.view.text.headline import headline

NAMES: dict[str, Any] = {"torch": torch, "nn": nn, "F": nn.functional}
"""What every program may use without an import, as the lessons' first cells have it."""

SECONDS = 2.0
"""How long one run of an arrangement may take; there are at least four."""


class JudgedArrangement(msgspec.Struct, frozen=True):
    """What an arrangement does when PyTorch runs it."""

    outcome: Outcome
    sentence: str
    recording: Recording


def run(
    program: PlayProgram, arrangement: Arrangement, names: dict[str, Any] | None = None, seconds: float = SECONDS
) -> JudgedArrangement:
    """Return the verdict on the arrangement, from several runs of its text.

    Args:
        names: values that it uses besides torch, nn and F; each run gets copies.
        seconds: how long one run may take.

    Raises:
        ProgramError: it is not Python, or does not end in time.
    """
    text = text_of(program, arrangement)
    recording = record(text, file=program.name, names=NAMES | (names or {}), seconds=seconds)
    return JudgedArrangement(recording.verdict.outcome, headline(recording.verdict), recording)
