"""Fixes that change the order of execution: of the modification, the optimizer's steps, or the forward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice, product, takewhile

from autograder.locale.messages import Message
from autograder.locale.translations import translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.code_reader import (
    called,
    called_in,
    calls_of,
    carried_names,
    methods_called,
    names_bound,
    names_loaded,
    sole_call,
)
from autograder.tape.repair.edits import BLOCKS, Edit, EditableSource

KIND = translatable("both losses backward before either step")
MADE = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def both_losses_first(program: BrokenProgram) -> Iterator[Candidate]:
    """In `a.backward(); one.step(); b.backward(); two.step()`, move `b.backward()` with its `zero_grad()` before `a.backward()`."""
    source = program.source
    for statement in movable(program):
        for step, last in followed_by_backward(source, statement):
            block, first = source.block(step), first_of_earlier(source.before(step))
            if first is not None:
                later = source.after(step)
                between = later[: later.index(last)]
                carried = [node for node in between if clears(node) or isinstance(node, MADE)]
                yield from moved_up(source, first, [*carried, last])
                here = (node for node in movable(program) if node in block)
                steps = [node for node in here if step.lineno <= node.lineno < last.lineno] or [step]
                moved = "\n".join(map(source.dedented, steps))
                removed = tuple(map(source.delete, steps))
                for restricted in with_inputs(source, last):  # that the following step trains
                    yield Candidate(KIND, (*removed, restricted, source.insert_after(last, moved)))


def first_of_earlier(block: list[ast.stmt]) -> ast.stmt | None:
    """Return the last statement of a block that calls backward, or the `zero_grad()` before it that belongs to it."""
    last = next((statement for statement in reversed(block) if calls_backward(statement)), None)
    if last is None:
        return None
    above = (node for node in reversed(block[: block.index(last)]) if clears(node) or isinstance(node, MADE))
    nearest = next(above, last)
    return nearest if clears(nearest) else last


def clears(statement: ast.stmt) -> bool:
    """Return whether the statement only clears gradients."""
    call = sole_call(statement)
    return call is not None and called(call) == "zero_grad"


def moved_up(source: EditableSource, first: ast.stmt, moving: list[ast.stmt]) -> Iterator[Candidate]:
    """Yield the move before a statement: once as it is, and once with `retain_graph=True` for the other loss."""
    removed = tuple(source.delete(statement) for statement in moving)
    yield Candidate(KIND, (*removed, source.insert_before(first, "\n".join(source.dedented(node) for node in moving))))
    for call in calls_of(moving[-1], "backward"):
        retained = source.apply_to(moving[-1], [source.add_argument(call, "retain_graph=True")])
        text = "\n".join([*(source.dedented(statement) for statement in moving[:-1]), retained])
        yield Candidate(KIND, (*removed, source.insert_before(first, text)))


def with_inputs(source: EditableSource, last: ast.stmt, steps: int = 1) -> Iterator[Edit]:
    """Yield the edits that restrict a backward call to the inputs that one of the following steps trains."""
    later = [method for statement in (last, *source.after(last)) for method in methods_called(statement, "step")]
    for call in calls_of(last, "backward"):
        for method in islice((step for step in later if step.lineno > call.lineno), steps):
            inputs = f'inputs=[p for group in {source.of(method.value)}.param_groups for p in group["params"]]'
            yield source.add_argument(call, inputs)


def only_for_its_step(program: BrokenProgram) -> Iterator[Candidate]:
    """Restrict the backward call that raised to the inputs that its step trains, if another step modified what only others need."""
    if any("step" in called_in(statement) for statement in program.suspects):
        for last in program.at(program.error_lines):
            for restricted in with_inputs(program.source, last):
                yield Candidate("gradients only for the next step", (restricted,))


def inline_both_updates(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `update(one, a); update(two, b)`, where `update` calls backward and steps, with its statements, both backwards first."""
    source = program.source
    helpers = {node.name: node for node in source.nodes(ast.FunctionDef) if _updates(node)}
    for statement in source.statements():
        following = source.after(statement)[:1]
        pair = [_inlined(source, helpers, part) for part in (statement, *following)]
        if len(pair) == 2 and all(pair):
            for lines in _both_first(source, *pair):  # type: ignore[arg-type]
                text = f"{source.newline}{source.indent(statement)}".join(lines)
                yield Candidate(KIND, (source.replace(statement, text), source.delete(following[0])))


def _updates(function: ast.FunctionDef) -> bool:
    """Return whether a function calls backward in one statement and an optimizer's step in a later one, and all statements are calls."""
    names = [called(call) if (call := sole_call(node)) else None for node in _body(function)]
    return None not in names and names.count("backward") == 1 and "step" in names[names.index("backward") :]


def _body(function: ast.FunctionDef) -> list[ast.stmt]:
    return function.body[1:] if ast.get_docstring(function) else function.body


# The statements of a helper, and the edits that put the arguments of a call in place of its parameters.
_Inlined = tuple[list[ast.stmt], list[Edit]]


def _inlined(source: EditableSource, helpers: dict[str, ast.FunctionDef], statement: ast.stmt) -> _Inlined | None:
    """Return the statements of the helper that a statement calls, with its arguments, or None for other statements."""
    call = sole_call(statement)
    helper = helpers.get(called(call)) if call else None
    if call is None or helper is None:
        return None
    names = [argument.arg for argument in helper.args.args]
    names = names[1:] if names[:1] == ["self"] else names
    values = dict(zip(names, call.args, strict=False)) | {word.arg: word.value for word in call.keywords if word.arg}
    if set(names) != values.keys():
        return None
    uses = (name for node in _body(helper) for name in source.nodes(ast.Name, node) if name.id in values)
    return _body(helper), [source.replace(name, source.operand(values[name.id])) for name in uses]


def _both_first(source: EditableSource, first: _Inlined, second: _Inlined) -> Iterator[list[str]]:
    """Yield the statements of two updates, both backwards first, the second possibly only for the parameters that its step trains."""
    body, edits = second
    step = next(method for node in body for method in methods_called(node, "step"))
    inputs = f'inputs=[p for group in {source.apply_to(step.value, edits)}.param_groups for p in group["params"]]'
    for kept, filled in product(("retain_graph=True", ""), ("", inputs)):
        halves = _diverged(source, first, kept), _diverged(source, second, filled)
        yield [line for updates in zip(*halves, strict=True) for lines in updates for line in lines]


def _diverged(source: EditableSource, update: _Inlined, keyword: str) -> tuple[list[str], list[str]]:
    """Return the statements of an update up to backward, which gets a keyword argument, and those after it."""
    body, edits = update
    stop = next(count for count, node in enumerate(body, 1) if "backward" in called_in(node))
    added = [source.add_argument(call, keyword) for call in calls_of(body[stop - 1], "backward") if keyword]
    lines = [source.apply_to(node, [*edits, *added]) for node in body]
    return lines[:stop], lines[stop:]


AGAIN = Message(
    "change.loss_again|The loss is computed again after the in-place modification, so its value and gradients are "
    "those of the new values."
)
PER_BACKWARD = Message(
    "change.each_loss_again|Each backward starts from a loss that is computed again, with the values at that point."
)
EARLIER = Message("change.before|The in-place modification runs before the operation, which then uses the new values.")
SIDE_EFFECTS = {
    "step", "sample", "next", "pop", "append", "popleft", "randn", "rand", "randint", "randperm", "normal", "reset", "read",
}  # fmt: skip
NO_WRITE = {"backward", "grad", "zero_grad", "print"}
LONGEST = 8  # maximum number of repeated statements


def move_write_later(program: BrokenProgram) -> Iterator[Candidate]:
    """Move the modification, or `optimizer.step()`, after the last backward that needs the old values."""
    for statement in movable(program):
        for moving, last in reversed(followed_by_backward(program.source, statement)):
            place = after_its_step(program.source, moving, last)
            edits = (program.source.delete(moving), program.source.insert_after(place, program.source.dedented(moving)))
            yield Candidate("move the write after backward", edits)
        steps = "step" in called_in(statement)
        around = program.source.loops(statement) if not steps else []
        for number, loop in enumerate(around):
            inner = (outer for outer in around[:number] if isinstance(outer, ast.For))
            is_bound = any(names_bound(outer.target) & names_loaded(statement) for outer in inner)
            if not is_bound and any(map(calls_backward, loop.body)):
                holder = program.source.parents[statement]
                is_if = isinstance(holder, ast.If) and len(holder.body) == 1 and not holder.orelse
                removed = program.source.delete(holder if is_if else statement)  # type: ignore[arg-type]
                moved = program.source.insert_after(loop, program.source.of(statement))
                yield Candidate("move the write after the loop", (removed, moved))


def after_its_step(source: EditableSource, moving: ast.stmt, last: ast.stmt) -> ast.stmt:
    """Return the statement after which to move: a backward, or its step, if the moved ones clear the same gradients."""
    cleared = {source.of(call.func).replace("zero_grad", "step") for call in calls_of(moving, "zero_grad")}
    following = takewhile(lambda node: not calls_backward(node), source.after(last))
    steps = ((node, source.of(call.func)) for node in following for call in calls_of(node, "step"))
    return next((node for node, method in steps if method in cleared), last)


def movable(program: BrokenProgram) -> list[ast.stmt]:
    """Return the suspect statements, calls of the functions that contain them, and calls directly before a backward."""
    statements = list(program.suspects) or list(dict.fromkeys(write.statement for write in program.harmful_writes))
    every = dict.fromkeys([*statements, *program.callers, *right_before_backward(program.source)])
    # `zero_grad()` may be on the line of a suspect: `optimizer.zero_grad(); loss.backward(); optimizer.step()`
    return [statement for statement in every if not clears(statement)]


def right_before_backward(source: EditableSource) -> list[ast.stmt]:
    """Return the expression statements directly before a backward call, such as calls of callbacks."""
    moved = []
    for last in source.statements():
        if isinstance(last, ast.Expr) and calls_backward(last):
            before_it = takewhile(lambda node: isinstance(node, ast.Expr), reversed(source.before(last)))
            moved += [node for node in before_it if not called_in(node) & NO_WRITE]
    return moved


def followed_by_backward(source: EditableSource, statement: ast.stmt) -> list[tuple[ast.stmt, ast.stmt]]:
    """Return each movable statement (this one or a block around it) with the statements after it that call backward."""
    scope = source.scope(statement)
    around = [outer for outer in source.enclosing(statement, ast.stmt) if source.scope(outer) is scope]
    return [(inner, other) for inner in [statement, *around] for other in source.after(inner) if calls_backward(other)]


def calls_backward(statement: ast.stmt) -> bool:
    """Return whether the statement contains a call of `backward` or `grad`."""
    return bool(calls_of(statement, "backward", "grad"))


def repeat_forward(program: BrokenProgram) -> Iterator[Candidate]:
    """Repeat the statements that compute the loss after the modification, directly before backward."""
    for statement in movable(program):
        for _, last in followed_by_backward(program.source, statement):
            if text := leading_to(program, last):
                edits = (program.source.insert_before(last, text),)
                yield Candidate("forward again after the write", edits, may_change=AGAIN)


def repeat_forward_each_time(program: BrokenProgram) -> Iterator[Candidate]:
    """Compute a loss again for its second backward: directly before it, or at the start of the loop or function."""
    source = program.source
    for last in program.at(program.error_lines) if "second time" in program.verdict.error_message else ():
        carried = {name for loop in source.loops(last) for name in carried_names(loop)}
        for place in [last, *(outer.body[0] for outer in source.ancestors(last) if isinstance(outer, BLOCKS))]:
            yield from computed_before(source, place, last, "forward again for each backward", carried)


def compute_in_closure(program: BrokenProgram) -> Iterator[Candidate]:
    """Compute a prediction in the closure of `optimizer.step(closure)`, which runs after each change of the parameters."""
    steps = calls_of(program.source.tree, "step")
    given = {name.id for call in steps for name in program.source.nodes(ast.Name, call)}
    for last in program.at(program.error_lines):
        closure = program.source.scope(last)
        if isinstance(closure, ast.FunctionDef) and closure.name in given:
            kind = translatable("compute it in the closure")
            yield from computed_before(program.source, closure.body[0], last, kind, set())


def computed_before(
    source: EditableSource, place: ast.stmt, last: ast.stmt, kind: str, carried: set[str]
) -> Iterator[Candidate]:
    """Yield the repetitions of a forward at a place, without side effects: a step, a random draw, a reset of a carried state."""
    for count in range(1, 5):
        text = last_assignments(source, place, last, count)
        tree = ast.parse(text)
        if text and not calls_of(tree, *SIDE_EFFECTS) and not names_bound(tree) & carried:
            yield Candidate(kind, (source.insert_before(place, text),), may_change=PER_BACKWARD)


def last_assignments(source: EditableSource, place: ast.stmt, last: ast.stmt, count: int) -> str:
    """Return the source of the last `count` assignments before `place` that `last` depends on."""
    scopes = [source.scope(last), *source.ancestors(last)]
    earlier = (node for node in source.nodes(ast.Assign) if node.lineno < last.lineno)
    visible = [node for node in earlier if source.scope(node) in scopes and not creates_state(source, node)]
    visible.sort(key=lambda assignment: assignment.lineno)
    needed = [node for node in needed_for(names_loaded(last), visible) if node.lineno < place.lineno]
    return "\n".join(source.dedented(node) for node in reversed(needed[:count]))


def needed_for(names: set[str], earlier: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that the values of some names depend on, the last first."""
    needed = []
    for statement in reversed(earlier):
        if names_bound(statement) & names:
            names = names | names_loaded(statement)
            needed.append(statement)
    return needed


def creates_state(source: EditableSource, statement: ast.Assign) -> bool:
    """Return whether the statement creates what a second forward must share: a leaf, parameters, an optimizer, an empty list."""
    text = source.of(statement)
    value = statement.value
    is_maker = isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and not (value.args or value.keywords)
    is_state = any(word in text for word in ("requires_grad", "Parameter", "optim"))
    return is_maker or is_state or text.endswith(("[]", "{}"))


def leading_to(program: BrokenProgram, last: ast.stmt) -> str:
    """Return the source of the assignments that used the old values and that `last` depends on."""
    earlier = [node for node in program.source.before(last) if isinstance(node, ast.Assign | ast.AugAssign)]
    stale: set[str] = set()
    reading = []
    for statement in earlier:
        if uses_saved(program, statement) or names_loaded(statement) & stale:
            stale |= names_bound(statement)
            reading.append(statement)
    needed = needed_for(names_loaded(last), reading)
    return "\n".join(program.source.dedented(node) for node in reversed(needed)) if len(needed) <= LONGEST else ""


def uses_saved(program: BrokenProgram, statement: ast.stmt) -> bool:
    """Return whether the statement saved the modified tensor, or calls a function or module of the source that did."""
    if any(statement is saver for saver, _ in program.saving_statements):
        return True
    names = {getattr(program.source.scope(saver), "name", None) for saver, _ in program.saving_statements} - {None}
    is_hidden = "forward" in names or any(harm.saved_at.file != program.file for harm in program.verdict.harms)
    called_here = called_in(statement)
    defined = {node.name for node in program.source.statements() if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    others = names_loaded(statement) - defined - SIDE_EFFECTS
    return bool(called_here & names) or (is_hidden and bool(called_here & others))


def move_write_earlier(program: BrokenProgram) -> Iterator[Candidate]:
    """Move the modification before the operation that saves, if both are in the same block."""
    for statement in program.suspects:
        for saver, _ in program.saving_statements:
            earlier = program.source.before(statement)
            between = earlier[earlier.index(saver) :] if saver in earlier else []
            # An optimizer's step needs the gradients of the backward before it.
            if between and not any(map(calls_backward, between)):
                moved = program.source.insert_before(saver, program.source.dedented(statement))
                edits = (program.source.delete(statement), moved)
                yield Candidate("move the write before the save", edits, may_change=EARLIER)
