"""Small programs to predict, with varying names, numbers and operations."""

from __future__ import annotations

import functools
import textwrap
import tomllib
from pathlib import Path

import msgspec

from autograder.course.variants.declared_changes import rename_variables, replace_phrases
from autograder.course.variants.number_variants import redraw
from autograder.tape import record
from autograder.tape.recording.schema import Recording

FILE = Path(__file__).parent / "practice_items.toml"
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


class PracticeItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program to predict, in two forms that test the same idea.

    Attributes:
        id: its name in the files with answers.
        lesson: the lesson that it belongs to.
        belief: the misconception that leads to a wrong answer, in words.
        program: the body of a function that returns gradients.
        names: for each variable, its name in the second form.
        replace: the parts of the program that differ.
        by: the replacement of each part in the second form.
        transfer: whether the program is larger than those of the lesson.
    """

    id: str
    lesson: str
    belief: str
    program: str
    names: dict[str, str]
    replace: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    transfer: bool = False

    def text(self, *, second: bool, seed: int) -> str:
        """Return the program in one of its forms, with numbers drawn from a seed."""
        program = self.program.strip()
        if second:
            program = replace_phrases(program, dict(zip(self.replace, self.by, strict=True)))
            program = rename_variables(program, self.names)
        return f"def program():\n{textwrap.indent(redraw(program, seed, may_grow=False), '    ')}"


@functools.cache
def practice_items() -> tuple[PracticeItem, ...]:
    """Return all items, in the order of the lessons."""
    return msgspec.convert(tomllib.loads(FILE.read_text("utf-8"))["items"], tuple[PracticeItem, ...])


@functools.lru_cache(maxsize=100)
def run_item(text: str) -> Recording:
    """Return the recording of the program; its verdict is the right answer."""
    return record(IMPORTS + text, function="program")
