"""The parts of a timeline as data: Python determines rows, columns and texts, and the drawings only place them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from autograder.locale.translations import translated
from autograder.tape.recording.verdict_types import Outcome, Place
from autograder.view.shapes import Drawing, tone_of

Kind = Literal["made", "shared", "saved", "modified", "unseen", "lost", "raised", "accepted", "fine"]

VALUES = 24  # the maximum number of columns of values in a mark


@dataclass(frozen=True)
class Mark:
    """The effect of a line on the storage: its kind, a short statement, and a detail or ""."""

    kind: Kind
    words: str
    detail: str = ""
    is_read: bool = False  # whether backward reads what this line saved


@dataclass(frozen=True)
class Row:
    """One execution of a line."""

    line: str  # the line number, with the file's name if that is not the program's own
    code: str
    depth: int = 0  # number of calls that the line is inside of, of those that the timeline shows
    remark: str = ""  # the function of an inner line, and the number of this execution if the line ran several times
    marks: tuple[Mark, ...] = ()
    fold: str = ""  # the words on the statements and calls that are left out above the row; "" without them
    is_lit: bool = False  # whether the line is the cause of the outcome
    step: int | None = None  # index of the recording's step; None if it is not recorded
    is_repeated: bool = False  # whether the line ran several times

    @property
    def words(self) -> str:
        """The statements of all marks."""
        return "; ".join(mark.words + (f" ({mark.detail})" if mark.detail else "") for mark in self.marks)


@dataclass(frozen=True)
class Column:
    """The rows of one storage, or of several with the same rows."""

    # the name of the storage, and its size; "" if no storage explains the outcome
    name: str
    note: str
    rows: tuple[Row, ...]

    @property
    def heading(self) -> str:
        """The name, with the line that explains the outcome, for a column that is folded; without a name, only the line."""
        lit = next((row.line for row in self.rows if row.is_lit), "")
        if lit and not self.name:
            return translated("line {line}", line=lit)
        return translated("{tensor} (line {line})", tensor=self.name, line=lit) if lit else self.name


@dataclass(frozen=True)
class Timeline:
    """The whole figure; its first column is open."""

    title: str
    outcome: Outcome
    columns: tuple[Column, ...]
    change: str = ""  # the first fix, or ""
    rest: tuple[str, ...] = ()  # sentences on the storages that are not drawn
    # names of the variables whose tensors were not modified, if they are too many for a sentence
    unmodified: tuple[str, ...] = ()
    is_refused: bool = False  # whether a check rejected the program although its gradients are right

    @property
    def tone(self) -> str:
        """The class that gives the figure the color of the outcome; a graph fault has that of a wrong gradient."""
        is_lost = any(mark.kind == "lost" for column in self.columns for row in column.rows for mark in row.marks)
        return "silent" if is_lost and self.outcome == "correct" else tone_of(self.outcome)

    @property
    def classes(self) -> str:
        """The classes of the figure: its tone, and "refused", which gives the title another color."""
        return f"{self.tone} refused" if self.is_refused else self.tone


class SceneColumn(msgspec.Struct):
    """A storage's column as drawings, one for each width, for the front end."""

    title: str  # the name of its storage, for the line that unfolds it
    drawings: list[Drawing]  # the column at several widths, the narrowest first; each row is a group of class "moment"
    frames: list[int]  # the 0-based frame of the scene for each row; -1 without one
    # for each row, its code if the line modifies the storage, so that a reader may move it; else ""
    movable: list[str] = []


class SceneTimeline(msgspec.Struct):
    """The timeline for a front end, which chooses a drawing by the width of its pane."""

    title: str
    tone: str  # the class that gives it the color of the outcome
    columns: list[SceneColumn]
    change: str  # the first fix, or ""
    rest: list[str]  # sentences below the columns
    unmodified: list[str] = []  # names that the last sentence counts, to be unfolded
    graph_first: bool = False  # whether the graph is also open


def values_and_version(values: str, version: int | None) -> str:
    """Return short values with a version, such as "4 · version 0"."""
    text = translated("version {version}", version=version) if version is not None else ""
    return " · ".join(filter(None, [values if len(values) <= VALUES else "", text]))


def short_place(place: Place, file: str) -> str:
    """Return the number of a line, preceded by the name of its file if that is not `file`, such as "layers.py:12"."""
    return str(place.line) if place.file == file else f"{place.file.rpartition('/')[2]}:{place.line}"
