"""Every arrangement of a program that the book offers, each judged by running it, so that the reader's browser only looks it up."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

from autograder.book.record.lesson_blocks import PlayTable, TriedArrangement
from autograder.errors import AutograderError
from autograder.play.arrangement import arrangements
from autograder.play.arrangement_run import run
from autograder.play.cards import Arrangement, PlayProgram
from autograder.play.play_program import Unplayable, program_from_function

MOST = 60
"""Arrangements of one program: each has its own recording, and a table is loaded as a whole."""

SECONDS = 20.0
"""How long one run may take; a busy machine must not change what a book holds."""


def try_arrangements(name: str, source: str, space: Mapping[str, Any]) -> PlayTable | None:
    """Return the results of all arrangements of a function's body; None if its lines can be neither moved nor switched.

    Args:
        source: the function's own text, without decorators.
        space: where its global names are looked up, such as a notebook's namespace.
    """
    try:
        program = program_from_function(name, source)
    except Unplayable:
        return None
    offered = arrangements(program, MOST)
    if len(offered) < 2:
        return None
    names = _used(source, space)
    tried = [found for one in offered if (found := _try(program, one, names))]
    return PlayTable(program, tuple(tried)) if len(tried) > 1 and tried[0].key == offered[0].key else None


def _try(program: PlayProgram, arrangement: Arrangement, names: dict[str, Any]) -> TriedArrangement | None:
    """Returns None where it cannot be run at all: then it is not offered."""
    try:
        judged = run(program, arrangement, names, SECONDS)
    except AutograderError:
        return None
    return TriedArrangement(arrangement.key, judged.sentence, judged.recording)


def _used(source: str, space: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the modules, classes and functions of the notebook that a program names."""
    words = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return {
        word: space[word] for word in words & set(space) if isinstance(space[word], ModuleType | type | FunctionType)
    }
