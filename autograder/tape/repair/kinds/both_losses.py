"""Repairs of two losses that were computed together, of which the first one's step comes before the second goes backward."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.leaves import with_retain
from autograder.tape.repair.kinds.order import calls_backward, followed_by_backward, movable
from autograder.tape.repair.source.edits import Edit, EditableSource, after, before, dedent, delete, every, replace
from autograder.tape.repair.source.inplace_finder import called

KIND = translatable("both losses backward before either step")
MADE = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def both_losses_first(program: BrokenProgram) -> Iterator[Candidate]:
    """`a.backward(); one.step(); b.backward(); two.step()`: `b.backward()` moves before `a.backward()`, with its `zero_grad()`."""
    for statement in movable(program):
        for step, last in followed_by_backward(program.source, statement):
            block = program.source.block(step)
            first = first_of_earlier(block[: block.index(step)])
            if first is not None:
                between = block[block.index(step) + 1 : block.index(last)]
                yield from moved_up(program.source, first, [*needed(between), last])
                yield from filled_apart(program.source, step, last)


def first_of_earlier(block: list[ast.stmt]) -> ast.stmt | None:
    """Returns the last statement of a block that calls backward, or the `zero_grad()` that belongs to it before."""
    earlier = [one for one in block if calls_backward(one)]
    if not earlier:
        return None
    place = block.index(earlier[-1])
    cleared = [one for one in block[:place] if clears(one)]
    made = [one for one in block[:place] if isinstance(one, MADE)]
    if cleared and (not made or block.index(cleared[-1]) > block.index(made[-1])):
        return cleared[-1]
    return earlier[-1]


def clears(statement: ast.stmt) -> bool:
    """Whether the statement only clears gradients."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and called(statement.value) == "zero_grad"
    )


def needed(between: list[ast.stmt]) -> list[ast.stmt]:
    """Returns what has to move with a backward call: the assignments and the clearing of gradients right before it."""
    return [one for one in between if clears(one) or isinstance(one, MADE)]


def moved_up(source: EditableSource, first: ast.stmt, moving: list[ast.stmt]) -> Iterator[Candidate]:
    """Yields the move before a statement, with a graph that is freed, and with one that is kept for the other loss."""
    removed = tuple(delete(source, one) for one in moving)
    yield Candidate(KIND, (*removed, before(source, first, "\n".join(dedent(source, one) for one in moving))))
    for call in every(ast.Call, moving[-1]):
        if called(call) == "backward":
            edit = with_retain(source, call)
            kept = source.apply_to(moving[-1], [edit])
            text = "\n".join([*(dedent(source, one) for one in moving[:-1]), kept])
            yield Candidate(KIND, (*removed, before(source, first, text)))


def filled_apart(source: EditableSource, step: ast.stmt, last: ast.stmt) -> Iterator[Candidate]:
    """Yields the step moved behind the second backward, which then fills only what the step after it trains."""
    block = source.block(last)
    steps = (call for one in block[block.index(last) + 1 :] for call in every(ast.Call, one) if called(call) == "step")
    trainer = next(steps, None)
    for call in every(ast.Call, last):
        if trainer is not None and isinstance(trainer.func, ast.Attribute) and called(call) == "backward":
            groups = f"{source.of(trainer.func.value)}.param_groups"
            comma = ", " if call.args or call.keywords else ""
            inputs = f'{comma}inputs=[p for group in {groups} for p in group["params"]]'
            stop = source.span(call)[1]
            text = source.apply_to(last, [Edit(stop - 1, stop - 1, inputs)])
            moved = after(source, last, dedent(source, step))
            yield Candidate(KIND, (delete(source, step), replace(source, last, text), moved))
