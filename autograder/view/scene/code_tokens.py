"""Source text as lines of coloured runs, by Python's own tokenizer."""

from __future__ import annotations

import io
import keyword
import tokenize

Run = tuple[str, str]
"""(text, kind), where kind is "" or one of "keyword", "string", "number", "comment"."""

KINDS = {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number"}


def coloured(source: str) -> list[list[Run]]:
    """Returns each line's runs; a source that is no Python comes back without colours."""
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
    return [_runs(line, spans) for line, spans in zip(lines, marks, strict=True)]


def _mark(marks: list[list[tuple[int, int, str]]], lines: list[str], token: tokenize.TokenInfo, kind: str) -> None:
    """Notes a token's span on each line it covers."""
    (first, start), (last, end) = token.start, token.end
    for row in range(first, min(last, len(lines)) + 1):
        left = start if row == first else 0
        right = end if row == last else len(lines[row - 1])
        marks[row - 1].append((left, right, kind))


def _runs(line: str, spans: list[tuple[int, int, str]]) -> list[Run]:
    """Returns a line cut into runs."""
    runs: list[Run] = []
    at = 0
    for left, right, kind in spans:
        runs += [(line[at:left], ""), (line[left:right], kind)]
        at = right
    return [run for run in [*runs, (line[at:], "")] if run[0]]
