"""The syntax trees of the user's files that ran."""

from __future__ import annotations

import ast
import linecache

from autograder.tape.diagnose.evidence import Evidence


def trees_of(evidence: Evidence) -> dict[str, ast.Module]:
    """Return the tree of each file by its name in the report. Files that are not valid Python are left out."""
    statements, trees = evidence.state.statements, {}
    for file in statements.files:
        try:
            trees[statements.program.shown(file)] = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError):
            continue
    return trees
