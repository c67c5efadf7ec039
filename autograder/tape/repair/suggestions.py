"""Changes of the source for graph faults. Each is run before it is offered, unless there is no time."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import structs

from autograder.locale.messages import id_of
from autograder.tape.oracle.excerpt import Scope
from autograder.tape.recording.verdict_types import GraphFault, Verdict
from autograder.tape.repair.candidates import is_python
from autograder.tape.repair.edits import Edit, EditableSource, Edits, as_diff
from autograder.tape.repair.inplace_finder import called, called_in, calls, calls_of, is_whole_statement
from autograder.tape.repair.kinds.aliases import is_detached_in_place, remove_alias
from autograder.tape.repair.kinds.order import calls_backward
from autograder.tape.repair.names_in_code import names_bound, unbound_names
from autograder.tape.repair.repairs import can_be_imported, compared_part
from autograder.tape.repair.search import Prove
from autograder.tape.repair.trial.program_factory import ProgramFactory, factory_of_import
from autograder.tape.run.budget import current_budget
from autograder.tape.run.programs.program import Program

TRIED = 8  # maximum number of changes that are run for a fault
FAULTS = 3  # maximum number of faults for which changes are searched
# These calls return the values of their argument without its history.
UNWRAPPED = {"Variable", "tensor", "as_tensor", "from_numpy", "Parameter", "asarray", "float", "int", "deepcopy"}
NUMBERS = {"item", "tolist"}
_CODE = re.compile(r"`([^`]+)`")
_DRAWN = re.compile("rand|sample|normal|uniform")
_SWITCH = re.compile(r"\b(materialize_grads|create_graph|allow_unused)=True")
Proof = Callable[[Program], Verdict]
Change = Callable[[EditableSource, ast.stmt, GraphFault], Iterator[Edits]]


def with_suggestions(verdict: Verdict, factory: ProgramFactory, scope: Scope, prove: Prove | None) -> Verdict:
    """Return the verdict with a diff for each graph fault whose change is text. Without `prove`, it is the first change, not run."""
    if not verdict.graph_faults or factory.obstacle:
        return verdict
    part = compared_part(verdict) if verdict.excerpt else scope
    proof = (lambda program: prove(program, part)) if prove else None
    first, rest = verdict.graph_faults[:FAULTS], verdict.graph_faults[FAULTS:]
    faults = tuple(_with_diff(fault, factory, verdict, proof) for fault in first)
    return structs.replace(verdict, graph_faults=faults + rest, runs=current_budget().runs)


def _with_diff(fault: GraphFault, factory: ProgramFactory, verdict: Verdict, prove: Proof | None) -> GraphFault:
    holder = factory
    if fault.place.file != factory.file:
        if not can_be_imported(factory, fault.place.file):
            return fault
        holder = factory_of_import(factory.original, fault.place.file)
    alike = [one for one in verdict.graph_faults if (one.kind, one.place.file) == (fault.kind, fault.place.file)]
    for text in islice(_changed_texts(EditableSource(holder.source), fault, alike), TRIED):
        seen = None if prove is None or current_budget().is_spent else prove(holder.make(text))
        is_run = seen is not None and _fixes_fault(seen, fault, verdict)
        if seen is None or is_run or _is_undecided(seen, fault):
            diff = as_diff(holder.written(holder.source), holder.written(text), holder.file)
            code = as_diff(holder.source, text, holder.file) if holder.notebook else ""
            return structs.replace(fault, diff=diff, was_run=is_run, code=code)
    # The first fix explains an error without a change of its own.
    fix = next(iter(verdict.fixes), None) if verdict.error else None
    return structs.replace(fault, diff=fix.diff, was_run=True) if fix else fault


def _is_undecided(seen: Verdict, fault: GraphFault) -> bool:
    """Return whether the time limit ended the run of a change before an error or this kind of fault refuted it."""
    refuted = any(other.kind == fault.kind for other in seen.graph_faults) or (seen.error and seen.error.line)
    return current_budget().is_spent and not refuted


def _fixes_fault(seen: Verdict, fault: GraphFault, verdict: Verdict) -> bool:
    """Return whether the changed program is correct, without this kind of fault and without a new one."""
    part = verdict.excerpt
    if seen.excerpt and (seen.excerpt.last < part.last if part else not seen.excerpt.ended):
        return False  # the time limit ended the run before the part that shows the fault
    untrained = {tensor.name for other in seen.graph_faults for tensor in other.tensors if tensor.is_untrained}
    others = {other.kind for other in verdict.graph_faults} - {fault.kind}
    is_known = all(other.kind in others for other in seen.graph_faults)
    return seen.outcome == "correct" and is_known and not untrained & {tensor.name for tensor in fault.tensors}


def _changed_texts(source: EditableSource, fault: GraphFault, alike: list[GraphFault]) -> Iterator[str]:
    """Yield the changed sources for a fault, the smallest change first; then those for all faults of its kind together."""
    change, seen = CHANGES.get(fault.kind), {source.text}
    if change is None:
        return

    def edits_for(fault: GraphFault) -> list[Edits]:
        return [edits for at in source.statements_at(fault.place.line) for edits in change(source, at, fault)]

    joint = [sum(edits, ()) for edits in zip(*map(edits_for, alike), strict=False)] if len(alike) > 1 else []
    unbound = unbound_names(source.text)
    for edits in (*edits_for(fault), *joint):
        text = source.apply(edits)
        if text is not None and text not in seen and is_python(text):
            seen.add(text)
            # A message may name a tensor by a variable of another function or file.
            if unbound_names(text) <= unbound:
                yield text


def _code_in(fault: GraphFault) -> str:
    """Return the code that the change of a fault suggests, or "" without one."""
    found = _CODE.search(fault.change)
    return found[1] if found else ""


def _keep_history(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Remove the calls that take values out of the graph, and the calls below that make new leaves of these values."""
    if ".data at" in fault.sentence:
        return  # copies that are updated: the update has to change, too
    yield from _with_keyword(source, at, fault)
    below = [one for one in source.statements() if one.lineno > at.lineno or source.scope(one) is not source.scope(at)]
    leaves = tuple(edit for statement in below for edit in _no_leaf(source, statement))
    here = _uncuts(source, at)
    is_same = isinstance(at, ast.Assign) and here and source.apply_to(at.value, here) == source.of(at.targets[0])
    if is_same or is_detached_in_place(at):
        here = (source.delete(at),)  # else it would be `h = h` or `h`
    for edits in (*([(*here[:1], *leaves), (*here, *leaves)] if leaves else []), *((edit,) for edit in here), here):
        yield tuple(edits)
    for call in calls(at):
        if source.of(call.func).startswith("math."):
            yield (source.replace(call.func, f"torch.{called(call)}"), *leaves)
    for call in calls_of(at, "tensor", "as_tensor", "Tensor"):
        if call.args:
            yield (source.replace(call, f"torch.stack({source.of(call.args[0])})"), *leaves)
    yield from ((*edits, *leaves) for edits in _outside_no_grad(source, at, fault))
    for outer in source.ancestors(at):
        for node in outer.decorator_list if isinstance(outer, ast.FunctionDef) else ():
            if _is_switch(node):
                start, stop = source.starts[node.lineno - 1], source.line_break(source.span(node)[1]) + 1
                yield (Edit(start, stop, ""),)


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
    text = source.apply_to(inner, _uncuts(source, inner))
    is_list = isinstance(inner, ast.List | ast.ListComp) and called(node) != "deepcopy"  # type: ignore[arg-type]
    plain = text if source.factor(inner)[0] != "(" else f"({text})"
    return source.replace(node, f"torch.stack({text})" if is_list else plain)


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
    code = _code_in(fault)
    if not code or not isinstance(at, ast.Assign):
        return
    name, inside = source.of(at.targets[0]), any(isinstance(node, ast.With) for node in source.ancestors(at))
    text = code if inside else f"with torch.no_grad():\n{source.unit}{code}"
    lines = "\n".join([text, f"{name}.grad = None"]).splitlines()
    indented = f"{source.newline}{source.indent(at)}".join(lines)
    yield (source.replace(at, indented.rpartition(source.newline)[0]),)
    yield (source.replace(at, indented),)


def _retain(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Insert `h.retain_grad()` before the backward call above the line that reads `h.grad`."""
    for node in source.nodes(ast.Attribute, at):
        for statement in _backwards(source, at) if node.attr == "grad" else ():
            yield (source.insert_before(statement, f"{source.of(node.value)}.retain_grad()"),)


def _make_leaf(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Make a leaf of the result of the line, where the change says so."""
    if _code_in(fault).endswith("requires_grad_()") and isinstance(at, ast.Assign):
        yield (source.replace(at.value, f"{source.operand(at.value)}{_code_in(fault)}"),)


def _fill(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Skip the parameters without a gradient, or let a tensor require grad before its first use in the function."""
    loops = [node for node in source.ancestors(at) if isinstance(node, ast.For)]
    for attribute in [node for node in source.nodes(ast.Attribute, at) if node.attr == "grad"]:
        owner = source.of(attribute.value)
        inside = [part for node in source.ancestors(attribute) for part in getattr(node, "generators", ())]
        iterated = [part for part in (*inside, *loops) if owner in names_bound(part.target)]
        advice = id_of(fault.change)
        if advice == "empty.skip" or (advice == "empty.require" and iterated):
            condition = f"if {owner}.grad is not None"
            if iterated and isinstance(iterated[0], ast.comprehension):
                yield (source.insert(iterated[0].iter, f" {condition}", after=True),)
            else:
                yield (source.insert(at, f"{condition}:{source.newline}{source.indent(at)}{source.unit}"),)
        yield from _require(source, at, fault, owner)


def _require(source: EditableSource, at: ast.stmt, fault: GraphFault, owner: str) -> Iterator[Edits]:
    """Let a tensor require grad before one of its uses in the function, if the change says so."""
    inside = [one for one in source.statements() if source.scope(one) is source.scope(at)]
    for statement in inside if id_of(fault.change) in ("empty.require", "target.require") else ():
        loaded = (node for node in ast.walk(statement) if isinstance(getattr(node, "ctx", None), ast.Load))
        if isinstance(statement, ast.Expr | ast.Assign) and any(source.of(node) == owner for node in loaded):
            yield (source.insert_before(statement, f"{owner}.requires_grad_()"),)


def _ask(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Add the keyword that the change names to the call of `grad`, or let its inputs require grad."""
    yield from _with_keyword(source, at, fault)
    for call in (call for call in calls(at) if called(call) == "grad" and len(call.args) > 1):
        inputs = call.args[1].elts if isinstance(call.args[1], ast.List | ast.Tuple) else [call.args[1]]
        for given in inputs:
            yield from _require(source, at, fault, source.of(given))


def _backwards(source: EditableSource, at: ast.stmt) -> list[ast.stmt]:
    """Return the statements that call backward, the last one above `at` first."""
    simple = [one for one in source.statements() if isinstance(one, ast.Expr | ast.Assign) and calls_backward(one)]
    return sorted(simple, key=lambda statement: (statement.lineno > at.lineno, -statement.lineno))


def _switch_back(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Restore the mode at the start of the loop that trains."""
    code, scope = _code_in(fault), source.scope(at)
    owners = [source.of(call.func.value) for call in calls(at) if isinstance(call.func, ast.Attribute)]
    parameters = [one.arg for one in scope.args.args if one.arg != "self"] if isinstance(scope, ast.FunctionDef) else []
    # A loop that calls this function knows the model by the argument that it passes.
    passed = [zip(parameters, call.args, strict=False) for call in calls_of(source.tree, getattr(scope, "name", ""))]
    given = [source.of(value) for pairs in passed for name, value in pairs if name in owners]
    texts = [code] if code else [f"{owner}.train()" for owner in dict.fromkeys([*given, *owners])]
    for statement in _backwards(source, at):
        holders = [one for one in source.ancestors(statement) if isinstance(one, ast.For | ast.While | ast.FunctionDef)]
        for text, holder in ((text, holder) for text in texts for holder in holders):
            # Another function does not know a local variable, and at the start of its own one it is not bound yet.
            name, place = text.partition(".")[0], source.scope(statement)
            is_foreign = place is not scope is not source.tree and name in names_bound(scope)
            if not is_foreign and not (holder is place and name in names_bound(holder)):
                yield (source.insert_before(holder.body[0], text),)


def _outside_no_grad(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    for node in source.ancestors(at):
        if isinstance(node, ast.With) and any(_is_switch(item.context_expr) for item in node.items):
            yield source.remove_header(node)


def _with_keyword(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Add the keyword that the change names to the call of `grad`, or to `autocast`."""
    words = [f"{word}=True" for word in _SWITCH.findall(fault.change)]
    for call in calls(at):
        names = ["cache_enabled=False"] if called(call) == "autocast" else words if called(call) == "grad" else []
        yield from ((source.add_argument(call, name),) for name in names)


def _optimizers(source: EditableSource) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Yield the statements that make an optimizer whose `step()` is called, with the argument that has its parameters."""
    methods = [call.func for call in calls_of(source.tree, "step") if isinstance(call.func, ast.Attribute)]
    stepped = {ast.unparse(method.value) for method in methods}
    for node in source.nodes(ast.Assign):
        if isinstance(node.value, ast.Call) and node.value.args and ast.unparse(node.targets[0]) in stepped:
            yield node, node.value.args[0]


def _make_optimizer_later(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the optimizer below the model that it should hold, or pass it the parameters of that model."""
    roots = dict.fromkeys(tensor.name.partition(".")[0] for tensor in fault.tensors if not tensor.is_untrained)
    for made, given in _optimizers(source):
        block, name = source.block(made), ast.unparse(made.targets[0])
        users = [statement for statement in block[block.index(made) + 1 :] if name in ast.unparse(statement)]
        for root in ("", *roots):
            text = source.of(made)
            if root and (old := next(iter(source.nodes(ast.Name, given)), None)) is not None:
                text = source.apply_to(made, [source.replace(old, root)])
            yield from ((source.delete(made), source.insert_before(user, text)) for user in users[:1])
    yield from _hold_others(source, at, fault)


def _hold(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Register layers or parameters of a list in their module, or make a module before the optimizer and pass it its parameters."""
    value = getattr(at, "value", None)
    is_tensor = id_of(fault.change) == "optimizer.make_parameter"
    kind = "Parameter" if is_tensor or (value is not None and "Parameter(" in source.of(value)) else "Module"
    if isinstance(value, ast.Call) and called(value) == "append" and isinstance(value.func, ast.Attribute):
        lists = [one for one in source.bindings(source.of(value.func.value)) if isinstance(one.value, ast.List)]
        yield from ((source.replace(made.value, f"torch.nn.{kind}List()"),) for made in lists)
    yield from _hold_others(source, at, fault)
    if not isinstance(at, ast.Assign) or value is None:
        return
    if is_tensor and isinstance(value, ast.Call):
        yield (source.insert(value, "torch.nn.Parameter("), source.insert(value, ")", after=True))
    container = {ast.List: "List", ast.ListComp: "List", ast.Dict: "Dict", ast.DictComp: "Dict"}
    if type(value) in container:
        yield (
            source.insert(value, f"torch.nn.{kind}{container[type(value)]}("),
            source.insert(value, ")", after=True),
        )
    targets = at.targets[0].elts if isinstance(at.targets[0], ast.Tuple) else at.targets[:1]
    names = [source.of(target) for target in targets]
    for made, given in _optimizers(source):
        for held in (text for name in names for text in (f"*{name}.parameters()", name)):
            edit = source.replace(given, f"[*{source.of(given)}, {held}]")
            yield (edit,)
            if source.stands_alone(at):
                yield (source.delete(at), source.insert_before(made, source.of(at)), edit)


def _hold_others(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Make the optimizer that steps at a line from the module of the parameters that no optimizer holds."""
    steps = {_owner(source, call) for call in calls_of(at, "step")}
    root = os.path.commonprefix([tensor.name.split(".")[:-1] for tensor in fault.tensors])
    for made, given in _optimizers(source) if root else ():
        if ast.unparse(made.targets[0]) in steps:
            yield (source.replace(given, f"{'.'.join(root)}.parameters()"),)


def _step_first(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move `zero_grad()` below the step, or the step above the line that replaces a parameter."""
    around = [at, *(node for node in source.ancestors(at) if isinstance(node, ast.If))]
    statements = [statement for statement in source.statements() if isinstance(statement, ast.Expr)]
    steps = [statement for statement in statements if "step" in called_in(statement)]
    for clear in (statement for statement in statements if "zero_grad" in called_in(statement)):
        if at in steps:
            yield (source.delete(clear), source.insert_after(at, source.of(clear)))
    for step in steps:
        for outer in around:
            if isinstance(outer, ast.stmt) and source.block(outer) is source.block(step) and outer.lineno < step.lineno:
                yield (source.delete(step), source.insert_before(outer, source.of(step)))


def _clip_later(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the call that clips gradients directly below the backward that fills them."""
    for last in _backwards(source, at):
        if source.block(last) is source.block(at) and isinstance(at, ast.Expr):
            yield (source.delete(at), source.insert_after(last, source.of(at)))


def _clear(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Clear the gradients before backward, or after the update that uses them."""
    code, names = _code_in(fault), _names_of_optimizers(source, at)
    named = code.removesuffix(".zero_grad()")
    # The optimizer that the change names, or else the one whose step comes next, is most likely the right one.
    for name in sorted(names, key=lambda name: name != named):
        yield (source.insert_before(at, f"{name}.zero_grad()"),)
    leaf = code.partition(".grad")[0]
    updates = [one for one in source.statements() if f"{leaf}.grad" in ast.unparse(one) and not hasattr(one, "body")]
    yield from ((source.insert_after(update, code),) for update in updates if leaf and update is not at)


def _names_of_optimizers(source: EditableSource, at: ast.stmt) -> list[str]:
    """Return the names of optimizers whose `step()` is called; first the one whose step comes next after a line.

    An optimizer is made in this file, or its step without arguments is in the function of the line.
    """
    # A scheduler has the method, too.
    bound = [one for one in source.nodes(ast.Assign) if "scheduler" not in ast.unparse(one.value).lower()]
    texts = [ast.unparse(one) for one in bound if "optim" in ast.unparse(one.value)]
    targets = {name for text in texts for name in text.partition(" = ")[0].strip("()").split(", ")}
    made = {ast.unparse(one.targets[0]) for one, _ in _optimizers(source) if one in bound}
    steps = sorted(calls_of(source.tree, "step"), key=lambda call: (call.lineno < at.lineno, call.lineno))
    known = made | targets | {_owner(source, step) for step in _steps_beside(source, at)}
    return [name for name in dict.fromkeys(_owner(source, step) for step in steps) if name in known]


def _owner(source: EditableSource, call: ast.Call) -> str:
    return source.of(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def _steps_beside(source: EditableSource, at: ast.stmt) -> list[ast.Call]:
    """Return the calls of `step()` in the function of a statement, without those of schedulers and of environments."""
    function = source.scope(at)
    steps = calls_of(function, "step") if function is not source.tree else ()
    return [one for one in steps if not one.args and "sched" not in _owner(source, one).lower()]


def _write(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Store a result that is not used: add the underscore of an in-place method, or run the statement that the change names."""
    if code := _code_in(fault):
        yield (source.replace(at, code),)
        yield (source.replace(at, f"with torch.no_grad():\n{source.indent(at)}    {code}"),)
    for call in calls(at):
        if isinstance(call.func, ast.Attribute) and is_whole_statement(at, call):
            yield (source.insert(call.func, "_", after=True),)


def _detach(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Compute a value again in the loop that uses it, or cut its history, as the change says: before the loop, or after backward."""
    code = _code_in(fault)
    for statement in _backwards(source, at) if "detach" in code else ():
        loop = next((one for one in source.ancestors(statement) if isinstance(one, ast.For | ast.While)), at)
        if isinstance(loop, ast.For | ast.While) and loop not in source.ancestors(at):
            if source.stands_alone(at) and not _DRAWN.search(source.of(at)):
                yield (source.delete(at), source.insert_before(loop.body[0], source.of(at)))
            yield (source.insert_after(at, code),)
        yield (source.insert_after(statement, code),)
    if isinstance(at, ast.Assign) and isinstance(at.value, ast.Tuple):
        each = [source.replace(value, f"{source.operand(value)}.detach()") for value in at.value.elts]
        yield from (tuple(each), *((edit,) for edit in each))
    elif isinstance(at, ast.Assign) and len(at.targets) == 1 and not isinstance(at.targets[0], ast.Tuple | ast.List):
        yield (source.replace(at.value, f"{source.operand(at.value)}.detach()"),)


def _copy_target(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Copy the values of a prediction where a target is another name of it."""
    code = _code_in(fault)
    for made in source.nodes(ast.Assign):
        if isinstance(made.value, ast.Name) and f"{made.value.id}.detach().clone()" == code:
            yield (source.replace(made.value, code),)


def _clamp(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Replace values of 0 in front of a root or logarithm, whose derivative is infinite there."""
    for call in (one for one in calls(at) if called(one) in ("sqrt", "rsqrt", "log") and not one.keywords):
        value = call.args[0] if call.args else getattr(call.func, "value", None)
        if value is not None:
            yield (source.replace(value, f"{source.operand(value)}.clamp(min=1e-12)"),)


def _follow_rule(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Set the keyword that the rule is about: the dtype of a leaf, `sparse` of an embedding, `use_reentrant` of a checkpoint."""
    for call in calls(at):
        if "requires_grad" in {keyword.arg for keyword in call.keywords}:
            yield (source.add_argument(call, "dtype=torch.float32"),)
    for keyword in source.nodes(ast.keyword, source.tree if id_of(fault.change) == "rule.sparse_adam" else at):
        if keyword.arg in ("sparse", "use_reentrant"):
            yield (source.replace(keyword.value, "False"),)


def _call(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Call the method that a statement only names, or the step of an optimizer after backward."""
    code = _code_in(fault)
    if isinstance(at, ast.Expr):
        yield (source.replace(at, code),)
    else:
        yield from ((source.insert_after(statement, code),) for statement in _backwards(source, at))


def _require_gradient(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Let a tensor require grad where it is made, or the parameters of an optimizer before that is made."""
    if code := _code_in(fault):
        yield (source.insert_after(at, code),)
        return
    for made, given in _optimizers(source):
        text = source.of(given)
        if text.endswith(".parameters()"):
            yield (source.insert_before(made, f"{text.removesuffix('.parameters()')}.requires_grad_()"),)


CHANGES: dict[str, Change] = {
    "method that is not called": _call,
    "loss without a graph": _require_gradient,
    "rule of autograd": _follow_rule,
    "nan or inf": _clamp,
    "target in the prediction's memory": _copy_target,
    "graph cut": _keep_history,
    "leaf lost": _update_in_place,
    "graph used again": _detach,
    "gradient of a tensor that is not a leaf": _retain,
    "gradient that is None": _fill,
    "tensor that a later line cannot use": _make_leaf,
    "mode left on": _switch_back,
    "backward without recording": _outside_no_grad,
    "target not in the graph": _ask,
    "stale cast": _with_keyword,
    "optimizer of other parameters": _make_optimizer_later,
    "gradient that no optimizer uses": _hold,
    "gradient cleared before the step": _step_first,
    "gradients clipped before backward": _clip_later,
    "gradient not cleared": _clear,
    "gradient of another loss": _clear,
    "step without effect": _write,
}
"""By kind of a graph fault, the changes to try."""
