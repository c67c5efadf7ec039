"""What a page of the book consists of, as frozen data: text, code with what it printed, questions and exercises."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from autograder.play.cards import PlayProgram
from autograder.tape.recording.schema import Recording
from autograder.view.notebook import ShownRecording


class ProseBlock(msgspec.Struct, frozen=True, tag=True):
    """A Markdown cell; `id` is the cell's, which stays the same in every language."""

    id: str
    markdown: str


class CodeBlock(msgspec.Struct, frozen=True, tag=True):
    """A code cell that nobody has to answer.

    Attributes:
        printed: what it wrote to the two standard streams, and its error if it ended in one.
        displays: what else it displayed, each as MIME type → text; images are base64.
        recordings: the programs that it ran and showed.
        is_setup: it only imports, so a reader may pass over it.
    """

    id: str
    source: str
    printed: str = ""
    displays: tuple[dict[str, str], ...] = ()
    recordings: tuple[ShownRecording, ...] = ()
    is_setup: bool = False


class Choice(msgspec.Struct, frozen=True):
    """One answer to a question, what the lesson's own check says to it, and whether it passes."""

    answer: str
    verdict: str
    is_right: bool


class TriedArrangement(msgspec.Struct, frozen=True):
    """What one arrangement of a program did when PyTorch ran it.

    Attributes:
        key: `Arrangement.key`.
        passes: whether the check of an exercise accepts it; `said` is what the check says to it if it does not.
    """

    key: str
    sentence: str
    recording: Recording
    passes: bool = False
    said: str = ""


class PlayTable(msgspec.Struct, frozen=True):
    """Every arrangement of a program that is offered, the one given first; of lines to be put in order, each order that returns."""

    program: PlayProgram
    tried: tuple[TriedArrangement, ...]


class QuestionBlock(msgspec.Struct, frozen=True, tag=True):
    """A program and the answers to choose from: what will it do ("outcome"), or which of its lines did the harm ("line").

    Or, with nothing to choose from: what will it return ("value")? Its only choice is the right one.

    Attributes:
        id: the exercise's id, as in the notebook.
        source: the program, without the decorator that asks.
        recording: shown once it is answered.
        before: shown before, without the verdict; None where the reader predicts without a picture.
        table: the program's other arrangements, to be tried once it is answered; None where no line of it can be moved or switched.
        value: of a "value" question, what the program returns; `hint`: the form of the answer, such as "a number".
    """

    id: str
    kind: Literal["outcome", "line", "value"]
    source: str
    choices: tuple[Choice, ...]
    recording: Recording
    before: Recording | None = None
    table: PlayTable | None = None
    value: float | str | list[Any] | None = None
    hint: str = ""


class ExerciseBlock(msgspec.Struct, frozen=True, tag=True):
    """An exercise that is done in JupyterLab: its id, and the code that is handed out; `table` for lines to be put in order."""

    id: str
    source: str
    table: PlayTable | None = None


Block = ProseBlock | CodeBlock | QuestionBlock | ExerciseBlock
