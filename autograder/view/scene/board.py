"""The data of two interactive elements of the front end, editable cards and the buttons of a prediction, and highlighted source text."""

from __future__ import annotations

import msgspec
from pygments.lexers.python import PythonLexer
from pygments.token import Comment, Keyword, Number, Operator, String

CodeToken = tuple[str, str]  # (text, kind); kind is "" or one of "keyword", "string", "number", "comment"

KINDS = {Keyword: "keyword", Operator.Word: "keyword", String: "string", Number: "number", Comment: "comment"}
LEXER = PythonLexer(stripnl=False, ensurenl=False)


def highlight(source: str) -> list[list[CodeToken]]:
    """Return the tokens of each line; neighboring tokens of one kind are joined."""
    lines: list[list[CodeToken]] = [[]]
    for token, text in LEXER.get_tokens(source.rstrip("\n")):
        kind = next((kind for group, kind in KINDS.items() if token in group), "")
        for row, part in enumerate(text.split("\n")):
            if row:
                lines.append([])
            if part and lines[-1] and lines[-1][-1][1] == kind:
                part = lines[-1].pop()[0] + part
            if part:
                lines[-1].append((part, kind))
    return lines


class BoardCard(msgspec.Struct):
    """A statement of the program as a card that the front end lets the student move or change."""

    id: str  # the id of the card
    lines: list[list[CodeToken]]  # its lines, highlighted
    keys: list[str]  # the key of each line's state; "" if it was not run
    forms: list[str]  # the names of its forms
    form: int = 0  # the index of the current form
    is_fixed: bool = False  # whether it keeps its place


class Board(msgspec.Struct):
    """The program of a picture."""

    name: str  # the name of the program
    number: int  # the number of the request that this answers; it increases
    cards: list[BoardCard]  # the program, in order
    spare: list[BoardCard]  # the cards that it omits
    edits: dict[str, str] = {}  # card id → the text that a reader wrote in its place
    problem: str = ""  # the reason why this arrangement has no picture; "" if it has one
    header: str = ""  # the first line of the function that is asked for; "" if the program is not an exercise
    function_name: str = ""  # the name of that function
    answer: str = ""  # the source of that function in the current arrangement
    is_editable: bool = False  # whether the text of a line may be changed, which requires a kernel


class Choices(msgspec.Struct):
    """The buttons of a prediction."""

    name: str  # the variable that contains the answer
    question: str  # the text above the buttons
    options: list[tuple[str, str]]  # each word with its meaning
