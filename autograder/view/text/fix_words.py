"""The description of a fix: its place, and the kind of change."""

from __future__ import annotations

from autograder.locale.translations import translatable, translated
from autograder.tape.recording.verdict_types import Fix

THEN = translatable(", then ")
"""The separator between the kinds of two combined changes (`autograder.tape.repair.search`)."""


def where_fixed(fix: Fix) -> str:
    """Return the place of a fix, as `place_of_fix` does, in the reader's language."""
    if not fix.file:
        return translated("line {line}", line=fix.line)
    return translated("line {line} of {file}", line=fix.line, file=fix.file)


def also_fixed(fix: Fix) -> str:
    """Return the line above the change of a fix in a further file."""
    return translated("and at {place}:", place=where_fixed(fix))


def kind_of_fix(fix: Fix) -> str:
    """Return the kind of change, such as "clone before the write", in the reader's language."""
    return translated(THEN).join(translated(kind) for kind in fix.kind.split(THEN))
