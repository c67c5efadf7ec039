"""A notebook's texts, paragraph by paragraph, and the notebook with each of them translated; its code stays the same program."""

from __future__ import annotations

import copy
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.locale.languages import METADATA, speaking
from autograder.locale.line_breaks import join_wide
from autograder.locale.translations import translated

Translate = Callable[[str], str]

FENCE = re.compile(r"^\s*(```|~~~)")
WORD = re.compile(r"[^\W\d_]{2}")
TAG = re.compile(r"<[^>]*>")
DIRECTIVE = re.compile(r"#\s*(YOUR CODE HERE|noqa|type:|fmt:|ruff:)|###")

UNWRITTEN = "YOUR ANSWER HERE"
"""What nbgrader puts in place of a written answer; it takes any other text for an attempt (0.9.6, `ClearSolutions.text_stub`)."""


class _Comment(NamedTuple):
    """One comment, or several lines of them below each other: where it begins and its text without the signs."""

    row: int
    column: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def texts(notebook: NotebookNode) -> Iterator[str]:
    """Yields each paragraph and each comment that a reader would want in their own language, in order."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield from (block for block in _blocks(cell.source) if _is_prose(block))
        elif cell.cell_type == "code":
            yield from (comment.text for comment in _comments(cell.source) if WORD.search(comment.text))


def translate_notebook(notebook: NotebookNode, spoken: str, translate: Translate) -> NotebookNode:
    """Returns a copy in another language, which its metadata names.

    Cells that nbgrader locks get the checksum of their new text, so that it does not take them for changed (nbgrader 0.9.6).
    """
    found = copy.deepcopy(notebook)
    found.metadata[METADATA] = spoken
    for cell in found.cells:
        if cell.cell_type == "markdown":
            cell.source = _translated_markdown(cell.source, translate)
        elif cell.cell_type == "code":
            cell.source = _with_comments(cell.source, translate)
        if "checksum" in cell.metadata.get("nbgrader", {}):
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return found


def in_language(notebook: NotebookNode, spoken: str) -> NotebookNode:
    """Returns the notebook in one of the course's languages; what is not translated stays English."""
    with speaking(spoken):
        return translate_notebook(notebook, spoken, translated)


def markdown_texts(markdown: str) -> list[str]:
    """Returns the paragraphs of a page that are translated; fenced code is not."""
    return [block for block in _blocks(markdown) if _is_prose(block)]


def markdown_in_language(markdown: str, spoken: str) -> str:
    """Returns a page in one of the course's languages; what is not translated stays English."""
    with speaking(spoken):
        return _translated_markdown(markdown, translated)


def _translated_markdown(markdown: str, translate: Translate) -> str:
    """Returns Markdown with its paragraphs translated; a browser would show a line end between Chinese words as a blank."""
    blocks = [join_wide(translate(block)) if _is_prose(block) else block for block in _blocks(markdown)]
    return "\n".join(blocks)


def _is_prose(block: str) -> bool:
    return bool(WORD.search(TAG.sub("", block))) and not FENCE.match(block) and block != UNWRITTEN


def _blocks(source: str) -> list[str]:
    """Splits Markdown into paragraphs, the empty lines between them, and fenced code; joined by line ends they are the source."""
    blocks: list[list[str]] = []
    fence = ""
    for line in source.split("\n"):
        opened = FENCE.match(line)
        begins = (
            not blocks or not line.strip() or not blocks[-1][-1].strip() or (opened and not fence) or fence == "closed"
        )
        if not begins or fence == "open":
            blocks[-1].append(line)
        else:
            blocks.append([line])
        if opened:
            fence = "closed" if fence == "open" else "open"
        elif fence == "closed":
            fence = ""
    return ["\n".join(block) for block in blocks]


def _comments(source: str) -> list[_Comment]:
    """Returns the comments of a cell; none of one that is not Python below its magic."""
    above, code = _magic(source)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    found: list[_Comment] = []
    for token in tokens:
        if token.type != tokenize.COMMENT or DIRECTIVE.match(token.string):
            continue
        row, column = token.start[0] - 1 + above, token.start[1]
        line = token.string.removeprefix("#").removeprefix(" ")
        last = found[-1] if found else None
        alone = not token.line[:column].strip()
        if (
            last
            and alone
            and last.column == column
            and last.row + len(last.lines) == row
            and _stands_alone(source, last)
        ):
            found[-1] = last._replace(lines=(*last.lines, line))
        else:
            found.append(_Comment(row, column, (line,)))
    return found


def _magic(source: str) -> tuple[int, str]:
    """Returns how many lines a cell's magic has, and the code below."""
    first, _, rest = source.partition("\n")
    return (1, rest) if first.startswith("%%") else (0, source)


def _stands_alone(source: str, comment: _Comment) -> bool:
    return not source.split("\n")[comment.row][: comment.column].strip()


def _with_comments(source: str, translate: Translate) -> str:
    lines = source.split("\n")
    for comment in reversed(
        _comments(source)
    ):  # from below, so that a longer translation moves nothing that is still to come
        if not WORD.search(comment.text):
            continue
        first, *others = translate(comment.text).split("\n")
        before = lines[comment.row][: comment.column]
        new = [f"{before}# {first}", *(f"{' ' * comment.column}# {line}" for line in others)]
        lines[comment.row : comment.row + len(comment.lines)] = new
    return "\n".join(lines)
