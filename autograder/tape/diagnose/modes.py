"""Find modes that are on in the wrong part of a training loop, settings and hooks that have no effect, and repeated hooks.

The modes are evaluation, recording that is off, and one autocast around several steps.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, fault_kind, name_of, tensors_of, why_recording_is_off
from autograder.tape.observe.cuts import NO_GRAD
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of


@fault_kind("mode left on")
def left_on(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that switched a model to evaluation mode, if a later step trained it in that mode."""
    for place in evidence.state.flow.modes.left_training:
        yield left_on.at(
            place,
            "eval.switched|it switches the model to evaluation mode, and later steps train it in that mode; the steps "
            "before were in training mode.",
            "eval.call_train|Call train() before the next step.",
        )
    for place in evidence.state.flow.modes.left_recording:
        yield left_on.at(
            place,
            "no_grad.left_on|it turns recording off after a step, and the loss of a later step is computed while it is off.",
            "no_grad.turn_on_before_step|Turn recording on again before the next step: `torch.set_grad_enabled(True)`.",
        )


_OTHER_NAMES = r"require_grads?|requires_grads|required_grad|requires_grad_"
_MISSPELLED = re.compile(rf"\.({_OTHER_NAMES}) = ")
_DETACHED = re.compile(r"(\w[\w.]*(?:\[[^\]]*\])?)\.detach\(\)")
_COMPARED = re.compile(r"(.+\.(?:requires_grad|grad|data)) == (.+)")
_SETTING = re.compile(rf"([^\s=]+)\.(requires_grad|{_OTHER_NAMES}) = ([^#]*[^#\s])")


@fault_kind("setting without effect")
def not_read(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that set an attribute instead of `requires_grad` of a tensor: of a module, or with another name."""
    modules = evidence.state.flow.modes.set_of_module
    for place in (*modules, *evidence.lines_with(_MISSPELLED)):
        if (setting := _SETTING.search(place.text)) is None or setting[1] == "self":
            continue
        effect = "setting.misspelled|`{name}` is not an attribute that PyTorch reads, so this line has no effect."
        if place in modules:
            effect = "setting.of_module|{owner} is a module, whose parameters do not read its `{name}`, so this line has no effect."
        yield not_read.at(
            place, effect, "setting.call|Call the method instead: `{owner}.requires_grad_({value})`.",
            owner=setting[1], name=setting[2], value=setting[3],
        )  # fmt: skip
    cuts = (cut.place for cut in evidence.state.flow.cuts.all.values() if cut.how == "detach")
    detached = {(place.file, place.line) for place in cuts}
    for file, node in evidence.nodes(ast.Expr):
        code = ast.unparse(node)
        if compared := _COMPARED.fullmatch(code):
            yield not_read.at(
                Place(file, node.lineno, code),
                "setting.compared|`{code}` compares two values and sets nothing, so this line has no effect.",
                "setting.assign|Assign the value: `{setting} = {value}`.",
                code=code, setting=compared[1], value=compared[2],
            )  # fmt: skip
        if (file, node.lineno) in detached and (named := _DETACHED.fullmatch(code)):
            yield not_read.at(
                Place(file, node.lineno, code),
                "setting.detached|`{code}` returns a new tensor, which is not kept, and leaves {name} and its history as "
                "they are, so this line has no effect.",
                "setting.keep_detached|Keep the result: `{name} = {code}`.",
                code=code, name=named[1],
            )  # fmt: skip


@fault_kind("backward without recording")
def not_recorded(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of backward while recording is off."""
    if evidence.state.flow.modes.left_recording:
        return  # the line that left it off is named
    switch = why_recording_is_off(evidence.state)
    effect = "no_grad.backward_while|backward is called while {switch}."
    change = "no_grad.turn_on_before_loss|Turn recording on again before the loss is computed."
    if switch == NO_GRAD:
        effect = (
            "no_grad.loss_inside|backward is called under no_grad; the loss was also computed there, so it has no "
            "history and backward raises an error."
        )
        change = "no_grad.only_update_inside|Compute the loss and call backward outside of no_grad; keep only the update inside."
    calls = [call for call in evidence.state.flow.calls if not call.recording]
    # Backward of a recorded loss computes the same while recording is off, also with create_graph, but not in inference mode.
    places = {call.place for call in calls if "inference" in switch or not call.has_graph}
    for place in sorted(places, key=lambda spot: spot.line):
        yield not_recorded.at(place, effect, change, switch=switch)


@fault_kind("stale cast")
def stale_cast(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the `autocast` blocks in which a step changed a weight whose cast copy was used again."""
    state, steps = evidence.state, evidence.state.flow.steps.calls
    for node in state.graph.nodes:
        source = node.inputs[0] if node.name == "ToCopyBackward0" else None
        leaf = None if source is None else state.graph.nodes[source].tensor
        held = None if leaf is None else state.flow.optimized.get(leaf)
        if held is None:
            continue
        calls = [number for number, call in enumerate(state.flow.calls) if node.id in call.graph.visited]
        if not any(first < step <= later for first, later in zip(calls, calls[1:], strict=False) for step, _ in steps):
            continue
        place = _autocast_around(evidence, node.place) or node.place
        yield stale_cast.at(
            place,
            "autocast.stale_cast|one autocast contains several steps: its cache keeps the cast copy of {names} "
            "that {place} made, so later losses are computed with the values before the step.",
            "autocast.per_step|Open autocast around the forward of each step, or pass cache_enabled=False.",
            tensors_of(state, [held]), names=name_of(state, [held]), place=line_of(node.place, place.file),
        )  # fmt: skip


def _autocast_around(evidence: Evidence, place: Place) -> Place | None:
    """Return the innermost `with … autocast …` statement around a line."""
    blocks = evidence.around(place.file, place.line, ast.With)
    blocks = [block for block in blocks if any("autocast" in ast.unparse(item.context_expr) for item in block.items)]
    if not blocks:
        return None
    inner = max(blocks, key=lambda node: node.lineno)
    text = "with " + ", ".join(ast.unparse(item) for item in inner.items) + ":"
    return Place(place.file, inner.lineno, text)


_REGISTERS = re.compile(r"\.register_hook\(")


@fault_kind("hook registered again")
def registered_again(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that registers a hook of the same leaf once more between two backward calls."""
    hooked = evidence.state.flow.hooked.values()
    calls = (call.graph.step for call in evidence.state.flow.calls)
    later = evidence.state.finished_steps[min(calls, default=0) :]
    lines = Counter(step.place for step in later if step.place and _REGISTERS.search(step.place.text))
    if hooked and lines:
        yield registered_again.at(
            max(lines, key=lambda place: lines[place]),
            "hook.again|each iteration registers the hook again, and the earlier ones stay, so the gradient of {names} has "
            "passed through {count} of them in one backward call.",
            "hook.once|Register it once, before the loop, or remove it after backward with the handle that register_hook "
            "returns.",
            names=name_of(evidence.state, (leaf for leaf, _ in hooked), A_PARAMETER),
            count=max(count for _, count in hooked),
        )  # fmt: skip


@fault_kind("hook without a result")
def without_result(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines of a hook that bind its argument to a new gradient, if the hook returns nothing."""
    calls = (call for _, call in evidence.nodes(ast.Call) if getattr(call.func, "attr", "") == "register_hook")
    registered = {ast.unparse(call.args[0]).rpartition(".")[2] for call in calls if call.args}
    for file, function in evidence.nodes(ast.FunctionDef) if registered else ():
        inside = list(ast.walk(function))
        if function.name not in registered or any(isinstance(node, ast.Return) and node.value for node in inside):
            continue
        names = {argument.arg for argument in function.args.args}
        for node in (node for node in inside if isinstance(node, ast.Assign)):
            target = ast.unparse(node.targets[0])
            if any(isinstance(use, ast.Name) and use.id == target and use.lineno > node.lineno for use in inside):
                continue  # such as `g = g.cpu()` in front of `kept.append(g)`
            binds = evidence.lines_with(rf"^{re.escape(target)} = ") if target in names else []
            ran = [place for place in binds if (place.file, place.line) == (file, node.lineno)]
            if ran:
                yield without_result.at(
                    ran[0],
                    "hook.no_result|the hook binds {name} to a new tensor and returns nothing, so the gradient stays as it is.",
                    "hook.return|Return the new gradient: `return {name}`.",
                    name=target,
                )  # fmt: skip
