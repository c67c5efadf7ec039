"""Custom `autograd.Function`s of an answer: the lines of their forward, and backwards that do not match the derivative."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import NamedLine, Place


def lines_of_forward(recording: Recording) -> set[int]:
    """Return the lines in the forward of each custom Function; autograd does not record there, so no path is cut."""
    return {
        line
        for function in _custom_functions(recording)
        for method in _methods(function)
        if method.name == "forward"
        for line in range(method.lineno, (method.end_lineno or method.lineno) + 1)
    }


def find_wrong_backward(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the return statement of the first custom backward that does not match its forward; None if all match."""
    wrong = [check.question for check in recording.verdict.checks if "custom" in check.oracle and check.answer == "no"]
    for function in _custom_functions(recording):
        nodes = (node for method in _methods(function) if method.name == "backward" for node in ast.walk(method))
        ends = [node for node in nodes if isinstance(node, ast.Return)]
        if ends and any(f" {function.name} " in question for question in wrong):
            program = recording.programs[0]
            text = program.source.splitlines()[ends[-1].lineno - 1].strip()
            told = in_english("this is not the derivative of forward, so the gradient of {name} is wrong", name=leaf)
            return NamedLine(Place(program.file, ends[-1].lineno, text), told)
    return None


def _custom_functions(recording: Recording) -> Iterator[ast.ClassDef]:
    """Yield the classes that define both a forward and a backward."""
    for node in ast.walk(ast.parse(recording.programs[0].source)):
        if isinstance(node, ast.ClassDef) and {"forward", "backward"} <= {method.name for method in _methods(node)}:
            yield node


def _methods(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (method for method in definition.body if isinstance(method, ast.FunctionDef))
