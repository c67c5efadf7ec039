"""Changes of the source for faults of optimizers: their parameters, the order of steps, and the clearing of gradients."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Callable, Iterator

import torch

from autograder.locale.messages import id_of
from autograder.tape.recording.verdict_types import GraphFault
from autograder.tape.repair.code_reader import called, called_in, calls_of, methods_called, owner, sole_call
from autograder.tape.repair.edits import Edit, EditableSource, Edits
from autograder.tape.repair.kinds.order import calls_backward, with_inputs

_CODE = re.compile(r"`([^`]+)`")
Change = Callable[[EditableSource, ast.stmt, GraphFault], Iterator[Edits]]


def code_in(fault: GraphFault) -> str:
    """Return the code that the change of a fault suggests, or "" without one."""
    match = _CODE.search(fault.change)
    return match[1] if match else ""


def backwards(source: EditableSource, at: ast.stmt) -> list[ast.stmt]:
    """Return the statements that call backward, the last one above `at` first."""
    simple = [node for node in source.statements() if isinstance(node, ast.Expr | ast.Assign) and calls_backward(node)]
    return sorted(simple, key=lambda statement: (statement.lineno > at.lineno, -statement.lineno))


def optimizers(source: EditableSource) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Yield the statements that make an optimizer whose `step()` is called, with the argument that has its parameters.

    A function to which it is passed may call it by another name.
    """
    stepped = _stepped(source)
    given = (node for call in source.nodes(ast.Call) for node in (*call.args, *(key.value for key in call.keywords)))
    passed = {source.of(node) for node in given if isinstance(node, ast.Name | ast.Attribute)}
    for node in source.nodes(ast.Assign):
        name = ast.unparse(node.targets[0])
        if isinstance(node.value, ast.Call):
            is_passed = name in passed and hasattr(torch.optim, called(node.value))
            lists = [*node.value.args[:1], *(key.value for key in node.value.keywords if key.arg == "params")]
            if lists and (name in stepped or is_passed):
                yield node, lists[0]


def _stepped(source: EditableSource) -> set[str]:
    return {ast.unparse(method.value) for method in methods_called(source.tree, "step")}


def _make_optimizer_later(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the optimizer below the model that it should hold, or pass it the parameters of that model."""
    roots = dict.fromkeys(tensor.name.partition(".")[0] for tensor in fault.tensors if not tensor.is_untrained)
    for made, given in optimizers(source):
        name = ast.unparse(made.targets[0])
        users = [statement for statement in source.after(made) if name in ast.unparse(statement)]
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
        made_here = source.bindings(source.of(value.func.value))
        lists = [made.value for made in made_here if isinstance(made.value, ast.List)]
        yield from ((source.replace(empty, f"torch.nn.{kind}List()"),) for empty in lists)
    yield from _hold_others(source, at, fault)
    if isinstance(value, ast.Call) and called(value) == "register_buffer" and len(value.args) == 2:
        owner, name = source.of(value.func).rpartition(".")[0], str(getattr(value.args[0], "value", ""))
        yield (source.replace(at, f"{owner}.{name} = torch.nn.Parameter({source.of(value.args[1])})"),)
    if not isinstance(at, ast.Assign) or value is None:
        return
    containers = {ast.List: "List", ast.ListComp: "List", ast.Dict: "Dict", ast.DictComp: "Dict"}
    suffix = "" if is_tensor and isinstance(value, ast.Call) else containers.get(type(value))
    if suffix is not None:
        yield (source.insert(value, f"torch.nn.{kind}{suffix}("), source.insert(value, ")", after=True))
    targets = at.targets[0].elts if isinstance(at.targets[0], ast.Tuple) else at.targets[:1]
    names = [source.of(target) for target in targets]
    for made, given in optimizers(source):
        present = {source.of(node) for node in source.nodes(ast.expr, given)}
        missing = [name for name in names if name not in present]
        for name, form in itertools.product(missing, ("*{}.parameters()", "{}")):
            edit = source.replace(given, f"[*{source.of(given)}, {form.format(name)}]")
            yield (edit,)
            if source.stands_alone(at):
                yield (source.delete(at), source.insert_before(made, source.of(at)), edit)


def _hold_others(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Make the optimizer that steps at a line from the module of the parameters that no optimizer holds.

    Of two optimizers with the same parameters, the one whose name resembles the module's is most likely wrong.
    """
    steps = {owner(source, call) for call in calls_of(at, "step")}
    others = _stepped(source) - steps if id_of(fault.change) != "optimizer.pass_other" else set()
    attributes = {source.of(node) for node in source.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)}
    ranked = list[tuple[bool, Edits]]()
    for made, given in optimizers(source) if steps else ():
        name, lists = ast.unparse(made.targets[0]), calls_of(given, "parameters")
        held = tuple(f"{owner(source, call)}." for call in lists)
        names = [tensor.name.split(".")[:-1] for tensor in fault.tensors if not tensor.name.startswith(held)]
        root = os.path.commonprefix(names)
        inside = (f"self.{'.'.join(root[start:])}" for start in range(len(root)))
        module = next((path for path in inside if path in attributes), ".".join(root))
        if root and name not in others:
            changed = lists[0].func.value if len(lists) == 1 else given  # type: ignore[attr-defined]
            text = module if changed is not given else f"{module}.parameters()"
            ranked.append((_resembles(name, root[-1]), (source.replace(changed, text),)))
    yield from (edits for _, edits in sorted(ranked, key=lambda item: not item[0]))


def _resembles(name: str, module: str) -> bool:
    """Return whether a name has a word of the name of a module, or its first letter, as `opt_d` and `optimD`."""
    words, others = ({word.lower() for word in re.findall("[A-Z]?[a-z]+|[A-Z]", text)} for text in (name, module))
    return not words.isdisjoint({*others, module[0].lower()})


def _step_first(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the step below its backward, `zero_grad()` below the step, or the step above the line that replaces a parameter."""
    around = [at, *source.enclosing(at, ast.If)]
    lines = [statement for statement in source.statements() if isinstance(statement, ast.Expr)]
    steps, clears = ([line for line in lines if method in called_in(line)] for method in ("step", "zero_grad"))
    fills = next(filter(calls_backward, source.after(at)), None) if at in steps else None
    if fills is not None and not any(map(calls_backward, source.before(at))):
        yield (source.delete(at), source.insert_after(fills, source.of(at)))
    for clear in clears if at in steps else ():
        yield (source.delete(clear), source.insert_after(at, source.of(clear)))
    for step, outer in itertools.product(steps, around) if id_of(fault.change) == "optimizer.replace_after" else ():
        if outer in source.before(step):
            yield (source.delete(step), source.insert_before(outer, source.of(step)))


def _clip_later(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Move the call that clips gradients, with an `if` around it, below the backward that fills them, or undo their scale before it."""
    if code := code_in(fault):
        yield (source.insert_before(at, code),)
    holder = source.parents[at]
    alone = [holder] if isinstance(holder, ast.If) and holder.body == [at] and not holder.orelse else []
    for moved in (at, *alone) if isinstance(at, ast.Expr) else ():
        for last in backwards(source, at):
            if source.block(last) is source.block(moved):
                yield (source.delete(moved), source.insert_after(last, source.dedented(moved)))


def _step_by_scaler(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Let the scaler make the step, and update its factor."""
    code = code_in(fault)
    yield source.replace(at, code), source.insert_after(at, f"{code.rpartition('.step(')[0]}.update()")


def _separate(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Restrict a backward call to the parameters of a later step, or clear the gradients before it."""
    if id_of(fault.change) == "optimizer.restrict":
        yield from ((edit,) for edit in with_inputs(source, at, steps=3))
    else:
        yield from _clear(source, at, fault)


def _clear(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Clear the gradients before backward, or after the update that uses them."""
    code, names = code_in(fault), _names_of_optimizers(source, at)
    named = code.removesuffix(".zero_grad()")
    # The optimizer that the change names, or else the one whose step comes next, is most likely the right one.
    # In a loop around backward alone, a later iteration would clear gradients that the step needs.
    around = [loop for loop in source.loops(at) if not calls_of(loop, "step")]
    for name in sorted(names, key=lambda name: name != named):
        yield from ((source.insert_before(place, f"{name}.zero_grad()"),) for place in [*around[-1:], at])
    simple = [node for node in source.statements() if node is not at and not hasattr(node, "body")]
    yield tuple(source.insert_after(node, f"{leaf}.grad = None") for node in simple if (leaf := _updated_leaf(node)))
    # Several backward calls may be meant to add up before each step.
    for step in source.statements():
        call = re.fullmatch(r"([\w.]+)\.step\(([\w.]*)\)", source.of(step)) if isinstance(step, ast.Expr) else None
        name = (call[2] or call[1]) if call else ""
        if name in names:
            yield (source.insert_after(step, f"{name}.zero_grad()"),)
    leaf = code.partition(".grad")[0]
    yield from ((source.insert_after(node, code),) for node in simple if leaf and f"{leaf}.grad" in ast.unparse(node))


def _updated_leaf(statement: ast.stmt) -> str:
    """Return the leaf that a statement updates with its own gradient, as `w` in `w -= 0.1 * w.grad`, or ""."""
    nodes = list(ast.walk(statement))
    read = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == "grad"]
    names = [ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute | ast.Subscript)]
    return next((leaf for leaf in map(ast.unparse, read) if names.count(leaf) > 1), "")


def _names_of_optimizers(source: EditableSource, at: ast.stmt) -> list[str]:
    """Return the names of optimizers whose `step()` is called; first the one whose step comes next after a line.

    An optimizer is made in this file, or its step without arguments is in the function of the line.
    """
    # A scheduler also has the method.
    bound = [node for node in source.nodes(ast.Assign) if "scheduler" not in ast.unparse(node.value).lower()]
    texts = [ast.unparse(node) for node in bound if "optim" in ast.unparse(node.value)]
    targets = {name for text in texts for name in text.partition(" = ")[0].strip("()").split(", ")}
    made = {ast.unparse(node.targets[0]) for node, _ in optimizers(source) if node in bound}
    steps = sorted(calls_of(source.tree, "step"), key=lambda call: (call.lineno < at.lineno, call.lineno))
    function = source.scope(at)
    beside = [step for step in calls_of(function, "step") if function is not source.tree and not step.args]
    known = made | targets | {name for step in beside if "sched" not in (name := owner(source, step)).lower()}
    given = (source.of(step.args[0]) if step.args else "" for step in steps)  # `scaler.step(optimizer)`
    owners = (name if name in known else owner(source, step) for name, step in zip(given, steps, strict=True))
    return [name for name in dict.fromkeys(owners) if name in known]


def _write(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Store a result that is not used: add the underscore of an in-place method, or run the statement that the change names."""
    if code := code_in(fault):
        yield (source.replace(at, code),)
        yield (source.replace(at, f"with torch.no_grad():\n{source.indent(at)}    {code}"),)
    call = sole_call(at)
    if call is not None and isinstance(call.func, ast.Attribute):
        yield (source.insert(call.func, "_", after=True),)


def _make_list(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Bind the variable to a list of the items of its iterator."""
    name = code_in(fault).partition(" = ")[0]
    yield from ((source.replace(made.value, f"list({source.of(made.value)})"),) for made in source.bindings(name))


def _copy_state(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Copy the values where a state is kept, or the module of which a target network has the parameters."""
    if not calls_of(at, "state_dict"):
        yield from ((_cloned(source, call),) for call in calls_of(source.tree, "state_dict"))
        return
    for call in calls_of(at, "load_state_dict"):
        target = source.of(call.func).rpartition(".")[0]
        for made in source.bindings(target):
            if source.block(made) is source.block(at) and made.lineno > at.lineno:
                yield (source.delete(made),)  # `target = net` after the copy
            shallow = next(iter(calls_of(made, "copy")), None)
            if shallow is not None or isinstance(made.value, ast.Name | ast.Attribute):
                value = shallow.args[0] if shallow is not None and shallow.args else made.value
                yield (source.replace(made.value, f"copy.deepcopy({source.of(value)})"),)


def _cloned(source: EditableSource, call: ast.Call) -> Edit:
    """Return the edit that copies the values of a state."""
    return source.replace(call, f"{{name: value.clone() for name, value in {source.of(call)}.items()}}")


def _copy_values(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Copy the values that a line keeps, or that it gives to another tensor."""
    given = [argument for call in calls_of(at, "append") for argument in call.args]
    variables = [argument for argument in given if isinstance(argument, ast.Name | ast.Attribute)]
    yield from ((source.insert(variable, ".clone()", after=True),) for variable in variables)
    yield from ((_cloned(source, call),) for call in calls_of(at, "state_dict"))
    yield from ((source.insert(call, ".clone()", after=True),) for call in calls_of(at, "detach"))
    for node in source.nodes(ast.Attribute, at):
        if node.attr == "data" and isinstance(node.ctx, ast.Load):
            yield (source.insert(node, ".clone()", after=True),)
        elif node.attr == "data" and isinstance(at, ast.Assign):
            yield (source.replace(at, f"{source.of(node)}.copy_({source.of(at.value)})"),)


def _assign_parameter(source: EditableSource, at: ast.stmt, fault: GraphFault) -> Iterator[Edits]:
    """Assign a parameter itself instead of its values."""
    if isinstance(at, ast.Assign) and len(at.targets) == 1:
        value = at.value.args[0] if isinstance(at.value, ast.Call) and at.value.args else at.value
        parameter = source.of(value).removesuffix(".detach()").removesuffix(".data")
        yield (source.replace(at, f"{source.of(at.targets[0]).removesuffix('.data')} = {parameter}"),)


CHANGES: dict[str, Change] = {
    "two parameters in one memory": _assign_parameter,
    "optimizer of other parameters": _make_optimizer_later,
    "gradient that no optimizer uses": _hold,
    "gradient cleared before the step": _step_first,
    "gradients clipped before backward": _clip_later,
    "scaled gradient in a step": _step_by_scaler,
    "gradient not cleared": _clear,
    "gradient of another loss": _separate,
    "step without effect": _write,
    "iterator that is used up": _make_list,
    "copy onto itself": _copy_state,
    "values without a copy": _copy_values,
}
"""By kind of a fault, the change to try."""
