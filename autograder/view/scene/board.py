"""A program as cards that can be moved, switched and edited, and the buttons of a prediction: what the front end draws of them."""

from __future__ import annotations

import msgspec

from autograder.view.scene.code_tokens import CodeToken


class BoardCard(msgspec.Struct):
    """One statement.

    Attributes:
        lines: its lines, highlighted.
        keys: the key of each line's state; "" where it was not run.
        forms: the names of its forms; `form` is the one that it has, counted from 0.
        is_fixed: it keeps its place.
    """

    id: str
    lines: list[list[CodeToken]]
    keys: list[str]
    forms: list[str]
    form: int = 0
    is_fixed: bool = False


class Board(msgspec.Struct):
    """The program of a picture.

    Attributes:
        number: of the request that this answers; the next one is higher.
        cards: the program, in order; `spare`: the cards that it does not hold.
        edits: card id → the text that a reader wrote in its place.
        problem: why there is no picture of this arrangement; "" where there is one.
        remark: what else is known of it, such as that it computes another value than the program as given.
        header: the first line of the function that is asked for, `function_name` its name, `answer` its text as the cards lie now;
            "" where the program is no exercise.
        is_editable: whether the text of a line may be changed, as it may where a kernel runs it.
    """

    name: str
    number: int
    cards: list[BoardCard]
    spare: list[BoardCard]
    edits: dict[str, str] = {}
    problem: str = ""
    remark: str = ""
    header: str = ""
    function_name: str = ""
    answer: str = ""
    is_editable: bool = False


class Choices(msgspec.Struct):
    """The buttons of a prediction: `name` is the variable that holds the answer, an option is the word with its meaning."""

    name: str
    question: str
    options: list[tuple[str, str]]
