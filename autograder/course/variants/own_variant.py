"""What a handed-out notebook says of itself, so that `reset`, `hint` and `model_answer` show the variant that a student has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

METADATA = "autograder_variant"
LONGEST = 2
"""Letters of a variable's name that is no word of English: only such a name is changed in a sentence."""


class OwnVariant(msgspec.Struct, frozen=True):
    """The variant that a notebook is.

    Attributes:
        stubs: exercise → what was handed out.
        names: for each variable of the lesson, its name here.
    """

    seed: int
    stubs: dict[str, str]
    names: dict[str, str] = {}

    def in_words(self, sentence: str) -> str:
        """Returns a sentence with this variant's names where it uses the lesson's; only names of one or two letters are changed."""
        short = [re.escape(name) for name in self.names if len(name) <= LONGEST]
        if not short:
            return sentence
        return re.sub(rf"(?<![\w.'’])({'|'.join(short)})(?!\w)", lambda found: self.names[found[0]], sentence)


def own_variant(exercise: str, folder: Path | None = None) -> OwnVariant | None:
    """Returns the variant with this exercise that lies in a folder, by default the one in which the kernel runs; None for none."""
    for path in sorted((folder or Path.cwd()).glob("*.ipynb")):
        try:
            metadata = msgspec.json.decode(path.read_bytes(), type=dict[str, Any]).get("metadata", {})
            found = msgspec.convert(metadata[METADATA], OwnVariant)
        except (OSError, KeyError, TypeError, msgspec.MsgspecError):
            continue  # another notebook, or one that is being written
        if exercise in found.stubs:
            return found
    return None
