"""Translation of a notebook's texts, paragraph by paragraph and comment by comment, without a change of its code."""

from __future__ import annotations

import copy
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from nbformat import NotebookNode
from nbgrader.utils import compute_checksum

from autograder.locale.languages import METADATA, use_language
from autograder.locale.line_breaks import join_wide
from autograder.locale.translations import translated

Translate = Callable[[str], str]

FENCE = re.compile(r"^\s*(```|~~~)")
WORD = re.compile(r"[^\W\d_]{2}")
TAG = re.compile(r"<[^>]*>")
DIRECTIVE = re.compile(r"#\s*(YOUR CODE HERE|noqa|type:|fmt:|ruff:)|###")

UNWRITTEN = "YOUR ANSWER HERE"
"""nbgrader's placeholder for a written answer; nbgrader counts any other text as an attempt (0.9.6, `ClearSolutions.text_stub`)."""


@dataclass(frozen=True)
class _Comment:
    """A comment, or a block of full-line comments: its position, and its text without the signs."""

    row: int
    column: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def texts(notebook: NotebookNode) -> Iterator[str]:
    """Yield each paragraph and each comment to translate, in order."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            yield from (block for block in _blocks(cell.source) if _is_prose(block))
        elif cell.cell_type == "code":
            yield from (comment.text for comment in _comments(cell.source) if WORD.search(comment.text))


def translate_notebook(notebook: NotebookNode, language_code: str, translate: Translate) -> NotebookNode:
    """Return a copy in another language, which is stored in its metadata.

    Locked cells get the checksum of their new text, so that nbgrader does not report them as changed (0.9.6).
    """
    translated_notebook = copy.deepcopy(notebook)
    translated_notebook.metadata[METADATA] = language_code
    for cell in translated_notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _translated_markdown(cell.source, translate)
        elif cell.cell_type == "code":
            cell.source = _with_comments(cell.source, translate)
        if "checksum" in cell.metadata.get("nbgrader", {}):
            cell.metadata.nbgrader["checksum"] = compute_checksum(cell)
    return translated_notebook


def in_language(notebook: NotebookNode, language_code: str) -> NotebookNode:
    """Return the notebook in one of the course's languages; texts without a translation remain in English."""
    with use_language(language_code):
        return translate_notebook(notebook, language_code, translated)


def markdown_texts(markdown: str) -> list[str]:
    """Return the paragraphs of a page to translate; fenced code is not translated."""
    return [block for block in _blocks(markdown) if _is_prose(block)]


def markdown_in_language(markdown: str, language_code: str) -> str:
    """Return a page in one of the course's languages; texts without a translation remain in English."""
    with use_language(language_code):
        return _translated_markdown(markdown, translated)


def _translated_markdown(markdown: str, translate: Translate) -> str:
    """Return Markdown with its paragraphs translated and joined, because a browser shows a line end between Chinese words as a space."""
    blocks = [join_wide(translate(block)) if _is_prose(block) else block for block in _blocks(markdown)]
    return "\n".join(blocks)


def _is_prose(block: str) -> bool:
    return bool(WORD.search(TAG.sub("", block))) and not FENCE.match(block) and block != UNWRITTEN


def _blocks(source: str) -> list[str]:
    """Split Markdown into paragraphs, the empty lines between them, and fenced code; joined by line ends, they are the source."""
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


def comments_of(code: str) -> list[tokenize.TokenInfo]:
    """Return the comments of some code; an empty list if it is not valid Python."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [token for token in tokens if token.type == tokenize.COMMENT]


def _comments(source: str) -> list[_Comment]:
    """Return the comments of a cell; an empty list if the code below its magic is not Python."""
    above, code = _magic(source)
    comments: list[_Comment] = []
    alone = False
    for token in comments_of(code):
        if DIRECTIVE.match(token.string):
            continue
        row, column = token.start[0] - 1 + above, token.start[1]
        line = token.string.removeprefix("#").removeprefix(" ")
        last = comments[-1] if comments else None
        alone, was_alone = not token.line[:column].strip(), alone
        if last and alone and was_alone and last.column == column and last.row + len(last.lines) == row:
            comments[-1] = replace(last, lines=(*last.lines, line))
        else:
            comments.append(_Comment(row, column, (line,)))
    return comments


def _magic(source: str) -> tuple[int, str]:
    """Return the number of lines of a cell's magic, and the code below."""
    first, _, rest = source.partition("\n")
    return (1, rest) if first.startswith("%%") else (0, source)


def _with_comments(source: str, translate: Translate) -> str:
    lines = source.split("\n")
    for comment in reversed(
        _comments(source)
    ):  # from below, so that a longer translation does not move the other comments
        if not WORD.search(comment.text):
            continue
        first, *others = translate(comment.text).split("\n")
        before = lines[comment.row][: comment.column]
        new = [f"{before}# {first}", *(f"{' ' * comment.column}# {line}" for line in others)]
        lines[comment.row : comment.row + len(comment.lines)] = new
    return "\n".join(lines)
