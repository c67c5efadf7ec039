"""The blocks of a page: text, code with its output, questions and exercises."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from autograder.check.playground.arrangement import PlayProgram
from autograder.tape.recording.schema import Recording
from autograder.view.notebook import ShownRecording


class ProseBlock(msgspec.Struct, frozen=True, tag=True):
    """A Markdown cell; `id` is the cell's id, which is the same in every language; `asks`: whether the reader is to predict."""

    id: str
    markdown: str
    asks: bool = False


class CodeBlock(msgspec.Struct, frozen=True, tag=True):
    """A code cell without a question."""

    id: str  # the cell's id
    source: str  # the code
    printed: str = ""  # its output on the two standard streams, and its error, if any
    displays: tuple[dict[str, str], ...] = ()  # its other outputs, each as MIME type → text; images are base64
    recordings: tuple[ShownRecording, ...] = ()  # the programs that it ran and showed
    is_setup: bool = False  # whether it contains only imports, so that a reader may skip it


class Choice(msgspec.Struct, frozen=True):
    """One answer to a question, the message of the lesson's own check, and whether the answer passes."""

    answer: str
    verdict: str
    is_right: bool


class TriedArrangement(msgspec.Struct, frozen=True):
    """The result of one arrangement of a program."""

    key: str  # `Arrangement.key`
    sentence: str  # the verdict in one sentence
    recording: Recording  # the recording of its run
    passes: bool = False  # whether the check of an exercise accepts it
    said: str = ""  # the check's message if it does not


class PlayTable(msgspec.Struct, frozen=True):
    """The results of all offered arrangements of a program, the given one first; for lines to order, of each order that returns."""

    program: PlayProgram
    tried: tuple[TriedArrangement, ...]


class QuestionBlock(msgspec.Struct, frozen=True, tag=True):
    """A program, and the answers to choose from.

    The question is the program's outcome ("outcome"), the line that broke backward ("line"), or its return value
    ("value"). For a return value, the only choice is the right one.
    """

    id: str  # the exercise's id, as in the notebook
    kind: Literal["outcome", "line", "value"]  # the kind of question
    source: str  # the program, without the decorator that asks
    choices: tuple[Choice, ...]  # the answers
    recording: Recording  # the recording that is shown after the answer
    # the program's other arrangements, shown after the answer; None if its lines can be neither moved nor switched
    table: PlayTable | None = None
    value: float | str | list[Any] | None = None  # for a "value" question, the return value of the program
    hint: str = ""  # the form of the answer, such as "a number"


class ExerciseBlock(msgspec.Struct, frozen=True, tag=True):
    """An exercise to do in JupyterLab: its id and its stub; `table` contains the results for lines to put in order."""

    id: str
    source: str
    table: PlayTable | None = None


Block = ProseBlock | CodeBlock | QuestionBlock | ExerciseBlock
