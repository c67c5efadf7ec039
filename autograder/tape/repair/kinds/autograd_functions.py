"""Fixes in custom autograd Functions and gradient hooks (PyTorch docs, "Extending torch.autograd"; torch 2.13)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from autograder.locale.messages import Message
from autograder.locale.translations import translatable
from autograder.tape.repair.broken_program import BrokenProgram, Candidate
from autograder.tape.repair.code_reader import called, calls_of, find_writes
from autograder.tape.repair.edits import Edit, EditableSource, Edits
from autograder.tape.repair.kinds.aliases import remove_aliases

ONLY_HERE = Message(
    "change.hook|The hook changes only the gradient of its own tensor; other nodes receive theirs unchanged."
)


def mark_dirty(program: BrokenProgram) -> Iterator[Candidate]:
    """Add `ctx.mark_dirty` to a forward that modifies its input."""
    for forward in methods(program.source, "forward"):
        names = [argument.arg for argument in forward.args.args]
        for statement in program.source.statements(forward):
            for write in find_writes(program.source, statement):
                if names and isinstance(write.root, ast.Name) and write.root.id in names[1:]:
                    text = f"{names[0]}.mark_dirty({write.root.id})"
                    yield Candidate("mark_dirty", (program.source.insert_before(statement, text),))


def save_for_backward(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `ctx.x = x` with `ctx.save_for_backward(x)`, and save a copy if x is modified later."""
    for forward in methods(program.source, "forward", "setup_context"):
        context = (forward.args.args or [ast.arg("ctx")])[0].arg
        targets = [(node, node.targets[0]) for node in program.source.nodes(ast.Assign, forward)]
        attributes = ((node, target) for node, target in targets if isinstance(target, ast.Attribute))
        stashes = [node for node, target in attributes if ast.unparse(target).startswith(f"{context}.")]
        if not stashes:
            continue
        for copy in ("", ".clone()"):
            yield Candidate("save_for_backward", save_through_context(program.source, forward, stashes, copy))
        copies = tuple(program.source.append(stash.value, ".clone()") for stash in stashes)
        yield Candidate("clone before the save", copies)


def methods(source: EditableSource, *names: str) -> list[ast.FunctionDef]:
    """Return the methods with these names in subclasses of `torch.autograd.Function`."""
    classes = source.nodes(ast.ClassDef)
    bodies = [class_.body for class_ in classes if any(ast.unparse(base).endswith("Function") for base in class_.bases)]
    functions = [statement for body in bodies for statement in body if isinstance(statement, ast.FunctionDef)]
    return [method for method in functions if method.name in names]


def save_through_context(source: EditableSource, forward: ast.FunctionDef, stashes: list[Any], copy: str) -> Edits:
    """Return the edits that save the first stored value with `save_for_backward` and read `saved_tensors` in backward."""
    holder = source.parents[forward]
    stash = stashes[0]
    context, name = ast.unparse(stash.targets[0].value), stash.targets[0].attr
    value = source.operand(stash.value) if copy else source.of(stash.value)
    edits = [source.replace(stash, f"{context}.save_for_backward({value}{copy})")]
    for node in source.nodes(ast.Attribute, holder):
        if node.attr == name and isinstance(node.ctx, ast.Load):
            owner, scope = source.of(node.value), source.scope(node)
            names = [argument.arg for argument in scope.args.args] if isinstance(scope, ast.FunctionDef) else []
            if names[:1] == [owner] and getattr(scope, "name", "") == "backward":
                edits.append(source.replace(node, f"{owner}.saved_tensors[0]"))
    return tuple(edits)


def save_copy(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `ctx.save_for_backward(x)` with `ctx.save_for_backward(x.clone())`."""
    for call in calls_of(program.source.tree, "save_for_backward"):
        edits = tuple(program.source.append(node, ".clone()") for node in call.args)
        yield Candidate("clone before the save", edits)


def return_from_hook(program: BrokenProgram) -> Iterator[Candidate]:
    """Return a new gradient, or a new output, from a hook that modifies it in place."""
    hooked = [call for call in program.source.nodes(ast.Call) if call.args]
    names = {ast.unparse(call.args[0]).split(".")[-1]: called(call) for call in hooked if "register_" in called(call)}
    for node in program.source.nodes(ast.FunctionDef):
        if node.name not in names:
            continue
        last, effect = node.body[-1], None if "forward" in names[node.name] else ONLY_HERE
        kind = translatable("return a new gradient") if effect else translatable("return a new output")
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and called(last.value).endswith("_"):
            end = program.source.span(last.value.func)[1]
            edits = (Edit(end - 1, end, ""), program.source.insert(last, "return "))
            yield Candidate(kind, edits if effect else (*edits, *remove_aliases(program.source, last)), effect)
        elif not program.source.nodes(ast.Return, node):
            given = {argument.arg for argument in node.args.args}
            written = [write for write in program.writes if program.source.scope(write.statement) is node]
            for name in dict.fromkeys(write.name for write in written):
                copied = program.source.insert_before(node.body[0], f"{name} = {name}.clone()")
                if name in given:
                    yield Candidate(kind, (copied, program.source.insert_after(last, f"return {name}")), effect)
