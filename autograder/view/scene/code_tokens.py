"""Syntax highlighting: source text as lines of tokens, by Python's own tokenizer."""

from __future__ import annotations

import io
import keyword
import tokenize

CodeToken = tuple[str, str]
"""(text, kind); kind is "" or one of "keyword", "string", "number", "comment"."""

KINDS = {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number"}


def highlight(source: str) -> list[list[CodeToken]]:
    """Return the tokens of each line; if the source is not valid Python, a line is one token without a kind."""
    lines = source.rstrip("\n").split("\n")
    marks: list[list[tuple[int, int, str]]] = [[] for _ in lines]
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            kind = (
                "keyword" if token.type == tokenize.NAME and keyword.iskeyword(token.string) else KINDS.get(token.type)
            )
            if kind:
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
