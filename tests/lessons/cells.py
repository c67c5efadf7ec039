"""The code of a source notebook as plain Python: its programs without the decorators that judge and show them."""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from autograder.course.author_cells import AUTHOR_TAGS, PROGRAM
from autograder.course.canonical import read
from autograder.course.variants.variant_proof import CellNamespace as Namespace

SHOWN = "observed"
"""The decorator of programs without arguments that a student sees run without a question."""


class Outcome(NamedTuple):
    """The result of a program in plain PyTorch: the outcome, the returned gradients, and the error's message."""

    word: str
    gradients: dict
    error: str = ""


class Ran(NamedTuple):
    """One code cell after its run: its tags, the programs that it defines, by name, and its printed output."""

    tags: tuple[str, ...]
    programs: dict[str, Callable]
    printed: str


@functools.cache
def ran(path: Path) -> tuple[Ran, ...]:
    """Return every code cell of a source notebook, run from top to bottom in one namespace, answers and checks left out."""
    learner = Namespace()
    cells = []
    for cell in read(path).cells:
        tags = tuple(cell.metadata.get("tags", []))
        if cell.cell_type != "code" or {"stub", *AUTHOR_TAGS} & set(tags):
            continue
        if cell.metadata.get("nbgrader", {}).get("grade"):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            learner.run(undecorated(cell.source))
            for name in names_of_programs(cell.source, prints=True):
                learner.names[name]()
        shown = functions(cell.source) if PROGRAM in tags else names_of_programs(cell.source)
        programs = {name: learner.names[name] for name in shown}
        cells.append(Ran(tags, programs, printed.getvalue()))
    return tuple(cells)


def functions(source: str) -> dict[str, ast.FunctionDef]:
    """Return the functions that a cell defines, by name."""
    return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def names_of_programs(source: str, *, prints: bool = False) -> list[str]:
    """Return the functions in a cell that `observed` runs to show a picture, or only for their output."""
    shown = {name: " ".join(map(ast.unparse, node.decorator_list)) for name, node in functions(source).items()}
    return [name for name, text in shown.items() if SHOWN in text and ("picture=False" in text) is prints]


def undecorated(source: str) -> str:
    """Return the cell with its programs defined but not run; the line numbers stay."""
    lines = source.splitlines()
    for node in ast.parse(source).body:
        for decorator in getattr(node, "decorator_list", []):
            if _name(decorator) == SHOWN:
                lines[decorator.lineno - 1] = ""
    return "\n".join(lines)


def outcome_of(program: Callable) -> Outcome:
    """Return the outcome of a program without arguments in plain PyTorch, without this package.

    The right gradients are those of a second run in which every saved tensor is a copy that later writes cannot reach.
    """
    try:
        gradients = program()
    except Exception as error:
        # torch.autograd.backward and .grad live in this one file (torch 2.13): what fails below them, fails in backward.
        frames = traceback.extract_tb(error.__traceback__)
        backward = any(frame.filename.endswith("torch/autograd/__init__.py") for frame in frames)
        return Outcome("raises-backward" if backward else "raises-forward", {}, str(error))
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.detach().clone(), lambda kept: kept):
        right = program()
    return Outcome("correct" if agree(gradients, right) else "silently-wrong", gradients)


def agree(first: dict, second: dict) -> bool:
    """Return whether two sets of gradients are the same to four decimals, a missing one only like a missing one."""
    return first.keys() == second.keys() and all(
        (first[name] is None) == (second[name] is None)
        and (first[name] is None or torch.allclose(first[name], second[name], atol=5e-5))
        for name in first
    )


def _name(decorator: ast.expr) -> str:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return called.id if isinstance(called, ast.Name) else ""
