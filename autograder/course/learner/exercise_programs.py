"""The programs of a lesson's exercises and predictions, found by id and converted to cards for the playground."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from autograder.check.playground.arrangement import PlayProgram
from autograder.check.playground.play_program import program_from_function, program_from_lines
from autograder.check.subject import inputs
from autograder.check.subject.inputs import Generator, TensorInput
from autograder.course.author_cells import AuthorExercise, exercises_of, questions_of
from autograder.course.paths import NOTEBOOKS, lessons
from autograder.course.stored_notebook import read_stored
from autograder.errors import InputError

SEED = 0  # the fixed seed of an exercise's inputs, so that they are the same each time that the program is opened


def find_program(name: str) -> PlayProgram:
    """Return the program of an exercise or a prediction.

    Raises:
        InputError: the exercise does not exist, or its lines cannot be moved.
    """
    by_id = {exercise.id: exercise for path in lessons(NOTEBOOKS) for exercise in exercises_of(read_stored(path))}
    exercise = by_id.get(name) or by_id.get(f"prediction_{name}")
    if exercise is None:
        near = difflib.get_close_matches(name, by_id, n=1)
        if near:
            raise InputError.of(
                "program.near|There is no program {name}. Did you mean {near}?", name=repr(name), near=repr(near[0])
            )
        raise InputError.of("program.unknown|There is no program {name}. Name an exercise.", name=repr(name))
    return program_of(exercise)


def program_of(exercise: AuthorExercise) -> PlayProgram:
    """Return the program of one exercise: a program to predict, a program to fix, or lines to put in order.

    Raises:
        InputError: its lines cannot be moved.
    """
    asked = next(questions_of(exercise.check), None)
    if asked is not None:
        return program_from_function(exercise.id, asked.program)
    if not any(isinstance(node, ast.FunctionDef) and not node.decorator_list for node in ast.parse(exercise.stub).body):
        raise InputError.of(
            "program.no_lines|{exercise} has no program made of lines. Try one that is a function.",
            exercise=exercise.id,
        )
    before = list(input_lines(exercise.check))
    if "raise NotImplementedError" in exercise.stub:
        header = exercise.stub.splitlines()[0]
        return program_from_lines(exercise.id, commented_lines(exercise.stub), header, before)
    return program_from_function(exercise.id, exercise.stub, before)


def commented_lines(stub: str) -> list[str]:
    """Return the lines to put in order, which are comments in the stub; each level of indentation is one space."""
    rows = [line.strip() for line in stub.splitlines()]
    return [row.removeprefix("# | ") for row in rows if row.startswith("# | ")]


def input_lines(check: str) -> Iterator[str]:
    """Yield statements that create the inputs of a check, with numbers drawn once.

    Each input is a literal or a call of the course's helpers.
    """
    calls = (node for node in ast.walk(ast.parse(check)) if isinstance(node, ast.Call))
    call = next((call for call in calls if ast.unparse(call.func) == "check"), None)
    drawn: dict[str, Any] = {}
    for keyword in call.keywords if call else ():
        if keyword.arg not in (None, "like", "given", "at_most", "without", "asked", "decisive", "afterwards"):
            drawn[str(keyword.arg)] = eval(ast.unparse(keyword.value), vars(inputs) | {"__builtins__": {}})
    sizes: dict[str, int] = {}
    drawn = {name: _sized(value, sizes) for name, value in drawn.items()}
    arguments = Generator(SEED).arguments(drawn)
    for name, value in drawn.items():
        if isinstance(value, TensorInput):
            yield from _tensor_lines(name, value, arguments[name].values.tensor())
        else:
            yield f"{name} = {value!r}"


def _sized(value: Any, sizes: dict[str, int]) -> Any:
    """Return a tensor input with a number for each named size; the first size is 2, which keeps the picture small."""
    if not isinstance(value, TensorInput):
        return value
    shape = [sizes.setdefault(size, 2 + len(sizes) % 2) if isinstance(size, str) else size for size in value.shape]
    return replace(value, shape=tuple(shape))


def _tensor_lines(name: str, drawn: TensorInput, values: torch.Tensor) -> Iterator[str]:
    if drawn.integers:
        yield f"{name} = torch.tensor({values.tolist()})"
        return
    text = f"torch.tensor({values.mul(10).round().div(10).tolist()}"
    if drawn.kind == "constant":
        yield f"{name} = {text})"
    elif drawn.kind == "result":
        yield f"{name}_leaf = {text}, requires_grad=True)"
        yield f"{name} = {name}_leaf * 1"
    else:
        yield f"{name} = {text}, requires_grad=True)"
