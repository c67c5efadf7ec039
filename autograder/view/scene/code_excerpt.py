"""The shown lines of a cell: if it defines several functions and one of them ran, only those of that function."""

from __future__ import annotations

import ast

from autograder.tape.recording.schema import Recording, SourceFile


def lines_shown(recording: Recording, program: SourceFile) -> range:
    """Return the numbers of the lines to show: those of the function that ran if there are several, else all."""
    whole = range(1, len(program.source.splitlines()) + 1)
    try:
        body = ast.parse(program.source).body
    except SyntaxError:  # a cell with a magic in its first line
        return whole
    spans = [_span(node) for node in body if isinstance(node, ast.FunctionDef)]
    ran = {step.place.line for step in recording.steps if step.place.file == program.file}
    inside = [span for span in spans if ran and ran <= set(span)]
    return inside[0] if len(spans) > 1 and inside else whole


def _span(function: ast.FunctionDef) -> range:
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    return range(first, (function.end_lineno or function.lineno) + 1)
