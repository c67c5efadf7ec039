"""Small programs to predict. Two students, or one on two days, see them with other names, numbers and operations."""

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
    """One program to predict, in two forms that are alike below the surface.

    Attributes:
        id: its name in the files that keep what was answered.
        lesson: the lesson that it belongs to.
        belief: what leads to a wrong answer, in words.
        program: the body of a function that returns gradients.
        names: the second form's name of each variable.
        replace: texts of the program that differ.
        by: what the second form has instead of each.
        transfer: whether it is larger than what the lesson shows.
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
        """Returns the program in one of its forms, with the numbers of a seed."""
        program = self.program.strip()
        if second:
            program = replace_phrases(program, dict(zip(self.replace, self.by, strict=True)))
            program = rename_variables(program, self.names)
        return f"def program():\n{textwrap.indent(redraw(program, seed, may_grow=False), '    ')}"


@functools.cache
def practice_items() -> tuple[PracticeItem, ...]:
    """Returns all items, in the order of the lessons."""
    return msgspec.convert(tomllib.loads(FILE.read_text("utf-8"))["items"], tuple[PracticeItem, ...])


@functools.lru_cache(maxsize=100)
def run_item(text: str) -> Recording:
    """Returns what autograd held when the program ran; its verdict is the answer."""
    return record(IMPORTS + text, function="program")
