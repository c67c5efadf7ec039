"""Fixes for a part of a graph that two iterations or two losses share: detach it, or compute it again."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.locale.translations import translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.code_reader import carried_names, methods_called, names_bound, names_loaded, paths_in
from autograder.tape.repair.edits import Edit, EditableSource, Edits
from autograder.tape.repair.kinds.order import calls_backward, needed_for

KIND = translatable("detach the carried state")
CONSTANT = {"shape", "size", "dim", "ndim", "numel", "device", "dtype", "detach", "data", "item", "tolist"}


def detach_state(program: BrokenProgram) -> Iterator[Candidate]:
    """Add `h = h.detach()` in the loop that carries it, in the method that reads `self.h`, or before a loop that uses it.

    Replace `bank[i] = h` with `bank[i] = h.detach()`.
    """
    if program.verdict.outcome != "raises-backward":
        return
    text = "change.earlier_rounds|No gradient flows through {name} into earlier iterations any more."
    for find in (of_loops, of_methods, of_functions, given_to_loops, of_items):
        for name, edits in find(program.source):
            yield Candidate(KIND, edits, Message(text, name=name))


def recompute_cached(program: BrokenProgram) -> Iterator[Candidate]:
    """Remove `if self.cached is None:` around the statements that fill the cache, so that each call computes them again."""
    if program.verdict.outcome != "raises-backward" or "second time" not in program.verdict.error_message:
        return
    for block in program.source.nodes(ast.If):
        targets = [target for inner in block.body if isinstance(inner, ast.Assign) for target in inner.targets]
        stored = {ast.unparse(target.value if isinstance(target, ast.Subscript) else target) for target in targets}
        asked = ast.unparse(block.test)
        if not block.orelse and block.body[0].lineno > block.lineno and any(name in asked for name in stored):
            yield Candidate(translatable("compute it in each call"), program.source.remove_header(block))


def of_loops(source: EditableSource) -> Iterator[tuple[str, Edits]]:
    """Yield the names that a training loop carries, detached at the start of an iteration, or at its end (if they start as None).

    Then yield all of them together, because each alone may leave the error. Yield also the lists to which it appends a value.
    """
    for loop in training_loops(source):
        for method in methods_called(loop, "append"):
            if isinstance(method.value, ast.Name):
                values = method.value.id
                yield values, (source.insert_after(loop.body[-1], f"{values}[-1] = {values}[-1].detach()"),)
        names = carried_names(loop)
        for name in names:
            for text in detached(name):
                yield name, (source.insert_before(loop.body[0], text),)
                yield name, (source.insert_after(loop.body[-1], text),)
        if len(names) > 1:
            lines = "\n".join(detached(name)[0] for name in names)
            yield ", ".join(names), (source.insert_before(loop.body[0], lines),)


def training_loops(source: EditableSource) -> Iterator[ast.For | ast.While]:
    """Yield the loops that call backward."""
    for loop in source.statements():
        if isinstance(loop, ast.For | ast.While) and any(map(calls_backward, loop.body)):
            yield loop


def of_methods(source: EditableSource) -> Iterator[tuple[str, Edits]]:
    """Yield the attributes that a method computes from their previous values: each alone, then all of the file together."""
    carried = [
        (name, next(reader for reader in method.body if name in paths_in(reader, ast.Load)))
        for method in source.statements()
        if isinstance(method, ast.FunctionDef) and method.name != "__init__"
        for name in carried_names(method)
        if name.startswith("self.")
    ]
    for name, reader in carried:
        for text in detached(name):
            yield name, (source.insert_before(reader, text),)
            yield name, (detach_if_set(source, name, reader, text),)
    if len(carried) > 1:
        edits = (detach_if_set(source, name, reader, detached(name)[0]) for name, reader in carried)
        yield ", ".join(name for name, _ in carried), tuple(edits)


def detach_if_set(source: EditableSource, name: str, reader: ast.stmt, text: str) -> Edit:
    """Return the edit that detaches an attribute before a statement, unless it is still None."""
    return source.insert_before(reader, f"if {name} is not None:\n{source.unit}{text}")


def of_functions(source: EditableSource) -> Iterator[tuple[str, Edits]]:
    """Yield the outer variables that a function computes from their previous values."""
    for outer in source.nodes(ast.Global) + source.nodes(ast.Nonlocal):
        statements = source.after(outer)
        stored, read = (set().union(*(paths_in(node, how) for node in statements)) for how in (ast.Store, ast.Load))
        for name in sorted({*outer.names} & stored & read):
            for text in detached(name):
                yield name, (source.insert_after(outer, text),)


def given_to_loops(source: EditableSource) -> Iterator[tuple[str, Edits]]:
    """Yield the values that a function receives, such as `first = (h, c)`, and uses in each iteration of a training loop."""
    for loop in training_loops(source):
        for statement in source.before(loop):
            if isinstance(getattr(statement, "value", None), ast.Tuple | ast.Name | ast.Subscript):
                for name in sorted(names_bound(statement) & names_loaded(loop)):
                    for text in reversed(detached(name)):
                        yield name, (source.insert_after(statement, text),)


def of_items(source: EditableSource) -> Iterator[tuple[str, Edits]]:
    """Yield the tensors and containers that a statement stores a computed value into, as `bank[i] = h`."""
    for statement in source.nodes(ast.Assign):
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Subscript) and not isinstance(value, ast.Constant):
            yield source.of(target.value), (source.append(value, ".detach()"),)


def detached(name: str) -> tuple[str, str]:
    """Return the assignments that detach a tensor, and the tensors of a tuple, such as the state of an LSTM."""
    return f"{name} = {name}.detach()", f"{name} = tuple(part.detach() for part in {name})"


def detach_shared(program: BrokenProgram) -> Iterator[Candidate]:
    """Detach a value that two losses share where one of them uses it: `D(fake.detach())`, or `-(log_prob * adv.detach())`."""
    source, places = program.source, [fault.place for fault in program.verdict.graph_faults]
    shared = (maker for place in places if place.file == program.file for maker in program.at([place.line]))
    uses = ((maker, name) for maker in shared for user in source.after(maker) for name in used_names(source, user))
    after = [name for maker, name in uses if name.id in names_bound(maker)]
    for name in [*after, *(name for name, _ in uses_in_losses(program))]:
        edits = (source.insert(name, ".detach()", after=True),)
        message = Message("change.detached_use|No gradient flows through {name} here any more.", name=name.id)
        yield Candidate("detach the shared value", edits, message)


def uses_in_losses(program: BrokenProgram, most: int = 2) -> Iterator[tuple[ast.Name, ast.stmt]]:
    """Yield the uses of computed values in the statements that compute the loss of the failing backward, and of the one before it."""
    source = program.source
    for last in program.at(program.error_lines) if program.verdict.outcome == "raises-backward" else ():
        block = source.block(last)
        calls = [user for user in (*source.before(last), last) if calls_backward(user)]
        for call in reversed(calls[-most:] if len(calls) > 1 else ()):
            for statement in computing(source, call):
                others = [other for other in block if other is not statement and isinstance(other, ast.Assign)]
                made = set().union(*map(names_bound, others))
                yield from ((name, statement) for name in used_names(source, statement) if name.id in made)


def recompute_shared(program: BrokenProgram) -> Iterator[Candidate]:
    """Compute `d = D(z)` again before the second loss uses `d`, from `z.detach()`: that loss still trains D."""
    source = program.source
    for name, user in uses_in_losses(program, 1):
        others = [other for other in source.block(user) if other is not user]
        for maker in others if any(name.id in names_loaded(other) for other in others) else ():
            if not isinstance(maker, ast.Assign) or not isinstance(value := maker.value, ast.Call) or value.keywords:
                continue
            is_maker = [source.of(target) for target in maker.targets] == [name.id]
            if is_maker and all(isinstance(node, ast.Name) for node in value.args):
                given = ", ".join(f"{source.of(node)}.detach()" for node in value.args)
                message = Message(
                    "change.computed_again|{name} is computed again for the second loss, and no gradient of it flows into "
                    "what {name} was computed from.", name=name.id,
                )  # fmt: skip
                text = f"{name.id} = {source.of(value.func)}({given})"
                yield Candidate("compute it again, detached", (source.insert_before(user, text),), message)


def computing(source: EditableSource, last: ast.stmt) -> list[ast.stmt]:
    """Return the assignments in the block of a backward call that lead to its roots, closest first."""
    wanted = {name.id for method in methods_called(last, "backward") for name in source.nodes(ast.Name, method)}
    earlier = [node for node in source.block(last) if isinstance(node, ast.Assign) and node.lineno <= last.lineno]
    return needed_for(wanted, earlier)


def used_names(source: EditableSource, statement: ast.stmt) -> list[ast.Name]:
    """Return the names whose values with history the statement uses, without called functions."""
    loaded = [name for name in source.nodes(ast.Name, statement) if isinstance(name.ctx, ast.Load)]
    used = ((name, source.parents[name]) for name in loaded)
    others = ((name, user) for name, user in used if getattr(user, "func", None) is not name)
    return [name for name, user in others if getattr(user, "attr", None) not in CONSTANT]
