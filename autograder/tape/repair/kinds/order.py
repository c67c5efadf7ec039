"""Fixes that change the order of execution: of the modification, the optimizer's step, or the forward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from autograder.locale.translations import in_english, translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.kinds.clones import loops
from autograder.tape.repair.source.carried_names import carried_names
from autograder.tape.repair.source.edits import EditableSource, Edits, after, before, dedent, delete, every
from autograder.tape.repair.source.inplace_finder import called, calls

AGAIN = in_english(
    "The loss is computed again after the in-place modification, so its value and gradients are "
    "those of the new values."
)
PER_BACKWARD = in_english("Each backward starts from a loss that is computed again, with the values at that point.")
EARLIER = in_english("The in-place modification runs before the operation, which then uses the new values.")
ACTS = {
    "step",
    "sample",
    "next",
    "pop",
    "append",
    "popleft",
    "randn",
    "rand",
    "randint",
    "randperm",
    "normal",
    "reset",
    "read",
}
NO_WRITE = {"backward", "grad", "zero_grad", "print"}
LONGEST = 8  # maximum number of repeated statements


def move_write_later(program: BrokenProgram) -> Iterator[Candidate]:
    """Move the modification, or `optimizer.step()`, after the last backward that needs the old values."""
    for statement in movable(program):
        for moving, last in reversed(followed_by_backward(program.source, statement)):
            text = dedent(program.source, moving)
            yield Candidate("move the write after backward", move_after(program.source, moving, last, text))
        steps = "step" in {called(call) for call in calls(statement)}
        for loop in loops(program.source, statement) if not steps else ():
            if any(calls_backward(one) for one in loop.body):
                edits = (
                    delete(program.source, with_its_if(program.source, statement)),
                    after(program.source, loop, program.source.of(statement)),
                )
                yield Candidate("move the write after the loop", edits)


def with_its_if(source: EditableSource, statement: ast.stmt) -> ast.stmt:
    """Return the `if` around the statement if it contains nothing else, or else the statement."""
    holder = source.parents[statement]
    return holder if isinstance(holder, ast.If) and len(holder.body) == 1 and not holder.orelse else statement


def movable(program: BrokenProgram) -> list[ast.stmt]:
    """Return the suspect statements, calls of the functions that contain them, and calls directly before a backward."""
    found = list(program.suspects) or list(dict.fromkeys(write.statement for write in program.blamed))
    return list(dict.fromkeys([*found, *program.callers, *right_before_backward(program.source)]))


def right_before_backward(source: EditableSource) -> list[ast.stmt]:
    """Return the expression statements directly before a backward call, such as calls of callbacks."""
    found = []
    for last in source.statements():
        if isinstance(last, ast.Expr) and calls_backward(last):
            block = source.block(last)
            before_it = takewhile(lambda one: isinstance(one, ast.Expr), reversed(block[: block.index(last)]))
            found += [one for one in before_it if not {called(call) for call in calls(one)} & NO_WRITE]
    return found


def followed_by_backward(source: EditableSource, statement: ast.stmt) -> list[tuple[ast.stmt, ast.stmt]]:
    """Return each movable statement (this one or a block around it) with the statements after it that call backward."""
    scope = source.scope(statement)
    around = [one for one in source.ancestors(statement) if isinstance(one, ast.stmt) and source.scope(one) is scope]
    found = []
    for one in [statement, *around]:
        block = source.block(one)
        later = [other for other in block[block.index(one) + 1 :] if calls_backward(other)]
        found += [(one, other) for other in later]
    return found


def calls_backward(statement: ast.stmt) -> bool:
    """Return whether the statement contains a call of `backward` or `grad`."""
    return any(isinstance(node, ast.Call) and called(node) in ("backward", "grad") for node in ast.walk(statement))


def move_after(source: EditableSource, statement: ast.stmt, last: ast.stmt, text: str) -> Edits:
    """Return the edits that move the statement after another statement of its block."""
    return (delete(source, statement), after(source, last, text))


def repeat_forward(program: BrokenProgram) -> Iterator[Candidate]:
    """Repeat the statements that compute the loss after the modification, directly before backward."""
    for statement in movable(program):
        for moving, last in followed_by_backward(program.source, statement):
            text = leading_to(program, moving, last)
            if text:
                yield Candidate(
                    "forward again after the write", (before(program.source, last, text),), may_change=AGAIN
                )


def repeat_forward_each_time(program: BrokenProgram) -> Iterator[Candidate]:
    """Compute a loss again for its second backward: directly before it, or at the start of the loop or function."""
    error = program.verdict.error
    if not error or "second time" not in error.message:
        return
    for last in program.at(program.error_lines):
        for place in [last, *first_statements(program.source, last)]:
            carried = {name for loop in loops(program.source, last) for name in carried_names(loop)}
            for count in range(1, 5):
                text = last_assignments(program.source, place, last, count)
                if text and not is_more_than_forward(text, carried):
                    edits = (before(program.source, place, text),)
                    yield Candidate("forward again for each backward", edits, may_change=PER_BACKWARD)


def compute_in_closure(program: BrokenProgram) -> Iterator[Candidate]:
    """Compute a prediction in the closure of `optimizer.step(closure)`, which runs after each change of the parameters."""
    given = {
        one.id
        for call in every(ast.Call, program.source.tree)
        if called(call) == "step"
        for one in every(ast.Name, call)
    }
    for last in program.at(program.error_lines):
        closure = program.source.scope(last)
        if isinstance(closure, ast.FunctionDef) and closure.name in given:
            for count in range(1, 5):
                text = last_assignments(program.source, closure.body[0], last, count)
                if text and not is_more_than_forward(text, set()):
                    edits = (before(program.source, closure.body[0], text),)
                    yield Candidate(translatable("compute it in the closure"), edits, may_change=PER_BACKWARD)


def is_more_than_forward(text: str, carried: set[str]) -> bool:
    """Return whether repeating the statements has side effects: a step, a random draw, or a reset of a carried state."""
    tree = ast.parse(text)
    acts = {called(call) for call in every(ast.Call, tree)} & ACTS
    return bool(acts or names_bound(tree) & carried)


def first_statements(source: EditableSource, statement: ast.stmt) -> list[ast.stmt]:
    """Return the first statement of each loop and function around a statement."""
    holders = (ast.For, ast.While, ast.FunctionDef)
    return [one.body[0] for one in source.ancestors(statement) if isinstance(one, holders)]


def last_assignments(source: EditableSource, place: ast.stmt, last: ast.stmt, count: int) -> str:
    """Return the source of the last `count` assignments before `place` that `last` depends on."""
    scopes = [source.scope(last), *source.ancestors(last)]
    visible = [
        one for one in every(ast.Assign, source.tree) if one.lineno < last.lineno and source.scope(one) in scopes
    ]
    visible = [one for one in visible if not creates_state(source, one)]
    wanted = names_loaded(last)
    text: list[str] = []
    for one in reversed(sorted(visible, key=lambda one: one.lineno)):
        if names_bound(one) & wanted and len(text) < count:
            wanted |= names_loaded(one)
            if one.lineno < place.lineno:
                text.insert(0, dedent(source, one))
    return "\n".join(text)


def creates_state(source: EditableSource, statement: ast.Assign) -> bool:
    """Return whether the statement creates a leaf, a module's parameters or an optimizer, which a second forward must share."""
    text = source.of(statement)
    value = statement.value
    is_maker = (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not value.args and not value.keywords
    )
    return is_maker or any(word in text for word in ("requires_grad", "Parameter", "optim"))


def leading_to(program: BrokenProgram, write: ast.stmt, last: ast.stmt) -> str:
    """Return the source of the assignments that used the old values and that `last` depends on."""
    block = program.source.block(write)
    earlier = [one for one in block[: block.index(last)] if isinstance(one, ast.Assign | ast.AugAssign)]
    stale: set[str] = set()
    reading = []
    for one in earlier:
        if uses_saved(program, one) or names_loaded(one) & stale:
            stale |= names_bound(one)
            reading.append(one)
    wanted = names_loaded(last)
    text: list[str] = []
    for one in reversed(reading):
        if names_bound(one) & wanted:
            wanted |= names_loaded(one)
            text.insert(0, dedent(program.source, one))
    return "\n".join(text) if len(text) <= LONGEST else ""


def uses_saved(program: BrokenProgram, statement: ast.stmt) -> bool:
    """Return whether the statement saved the modified tensor, or calls a function or module of the source that did."""
    if any(statement is saver for saver, _ in program.savers):
        return True
    names = {getattr(program.source.scope(saver), "name", None) for saver, _ in program.savers} - {None}
    called_here = {called(call) for call in calls(statement)}
    own = {one.name for one in program.source.statements() if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    return bool(called_here & names) or ("forward" in names and bool(called_here & (names_loaded(statement) - own)))


def names_loaded(node: ast.AST) -> set[str]:
    """Return the names that are read."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def names_bound(node: ast.AST) -> set[str]:
    """Return the names that are assigned."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def move_write_earlier(program: BrokenProgram) -> Iterator[Candidate]:
    """Move the modification before the operation that saves, if both are in the same block."""
    for statement in program.suspects:
        for saver, _ in program.savers:
            block = program.source.block(statement)
            if saver not in block:
                continue
            between = block[block.index(saver) : block.index(statement)]
            # An optimizer's step needs the gradients of the backward before it.
            if between and not any(calls_backward(one) for one in between):
                edits = (
                    delete(program.source, statement),
                    before(program.source, saver, dedent(program.source, statement)),
                )
                yield Candidate("move the write before the save", edits, may_change=EARLIER)
