"""Find gradients that no step uses or that two steps use."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import torch

from autograder.locale.messages import counted_message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, ITS_PARAMETERS, and_more, fault_kind, name_of, tensors_of
from autograder.tape.diagnose.graph_cut import cut_steps
from autograder.tape.diagnose.unoptimized import written_after_backward
from autograder.tape.observe.gradient_flow import StartedBackward
from autograder.tape.observe.left_gradients import LeftGradient
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
_CLEARS = re.compile(r"\.grad = None$|\.grad\.(zero|detach)_\(\)$|\.grad is (not )?None:?$")
# without a product in the argument, which a scaler that is not enabled returns as it is
_SCALES = re.compile(r"([\w.]+)\.scale\([^*]*\.backward\(")
_NEXT_USE = re.compile(r"clip_grad_|unscale_\(|\.(step|backward)\(")
# the leaf whose gradient an update reads, or the leaf that it modifies
_GRADIENT = re.compile(
    r"([\w.]+(?:\[\w+\])?)\.grad\b|^(?!torch\b)([\w.]+?(?:\[\w+\])?)(?:\.data)?(?: *[-+*/]?= |\.\w+_\()"
)


@fault_kind("gradient cleared before the step")
def cleared_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the optimizer steps before which all gradients of a backward were cleared."""
    state = evidence.state
    for old, new in state.flow.steps.replaced:
        made = state.made_at(new)
        if made is not None:
            yield cleared_gradient.at(
                made,
                "optimizer.replaced|{names} is replaced by a new parameter without a gradient, after backward "
                "filled the gradient of the old one: the next step of the optimizer does not use it.",
                "optimizer.replace_after|Replace parameters after the step and before the next backward, or copy the gradient.",
                tensors_of(state, [old, new], lost=made), names=name_of(state, [new, old], "the parameter"),
            )  # fmt: skip
    effect = (
        "optimizer.cleared|the step changes nothing: backward filled the gradient of {names}, "
        "and it was cleared before this line."
    )
    change = "optimizer.clear_elsewhere|Clear gradients before backward or after the step, not between them."
    cut = cut_steps(state) if state.flow.cleared else {}
    for place, leaves in (pair for pair in state.flow.cleared if pair[0] not in cut):
        yield cleared_gradient.about(state, leaves, place, effect, change, lost=place, nameless=ITS_PARAMETERS)
    for place, names in evidence.runs.left.emptied.items() if evidence.runs.excerpt is not None else ():
        yield cleared_gradient.at(place, effect, change, names=and_more(names, ITS_PARAMETERS))
    yield from _cleared_in_rounds(evidence)


def _cleared_in_rounds(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the steps that use the last of several backward calls of a line each time, if the program reads no gradient itself."""
    for place, steps in evidence.runs.left.cleared.items():
        count, backward = next(iter(steps))
        is_last = count and len(steps) == 1 and steps.total() > 1 and not _has_hooks(evidence)
        statements = evidence.nodes(ast.stmt) if is_last else ()
        if is_last and not any(_reads_gradient(evidence, file, node) for file, node in statements):
            effect = counted_message(
                count,
                "optimizer.cleared_in_rounds.one|each step uses the gradients of one backward call; those of the call of "
                "{place} before it were cleared without a step.",
                "optimizer.cleared_in_rounds|each step uses the gradients of one backward call; those of the {count} calls "
                "of {place} before it were cleared without a step.", place=line_of(backward, place.file),
            )  # fmt: skip
            yield cleared_gradient.at(
                place,
                effect,
                "optimizer.clear_after_step|Clear gradients once before the first of these calls, for example after the step.",
            )


def _has_hooks(evidence: Evidence) -> bool:
    """Return whether a line registers a hook on a tensor, which may update it in backward."""
    return any(node.attr in _HOOKS for _, node in evidence.nodes(ast.Attribute))


def _reads_gradient(evidence: Evidence, file: str, statement: ast.stmt) -> bool:
    """Return whether a statement reads a gradient, other than to clear it, and not of an input that its function lets require grad."""
    parts = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    attributes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Attribute)]
    owners = {ast.unparse(node.value) for node in attributes if node.attr == "grad"} - {"torch.autograd", "autograd"}
    if not owners or _CLEARS.search(ast.unparse(statement).partition("\n")[0]):
        return False
    functions = [ast.unparse(function) for function in evidence.around(file, statement.lineno, ast.FunctionDef)]
    asked = (re.compile(rf"\b{re.escape(owner)}\.requires_grad( = True|_\()") for owner in owners)
    return not all(any(pattern.search(text) for text in functions) for pattern in asked)


@fault_kind("gradients clipped before backward", after_error=False)
def clipped_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that clip gradients where each is None, before a backward that fills them."""
    flow = evidence.state.flow
    for place, (leaf, *_) in flow.missing.items():
        if "clip_grad_" in place.text and place not in flow.present and leaf.id in flow.optimized.keys() & flow.reached:
            yield clipped_gradient.at(
                place,
                "optimizer.clipped_early|each gradient is None here, so nothing is clipped; backward fills them later.",
                "optimizer.clip_later|Clip gradients between backward and the step.",
            )
    yield from _clipped_late(evidence)
    yield from _clipped_scaled(evidence)


def _after_scaled(evidence: Evidence) -> Iterator[tuple[str, str, list[tuple[int, str]]]]:
    """Yield the `GradScaler` of each backward of a loss that it multiplied, the file, and the later lines of the function."""
    scaled = (call.place for call in evidence.state.flow.calls if _is_scaled(evidence.state, call))
    for place in dict.fromkeys(scaled):
        scaler = _SCALES.search(place.text)
        functions = evidence.around(place.file, place.line, ast.FunctionDef)
        within = functions[-1] if functions else evidence.trees.get(place.file)
        if scaler is not None and within is not None:
            lines = [node for node in ast.walk(within) if isinstance(node, ast.Expr | ast.Assign)]
            lines = sorted((node for node in lines if node.lineno > place.line), key=lambda node: node.lineno)
            yield scaler[1], place.file, [(node.lineno, ast.unparse(node)) for node in lines]


def _is_scaled(state: RunState, call: StartedBackward) -> bool:
    """Return whether the line of a backward call multiplies the loss. A scaler that is not enabled returns the loss itself."""
    roots = [state.graph.nodes[number] for number in call.nodes if number is not None]
    return any(root.place == call.place and root.name.startswith("Mul") for root in roots)


def _clipped_scaled(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that clip gradients after the backward of a scaled loss, before `unscale_`."""
    for scaler, file, later in _after_scaled(evidence):
        if evidence.code.count("unscale_(") > sum("unscale_(" in text for _, text in later):
            continue  # another function, which a later line may call
        step = next((text for _, text in later if text.startswith(f"{scaler}.step(")), "")
        number, clip = next((pair for pair in later if _NEXT_USE.search(pair[1])), (0, ""))
        if step and "clip_grad_" in clip:
            yield clipped_gradient.at(
                Place(file, number, clip),
                "optimizer.clipped_scaled|the gradients still contain the factor of {scaler} here, so this is not their norm.",
                "optimizer.unscale|Divide by the factor first: `{scaler}.unscale_({optimizer})`.",
                scaler=scaler, optimizer=_optimizer_in(step, evidence),
            )  # fmt: skip


@fault_kind("scaled gradient in a step", after_error=False)
def scaled_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the steps that use the gradients of a scaled loss without their `GradScaler`, if no line reads a gradient."""
    state, flow = evidence.state, evidence.state.flow
    last = {leaf.id: flow.calls[count - 1] for count, held in flow.steps.calls if count for leaf in held}
    # the last steps of the parameters for which the backward call before the step computed gradients of a scaled loss
    steps = {
        (place.file, place.line): place for number, place in flow.updated_at.items()
        if number in last and _is_scaled(state, last[number]) and number in state.graph.leaves_below(last[number].nodes)
    }  # fmt: skip
    for scaler, file, later in _after_scaled(evidence) if steps else ():
        number, text = next((pair for pair in later if (file, pair[0]) in steps), (0, ""))
        is_own = re.search(r"unscale_\(|get_scale\(|\.grad\b", evidence.code) or _has_hooks(evidence)
        if text and f"{scaler.rpartition('.')[2]}.step(" not in text and not is_own:
            yield scaled_gradient.at(
                steps[file, number],
                "optimizer.step_scaled|the gradients still contain the factor of {scaler} here, and the step uses them.",
                "optimizer.step_by_scaler|Let the scaler divide by it and step: `{scaler}.step({optimizer})`, then `{scaler}.update()`.",
                scaler=scaler, optimizer=_optimizer_in(text, evidence),
            )  # fmt: skip


def _clipped_late(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that clip gradients after the step that uses them, in the same loop or function."""
    flow = evidence.state.flow
    ran = [place for place in flow.present if "clip_grad_" in place.text]
    for file, block in evidence.nodes(ast.For, ast.While, ast.FunctionDef) if ran else ():
        body = vars(block)["body"]
        texts = [*enumerate(map(ast.unparse, body))]
        words = (".backward(", ".step()", "clip_grad_")
        fills, steps, clips = ([at for at, text in texts if word in text] for word in words)
        is_plain = not any(hasattr(body[at], "body") for at in (*fills, *steps))
        if not (is_plain and len(clips) == 1 and fills and steps and fills[-1] < steps[0] <= steps[-1] < clips[0]):
            continue
        lines = range(body[clips[0]].lineno, (body[clips[0]].end_lineno or 0) + 1)
        for place in (place for place in ran if place.file == file and place.line in lines):
            # The caller of a function may make another step with the clipped gradients.
            updates = {(step.file, step.line in range(block.lineno, place.line)) for step in flow.updated_at.values()}
            if not isinstance(block, ast.FunctionDef) or updates == {(file, True)}:
                yield clipped_gradient.at(
                    place,
                    "optimizer.clipped_late|the step before this line has used the gradients, so clipping them changes nothing.",
                    "optimizer.clip_later|Clip gradients between backward and the step.",
                )


@fault_kind("gradient not cleared")
def used_again(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients of an earlier update, if a later update uses the sum."""
    state, flow = evidence.state, evidence.state.flow
    flow.find_updates()  # those after the last backward
    leaves: dict[Place, dict[int, TrackedTensor]] = {}
    updates: dict[Place, Place] = {}
    for place, tracked, update in flow.used_twice:
        leaves.setdefault(place, {})[tracked.id] = tracked
        updates.setdefault(place, update)
    reused = evidence.runs.left.reused if evidence.runs.excerpt is not None else {}
    for place, reuse in reused.items():  # perhaps after the recorded part
        leaves.setdefault(place, {number: flow.optimized[number] for number in evidence.recorded_steps(reuse.steps)})
        updates.setdefault(place, reuse.update)
    # A backward that fills gradients for another loss is reported where they are used.
    elsewhere = {left.first for left in _left_gradients(evidence)}
    for place, those in leaves.items():
        if place in elsewhere:
            continue
        names = name_of(state, those.values(), "a leaf") if those else and_more(reused[place].names, A_PARAMETER)
        steps = [flow.updated_at[number].text for number in those if number in flow.updated_at]
        steps += [reused[place].update.text] if place in reused else []
        read = _GRADIENT.search(updates[place].text)
        name = (read[1] or read[2]) if read else next(filter(None, map(state.name_of, those.values())), "")
        clear = f"{name}.grad = None"
        if steps:
            clear = f"{_optimizer_in(steps[0], evidence)}.zero_grad()"
        yield used_again.at(
            place,
            "optimizer.spent|backward adds to the gradient of {names} that an earlier update has used already, "
            "and the next update uses the sum.",
            "optimizer.clear_after|Clear it after each update: `{code}`.",
            names=names, code=clear,
        )  # fmt: skip


def _left_gradients(evidence: Evidence) -> list[LeftGradient]:
    state, flow = evidence.state, evidence.state.flow
    lefts = dict(evidence.runs.left.found)
    for second, (call, step, tensors) in flow.reads.left.items():
        if call.leaf is not None and call.used_at is not None and call.leaf.id not in flow.optimized:
            names = [state.name_of(tensor) or f"leaf {tensor.id}" for tensor in tensors.values()]
            lefts.setdefault(second, LeftGradient(call.place, call.used_at, second, step, names))
    return list(lefts.values())


@fault_kind("gradient of another loss", after_error=False)
def left_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients which another loss left, if a step uses the sum."""
    for left in _left_gradients(evidence):
        lines = {"first": left.first, "update": left.update} | ({"used": left.used} if left.used else {})
        effect = (
            "optimizer.left|it adds to the gradient of {names}, which still contains that of the backward of {first}, "
            "although {used} was the step of that backward; {update} uses the sum of both."
        )
        change = "optimizer.clear_left|Clear these gradients before this line, unless the sum is intended."
        if left.used is None:
            effect = (
                "optimizer.left_uncleared|it adds to the gradient of {names} that the backward call of {first} left there: the "
                "program cleared the other gradients of that call, but not this one; {update} uses the sum of both."
            )
            change = (
                "optimizer.restrict|Pass the parameters that this loss trains as `inputs=`, unless the sum is intended."
            )
        places = {name: line_of(place, left.second.file) for name, place in lines.items()}
        yield left_gradient.at(left.second, effect, change, names=and_more(left.names, A_PARAMETER), **places)


def _optimizer_in(text: str, evidence: Evidence) -> str:
    """Return the optimizer of `o.step()` or `scaler.step(o)`, or "optimizer" for another text."""
    match = re.search(r"([\w.]+)\.step\(([\w.]*)", text)
    if match is None:
        return "optimizer"
    made = (place.text for place in evidence.state.flow.steps.made_at.values())
    is_given = "scaler" in match[1].lower() or any(re.search(rf"\b{re.escape(match[2])} = ", line) for line in made)
    return match[2] if match[2] and is_given else match[1]


@fault_kind("method that is not called", after_error=False)
def not_called(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that name a method without a call, and the optimizers of a loop without a step."""
    for file, node in evidence.nodes(ast.Expr):
        if getattr(node.value, "attr", "") in ("backward", "step", "zero_grad"):
            code = ast.unparse(node)
            yield not_called.at(
                Place(file, node.lineno, code),
                "call.parentheses|`{code}` names the method and does not call it.",
                "call.add_parentheses|Call it: `{code}()`.",
                code=code,
            )
    state, flow = evidence.state, evidence.state.flow
    calls = [call.place for call in flow.calls]
    used = flow.optimized.keys() | flow.steps.read
    not_stepped = {leaf.memory for number, leaf in flow.reached.items() if number not in used}
    # The program may update these parameters itself.
    if len(calls) > len(set(calls)) and not_stepped - written_after_backward(state) and not _has_hooks(evidence):
        yield from _never_stepped(evidence)


def _never_stepped(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that make an optimizer whose step no line calls."""
    stepped = {_last_name(node.value) for _, node in evidence.nodes(ast.Attribute) if node.attr == "step"}
    steps = evidence.state.flow.steps
    idle = {(place.file, place.line) for place in steps.made_at.values() if place not in steps.stepped_at}
    for file, node in evidence.nodes(ast.Assign):
        name = _last_name(node.targets[0])
        if not name or name in stepped or (file, node.lineno) not in idle:
            continue
        used = [part for _, part in evidence.nodes(ast.Attribute) if _last_name(part.value) == name]
        owners = {id(part.value) for part in used}
        # A parameter `optimizer` of a method is not a use of `self.optimizer`.
        named = (part for _, part in evidence.nodes(type(node.targets[0])) if _last_name(part) == name)
        values = [part for part in named if isinstance(vars(part)["ctx"], ast.Load) and id(part) not in owners]
        is_cleared = any(part.attr == "zero_grad" for part in used)
        # An optimizer that the program passes on may be stepped elsewhere.
        if (is_cleared or not stepped) and (not values or _is_only_passed(evidence, values, stepped)):
            yield not_called.at(
                Place(file, node.lineno, ast.unparse(node)),
                "call.step|no line calls the step() of {name}, so it updates no parameter.",
                "call.add_step|Call it after backward: `{name}.step()`.",
                name=ast.unparse(node.targets[0]),
            )


def _is_only_passed(evidence: Evidence, values: list[ast.expr], stepped: set[str]) -> bool:
    """Return whether values are passed only to schedulers and the program's functions, and each step is of a variable with an optimizer."""
    calls = [call for _, call in evidence.nodes(ast.Call)]
    given = {id(value): call for call in calls for value in (*call.args, *(key.value for key in call.keywords))}
    receivers = {_last_name(given[id(value)].func) if id(value) in given else "" for value in values}
    defined = {vars(node)["name"] for _, node in evidence.nodes(ast.FunctionDef, ast.ClassDef)}
    made = Counter(
        _last_name(node.targets[0]) for _, node in evidence.nodes(ast.Assign)
        if _OPTIMIZER.match(ast.unparse(node)) or _is_scheduler(_last_name(getattr(node.value, "func", None)))
    )  # fmt: skip
    bound = Counter(
        getattr(node, "arg", "") or _last_name(node) for _, node in evidence.nodes(ast.Name, ast.Attribute, ast.arg)
        if not isinstance(getattr(node, "ctx", None), ast.Load)
    )  # fmt: skip
    is_known = all(name in defined or name == "print" or _is_scheduler(name) for name in receivers)
    return is_known and all(0 < bound[name] == made[name] for name in stepped)


def _is_scheduler(name: str) -> bool:
    return name != "" and hasattr(torch.optim.lr_scheduler, name)


def _last_name(node: ast.AST | None) -> str:
    """Return the variable, or the last attribute, that an expression names; "" for another expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


_OPTIMIZER = re.compile(r"[\w.]+ = (?:torch\.)?(?:optim\.)?(?:SGD|Adam|AdamW|RMSprop|Adagrad)\(")
