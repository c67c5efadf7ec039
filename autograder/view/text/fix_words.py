"""A repair in words: where it begins, and what kind of change it is."""

from __future__ import annotations

from autograder.locale.translations import translatable, translated
from autograder.tape.recording.verdict_types import Fix

THEN = translatable(", then ")
"""Stands between the kinds of two changes that are made together (`autograder.tape.repair.search`)."""


def where_fixed(fix: Fix) -> str:
    """Returns where a repair begins, as `place_of_fix` does, in the reader's language."""
    if not fix.file:
        return translated("line {line}", line=fix.line)
    return translated("line {line} of {file}", line=fix.line, file=fix.file)


def also_fixed(fix: Fix) -> str:
    """Returns the line above the change that a repair makes in a further file."""
    return translated("and at {place}:", place=where_fixed(fix))


def kind_of_fix(fix: Fix) -> str:
    """Returns the kind of change, such as "clone before the write", in the reader's language."""
    return translated(THEN).join(translated(kind) for kind in fix.kind.split(THEN))
