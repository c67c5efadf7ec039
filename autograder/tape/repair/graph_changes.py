"""Changes of the source for faults of the graph: lost history, graphs that are used again, leaves, modes and rules of autograd."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from autograder.locale.messages import id_of, ids_in, values_of
from autograder.tape.diagnose.graph_reuse import BETWEEN_LOSSES
from autograder.tape.recording.verdict_types import GraphFault
from autograder.tape.repair.code_reader import called, calls, calls_of, methods_called, names_bound, owner, paths_in
from autograder.tape.repair.edits import BLOCKS, Edit, EditableSource, Edits
from autograder.tape.repair.kinds.aliases import is_detached_in_place, remove_alias
from autograder.tape.repair.optimizer_changes import Change, backwards, code_in, optimizers

# These calls return the values of their argument without its history.
UNWRAPPED = {"Variable", "tensor", "as_tensor", "from_numpy", "Parameter", "asarray", "float", "int", "deepcopy"}
NUMBERS = {"item", "tolist"}
_DRAWN = re.compile("rand|sample|normal|uniform")
# by the id of a change, the arguments of `autograd.grad` that it names
_SWITCHES = {
    "target.graph": ("create_graph",),
    "target.zeros": ("materialize_grads", "allow_unused"),
    "target.compute_from": ("allow_unused",),
}


def _keep_history(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Remove the calls that take values out of the graph, and the calls below that make new leaves of these values."""
    if "cut.copies_updated" in ids_in(fault.sentence):
        return  # copies that are updated: the update also has to change
    yield from _with_keyword(source, at, fault)
    yield from _call_with_values(source, at)
    scope, every = source.scope(at), source.statements()
    below = [node for node in every if node.lineno > at.lineno or source.scope(node) is not scope]
    leaves = tuple(edit for statement in below for edit in _no_leaf(source, statement))
    here = _uncuts(source, at)
    is_same = isinstance(at, ast.Assign) and here and source.apply_to(at.value, here) == source.of(at.targets[0])
    if is_same or is_detached_in_place(at):
        here = (source.delete(at),)  # else it would be `h = h` or `h`
    yield from (*((edit,) for edit in here), here)
    yield from ((*here[:1], *leaves), (*here, *leaves)) if leaves else ()
    for call in calls(at):
        if source.of(call.func).startswith("math."):
            yield (source.replace(call.func, f"torch.{called(call)}"), *leaves)
    for call in calls_of(at, "tensor", "as_tensor", "Tensor"):
        if call.args:
            yield (source.replace(call, f"torch.stack({source.of(call.args[0])})"), *leaves)
    yield from ((*edits, *leaves) for edits in _outside_no_grad(source, at, fault))
    for function in source.enclosing(at, ast.FunctionDef):
        for node in function.decorator_list:
            if _is_switch(node):
                start, stop = source.starts[node.lineno - 1], source.line_break(source.span(node)[1]) + 1
                yield (Edit(start, stop, ""),)


def _call_with_values(source: EditableSource, at: ast.stmt) -> Iterator[Edits]:
    """Call a module with computed values, instead of making a new parameter of them."""
    if not isinstance(at, ast.Assign) or not isinstance(at.value, ast.Call) or called(at.value) != "Parameter":
        return
    target, scope = at.targets[0], source.scope(at)
    if not isinstance(target, ast.Attribute) or target.attr in names_bound(scope) or len(at.value.args) != 1:
        return
    module, name = source.of(target.value), target.attr
    yield (
        source.replace(at, f"{name} = {source.of(at.value.args[0])}"),
        *(
            source.replace(
                call, f'torch.func.functional_call({module}, {{"{name}": {name}}}, {source.of(call.args[0])})'
            )
            for call in source.nodes(ast.Call, scope)
            if source.of(call.func) == module and len(call.args) == 1
        ),
    )


def _uncuts(source: EditableSource, within: ast.AST) -> tuple[Edit, ...]:
    """Return the edits that remove each outermost call or attribute which takes values out of the graph."""
    if edit := _uncut(source, within):
        return (edit,)
    return tuple(edit for node in ast.iter_child_nodes(within) for edit in _uncuts(source, node))


def _uncut(source: EditableSource, node: ast.AST) -> Edit | None:
    inner = None
    if isinstance(node, ast.keyword) and node.arg == "use_reentrant":
        return source.replace(node.value, "False")
    if isinstance(node, ast.Call) and called(node) == "sample":
        return source.replace(node.func, f"{source.of(node.func).removesuffix('sample')}rsample")
    if isinstance(node, ast.Call) and called(node) in UNWRAPPED and len(node.args) == 1:
        inner = node.args[0]
    elif isinstance(node, ast.Call) and called(node) in NUMBERS and isinstance(node.func, ast.Attribute):
        inner = node.func.value
    elif edit := remove_alias(source, node):
        inner = getattr(node, "func", node).value  # type: ignore[attr-defined, union-attr]
        return Edit(source.span(node)[0], edit.stop, source.apply_to(inner, _uncuts(source, inner)))
    if inner is None:
        return None
    averages = ("np.mean", "np.sum", "numpy.mean", "numpy.sum")
    if isinstance(inner, ast.Call) and inner.args and source.of(inner.func) in averages:
        return source.replace(node, f"torch.stack({source.of(inner.args[0])}).{called(inner)}()")
    text = source.apply_to(inner, _uncuts(source, inner))
    is_list = called(node) != "deepcopy" and _is_list(source, inner)  # type: ignore[arg-type]
    plain = text if source.factor(inner) == source.of(inner) else f"({text})"
    return source.replace(node, f"torch.stack({text})" if is_list else plain)


def _is_list(source: EditableSource, node: ast.expr) -> bool:
    """Return whether an expression is a list, or the name of a list that the program makes."""
    values = [node]
    if isinstance(node, ast.Name):
        values = [made.value for made in source.nodes(ast.Assign) if node.id in map(source.of, made.targets)]
    return any(isinstance(value, ast.List | ast.ListComp) for value in values)


def _no_leaf(source: EditableSource, statement: ast.stmt) -> Iterator[Edit]:
    """Yield the edits that keep a statement from making a new leaf."""
    text = ast.unparse(statement)
    if isinstance(statement, ast.Assign | ast.Expr) and re.fullmatch(r".+\.requires_grad( = True|_\((True)?\))", text):
        yield source.delete(statement)
    for call in calls(statement):  # `Variable(h)` is a tensor without the history of h
        if called(call) in ("from_numpy", "Variable") or "requires_grad" in {keyword.arg for keyword in call.keywords}:
            yield from _uncuts(source, call) if called(call) in UNWRAPPED else ()


def _is_switch(node: ast.expr) -> bool:
    return any(word in ast.unparse(node) for word in ("no_grad", "inference_mode", "set_grad_enabled"))


def _update_in_place(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Replace `w = w - step` with `w -= step` under no_grad, and clear the gradient."""
    code = code_in(fault)
    if not code or not isinstance(at, ast.Assign):
        return
    name, inside = source.of(at.targets[0]), source.enclosing(at, ast.With)
    text = code if inside else f"with torch.no_grad():\n{source.unit}{code}"
    lines = "\n".join([text, f"{name}.grad = None"]).splitlines()
    indented = f"{source.newline}{source.indent(at)}".join(lines)
    yield (source.replace(at, indented.rpartition(source.newline)[0]),)
    yield (source.replace(at, indented),)


def _retain(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Make a leaf of `h` where a loop computes it from itself, or insert `h.retain_grad()` before the backward call above."""
    for node in source.nodes(ast.Attribute, at):
        name = source.of(node.value) if node.attr == "grad" else ""
        for made in source.bindings(name) if name and source.loops(at) else ():
            if name in map(source.of, source.nodes(type(node.value), made.value)):
                yield (source.append(made.value, ".detach().requires_grad_()"),)
        for statement in backwards(source, at) if name else ():
            yield (source.insert_before(statement, f"{name}.retain_grad()"),)


def _make_usable(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Make a leaf of the result of the line, or pass NumPy only values, where the change says so."""
    if id_of(fault.change) == "numpy.give_values":
        yield from _pass_values(source, at)
    if code_in(fault).endswith("requires_grad_()") and isinstance(at, ast.Assign):
        yield (source.append(at.value, code_in(fault)),)


def _pass_values(source: EditableSource, at: ast.stmt) -> Iterator[Edits]:
    """Detach a tensor that a line passes to NumPy, or put numbers into a list that it passes."""
    given = [argument for call in calls(at) for argument in call.args]
    names = [source.of(argument) for argument in given]
    for call in calls_of(source.tree, "append"):
        if owner(source, call) in names and call.args:
            yield (source.append(call.args[0], ".item()"),)
    owners = [method.value for method in methods_called(at, "numpy")]
    yield from ((source.append(value, ".detach()"),) for value in (*owners, *given))


def _fill(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Skip the parameters without a gradient, or let a tensor require grad before its first use in the function."""
    loops = source.enclosing(at, ast.For)
    for attribute in [node for node in source.nodes(ast.Attribute, at) if node.attr == "grad"]:
        leaf = source.of(attribute.value)
        inside = [part for node in source.ancestors(attribute) for part in getattr(node, "generators", ())]
        iterated = [part for part in (*inside, *loops) if leaf in names_bound(part.target)]
        advice = id_of(fault.change)
        if advice == "empty.skip" or (advice == "empty.require" and iterated):
            condition = f"if {leaf}.grad is not None"
            if iterated and isinstance(iterated[0], ast.comprehension):
                yield (source.insert(iterated[0].iter, f" {condition}", after=True),)
            else:
                yield (source.insert(at, f"{condition}:{source.newline}{source.indent(at)}{source.unit}"),)
        yield from _require(source, at, fault, leaf)


def _require(source: EditableSource, at: ast.stmt, fault: GraphFault, leaf: str) -> Iterator[Edits]:
    """Let a tensor require grad before one of its uses in the function, if the change says so."""
    inside = [node for node in source.statements() if source.scope(node) is source.scope(at)]
    for statement in inside if id_of(fault.change) in ("empty.require", "target.require") else ():
        loaded = (node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Load))
        if isinstance(statement, ast.Expr | ast.Assign) and any(source.of(node) == leaf for node in loaded):
            yield (source.insert_before(statement, f"{leaf}.requires_grad_()"),)


def _ask(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Add the keyword that the change names to the call of `grad`, or let its inputs require grad."""
    yield from _with_keyword(source, at, fault)
    for call in calls(at):
        asked = call.args[1:2] if called(call) == "grad" else []
        for given in asked[0].elts if asked and isinstance(asked[0], ast.List | ast.Tuple) else asked:
            yield from _require(source, at, fault, source.of(given))


def _switch_back(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Restore the mode at the start of the loop that trains."""
    code, scope = code_in(fault), source.scope(at)
    owners = [name for call in calls(at) if (name := owner(source, call))]
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    parameters = [node.arg for node in arguments if node.arg != "self"]
    # A loop that calls this function knows the model by the argument that it passes.
    passed = [zip(parameters, call.args, strict=False) for call in calls_of(source.tree, getattr(scope, "name", ""))]
    given = [source.of(value) for pairs in passed for name, value in pairs if name in owners]
    texts = [code] if code else [f"{name}.train()" for name in dict.fromkeys([*given, *owners])]
    for statement in backwards(source, at):
        holders = [outer for outer in source.ancestors(statement) if isinstance(outer, BLOCKS)]
        for text, holder in itertools.product(texts, holders):
            # Another function does not know a local variable, and at the start of its own one it is not bound yet.
            name, place = text.partition(".")[0], source.scope(statement)
            is_foreign = place is not scope is not source.tree and name in names_bound(scope)
            if not is_foreign and not (holder is place and name in names_bound(holder)):
                yield (source.insert_before(holder.body[0], text),)


def _outside_no_grad(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    for block in source.enclosing(at, ast.With):
        if any(_is_switch(item.context_expr) for item in block.items):
            yield source.remove_header(block)


def _with_keyword(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Add the keyword that the change names to the call of `grad`, or to `autocast`; a graph also to later derivatives."""
    words = [f"{word}=True" for word in _SWITCHES.get(id_of(fault.change), ())]
    for call in calls(at):
        names = ["cache_enabled=False"] if called(call) == "autocast" else words if called(call) == "grad" else []
        yield from ((source.add_argument(call, name),) for name in names)
    if words == ["create_graph=True"]:
        later = [call for call in calls_of(source.scope(at), "grad") if call.lineno >= at.lineno]
        plain = [call for call in later if "create_graph=True" not in map(source.of, call.keywords)]
        yield tuple(source.add_argument(call, words[0]) for call in plain)


def _detach(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Compute a value again in the loop that uses it, or cut its history, as the change says: before the loop, or after backward."""
    yield from _with_keyword(source, at, fault)
    yield from _compute_in_reader(source, at)
    code = code_in(fault)
    # After another call, such as one for an inner gradient, it could cut the graph of this iteration.
    named = values_of(values_of(fault.sentence).get("place", ""))
    again = source.statements_at(named["line"]) if named.keys() == {"line"} and "detach" in code else []
    for backward in [backward for backward in backwards(source, at) if backward in again]:
        loop = next((outer for outer in source.ancestors(backward) if isinstance(outer, ast.For | ast.While)), at)
        if isinstance(loop, ast.For | ast.While) and loop not in source.ancestors(at):
            if source.stands_alone(at) and not _DRAWN.search(source.of(at)):
                yield (source.delete(at), source.insert_before(loop.body[0], source.of(at)))
            is_beside = source.scope(at) is source.scope(loop)
            yield (source.insert_after(at, code) if is_beside else source.insert_before(loop, code),)
        # A value of all iterations would train in the first only.
        if id_of(fault.change) == "backward.compute_or_detach":
            yield (source.insert_after(backward, code),)
    if id_of(fault.sentence) == BETWEEN_LOSSES:
        return  # neither loss would reach the parameters below the value
    if isinstance(at, ast.Assign) and isinstance(at.value, ast.Tuple):
        each = [source.append(value, ".detach()") for value in at.value.elts]
        yield from (tuple(each), *((edit,) for edit in each))
    elif isinstance(at, ast.Assign) and len(at.targets) == 1 and not isinstance(at.targets[0], ast.Tuple | ast.List):
        yield (source.append(at.value, ".detach()"),)


def _compute_in_reader(source: EditableSource, at: ast.stmt) -> Iterator[Edits]:
    """Compute an attribute that `__init__` computes in the method that reads it; local variables become attributes."""
    scope = source.scope(at)
    if not isinstance(at, ast.Assign) or getattr(scope, "name", "") != "__init__" or not source.stands_alone(at):
        return
    local = {argument.arg for argument in source.nodes(ast.arg, scope)} | names_bound(scope)
    used = [name for name in source.nodes(ast.Name, at.value) if name.id in local - {"self"}]
    text = source.apply_to(at, [source.insert(name, "self.") for name in used])
    lines = [f"self.{name} = {name}" for name in sorted({name.id for name in used})]
    kept = f"{source.newline}{source.indent(at)}".join(lines)
    for method in source.block(scope):  # type: ignore[arg-type]
        if isinstance(method, ast.FunctionDef) and method is not scope:
            readers = [reader for reader in method.body if source.of(at.targets[0]) in paths_in(reader, ast.Load)]
            here = source.replace(at, kept) if kept else source.delete(at)
            yield from ((here, source.insert_before(reader, text)) for reader in readers[:1])


def _copy_target(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Copy the values of a prediction where a target is another name of it."""
    code = code_in(fault)
    for made in source.nodes(ast.Assign):
        if isinstance(made.value, ast.Name) and f"{made.value.id}.detach().clone()" == code:
            yield (source.replace(made.value, code),)


def _detach_target(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Detach the target where a variable is bound to it."""
    if isinstance(at, ast.Assign) and isinstance(at.value, ast.BinOp):
        yield (source.replace(at.value, f"({source.of(at.value)}).detach()"),)


def _reparametrize(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Draw standard normal numbers instead of numbers of `torch.normal(mean, std)`."""
    for call in calls_of(at, "normal"):
        if len(call.args) == 2:
            mean, std = (source.operand(argument) for argument in call.args)
            drawn = f"{mean} + {std} * torch.randn_like({source.of(call.args[1])})"
            yield (source.replace(call, drawn if getattr(at, "value", None) is call else f"({drawn})"),)


def _leave_out(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Leave out a call of softmax or sigmoid."""
    for call in calls(at):
        if called(call) in ("softmax", "sigmoid"):
            is_function = ast.unparse(call.func).startswith(("F.", "torch.", "nn."))
            value = call.args[0] if is_function and call.args else getattr(call.func, "value", None)
            if value is not None:
                yield (source.replace(call, source.of(value)),)


def _take_logarithm(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Compute log_softmax in place of softmax, or take the logarithm of the result of another call."""
    for call in calls(at):
        function = source.of(call.func)
        if called(call) == "softmax":
            yield (source.replace(call.func, f"{function.removesuffix('softmax')}log_softmax"),)
        yield (source.append(call, ".log()"),)


def _clamp(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Replace values of 0 in front of a root or logarithm, whose derivative is infinite there."""
    for call in calls(at):
        if called(call) not in ("sqrt", "rsqrt", "log") or call.keywords:
            continue
        value = call.args[0] if call.args else getattr(call.func, "value", None)
        if value is not None:
            yield (source.append(value, ".clamp(min=1e-12)"),)


def _follow_rule(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Set the keyword that the rule is about: the dtype of a leaf, `sparse` of an embedding, `use_reentrant` of a checkpoint.

    Or call backward without a number, pass an optimizer the leaf itself, or let a closure return the loss.
    """
    rule = id_of(fault.change)
    for call in calls(at):
        if rule == "rule.give_tensor" and called(call) == "backward":
            yield tuple(source.replace(call, f"{source.of(call.func)}()") for _ in call.args[:1])
        if rule == "rule.pass_leaf" and isinstance(call.func, ast.Attribute):
            yield (source.replace(call, source.of(call.func.value)),)
        if rule == "rule.return_loss" and called(call) == "step":
            yield from _return_loss(source, [source.of(argument) for argument in call.args])
        if "requires_grad" in {keyword.arg for keyword in call.keywords}:
            yield (source.add_argument(call, "dtype=torch.float32"),)
    for keyword in source.nodes(ast.keyword, source.tree if rule == "rule.sparse_adam" else at):
        if keyword.arg in ("sparse", "use_reentrant"):
            yield (source.replace(keyword.value, "False"),)


def _return_loss(source: EditableSource, names: list[str]) -> Iterator[Edits]:
    """Return the tensor on which a function of this name calls backward."""
    for function in source.nodes(ast.FunctionDef):
        if function.name in names:
            losses = [source.of(method.value) for method in methods_called(function, "backward")]
            yield from ((source.insert_after(function.body[-1], f"return {loss}"),) for loss in losses)


def _call(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Call the method that a statement only names or sets, or the step of an optimizer after backward, first after its `zero_grad()`."""
    code = code_in(fault)
    if id_of(fault.change) != "call.add_step":
        yield (source.replace(at, code),)
        return
    clear = code.replace(".step()", ".zero_grad()")
    simple = [node for node in source.statements() if not hasattr(node, "body")]
    later = [source.after(node) for node in simple if clear in map(source.of, calls_of(node, "zero_grad"))]
    every = backwards(source, at)
    nearest = [node for block in later for node in block if node in every][:1]
    yield from ((source.insert_after(statement, code),) for statement in dict.fromkeys([*nearest, *every]))


def _require_gradient(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Let a tensor require grad where it is made, frozen parameters at the end of the block, or those of an optimizer."""
    if code := code_in(fault):
        yield (source.insert_after(at, code),)
        return
    for made, given in optimizers(source):
        text = source.of(given)
        if text.endswith(".parameters()"):
            yield (source.insert_before(made, f"{text.removesuffix('.parameters()')}.requires_grad_()"),)
    loop = source.parents[at]
    frozen = loop if isinstance(loop, ast.For) and loop.body == [at] else at
    last = source.block(frozen)[-1]
    insert = source.insert_before if isinstance(last, ast.Return) else source.insert_after
    yield (insert(last, source.dedented(frozen).replace("False", "True")),)


def _return_gradient(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Return the new gradient at the end of a hook."""
    scope = source.scope(at)
    if isinstance(scope, ast.FunctionDef):
        yield (source.insert_after(scope.body[-1], code_in(fault)),)


def _register_once(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the statement that registers a hook before the loop that calls backward."""
    for inner, loop in itertools.pairwise([at, *source.enclosing(at, ast.stmt)]):
        if isinstance(loop, ast.For | ast.While) and not set(backwards(source, at)).intersection(ast.walk(inner)):
            yield source.delete(inner), source.insert_before(loop, source.dedented(inner))


def _add_term(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Add the term that the change names to a loss on which a later statement of the block calls backward."""
    for backward in backwards(source, at):
        for method in methods_called(backward, "backward") if backward in source.after(at) else ():
            yield (source.replace(method.value, f"({source.of(method.value)} + {code_in(fault)})"),)


CHANGES: dict[str, Change] = {
    "penalty in no loss": _add_term,
    "method that is not called": _call,
    "loss without a graph": _require_gradient,
    "rule of autograd": _follow_rule,
    "nan or inf": _clamp,
    "derivative that is zero": _reparametrize,
    "target in the prediction's memory": _copy_target,
    "target with a graph": _detach_target,
    "softmax or sigmoid computed twice": _leave_out,
    "probabilities without a logarithm": _take_logarithm,
    "graph cut": _keep_history,
    "leaf lost": _update_in_place,
    "graph used again": _detach,
    "gradient of a tensor that is not a leaf": _retain,
    "gradient that is None": _fill,
    "tensor that a later line cannot use": _make_usable,
    "mode left on": _switch_back,
    "setting without effect": _call,
    "hook without a result": _return_gradient,
    "hook registered again": _register_once,
    "backward without recording": _outside_no_grad,
    "target not in the graph": _ask,
    "stale cast": _with_keyword,
}
"""By kind of a fault, the change to try."""
