"""Repairs of a state that is carried from one round of training to the next with its whole history."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english, translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.order import calls_backward, names_bound, names_loaded
from autograder.tape.repair.source.carried_names import carried_names, paths_in
from autograder.tape.repair.source.edits import Edit, EditableSource, after, before

KIND = translatable("detach the carried state")


def detach_state(program: BrokenProgram) -> Iterator[Candidate]:
    """`h = h.detach()` in the loop that carries it, in the method that reads `self.h`, or before a loop that is given it."""
    if program.verdict.outcome != "raises-backward":
        return
    for name, edits in [*of_loops(program.source), *of_methods(program.source), *given_to_loops(program.source)]:
        yield Candidate(
            KIND, edits, in_english("No gradient flows through {name} into earlier rounds any more.", name=name)
        )


def of_loops(source: EditableSource) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    """Yields what a training loop carries, with the edits that detach it; at the end, where a state may begin as None."""
    for loop in source.statements():
        if isinstance(loop, ast.For | ast.While) and any(calls_backward(one) for one in loop.body):
            for name in carried_names(loop):
                for text in (one_tensor(name), several(name)):
                    yield name, (before(source, loop.body[0], text),)
                    yield name, (after(source, loop.body[-1], text),)


def of_methods(source: EditableSource) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    """Yields the attributes that a method computes from what it left in them before."""
    for method in source.statements():
        if not isinstance(method, ast.FunctionDef):
            continue
        for statement in (one for one in method.body if isinstance(one, ast.Assign)):
            for name in sorted(paths_in(statement, ast.Store) & paths_in(statement, ast.Load)):
                if name.startswith("self."):
                    for text in (one_tensor(name), several(name)):
                        yield name, (before(source, statement, text),)
                        yield name, (before(source, statement, f"if {name} is not None:\n{source.unit}{text}"),)


def given_to_loops(source: EditableSource) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    """Yields what a function takes from elsewhere, such as `first = (h, c)`, and uses in each round of a loop that calls backward."""
    for loop in source.statements():
        if isinstance(loop, ast.For | ast.While) and any(calls_backward(one) for one in loop.body):
            block = source.block(loop)
            for statement in block[: block.index(loop)]:
                if isinstance(statement, ast.Assign) and isinstance(
                    statement.value, ast.Tuple | ast.Name | ast.Subscript
                ):
                    for name in sorted(names_bound(statement) & names_loaded(loop)):
                        for text in (several(name), one_tensor(name)):
                            yield name, (after(source, statement, text),)


def one_tensor(name: str) -> str:
    """Returns the assignment that detaches a tensor."""
    return f"{name} = {name}.detach()"


def several(name: str) -> str:
    """Returns the assignment that detaches the tensors of a tuple, as an LSTM has."""
    return f"{name} = tuple(part.detach() for part in {name})"
