"""Fixes that keep the in-place modification and copy the modified tensor or the saved one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.tape.repair.broken_program import BrokenProgram, Candidate, each_then_all
from autograder.tape.repair.code_reader import called, calls_of, is_path, of_module, parts, paths_in, trace
from autograder.tape.repair.edits import EditableSource, Edits

MULTI_VIEWS = ("unbind", "chunk", "split", "tensor_split", "hsplit", "vsplit")


def clone_operand(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `f = d * w2` with `f = d.clone() * w2`, so that the node saves a copy; also for several tensors at once."""
    for statement, name in program.saving_statements:
        read = operands(program.source, statement)
        named = [operand for operand in read if reads(program.source, operand, name)]
        groups = [named, *([operand] for operand in read if operand not in named), read if len(read) > 2 else []]
        for group in filter(None, groups):
            yield Candidate("clone before the save", add_clones(program.source, group))

    for statement in dict.fromkeys(statement for statement, _ in program.saving_statements):
        names = {name for harm in program.verdict.harms for name in (harm.tensor, harm.through) if name}
        read = operands(program.source, statement)
        some = [operand for operand in read if any(reads(program.source, operand, name) for name in names)]
        if len(some) > 1:
            yield Candidate("clone before the save", add_clones(program.source, some))


def reads(source: EditableSource, operand: ast.expr, name: str) -> bool:
    """Return whether an operand is a tensor; `self.table.weight` is also the one named `model.table.weight`."""
    text = source.of(trace(operand)[0] or operand)
    return text == name or (text.startswith("self.") and name.endswith(text.removeprefix("self")))


def clone_result(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `out = torch.sigmoid(a)` with `out = torch.sigmoid(a).clone()`, so that the program modifies a copy."""
    for statement, _ in program.saving_statements:
        value = getattr(statement, "value", None)
        value = value.elt if isinstance(value, ast.ListComp) else value
        if isinstance(statement, ast.Assign | ast.Return) and isinstance(value, ast.Call | ast.BinOp):
            yield Candidate("clone what was saved", (program.source.append(value, ".clone()"),))


def add_clones(source: EditableSource, some: list[ast.expr]) -> Edits:
    """Return the edits that add `.clone()` to each expression."""
    return tuple(source.insert(node, ".clone()", after=True) for node in some)


def operands(source: EditableSource, statement: ast.stmt) -> list[ast.expr]:
    """Return the names, attributes and subscripts whose values the statement reads, in the order of the source."""
    roots = [statement.value] if isinstance(statement, ast.Assign | ast.AugAssign) else list(parts(statement))
    return [value for root in roots if root for value in values_in(root, source)]


def values_in(node: ast.AST, source: EditableSource) -> Iterator[ast.expr]:
    """Yield the outermost names, attributes and subscripts below a node whose values are read, without called functions."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and not of_module(source, node):
            yield from values_in(node.func.value, source)
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            yield from values_in(argument, source)
    elif isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and is_path(trace(node)[0] or node):
        if first_name(node) not in source.imported and not (isinstance(node, ast.Name) and node.id == "self"):
            yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from values_in(child, source)


def first_name(node: ast.AST) -> str:
    """Return the first name of a path."""
    while not isinstance(node, ast.Name):
        node = getattr(node, "value", None) or getattr(node, "func", None) or ast.Name("")
    return node.id


def clone_view(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `i = u[0]` with `i = u[0].clone()`, if `i` is saved or modified."""
    names = [name for _, name in program.saving_statements] + [write.name for write in program.harmful_writes]
    for name in dict.fromkeys(names):
        for statement in program.source.bindings(name):
            value = statement.value
            if isinstance(value, ast.Subscript | ast.Name | ast.Attribute | ast.Call):
                yield Candidate("clone where it is taken", add_clones(program.source, [value]))
            elif isinstance(value, ast.IfExp):
                yield Candidate("clone where it is taken", (program.source.append(value, ".clone()"),))


def clone_target(program: BrokenProgram) -> Iterator[Candidate]:
    """Add `d = d.clone()` before `d[0] = 1`: before the outermost loop first, if the modification is in a loop."""
    source = program.source
    for write in program.writes:
        if not set(write.path) & {"data", "detach", "numpy"}:
            name, around = write.name, source.loops(write.statement)
            targets = [outer.target for outer in around if isinstance(outer, ast.For)]
            is_loop_variable = any(name in paths_in(target, ast.Store) for target in targets)
            below = [node for node in source.block(write.statement) if node.lineno > write.statement.lineno]
            is_read_later = any(name in paths_in(node, ast.Load) for node in below)
            # A copy that only the loop variable refers to reaches nothing.
            for place in [*reversed(around), write.statement] if is_read_later or not is_loop_variable else ():
                yield Candidate("clone before the write", (source.insert_before(place, f"{name} = {name}.clone()"),))


def clone_base(program: BrokenProgram) -> Iterator[Candidate]:
    """Add `b = b.clone()` before a view `v = b[0]` that is modified, so that v and b still share memory."""
    for write in program.harmful_writes:
        for statement in program.source.bindings(write.name):
            root, path = trace(statement.value)
            if root is not None and path:
                name = program.source.of(root)
                text = f"{name} = {name}.clone()"
                yield Candidate("clone before the view is taken", (program.source.insert_before(statement, text),))


def clone_argument(program: BrokenProgram) -> Iterator[Candidate]:
    """Copy the argument of a function that modifies it: at the start of its body, or at each call."""
    for write in program.writes:
        function = program.source.scope(write.statement)
        if not isinstance(function, ast.FunctionDef) or not isinstance(write.root, ast.Name):
            continue
        names = [argument.arg for argument in function.args.args]
        if write.root.id in names and write.root.id not in ("self", "cls"):
            text = f"{write.root.id} = {write.root.id}.clone()"
            first = function.body[bool(ast.get_docstring(function) and function.body[1:])]
            yield Candidate("clone the argument", (program.source.insert_before(first, text),))
            place = names.index(write.root.id) - (names[0] in ("self", "cls"))
            calls = calls_of(program.source.tree, function.name)
            passed = [call.args[place] for call in calls if place < len(call.args)]
            passed += [word.value for call in calls for word in call.keywords if word.arg == write.root.id]
            edits: list[Edits] = [(program.source.append(value, ".clone()"),) for value in passed]
            yield from each_then_all("clone at the call", edits)


def separate_views(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace the views of unbind, chunk, split and iteration with single views or copies, outside of `no_grad`.

    PyTorch 2.13 raises an error for an in-place modification of a view that such a function returns, and of a view that
    was taken under `no_grad`.
    """
    if program.verdict.outcome != "raises-forward":
        return
    source = program.source
    for node in calls_of(source.tree, *MULTI_VIEWS):
        if single := single_views(source, node):
            yield from with_header(source, node, (source.replace(node, single),))
    if "view" in program.verdict.error_message:
        for loop in source.nodes(ast.comprehension) + source.nodes(ast.For):
            yield from taken_by_index(source, loop)
    for node in calls_of(source.tree, *MULTI_VIEWS):
        text = f"[part.clone() for part in {source.of(node)}]"
        yield Candidate("clone each part", (source.replace(node, text),))


def single_views(source: EditableSource, node: ast.Call) -> str:
    """Return an expression for the list of views that a call of unbind, chunk or split returns, or "" if it is unknown."""
    is_method = isinstance(node.func, ast.Attribute) and not of_module(source, node)
    given = [node.func.value, *node.args] if is_method else node.args  # type: ignore[attr-defined]
    words = {keyword.arg: source.of(keyword.value) for keyword in node.keywords}
    owner, *rest = map(source.of, given)  # type: ignore[arg-type]
    if called(node) == "unbind":
        at = (rest or [words.get("dim", "0")])[0]
        return f"[{owner}[place] for place in range(len({owner}))]" if at == "0" else ""
    count, at = (rest or ["?"])[0], (rest[1:] or [words.get("dim", "0")])[0]
    before_it = {"0": "", "1": ":, ", "-1": "..., "}.get(at)
    if called(node) not in ("chunk", "split") or before_it is None or not count.isalnum():
        return ""
    size = count if called(node) == "split" else f"-(-{owner}.shape[{at}] // {count})"
    return f"[{owner}[{before_it}at : at + {size}] for at in range(0, {owner}.shape[{at}], {size})]"


def taken_by_index(source: EditableSource, loop: ast.comprehension | ast.For) -> Iterator[Candidate]:
    """Yield the changes that iterate over indices of a tensor instead of its rows. A computed tensor gets a name."""
    block = [*source.enclosing(loop.iter, ast.With), *source.enclosing(loop.iter, ast.stmt)][0]
    is_zip = isinstance(loop.iter, ast.Call) and called(loop.iter) in ("zip", "enumerate")
    for rows in loop.iter.args if is_zip else [loop.iter]:  # type: ignore[attr-defined]
        is_named = isinstance(rows, ast.Name | ast.Attribute | ast.Subscript)
        name = source.of(rows) if is_named else "base"
        named = () if is_named else (source.insert_before(block, f"base = {source.of(rows)}"),)
        edits = (*named, source.replace(rows, f"({name}[place] for place in range(len({name})))"))
        yield from with_header(source, loop, edits)


def with_header(source: EditableSource, node: ast.AST, edits: Edits) -> Iterator[Candidate]:
    """Yield a change, without the `with torch.no_grad():` around it if there is one."""
    kind = "take each part as a view of its own"
    for block in source.enclosing(node, ast.With)[:1]:
        if "no_grad" in source.of(block.items[0].context_expr):
            yield Candidate(kind, (*source.remove_header(block), *edits))
    yield Candidate(kind, edits)
