"""Find updates without effect, and values without a copy that an update changes as well.

Some results are not used: steps without effect, updates that are not stored, used-up iterators, penalties in no loss. Values
that are kept without a copy have the memory of a parameter, so each step of the optimizer changes them as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import ITS_PARAMETERS, fault_kind, name_of
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

_OUT_OF_PLACE = {"add", "sub", "mul", "div", "addcdiv", "addcmul", "clamp", "clip", "nan_to_num"}


@fault_kind("step without effect", after_error=False)
def without_effect(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the steps of an optimizer that changed no parameter in any step, although a gradient was not zero."""
    for steps in evidence.state.flow.steps.idle.found.values():
        if not steps or any(step.is_rounded for step in steps):
            continue
        # A warm-up may start with a learning rate of zero.
        if not steps[0].has_rate and (len(steps) == 1 or evidence.runs.excerpt is not None):
            continue
        effect = "optimizer.no_rate|no step changes {names}, because the learning rate is 0."
        change = "optimizer.set_rate|Set a learning rate above 0."
        if steps[0].has_rate:
            effect = "optimizer.no_step_changes|no step that was recorded changes {names}, although its gradient is not zero."
            change = "optimizer.write|Write the new values into the parameters in place, under torch.no_grad()."
        leaves, place = steps[0].parameters, steps[0].place
        yield without_effect.about(evidence.state, leaves, place, effect, change, nameless=ITS_PARAMETERS)
    yield from _not_stored(evidence)


def _not_stored(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements of loops that compute an update and do not store it, without those of steps without effect."""
    idle = evidence.state.flow.steps.idle.found.values()
    known = {(steps[0].place.file, steps[0].place.line) for steps in idle if steps}
    loops = evidence.nodes(ast.For, ast.While)
    statements = {node: file for file, loop in loops for node in ast.walk(loop) if isinstance(node, ast.Expr)}
    for statement, file in statements.items():
        update = _as_update(statement.value)
        if update and (file, statement.lineno) not in known:
            code = ast.unparse(statement)
            yield without_effect.at(
                Place(file, statement.lineno, code),
                "optimizer.not_stored|`{code}` computes new values and stores them nowhere.",
                "optimizer.store|Write them in place, under torch.no_grad() if needed: `{update}`.",
                code=code, update=update,
            )  # fmt: skip


def _as_update(value: ast.expr) -> str:
    """Return the statement that stores the result of `w - 0.1 * w.grad` or `w.grad.clamp(-1, 1)` in `w`; "" for another expression."""
    match value:
        case ast.BinOp(left=ast.Name() | ast.Attribute() as left, op=ast.Add() | ast.Sub() as sign, right=right):
            update = f"{ast.unparse(left)} {'-' if isinstance(sign, ast.Sub) else '+'}= {ast.unparse(right)}"
        case ast.Call(func=ast.Attribute(attr=name, value=owner), args=given) if name in _OUT_OF_PLACE:
            if ast.unparse(owner) == "torch" and given:  # the tensor is the first argument of a function
                owner, *given = given
            call = ast.Call(ast.Attribute(owner, f"{name}_"), given, value.keywords)
            if ast.unparse(owner).endswith(".data"):
                return ast.unparse(call)
            update = ast.unparse(call)
        case _:
            return ""
    return update if ".grad" in update else ""


@fault_kind("iterator that is used up")
def used_up(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that use an iterator of parameters which has no items left, if only one line of the file binds it."""
    for (place, name), count in evidence.state.flow.used_up.items():
        tree, made = evidence.trees.get(place.file), _only_binding(evidence, place.file, name)
        if made is None or made.lineno > place.line or "parameters(" not in ast.unparse(made.value):
            continue
        loops = evidence.around(place.file, place.line, ast.For) if count > 1 else []
        rounds = max(loops, key=lambda loop: loop.lineno, default=None)
        ran = {(line.file, line.line): line for line in evidence.lines_with(re.escape(name))}
        for use in dict.fromkeys(_uses(tree, name)):
            is_again = rounds is not None and made.lineno < rounds.lineno < use <= (rounds.end_lineno or 0)
            if (place.file, use) in ran and (is_again or use > place.line):
                yield used_up.at(
                    ran[place.file, use],
                    "iterator.used_up|`{name}` is an iterator, which gives its items once: after that, this line reaches no "
                    "parameter.",
                    "iterator.list|Make a list of it: `{name} = list({value})`.",
                    name=name, value=ast.unparse(made.value),
                )  # fmt: skip


def _only_binding(evidence: Evidence, file: str, name: str) -> ast.Assign | None:
    """Return the assignment to a variable of a file, or None if it is bound in another way or at several lines."""
    nodes = [node for where, node in evidence.nodes(ast.expr) if where == file and hasattr(node, "ctx")]
    bound = [node for node in nodes if isinstance(node.ctx, ast.Store) and ast.unparse(node) == name]
    made = evidence.around(file, bound[0].lineno, ast.Assign) if len(bound) == 1 else []
    return made[0] if made and made[0].targets == bound else None


def _uses(tree: ast.Module | None, name: str) -> Iterator[int]:
    """Yield the lines that loop over a variable or pass it to a function."""
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.For(iter=value) | ast.comprehension(iter=value):
                given = [value]
            case ast.Call(args=given):
                pass
            case _:
                continue
        yield from (value.lineno for value in given if ast.unparse(value) == name)


@fault_kind("penalty in no loss", after_error=False)
def not_added(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that compute a value with a graph from a gradient, for a variable that no line reads."""
    state, flow = evidence.state, evidence.state.flow
    values: dict[Place, TrackedTensor] = {}
    for number, earlier in flow.earlier.items():
        place = state.made_at(tracked := state.tensors.all[number])
        if place is not None and earlier.call.creates_graph and earlier.call.asked and tracked.node is not None:
            values[place] = tracked
    for place, tracked in values.items():
        match evidence.statement_at(place):
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if "grad(" not in ast.unparse(value):
                nodes = (node for file, node in evidence.nodes(ast.Name) if file == place.file and node.id == name)
                is_read = any(isinstance(node.ctx, ast.Load) for node in nodes)
                leaves = state.graph.leaves_below([tracked.node])
                if not is_read and not name.startswith("_") and leaves & flow.optimized.keys():
                    yield not_added.at(
                        place,
                        "penalty.unread|{name} is computed from a gradient with create_graph=True, and no line reads it, so no "
                        "loss contains it.",
                        "penalty.add|Add `{code}` to the loss, if the loss should contain it.",
                        name=name, code=f"{name}.mean()" if tracked.shape else name,
                    )  # fmt: skip


_FROM_MODULE = re.compile(r"(?P<target>[\w.]+)\.load_state_dict\((?P<source>[\w.]+)\.state_dict\(\)")
_KEEPS = re.compile(r"(append\(|\] = ).*(\.data\b|\.detach\(\)|\.state_dict\(\))")


@fault_kind("copy onto itself")
def copied_onto_themselves(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that copy parameters onto themselves: the values to restore have their memory, so each step changed both."""
    flow = evidence.state.flow
    for place in (place for place, times in flow.copied.items() if any(times.values())):
        if (owners := _FROM_MODULE.search(place.text)) is not None:
            if owners["target"] != owners["source"]:
                yield copied_onto_themselves.at(
                    place,
                    "state.same_module|it copies each tensor onto itself: {target} and {source} have the same parameters, so a "
                    "step changes both.",
                    "state.copy_module|Give {target} parameters of its own: `copy.deepcopy({source})`.",
                    **owners.groupdict(),
                )
        elif "load_state_dict" in place.text:
            yield copied_onto_themselves.at(
                place,
                "state.same_memory|it copies each tensor onto itself, so it restores nothing: the state is not a copy, and each "
                "step of the optimizer changes it as well.",
                "state.copy|Keep a copy of the values: `copy.deepcopy(module.state_dict())`.",
            )
        elif place in flow.restored:
            yield copied_onto_themselves.at(
                place,
                "state.same_tensor|it copies a parameter onto itself, so it changes nothing: both have one memory, and each step "
                "of the optimizer changes both.",
                "memory.clone|Keep a copy of the values: `.clone()`.",
            )


@fault_kind("values without a copy")
def shared_memory(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that give a tensor the memory of a parameter, or keep a parameter's values of several steps in its memory."""
    state, flow = evidence.state, evidence.state.flow
    held = {leaf.object_id for leaf in flow.optimized.values()} | {leaf.object_id for leaf in flow.reached.values()}
    for place, (leaf, value) in flow.shared.items():
        owners = [tracked for tracked in flow.optimized.values() if tracked.memory is value.memory]
        if owners and leaf.object_id not in held:
            yield shared_memory.at(
                place,
                "memory.of_parameter|{leaf} gets the memory of {names} here, not a copy, so each step of the optimizer "
                "changes both.",
                "memory.copy_values|Copy the values: `.data.copy_(...)` or load_state_dict.",
                leaf=name_of(state, [leaf], "the tensor"), names=name_of(state, owners, "a parameter"),
            )  # fmt: skip
    for place, parameter in flow.steps.kept.items():
        if _KEEPS.search(place.text):
            yield shared_memory.at(
                place,
                "memory.kept|each iteration keeps a tensor with the memory of {names}, not a copy, so each step of the "
                "optimizer changes all of them.",
                "memory.clone|Keep a copy of the values: `.clone()`.",
                names=name_of(state, [parameter], "a parameter"),
            )  # fmt: skip
    yield from _repeated(evidence)


def _repeated(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that append one tensor in several iterations, if it was modified in place in between."""
    state = evidence.state
    for place, (tensor, count) in state.flow.repeated.items():
        name, part, _ = (state.name_of(tensor) or "").partition("[")
        append = rf"^{re.escape(name)}\.append\((.+?)\)(?: *#|$)" if part else rf"\.append\(({re.escape(name)})\)"
        texts = [step.place.text if name and step.place else "" for step in state.finished_steps]
        appended = {number: match[1] for number, text in enumerate(texts) if (match := re.search(append, text))}
        rounds = list(appended)[-count:]  # those of the last list
        between = state.finished_steps[rounds[0] : rounds[-1]] if rounds else []
        if any(write.memory is tensor.memory for step in between for write in step.writes):
            yield shared_memory.at(
                between[0].place or place,
                "memory.appended|each iteration appends the same tensor, {name}, which is modified in place: {place} gets "
                "it {count} times.",
                "memory.append_copy|Append a copy: `{name}.clone()`.",
                name=appended[rounds[0]], place=line_of(place, place.file), count=count,
            )  # fmt: skip


@fault_kind("two parameters in one memory", after_error=False)
def tied(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made a parameter in the memory of another one, so that an optimizer updates the memory twice."""
    state, flow = evidence.state, evidence.state.flow
    shared_at = {leaf.object_id: place for place, (leaf, _) in flow.shared.items()}
    for pair in flow.steps.tied.values():
        names = [name_of(state, [leaf], "a parameter") for leaf in pair]
        tails = "|".join(re.escape(".".join(name.split(".")[-2:])) for name in names)
        made = evidence.lines_with(rf"(?:{tails}) = .*Parameter\(")
        places = [*(shared_at.get(leaf.object_id) for leaf in pair), *made, state.made_at(pair[1])]
        if (place := next(filter(None, places), None)) is not None:
            yield tied.at(
                place,
                "memory.two_parameters|{first} and {second} are two parameters in one memory: each has a gradient and an "
                "optimizer state of its own, and a step updates the memory twice.",
                "memory.one_parameter|Use one parameter in both places: assign the parameter, not its values.",
                first=names[0], second=names[1],
            )  # fmt: skip
