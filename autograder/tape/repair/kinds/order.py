"""Repairs that change when something happens: the write, the optimizer's step, the forward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.case import Candidate, Case
from autograder.tape.repair.edits import EditableSource, Edits, after, before, dedented, delete, every
from autograder.tape.repair.inplace_finder import called, calls
from autograder.tape.repair.kinds.clones import loops

AGAIN = "The loss is computed again after the write, so its value and gradients are those of the new numbers."
ANEW = "Each backward starts from a loss computed anew, with the numbers of that moment."
EARLIER = "The write comes before the operation, which then computes with the new numbers."
LONGEST = 8  # statements that are repeated at most
CUT = "No gradient flows through {0} into earlier rounds of the loop any more."


def write_later(case: Case) -> Iterator[Candidate]:
    """The write, or `optimizer.step()`, moves below the last backward that still needs the old values."""
    for statement in movable(case):
        for moving, last in reversed(followed_by_backward(case.source, statement)):
            text = dedented(case.source, moving)
            yield Candidate("move the write after backward", moved(case.source, moving, last, text))
        for loop in loops(case.source, statement):
            if any(calls_backward(one) for one in loop.body):
                edits = (
                    delete(case.source, with_its_if(case.source, statement)),
                    after(case.source, loop, case.source.of(statement)),
                )
                yield Candidate("move the write after the loop", edits)


def with_its_if(source: EditableSource, statement: ast.stmt) -> ast.stmt:
    """Returns the `if` around the statement where it holds nothing else, else the statement."""
    holder = source.parents[statement]
    return holder if isinstance(holder, ast.If) and len(holder.body) == 1 and not holder.orelse else statement


def movable(case: Case) -> list[ast.stmt]:
    """Returns the suspect statements, and the calls of the functions that they stand in."""
    found = list(case.suspects) or list(dict.fromkeys(write.statement for write in case.blamed))
    names = {getattr(case.source.scope(one), "name", None) for one in found} - {None}
    around = [
        one for one in case.source.statements() if isinstance(one, ast.Expr) and {called(c) for c in calls(one)} & names
    ]
    return [*found, *around]


def followed_by_backward(source: EditableSource, statement: ast.stmt) -> list[tuple[ast.stmt, ast.stmt]]:
    """Returns what can move (the statement or a block around it) with the statements after it that call backward."""
    scope = source.scope(statement)
    around = [one for one in source.ancestors(statement) if isinstance(one, ast.stmt) and source.scope(one) is scope]
    found = []
    for one in [statement, *around]:
        block = source.block(one)
        later = [other for other in block[block.index(one) + 1 :] if calls_backward(other)]
        found += [(one, other) for other in later]
    return found


def calls_backward(statement: ast.stmt) -> bool:
    """Whether backward, `torch.autograd.grad` or `torch.autograd.backward` is called in the statement or below it."""
    return any(isinstance(node, ast.Call) and called(node) in ("backward", "grad") for node in ast.walk(statement))


def moved(source: EditableSource, statement: ast.stmt, last: ast.stmt, text: str) -> Edits:
    """Returns the edits that take the statement out and put it after another of the same block."""
    return (delete(source, statement), after(source, last, text))


def forward_again(case: Case) -> Iterator[Candidate]:
    """The statements that lead to the loss run once more after the write, right before the backward that needs them."""
    for statement in movable(case):
        for moving, last in followed_by_backward(case.source, statement):
            text = leading_to(case, moving, last)
            if text:
                yield Candidate("forward again after the write", (before(case.source, last, text),), may_change=AGAIN)


def forward_each_time(case: Case) -> Iterator[Candidate]:
    """What leads to a loss is computed again for the second backward: right before it, or at the head of the loop or function."""
    error = case.verdict.error
    if not error or "second time" not in error.message:
        return
    for last in case.at([error.line or 0]):
        for place in [last, *heads(case.source, last)]:
            for count in range(1, 5):
                if text := last_assignments(case.source, place, last, count):
                    edits = (before(case.source, place, text),)
                    yield Candidate("forward again for each backward", edits, may_change=ANEW)


def heads(source: EditableSource, statement: ast.stmt) -> list[ast.stmt]:
    """Returns the first statement of each loop and function around a statement."""
    holders = (ast.For, ast.While, ast.FunctionDef)
    return [one.body[0] for one in source.ancestors(statement) if isinstance(one, holders)]


def last_assignments(source: EditableSource, place: ast.stmt, last: ast.stmt, count: int) -> str:
    """Returns the text of the last `count` assignments before `place` that the names of `last` were computed from."""
    scopes = [source.scope(last), *source.ancestors(last)]
    visible = [
        one for one in every(ast.Assign, source.tree) if one.lineno < last.lineno and source.scope(one) in scopes
    ]
    visible = [one for one in visible if not makes_anew(source, one)]
    wanted = loaded(last)
    text: list[str] = []
    for one in reversed(sorted(visible, key=lambda one: one.lineno)):
        if stored(one) & wanted and len(text) < count:
            wanted |= loaded(one)
            if one.lineno < place.lineno:
                text.insert(0, dedented(source, one))
    return "\n".join(text)


def makes_anew(source: EditableSource, statement: ast.Assign) -> bool:
    """Whether the statement makes a leaf, a module's parameters or an optimizer, which a second forward must share."""
    text = source.of(statement)
    value = statement.value
    is_maker = (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not value.args and not value.keywords
    )
    return is_maker or any(word in text for word in ("requires_grad", "Parameter", "optim"))


def leading_to(case: Case, write: ast.stmt, last: ast.stmt) -> str:
    """Returns the text of the assignments before the write that used its old values and lead to the later statement's names."""
    block = case.source.block(write)
    earlier = [one for one in block[: block.index(last)] if isinstance(one, ast.Assign | ast.AugAssign)]
    stale: set[str] = set()
    reading = []
    for one in earlier:
        if uses_saved(case, one) or loaded(one) & stale:
            stale |= stored(one)
            reading.append(one)
    wanted = loaded(last)
    text: list[str] = []
    for one in reversed(reading):
        if stored(one) & wanted:
            wanted |= loaded(one)
            text.insert(0, dedented(case.source, one))
    return "\n".join(text) if len(text) <= LONGEST else ""


def uses_saved(case: Case, statement: ast.stmt) -> bool:
    """Whether the statement saved what was written, or calls a function (or a module) of the text that did."""
    if any(statement is saver for saver, _ in case.savers):
        return True
    names = {getattr(case.source.scope(saver), "name", None) for saver, _ in case.savers} - {None}
    called_here = {called(call) for call in calls(statement)}
    own = {one.name for one in case.source.statements() if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    return bool(called_here & names) or ("forward" in names and bool(called_here & (loaded(statement) - own)))


def loaded(node: ast.AST) -> set[str]:
    """Returns the names that are read."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def stored(node: ast.AST) -> set[str]:
    """Returns the names that are bound."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def state_cut(case: Case) -> Iterator[Candidate]:
    """A state carried from round to round is detached at the head of the loop, so that each backward sees one round."""
    if case.verdict.outcome != "raises-backward":
        return
    for loop in case.source.statements():
        if isinstance(loop, ast.For | ast.While) and any(calls_backward(one) for one in loop.body):
            for name in carried(loop):
                for text in (f"{name} = {name}.detach()", f"{name} = tuple(part.detach() for part in {name})"):
                    yield Candidate(
                        "detach the carried state", (before(case.source, loop.body[0], text),), CUT.format(name)
                    )


def carried(loop: ast.For | ast.While) -> list[str]:
    """Returns the names that a round reads before it binds them anew, `self.h` included."""
    bound: set[str] = set()
    found = []
    for statement in loop.body:
        for path in paths(statement, ast.Load):
            if path not in bound and any(path in paths(one, ast.Store) for one in loop.body):
                found.append(path)
        bound |= paths(statement, ast.Store)
    return list(dict.fromkeys(found))


def paths(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Returns the names and attribute paths that stand in the node in a context."""
    found = (
        one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, context)
    )
    return {ast.unparse(one) for one in found}


def write_earlier(case: Case) -> Iterator[Candidate]:
    """The write moves above the operation that saves, where both stand in one block."""
    for statement in case.suspects:
        for saver, _ in case.savers:
            block = case.source.block(statement)
            if saver not in block:
                continue
            between = block[block.index(saver) : block.index(statement)]
            if between and not any(
                calls_backward(one) for one in between
            ):  # a step needs the gradients of its own backward
                edits = (delete(case.source, statement), before(case.source, saver, dedented(case.source, statement)))
                yield Candidate("move the write before the save", edits, may_change=EARLIER)
