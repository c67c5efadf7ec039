"""Fixes for two losses of the same forward pass, if the first optimizer's step precedes the second backward."""

from __future__ import annotations

import ast
import copy
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
    """In `a.backward(); one.step(); b.backward(); two.step()`, move `b.backward()` with its `zero_grad()` before `a.backward()`."""
    for statement in movable(program):
        for step, last in followed_by_backward(program.source, statement):
            block = program.source.block(step)
            first = first_of_earlier(block[: block.index(step)])
            if first is not None:
                between = block[block.index(step) + 1 : block.index(last)]
                yield from moved_up(program.source, first, [*needed(between), last])
                yield from filled_apart(program.source, step, last)


def first_of_earlier(block: list[ast.stmt]) -> ast.stmt | None:
    """Return the last statement of a block that calls backward, or the `zero_grad()` before it that belongs to it."""
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
    """Return whether the statement only clears gradients."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and called(statement.value) == "zero_grad"
    )


def needed(between: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that move with a backward call: assignments and the clearing of gradients directly before it."""
    return [one for one in between if clears(one) or isinstance(one, MADE)]


def moved_up(source: EditableSource, first: ast.stmt, moving: list[ast.stmt]) -> Iterator[Candidate]:
    """Yield the move before a statement: once as it is, and once with `retain_graph=True` for the other loss."""
    removed = tuple(delete(source, one) for one in moving)
    yield Candidate(KIND, (*removed, before(source, first, "\n".join(dedent(source, one) for one in moving))))
    for call in every(ast.Call, moving[-1]):
        if called(call) == "backward":
            edit = with_retain(source, call)
            kept = source.apply_to(moving[-1], [edit])
            text = "\n".join([*(dedent(source, one) for one in moving[:-1]), kept])
            yield Candidate(KIND, (*removed, before(source, first, text)))


def filled_apart(source: EditableSource, step: ast.stmt, last: ast.stmt) -> Iterator[Candidate]:
    """Yield the move of the step after the second backward, restricted to the inputs that the following step trains."""
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


def both_calls_apart(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `update(one, a); update(two, b)`, where `update` calls backward and steps, with its statements, both backwards first."""
    source = program.source
    helpers = {one.name: one for one in every(ast.FunctionDef, source.tree) if _updates(one)}
    for statement in source.statements():
        block = source.block(statement)
        following = block[block.index(statement) + 1 :][:1]
        pair = [_inlined(source, helpers, one) for one in (statement, *following)]
        if len(pair) == 2 and all(pair):
            for lines in _both_first(*pair):  # type: ignore[arg-type]
                text = f"{source.newline}{source.indent(statement)}".join(lines)
                yield Candidate(KIND, (replace(source, statement, text), delete(source, following[0])))


def _updates(function: ast.FunctionDef) -> bool:
    """Return whether a function calls backward in one statement and an optimizer's step in a later one, and all statements are calls."""
    names = [
        called(one.value) if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) else None
        for one in _body(function)
    ]
    return None not in names and names.count("backward") == 1 and "step" in names[names.index("backward") :]


def _body(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) else function.body


def _inlined(source: EditableSource, helpers: dict[str, ast.FunctionDef], statement: ast.stmt) -> list[ast.Call] | None:
    """Return the calls that a call of a helper makes, with its arguments in place of the parameters, or None for other statements."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    helper = helpers.get(called(call) or "")
    if helper is None:
        return None
    names = [one.arg for one in helper.args.args]
    names = names[1:] if names[:1] == ["self"] else names
    known = dict(zip(names, call.args, strict=False)) | {one.arg: one.value for one in call.keywords if one.arg}
    if set(names) != known.keys():
        return None
    copies = [copy.deepcopy(one.value) for one in _body(helper) if isinstance(one, ast.Expr)]
    return [one for made in copies if isinstance(one := _Arguments(known).visit(made), ast.Call)]


class _Arguments(ast.NodeTransformer):
    """A transformer that replaces parameters with arguments."""

    def __init__(self, known: dict[str, ast.expr]):
        self.known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.known.get(node.id, node)


def _both_first(one: list[ast.Call], two: list[ast.Call]) -> Iterator[list[str]]:
    """Yield the statements of two updates with both backwards before both steps.

    The second backward may be restricted to the parameters that its step trains.
    """
    (first, after_first), (second, after_second) = _parted(one), _parted(two)
    trainer = next(
        call.func.value for call in after_second if called(call) == "step" and isinstance(call.func, ast.Attribute)
    )
    inputs = f"inputs=[p for group in {ast.unparse(trainer)}.param_groups for p in group['params']]"
    for kept in ("retain_graph=True", ""):
        for filled in ("", inputs):
            before_steps = [*first[:-1], _with(first[-1], kept), *second[:-1], _with(second[-1], filled)]
            yield [ast.unparse(call) for call in (*before_steps, *after_first, *after_second)]


def _parted(made: list[ast.Call]) -> tuple[list[ast.Call], list[ast.Call]]:
    """Return the calls up to and including backward, and the calls after it."""
    stop = [called(one) for one in made].index("backward") + 1
    return made[:stop], made[stop:]


def _with(call: ast.Call, keyword: str) -> ast.Call:
    changed = copy.deepcopy(call)
    if keyword:
        changed.keywords += ast.parse(f"f({keyword})", mode="eval").body.keywords  # type: ignore[attr-defined]
    return changed
