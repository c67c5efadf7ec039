"""The verdict on a run: its outcome, the writes that did harm, each gradient beside the right one, and what repairs it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Outcome = Literal["raises-forward", "raises-backward", "correct", "silently-wrong"]
OUTCOMES: tuple[Outcome, ...] = ("raises-forward", "raises-backward", "correct", "silently-wrong")


class Place(msgspec.Struct, frozen=True):
    """A line of the user's own code; `line` is 1-based, `text` is the line without its indentation."""

    file: str
    line: int
    text: str


class Problem(msgspec.Struct, frozen=True):
    """The exception that the program ended with; `line` is the innermost line of the user's own file, None if none of it ran."""

    type: str
    message: str
    line: int | None


class Harm(msgspec.Struct, frozen=True):
    """A saved tensor that was written into before backward used it; listed also where PyTorch says nothing.

    Attributes:
        tensor: the name of the saved tensor; `through` the alias that was written, where it is another object.
        mutated_at: the writes' lines, in order.
        edge: the SavedEdge, or None where no node saved it (a tensor stored on a custom Function's ctx).
        kind: which kind of harm it is, and `explanation` what that means in a sentence; "" in recordings of release 0.1.0.
    """

    tensor: str
    mutated_at: tuple[Place, ...]
    through: str | None
    saved_at: Place
    saved_by: str
    saved_version: int | None
    version_now: int | None
    bytes_changed: bool
    edge: int | None = None
    kind: str = ""
    explanation: str = ""


class Gradient(msgspec.Struct, frozen=True):
    """A leaf's gradient as this run left it, and the right one: nested lists of numbers, None where there is none or it is not known.

    Attributes:
        unlisted: how many numbers it has, where they are too many to list and `got` is therefore None; else 0.
    """

    got: list[Any] | float | None
    true: list[Any] | float | None
    unlisted: int = 0


Effect = Literal["same losses and gradients", "changes what is computed"]


class Fix(msgspec.Struct, frozen=True):
    """One change of the source after which every gradient is right; it was run, and both oracles agreed.

    Attributes:
        kind: what it does.
        line: the first line that it changes, with the lines `before` and `after`.
        proven: whether it is of the first of these effects.
        effect: "same losses and gradients": every backward started from the numbers that the program was meant to compute and gave
            the gradients that belong to them, and every leaf ended with the value that it was meant to get. "changes what is
            computed": something of this differs, as `changes` says.
        changes: what is computed differently, as a sentence; "" for nothing.
        diff: the change as a unified diff of the file, for `patch`.
    """

    kind: str
    line: int
    before: str
    after: str
    proven: bool
    effect: Effect = "same losses and gradients"
    changes: str = ""
    diff: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """What happened, why, and what repairs it. The fields are those of `explain --json`."""

    outcome: Outcome
    error: Problem | None = None
    harms: tuple[Harm, ...] = ()
    gradients: dict[str, Gradient] = {}
    notes: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
