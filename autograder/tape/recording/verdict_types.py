"""The verdict on a run: its outcome, the writes that did harm, each gradient beside the right one, and what repairs it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from autograder.locale.translations import in_english

Outcome = Literal["raises-forward", "raises-backward", "correct", "silently-wrong"]
OUTCOMES: tuple[Outcome, ...] = ("raises-forward", "raises-backward", "correct", "silently-wrong")


class Place(msgspec.Struct, frozen=True):
    """A line of the user's own code; `line` is 1-based, `text` is the line without its indentation."""

    file: str
    line: int
    text: str


def line_of(place: Place, file: str) -> str:
    """Returns "line 12", or "layers.py, line 12" for a line that is not in the file that is spoken of."""
    if place.file == file:
        return in_english("line {line}", line=place.line)
    return in_english("{file}, line {line}", file=place.file, line=place.line)


def told_of_line(place: Place, file: str, told: str) -> str:
    """Returns a note on one line, which begins with its number, and with its file where that is another than the program's own."""
    if place.file == file:
        return in_english("Line {line}: {told}", line=place.line, told=told)
    return in_english("{file}, line {line}: {told}", file=place.file, line=place.line, told=told)


class Problem(msgspec.Struct, frozen=True):
    """The exception that the program ended with.

    Attributes:
        line: the innermost line of the user's own code, None if none of it ran.
        file: the file that the line is in, as `Place.file`; "" where it is not known: it is the program's own then.
    """

    type: str
    message: str
    line: int | None
    file: str = ""

    def is_in(self, file: str) -> bool:
        """Whether the line is in this file."""
        return self.line is not None and self.file in ("", file)

    def place(self, own: str) -> Place | None:
        """Returns where it happened, None where that is not known; `own` is the program's own file."""
        return Place(self.file or own, self.line, "") if self.line else None

    def is_at(self, place: Place) -> bool:
        """Whether it happened at this line."""
        return self.is_in(place.file) and self.line == place.line


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
        off: the distance of the two over the length of the right one (2-norms), such as 0.5 for a gradient that is half of it; None
            where that is not known, or where the right one is zero and this one is not.
        ran: the slope of the loss as it was computed, where a write that autograd did not record makes that another number than
            `true`, the slope of the program without that write; None elsewhere.
        rounds: how many leaves the program made under this name, one after the other; unset for a single one. The numbers are those of
            the decisive round, else of the last.
    """

    got: list[Any] | float | None
    true: list[Any] | float | None
    unlisted: int = 0
    off: float | None = None
    ran: list[Any] | float | None = None
    rounds: int | msgspec.UnsetType = msgspec.UNSET


class Check(msgspec.Struct, frozen=True):
    """What one oracle was asked about a run, and what it found.

    Attributes:
        oracle: "copies of saved tensors", "finite differences" or "finite differences of each operation".
        question: what it decides, as a question.
        answer: "yes" or "no"; "not known" where it could not decide, "not asked" where it was not run.
        detail: what it covered, or why it could not decide; "" for nothing to add.
    """

    oracle: str
    question: str
    answer: Literal["yes", "no", "not known", "not asked"]
    detail: str = ""


class GraphFault(msgspec.Struct, frozen=True):
    """A line that does not harm a saved tensor, and still keeps a gradient from what it was meant for.

    Attributes:
        kind: what it is called, such as "graph cut".
        sentence: what the line does, without its number.
        change: what to write instead.
    """

    kind: str
    place: Place
    sentence: str
    change: str


class NamedLine(msgspec.Struct, frozen=True):
    """A line that a check names when it refuses a program, although the line harms no saved tensor.

    Attributes:
        sentence: what the line does, in English and without its number.
        mark: how the picture marks it: "lost" takes values out of the graph, "unseen" writes past the history, "named" is neither.
    """

    place: Place
    sentence: str
    mark: Literal["lost", "unseen", "named"] = "named"


Effect = Literal["same losses and gradients", "changes what is computed"]


class Fix(msgspec.Struct, frozen=True):
    """One change of the source after which every gradient is right; it was run, and two independent ways to the gradients showed it.

    Attributes:
        kind: what it does.
        line: the first line that it changes, with the lines `before` and `after`.
        proven: whether it is of the first of these effects.
        effect: "same losses and gradients": every backward started from the numbers that the program was meant to compute and gave
            the gradients that belong to them, and every leaf ended with the value that it was meant to get. "changes what is
            computed": something of this differs, as `changes` says.
        changes: what is computed differently, as a sentence; "" for nothing.
        diff: the change as a unified diff of the file, for `patch`; with the changes of further files.
        file: the imported project file that it changes; None for the program's own.
        more: the changes of further files that belong to it; alone they repair nothing.
    """

    kind: str
    line: int
    before: str
    after: str
    proven: bool
    effect: Effect = "same losses and gradients"
    changes: str = ""
    diff: str = ""
    file: str | None = None
    more: tuple[Fix, ...] = ()


def place_of_fix(fix: Fix) -> str:
    """Returns where a repair begins, such as "line 12" or "line 12 of layers.py"."""
    if not fix.file:
        return in_english("line {line}", line=fix.line)
    return in_english("line {line} of {file}", line=fix.line, file=fix.file)


def note_on_change(fix: Fix) -> str:
    """Returns the note on what a repair computes differently."""
    return in_english(
        "The fix in {place} ({kind}) changes what is computed: {changes}",
        place=place_of_fix(fix), kind=fix.kind, changes=fix.changes,
    )  # fmt: skip


class Excerpt(msgspec.Struct, frozen=True):
    """Which part of a long run was recorded.

    Attributes:
        calls: how many backward calls the run made; of the first `checked` of them the gradients were compared with the right ones.
        first, last: the numbers, from 1, of the backward calls that were recorded, with what the program did since the one before.
        ended: whether the program reached its end; not so where the time was up before.
    """

    calls: int
    checked: int
    first: int
    last: int
    ended: bool = True


class Verdict(msgspec.Struct, frozen=True):
    """What happened, why, and what repairs it. The fields are those of `explain --json`.

    Attributes:
        runs: how often the program, or a changed one, was run for this; 0 in recordings of release 0.1.0.
        excerpt: which part of a long run was recorded; None where all of it was.
        refusal: why a check refused this program as the answer to its exercise, in a few words; "" where no check did.
        named: the lines that this check names.
    """

    outcome: Outcome
    error: Problem | None = None
    harms: tuple[Harm, ...] = ()
    gradients: dict[str, Gradient] = {}
    notes: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    checks: tuple[Check, ...] = ()
    graph_faults: tuple[GraphFault, ...] = ()
    runs: int = 0
    excerpt: Excerpt | None = None
    refusal: str = ""
    named: tuple[NamedLine, ...] = ()
