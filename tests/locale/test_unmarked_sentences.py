"""Texts that a student reads in a lesson are marked for translation: an unmarked sentence would stay English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from autograder.requirements import PACKAGE
from tests.translations.collect import MARKS

WORDS = re.compile(r"[A-Za-z][a-z]*,? [a-z]+,? [a-z]{2,}")
"""Three words in a row."""

CODE = re.compile(r"^import |\{ |: \dpx", re.MULTILINE)
"""Part of a program or a style sheet."""

SILENT = (ast.Raise, ast.Compare)
"""Errors for authors and callers, and texts that are compared with the output of other programs."""

NO_SENTENCES = {
    "out of place", "the tensor itself",  # names of forms, which `FormName` lists for translation
    "write during backward", "write into a passed gradient", "write into a kept gradient", "write before recomputation",
    "modified by an inplace operation", "does not have a grad_fn", "returns multiple views", "is not an nn.Module",
    "backward through the graph a second time", r"is at version \d+; expected version \d+",
    "## Which message, which lesson", "/* end of drawing",  # marks in files of this project
}  # fmt: skip
"""Names of kinds and forms, parts of PyTorch's and this project's own messages that are looked for, and marks in files."""

FILES = [
    PACKAGE / "course" / "summary.py",
    *(PACKAGE / "course" / "learner").glob("*.py"),
    *(PACKAGE / "course" / "practice").glob("*.py"),
    *(PACKAGE / "check").rglob("*.py"),
    *(PACKAGE / "view").rglob("*.py"),
]


def unmarked(source: str) -> Iterator[str]:
    """Yield the texts of a module that resemble a sentence and are not marked by a call; docstrings are ignored."""
    tree = ast.parse(source)
    seen = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        named = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", ""))
        if named in MARKS or named == "compile" or isinstance(node, SILENT):
            seen |= {id(inner) for inner in ast.walk(node)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    for text in (text.value for text in texts if id(text) not in seen):
        if WORDS.search(text) and text not in NO_SENTENCES and not CODE.search(text):
            yield text


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_no_sentence_of_a_lesson_is_without_a_mark(file: Path) -> None:
    """Each sentence in a module that a lesson shows is handed to `translated`, or marked for it."""
    assert [] == list(unmarked(file.read_text("utf-8")))


def test_a_sentence_without_a_mark_is_found() -> None:
    """In an f-string and in a plain text; not in a docstring, an error, a comparison, or a marked text."""
    source = '''"""A docstring of a module."""
print(f"{name} cannot be read")
print(translated("this one is marked"))
kept = translatable("this one is, too")
if "a message of PyTorch" in text:
    raise ValueError("an error for the author")
'''
    assert [" cannot be read"] == list(unmarked(source))
