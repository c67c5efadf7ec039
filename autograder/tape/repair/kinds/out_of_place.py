"""Fixes that assign a new tensor or list to the name instead of modifying the old one in place."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.tape.repair.broken_program import BrokenProgram, Candidate, each_then_all
from autograder.tape.repair.code_reader import InPlaceWrite, called, calls, of_module, sole_call, targets, trace
from autograder.tape.repair.edits import Edit, EditableSource, Edits

MAKERS = {
    "zero_": "torch.zeros_like({0})",
    "fill_": "torch.full_like({0}, {1})",
    "copy_": "{1}.expand_as({0}).clone()",
}
# methods that fill a tensor with random numbers
DRAWS = {"normal_", "uniform_", "bernoulli_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_"}
NUMBERS = {"0": "torch.zeros_like({0})", "1": "torch.ones_like({0})"}


def expand_augmented_assignment(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `x += y` with `x = x + y`."""
    for write in program.writes:
        if isinstance(write.node, ast.AugAssign) and not write.path:
            yield Candidate("out of place", expand_operator(program.source, write.node))


def rebind_item(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `layers[i] += y` and `layers[i].add_(y)` with `layers[i] = layers[i] + y`, so that the list contains a new tensor.

    If `layers` is a tensor, the new statement also modifies it; the trial run detects that.
    """
    for write in program.harmful_writes:
        item = written_item(write)
        if item is not None and isinstance(write.node, ast.AugAssign):
            yield Candidate("out of place", expand_operator(program.source, write.node))
        elif item is not None and write.is_alone:
            named = program.source.insert(write.node, f"{program.source.of(item)} = ")
            yield Candidate("out of place", (named, *drop_underscores(program.source, write.node)))


def written_item(write: InPlaceWrite) -> ast.Subscript | None:
    """Return the modified item of a list, dictionary or tensor, such as in `layers[i] += y`, or None for other targets.

    Calls of `detach_` are excluded: it changes no value, and assigning its result would cut the item's gradient.
    """
    item = write.target
    for call in chain(write.node):
        if called(call) == "detach_":
            return None
        item = call.func.value  # type: ignore[attr-defined]
    return item if isinstance(item, ast.Subscript) and trace(item)[1] == ("[]",) else None


def expand_operator(source: EditableSource, node: ast.AugAssign, name: str | None = None) -> Edits:
    """Return the edits that turn `x op= value` into `x = x op value`, or `= name op value`. Comments are kept."""
    end, start = source.span(node.target)[1], source.span(node.value)[0]
    sign, _, after = source.data[end:start].decode().partition("=")
    bare = "(" not in after and source.factor(node.value) != source.of(node.value)
    opening, closing = ("(", ")") if bare else ("", "")
    first = Edit(end, start, f" = {name or source.of(node.target)} {sign.strip()}{after}{opening}")
    return (first, source.insert(node.value, closing, after=True))


def call_without_underscore(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `h.add_(1)` with `h = h.add(1)`. Inside a larger expression, or after a computed value, remove only the underscore."""
    for write in program.writes:
        if not write.is_method or of_module(program.source, write.node) or is_inner(program.source, write.node):
            continue
        if write.views:
            yield from detach_view(program.source, write)
            continue
        edits = drop_underscores(program.source, write.node)
        is_filled = fills(write.node)
        if write.is_alone:
            alone = (program.source.insert(write.node, f"{write.name} = "), *edits)
            yield Candidate("out of place", made(program.source, write) if is_filled else alone)
        elif not is_filled:
            yield Candidate("out of place", edits)
            text = f"{write.name} = {program.source.apply_to(write.node, edits)}"
            first = program.source.insert_before(write.statement, text)
            yield Candidate("out of place", (first, program.source.replace(write.node, write.name)))
    for statement in program.suspects:
        for call, target in targets(program.source, statement):
            is_used = isinstance(call, ast.Call) and sole_call(statement) is not call
            if is_used and trace(target)[0] is None and not is_inner(program.source, call):
                yield Candidate("out of place", drop_underscores(program.source, call))


def is_inner(source: EditableSource, call: ast.AST) -> bool:
    """Return whether the call is the `x.a_()` of `x.a_().b_()`, which is changed as a whole."""
    holder = source.parents[call]
    return isinstance(holder, ast.Attribute) and holder.attr.endswith("_")


def detach_view(source: EditableSource, write: InPlaceWrite) -> Iterator[Candidate]:
    """Remove the underscore of `m[:1].detach_()`, for which PyTorch raises an error if it is a view."""
    if called(write.node) == "detach_":
        text = "change.own_history|`detach()` returns a new tensor without history; {name} keeps its own."
        not_cut = Message(text, name=write.name)
        yield Candidate("detach, not in place", drop_underscores(source, write.node), not_cut)


def chain(call: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of `x.a_().b_()`, last first."""
    while isinstance(call, ast.Call) and isinstance(method := call.func, ast.Attribute):
        yield call
        call = method.value


def drop_underscores(source: EditableSource, last: ast.AST) -> Edits:
    """Return the edits that remove the underscore of each method in the chain that ends with a call."""
    ends = [source.span(call.func)[1] for call in chain(last) if called(call).endswith("_")]
    return tuple(Edit(end - 1, end, "") for end in ends)


def fills(last: ast.AST) -> bool:
    """Return whether a method in the chain that ends with a call fills a tensor with other values."""
    return any(called(call) in MAKERS.keys() | DRAWS for call in chain(last))


def made(source: EditableSource, write: InPlaceWrite) -> Edits:
    """Return the edit that assigns a new filled tensor to the name, or () if the fill is part of a chain of calls."""
    name, maker = write.name, MAKERS.get(called(write.node), "")
    if called(write.node) in DRAWS and len(list(chain(write.node))) == 1:
        start, dot = source.span(write.node)[0], source.dot(write.node.func)
        return (Edit(start, dot, f"{name} = torch.empty_like({name})"),)
    values = [source.operand(argument) for argument in write.node.args]
    if len(values) != maker.count("{1}") or len(list(chain(write.node))) > 1 or not maker:
        return ()
    return (source.replace(write.node, f"{name} = {maker.format(name, *values)}"),)


def rebind_result(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `torch.relu_(h)` with `h = torch.relu(h)`, and `torch.add(x, y, out=b)` with `b = torch.add(x, y)`."""
    source = program.source
    for write in program.writes:
        if write.is_method and of_module(source, write.node) and not write.path:
            end = source.span(write.node.func)[1]
            bound = bind_result(source, write.statement, write.node, write.root)
            yield Candidate("out of place", (*bound, Edit(end - 1, end, "")))
    for statement, call in every_call(source):
        for keyword in call.keywords:
            if keyword.arg == "out":
                bound = bind_result(source, statement, call, keyword.value)
                yield Candidate("out of place", (*bound, remove_keyword(source, call, keyword)))


def pass_out_of_place(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace the function that is passed in `reduce(operator.iadd, terms)` or `map(torch.Tensor.neg_, terms)`."""
    for call in (call for statement in program.suspects for call in calls(statement)):
        for given in call.args:
            module, _, name = program.source.of(given).rpartition(".")
            plain = name[1:] if module == "operator" and hasattr(operator, name[1:]) else name.removesuffix("_")
            if module and plain != name and isinstance(given, ast.Attribute):
                yield Candidate("out of place", (program.source.replace(given, f"{module}.{plain}"),))


def switch_off_inplace(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `nn.ReLU(inplace=True)` with `nn.ReLU(inplace=False)`: each alone, then all."""
    source = program.source
    changes = [switch_off(source, statement, call) for statement, call in every_call(source)]
    yield from each_then_all("inplace=False", changes)


def switch_off(source: EditableSource, statement: ast.stmt, call: ast.Call) -> Edits:
    """Return the edits that set `inplace=False` and assign the unused result of a function to the name of its argument."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "inplace"]
    given = named or (call.args if called(call) in ("ReLU", "ReLU6", "SiLU") else [])
    switches = [source.replace(value, "False") for value in given if getattr(value, "value", None) is True]
    lost = switches and called(call)[:1].islower() and call.args
    return (*(bind_result(source, statement, call, call.args[0]) if lost else ()), *switches)


def every_call(source: EditableSource) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """Yield each call of the source with the innermost statement around it."""
    for statement in source.statements():
        yield from ((statement, call) for call in calls(statement))


def bind_result(source: EditableSource, statement: ast.stmt, call: ast.Call, target: ast.expr) -> Edits:
    """Return the edit that assigns the call's result to `target`, if the statement does not use it."""
    return (source.insert(call, f"{source.of(target)} = "),) if sole_call(statement) is call else ()


def remove_keyword(source: EditableSource, call: ast.Call, keyword: ast.keyword) -> Edit:
    """Return the edit that removes the keyword and the comma before it from the call."""
    start, stop = source.span(keyword)
    spans = map(source.span, [*call.args, *call.keywords])
    return Edit(max((end for begin, end in spans if begin < start), default=start), stop, "")


def rebind_masked(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `x[mask] = v` with `x = x.masked_fill(mask, v)`, or with `torch.where` if v is not a number."""
    source = program.source
    for write in program.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and not is_whole(write.target.slice):
            name, value = write.name, write.node.value
            mask = source.of(write.target.slice)
            masked = f"{name}.masked_fill({mask}, {source.of(value)})"
            chosen = f"torch.where({mask}, {source.of(value)}, {name})"
            if is_number(value) or isinstance(write.target.slice, ast.Compare | ast.Name | ast.UnaryOp | ast.BinOp):
                yield Candidate("out of place", assign(source, write, masked if is_number(value) else chosen))


def rebind_filled(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `d[:] = 1` with `d = torch.ones_like(d)`, or with the expanded value if it is a tensor."""
    source = program.source
    for write in program.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and is_whole(write.target.slice):
            name, value = write.name, write.node.value
            number = is_number(value)
            maker = NUMBERS.get(source.of(value), MAKERS["fill_"]) if number else MAKERS["copy_"]
            yield Candidate("out of place", assign(source, write, maker.format(name, source.operand(value))))


def assign(source: EditableSource, write: InPlaceWrite, text: str) -> Edits:
    """Return the edit that assigns `text` to the modified name, or () if the statement has further targets."""
    single = len(write.node.targets) == 1
    return (source.replace(write.node, f"{write.name} = {text}"),) if single else ()


def is_whole(index: ast.expr) -> bool:
    """Return whether the index is `:` or `...`."""
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value is ...


def is_number(value: ast.expr) -> bool:
    """Return whether the expression is a number, possibly negative, or a call of `float`."""
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    is_float = isinstance(value, ast.Call) and called(value) == "float"
    return is_float or (isinstance(value, ast.Constant) and isinstance(value.value, int | float))


OPERATORS = {"add_": "+", "sub_": "-", "mul_": "*", "div_": "/"}


def rebuild_list(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `for w, g in zip(fast, grads): w -= g` with `fast = [w - g for w, g in zip(fast, grads)]`, also for dictionaries."""
    source = program.source
    for write in program.writes:
        loop = source.parents[write.statement]
        if not isinstance(loop, ast.For) or loop.body != [write.statement] or loop.orelse:
            continue
        value, holder = new_value(source, write), container(loop, write.name)
        if isinstance(write.root, ast.Name) and not write.path and value and holder:
            name, key = holder
            each = f"for {source.of(loop.target)} in {source.of(loop.iter)}"
            built = f"{{{key}: {value} {each}}}" if key else f"[{value} {each}]"
            yield Candidate("build a new container", (source.replace(loop, f"{name} = {built}"),))


def new_value(source: EditableSource, write: InPlaceWrite) -> str:
    """Return the expression of the updated value, or "" if the modification is not a simple update."""
    if isinstance(write.node, ast.AugAssign):
        operator = ast.unparse(ast.BinOp(ast.Name("a"), write.node.op, ast.Name("b"))).split()[1]
        return f"{write.name} {operator} {source.factor(write.node.value)}"
    call = write.node
    if isinstance(call, ast.Call) and called(call) in OPERATORS and isinstance(write.statement, ast.Expr):
        arguments = ", ".join(source.of(argument) for argument in [*call.args, *call.keywords])
        return f"{write.name}.{called(call).removesuffix('_')}({arguments})"
    return ""


def container(loop: ast.For, name: str) -> tuple[str, str] | None:
    """Return the name of the list or dictionary whose values the loop assigns to `name`, and the name of the key ("" for a list)."""
    targets, sources = [loop.target], [loop.iter]
    if isinstance(loop.iter, ast.Call) and called(loop.iter) == "zip" and isinstance(loop.target, ast.Tuple):
        targets, sources = list(loop.target.elts), list(loop.iter.args)
    for target, source_node in zip(targets, sources, strict=False):
        if isinstance(target, ast.Name) and target.id == name and isinstance(source_node, ast.Name):
            return source_node.id, ""
        is_items = isinstance(source_node, ast.Call) and called(source_node) == "items"
        owner = getattr(source_node.func, "value", None) if is_items else None  # type: ignore[attr-defined]
        if isinstance(owner, ast.Name) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            key, value = map(ast.unparse, target.elts)
            if value == name:
                return owner.id, key
    return None


def stack_rows(program: BrokenProgram) -> Iterator[Candidate]:
    """Replace `out = zeros(n, m)` and `out[t] = h` in a loop with `out = []`, `out.append(h)` and `out = torch.stack(out)`."""
    for write in program.writes:
        if isinstance(write.node, ast.Assign) and write.path == ("[]",) and program.source.loops(write.statement):
            for made in program.source.bindings(write.name)[-1:]:
                if isinstance(made.value, ast.Call) and (edits := collect_in_list(program.source, write, made)):
                    yield Candidate("collect in a list and stack", edits)


def collect_in_list(source: EditableSource, write: InPlaceWrite, made: ast.Assign) -> Edits:
    """Return the edits for one buffer, or () if its index is not a single loop variable."""
    loop = source.loops(write.statement)[0]
    index = write.target.slice
    places = index.elts if isinstance(index, ast.Tuple) else [index]
    steps = [at for at, index in enumerate(places) if not isinstance(index, ast.Slice)]
    if not isinstance(loop, ast.For) or len(steps) != 1 or loop.lineno < made.lineno:
        return ()
    name, dimension = write.name, steps[0]
    option = f", dim={dimension}" if dimension else ""
    read = [node for node in source.nodes(ast.Subscript, loop) if isinstance(node.ctx, ast.Load)]
    indices = (node.slice for node in read if ast.unparse(node.value) == ast.unparse(write.root))
    return (
        source.replace(made.value, "[]"),
        source.replace(write.node, f"{name}.append({source.of(write.node.value)})"),
        source.insert_after(loop, f"{name} = torch.stack({name}{option})"),
        # `out[:, t - 1]` inside the loop becomes `out[t - 1]`.
        *(source.replace(at, source.of(at.elts[dimension])) for at in indices if isinstance(at, ast.Tuple)),
    )
