"""The results of all arrangements of a program that the book offers, so that the browser only looks them up."""

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
"""The maximum number of arrangements of one program, because each has its own recording and a table is loaded as a whole."""

SECONDS = 20.0
"""The time limit of one run, in seconds; it is long so that a busy machine does not change the book."""


def try_arrangements(name: str, source: str, space: Mapping[str, Any]) -> PlayTable | None:
    """Return the results of all arrangements of a function's body; None if its lines can be neither moved nor switched.

    Args:
        name: the name of the program.
        source: the function's own text, without decorators.
        space: the namespace of its global names, such as a notebook's.
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
    """Return the result of an arrangement; None if it cannot be run, in which case it is not offered."""
    try:
        judged = run(program, arrangement, names, SECONDS)
    except AutograderError:
        return None
    return TriedArrangement(arrangement.key, judged.sentence, judged.recording)


def _used(source: str, space: Mapping[str, Any]) -> dict[str, Any]:
    """Return the modules, classes and functions of the notebook that a program uses."""
    words = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
    return {
        word: space[word] for word in words & set(space) if isinstance(space[word], ModuleType | type | FunctionType)
    }
