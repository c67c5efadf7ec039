"""The data of two interactive elements of the front end, editable cards and the buttons of a prediction, and highlighted source text."""

from __future__ import annotations

import io
import keyword
import tokenize

import msgspec

CodeToken = tuple[str, str]
"""(text, kind); kind is "" or one of "keyword", "string", "number", "comment"."""

KINDS = {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number"}


def highlight(source: str) -> list[list[CodeToken]]:
    """Return the tokens of each line; if the source is not valid Python, a line is one token without a kind."""
    lines = source.rstrip("\n").split("\n")
    marks: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            is_keyword = token.type == tokenize.NAME and keyword.iskeyword(token.string)
            if kind := "keyword" if is_keyword else KINDS.get(token.type):
                _mark(marks, lines, token, kind)
    except (tokenize.TokenError, SyntaxError):
        return [[(line, "")] if line else [] for line in lines]
    return [_split(line, spans) for line, spans in zip(lines, marks, strict=True)]


def _mark(marks: list[list[tuple[int, int, str]]], lines: list[str], token: tokenize.TokenInfo, kind: str) -> None:
    """Add a token's span, (start, end, kind) in columns, to each line that it covers."""
    (first, start), (last, end) = token.start, token.end
    for row in range(first, min(last, len(lines)) + 1):
        left = start if row == first else 0
        right = end if row == last else len(lines[row - 1])
        marks[row - 1].append((left, right, kind))


def _split(line: str, spans: list[tuple[int, int, str]]) -> list[CodeToken]:
    """Return a line's tokens; the parts between the spans have the kind ""."""
    tokens: list[CodeToken] = []
    at = 0
    for left, right, kind in spans:
        tokens += [(line[at:left], ""), (line[left:right], kind)]
        at = right
    return [token for token in [*tokens, (line[at:], "")] if token[0]]


class BoardCard(msgspec.Struct):
    """One statement.

    Attributes:
        id: the id of the card.
        lines: its lines, highlighted.
        keys: the key of each line's state; "" if it was not run.
        forms: the names of its forms.
        form: the index of the current form.
        is_fixed: whether it keeps its place.
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
        name: the name of the program.
        number: the number of the request that this answers; it increases.
        cards: the program, in order.
        spare: the cards that it omits.
        edits: card id → the text that a reader wrote in its place.
        problem: the reason why this arrangement has no picture; "" if it has one.
        remark: a further remark, such as that it computes another value than the given program.
        header: the first line of the function that is asked for; "" if the program is not an exercise.
        function_name: the name of that function.
        answer: the source of that function in the current arrangement.
        is_editable: whether the text of a line may be changed, which requires a kernel.
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
    """The buttons of a prediction.

    Attributes:
        name: the variable that contains the answer.
        question: the text above the buttons.
        options: each word with its meaning.
    """

    name: str
    question: str
    options: list[tuple[str, str]]
