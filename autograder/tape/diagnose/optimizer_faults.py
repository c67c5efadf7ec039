"""Find gradients that no step uses or that two steps use, and parameters that no optimizer trains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder.locale.messages import Message, counted_message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import (
    A_PARAMETER,
    COPIED,
    ITS_PARAMETERS,
    FaultKind,
    and_more,
    around,
    followers,
    is_early_copy,
    leaves_above,
    leaves_of_losses,
    lines_with,
    name_of,
    nodes_of_losses,
    reached_elsewhere,
    recorded_steps,
    tensors_of,
)
from autograder.tape.diagnose.graph_cut import cut_steps
from autograder.tape.diagnose.shared_memory import COPIED_ONTO_THEMSELVES, SHARED
from autograder.tape.diagnose.unused_updates import NO_EFFECT, USED_UP
from autograder.tape.observe.left_gradients import LeftGradient
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.optimizer_steps import OptimizerSteps
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of, note_on_line
from autograder.tape.run.storages import Memory

_UNFREEZES = re.compile(r"\.requires_grad = True|\.requires_grad_\((requires_grad=)?(True)?\)")
_LAYER, _TRANSPOSED = re.compile("Addmm|Mm|Linear|Convolution"), re.compile("T(ranspose)?Backward")
_CONVERTED = re.compile(r"Parameter\(.*\)\.(double|float|half|bfloat16|to|cuda|cpu)\(")
_CLEARS = re.compile(r"\.grad = None$|\.grad\.(zero|detach)_\(\)$|\.grad is (not )?None:?$")
# the leaf whose gradient an update reads, or the leaf that it modifies
_GRADIENT = re.compile(
    r"([\w.]+(?:\[\w+\])?)\.grad\b|^(?!torch\b)([\w.]+?(?:\[\w+\])?)(?:\.data)?(?: *[-+*/]?= |\.\w+_\()"
)
_INITIAL = re.compile(r"init|normal_|uniform_")


def _without_a_loss(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute with parameters of an optimizer, if no backward call reached these parameters."""
    state, flow, elsewhere = evidence.state, evidence.state.flow, reached_elsewhere(evidence)
    if not flow.calls:
        return
    explained = {new.id for _, new in flow.steps.replaced}
    explained |= {number for cut in flow.cuts.values() for number in leaves_above(state, cut)}
    explained |= {leaf.id for leaves in state.given.values() for leaf in leaves}
    known = flow.reached.keys() | flow.steps.trained | flow.steps.frozen | explained
    places: dict[Place, list[TrackedTensor]] = {}
    for number, (place, tracked) in flow.steps.used.items():
        if number in flow.optimized and number not in known and tracked.shape not in elsewhere:
            places.setdefault(place, []).append(tracked)
    foreign = _names_of_foreign(evidence) if places else set()
    for place, tensors in places.items():
        if foreign.issuperset(state.name_of(tensor) for tensor in tensors):
            continue
        yield WITHOUT_A_LOSS.about(
            state, tensors, place,
            "optimizer.result_unused|the result that it computes with {names} reaches no loss, so no backward call "
            "computes a gradient for {names}, which the optimizer holds.",
            "optimizer.use|Use the result in the loss, or take {names} out of the optimizer.",
            read=place,
        )  # fmt: skip


def _unoptimized(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made parameters which get gradients and which no optimizer holds."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    fine = _used_otherwise(evidence) | flow.optimized.keys()
    missed = [tracked for number, tracked in steps.unoptimized.items() if number not in fine]
    if steps.doubled_at is not None and missed:
        yield UNOPTIMIZED.about(
            state, missed, steps.doubled_at,
            "optimizer.doubled|this optimizer holds the same parameters as the one whose step comes before it, and no "
            "optimizer updates {names}, although backward computes a gradient.",
            "optimizer.pass_other|Pass the other parameters to one of the two optimizers.",
        )  # fmt: skip
        return
    # The line that replaces a parameter before the step is named.
    foreign = _names_of_foreign(evidence) | {state.name_of(old) for old, _ in steps.replaced}
    places: dict[Place, list[TrackedTensor]] = {}
    for tracked in steps.unoptimized.values():
        if (made := _made_at(state, tracked)) is not None and state.name_of(tracked) not in foreign:
            places.setdefault(made, []).append(tracked)
    for made, tensors in sorted(places.items(), key=lambda one: (one[0].file, one[0].line)):
        if not any(tensor.id in fine for tensor in tensors):
            yield UNOPTIMIZED.about(state, tensors, made, *_words_on_unoptimized(steps, tensors, made))
    yield from _unfrozen(evidence)


def _unfrozen(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the last line that let parameters require grad after a step, if no optimizer holds them."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    lines = lines_with(_UNFREEZES, state)
    if not lines or evidence.runs.excerpt is not None:
        return
    known = flow.optimized.keys() | steps.unoptimized.keys() | _used_otherwise(evidence)
    unused = [one for number, one in flow.reached.items() if number not in known and one.parameter]
    late = [one for one in unused if steps.is_filled_late(one)]
    if late:
        yield UNOPTIMIZED.about(
            state, late, lines[-1],
            "optimizer.unfrozen|it lets parameters require grad, and no optimizer updates {names}, which get gradients from "
            "then on.",
            "optimizer.add_group|Pass them to the optimizer as well, for example with add_param_group.",
        )  # fmt: skip


def _made_at(state: RunState, tracked: TrackedTensor) -> Place | None:
    """Return the line that made the values of a parameter, which may be those of another tensor, or the object itself."""
    values = state.flow.steps.wrapped.get(tracked.id, tracked)
    return state.made_at(state.tensors.all[values.object_id])  # `p.data = …` gives the object other memory


def _used_otherwise(evidence: Evidence) -> set[int]:
    """Return the ids of tensors in no optimizer whose gradient the program reads or asks for, or that it updates itself."""
    state, steps = evidence.state, evidence.state.flow.steps
    # A modification after the first backward may be a step by hand, unless it sets the values of a new parameter. Values
    # that were copied, as into a target network, are not random, whenever the program copied them.
    written = {
        (write.memory, write.place) for write in state.writes
        if write.changed and (write.call > 0 or COPIED.search(write.place.text))
    }  # fmt: skip
    by_hand = {(memory, place) for memory, place in written if not _INITIAL.search(place.text)}
    asked = {asked.id for call in state.flow.calls for asked in call.asked}
    updated = {
        number for number, one in steps.unoptimized.items()
        if any(memory is one.memory and place != _made_at(state, one) for memory, place in by_hand)
    }  # fmt: skip
    others = {number: one for number, one in steps.unoptimized.items() if number not in steps.attributes}
    entering = {number for number, one in others.items() if not one.parameter and _enters_layer(state, one)}
    return steps.read | asked | updated | entering


def _inputs(state: RunState, node: GraphNode) -> list[GraphNode]:
    return [state.graph.nodes[number] for number in node.inputs if number is not None]


def _enters_layer(state: RunState, leaf: TrackedTensor) -> bool:
    """Return whether the first parameters of an optimizer that a leaf meets are the weights of a layer, so that it is data."""
    stack, seen = [node for node in state.graph.nodes if node.tensor == leaf.id and not node.inputs], set[int]()
    while stack:
        node = stack.pop()
        for consumer in node.consumers if node.id not in seen else ():
            others = [one for one in _inputs(state, consumer) if one is not node]
            below = [
                *others,
                *(one for other in others if _TRANSPOSED.match(other.name) for one in _inputs(state, other)),
            ]
            if not any(one.tensor in state.flow.optimized and not one.inputs for one in below):
                stack.append(consumer)
            elif _LAYER.match(consumer.name):
                return True
        seen.add(node.id)
    return False


def notes_on_parts(evidence: Evidence) -> Iterator[str]:
    """Yield a note for each step at which no optimizer held some parameters of a module and one held others."""
    state, flow = evidence.state, evidence.state.flow
    by_hand = _written(state)
    known = flow.steps.read | flow.optimized.keys() | {asked.id for call in flow.calls for asked in call.asked}
    for place, tensors in flow.steps.beside.items():
        if missed := [one for one in tensors if one.parameter and one.id not in known and one.memory not in by_hand]:
            text = Message(
                "note.part_of_module|at this step, no optimizer holds {names}, although backward computes a gradient, and "
                "one holds other parameters of the same module. Pass all parameters that should be trained.",
                names=name_of(state, sorted(missed, key=lambda one: one.id), A_PARAMETER),
            )
            yield note_on_line(place, evidence.file, text)


def _words_on_unoptimized(steps: OptimizerSteps, tensors: list[TrackedTensor], made: Place) -> tuple[str, str]:
    """Return the effect and the change for the tensors that a line made and no optimizer holds."""
    effect = (
        "optimizer.unheld|no optimizer updates {names}, although backward computes a gradient: the initial values stay."
    )
    change = "optimizer.once|Make it once, before the optimizer, and pass its parameters to the optimizer."
    if all(steps.outlives(tensor) for tensor in tensors):
        change = (
            "optimizer.pass_or_freeze|Pass the parameters to the optimizer, or call requires_grad_(False) on them "
            "if they should keep these values."
        )
    if tensors[0].first is None and not (tensors[0].parameter and steps.is_random(tensors[0])):
        effect = (
            "optimizer.unheld_leaf|no optimizer updates {names}, although each backward adds to the gradient: the "
            "value from this line stays."
        )
    if not tensors[0].parameter:
        change = "optimizer.pass_it|Pass it to the optimizer, too."
    if tensors[0].id in steps.attributes:
        change = (
            "optimizer.make_parameter|Make it an nn.Parameter: a module's parameters() does not list other tensors."
        )
    elif tensors[0].parameter and _CONVERTED.search(made.text):
        change = "optimizer.convert_before|Convert the values before: a converted parameter is another tensor and no parameter."
    return effect, change


def _foreign(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the step of an optimizer whose parameters no backward reached, if the reached ones belong to no optimizer."""
    state, flow = evidence.state, evidence.state.flow
    written = _written(state)
    replaced = {new.id for _, new in flow.steps.replaced}
    known, elsewhere = replaced | flow.reached.keys(), reached_elsewhere(evidence)
    idle = [one for number, one in flow.optimized.items() if number not in known and one.shape not in elsewhere]
    unoptimized = (one for number, one in flow.reached.items() if number not in flow.optimized and one.parameter)
    missed = [parameter for parameter in unoptimized if parameter.memory not in written]
    if flow.optimizer_at is None or not idle or not missed:
        return
    cuts = [cut for cut in flow.cuts.values() if cut.used_at and not is_early_copy(cut)]
    in_losses = nodes_of_losses(state)
    cut_off = {number for cut in cuts for number in leaves_of_losses(state, cut, in_losses)}
    if {one.id for one in idle} & cut_off - followers(state):
        return
    message = counted_message(
        len(idle),
        "optimizer.foreign.one|the optimizer holds {count} tensor without a gradient, but not these, which do get gradients: {names}.",
        "optimizer.foreign|the optimizer holds {count} tensors without a gradient, but not these, which do get gradients: {names}.",
        names=name_of(state, missed, Message("optimizer.the_parameters|the parameters")),
    )
    # A target network is not to be trained.
    meant = [one for one in idle if one.id not in followers(state)]
    yield FOREIGN.at(
        flow.optimizer_at,
        message,
        "optimizer.make_after|Make the optimizer after the model is complete, from the parameters of the model that computes the loss.",
        tensors_of(state, missed) + tensors_of(state, meant),
    )


def _names_of_foreign(evidence: Evidence) -> set[str | None]:
    return {tensor.name for fault in FOREIGN.found(evidence) for tensor in fault.tensors}


def _written(state: RunState) -> set[Memory]:
    """Return the memories that the program modified after the first backward call, as a step by hand does."""
    return {write.memory for write in state.writes if write.changed and write.call > 0 and not write.in_backward}


def _cleared(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the optimizer steps before which all gradients of a backward were cleared."""
    state = evidence.state
    for old, new in state.flow.steps.replaced:
        made = state.made_at(new)
        if made is not None:
            yield CLEARED.at(
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
        yield CLEARED.about(state, leaves, place, effect, change, lost=place, nameless=ITS_PARAMETERS)
    for place, names in evidence.runs.left.emptied.items() if evidence.runs.excerpt is not None else ():
        yield CLEARED.at(place, effect, change, names=and_more(names, ITS_PARAMETERS))
    yield from _cleared_in_rounds(evidence)


def _cleared_in_rounds(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the steps that use the last of several backward calls of a line each time, if the program reads no gradient itself."""
    for place, steps in evidence.runs.left.cleared.items():
        count, backward = next(iter(steps))
        if count and len(steps) == 1 and steps.total() > 1 and not _reads_gradients(evidence):
            effect = counted_message(
                count,
                "optimizer.cleared_in_rounds.one|each step uses the gradients of one backward call; those of the call of "
                "{place} before it were cleared without a step.",
                "optimizer.cleared_in_rounds|each step uses the gradients of one backward call; those of the {count} calls "
                "of {place} before it were cleared without a step.", place=line_of(backward, place.file),
            )  # fmt: skip
            yield CLEARED.at(
                place,
                effect,
                "optimizer.clear_after_step|Clear gradients once before the first of these calls, for example after the step.",
            )


def _reads_gradients(evidence: Evidence) -> bool:
    """Return whether a line of the program uses or sets a `.grad` of a parameter, or a hook does."""
    return any(_reads_gradient(evidence.trees[file], node) for file, node in evidence.nodes(ast.stmt))


def _reads_gradient(tree: ast.Module, statement: ast.stmt) -> bool:
    """Return whether a statement reads a gradient, other than to clear it, and not of an input that its function lets require grad."""
    parts = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    attributes = [node for part in parts for node in ast.walk(part) if isinstance(node, ast.Attribute)]
    if any(node.attr in ("register_hook", "register_post_accumulate_grad_hook") for node in attributes):
        return True
    owners = {ast.unparse(node.value) for node in attributes if node.attr == "grad"} - {"torch.autograd", "autograd"}
    if not owners or _CLEARS.search(ast.unparse(statement).partition("\n")[0]):
        return False
    functions = [ast.unparse(function) for function in around(tree, ast.FunctionDef, statement.lineno)]
    asked = (re.compile(rf"\b{re.escape(owner)}\.requires_grad( = True|_\()") for owner in owners)
    return not all(any(pattern.search(text) for text in functions) for pattern in asked)


def _clipped_early(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that clip gradients where each is None, before a backward that fills them."""
    flow = evidence.state.flow
    for place, (leaf, _) in flow.missing.items():
        if "clip_grad_" in place.text and place not in flow.present and leaf.id in flow.optimized.keys() & flow.reached:
            yield CLIPPED.at(
                place,
                "optimizer.clipped_early|each gradient is None here, so nothing is clipped; backward fills them later.",
                "optimizer.clip_later|Clip gradients between backward and the step.",
            )
    yield from _clipped_late(evidence)


def _clipped_late(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements of loops that clip gradients after the step that uses them."""
    for file, loop in evidence.nodes(ast.For, ast.While):
        names = (getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(loop))
        if not any("clip_grad_" in name for name in names if isinstance(name, str)):
            continue
        body = vars(loop)["body"]
        texts = [ast.unparse(statement) for statement in body]
        fills, steps, clips = (
            [at for at, text in enumerate(texts) if word in text] for word in (".backward(", ".step()", "clip_grad_")
        )
        is_plain = not any(hasattr(body[at], "body") for at in (*fills, *steps, *clips))
        if is_plain and len(clips) == 1 and fills and steps and fills[-1] < steps[0] <= steps[-1] < clips[0]:
            yield CLIPPED.at(
                Place(file, body[clips[0]].lineno, texts[clips[0]]),
                "optimizer.clipped_late|the step before this line has used the gradients, so clipping them changes nothing.",
                "optimizer.clip_later|Clip gradients between backward and the step.",
            )


def _used_again(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients of an earlier update, if a later update uses the sum."""
    state, flow = evidence.state, evidence.state.flow
    flow.find_updates(state.writes)  # those after the last backward
    leaves: dict[Place, dict[int, TrackedTensor]] = {}
    updates: dict[Place, Place] = {}
    for place, tracked, update in flow.used_twice:
        leaves.setdefault(place, {})[tracked.id] = tracked
        updates.setdefault(place, update)
    reused = evidence.runs.left.reused if evidence.runs.excerpt is not None else {}
    for place, one in reused.items():  # perhaps after the recorded part
        leaves.setdefault(place, {number: flow.optimized[number] for number in recorded_steps(evidence, one.steps)})
        updates.setdefault(place, one.update)
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
            clear = f"{_optimizer_in(steps[0])}.zero_grad()"
        yield USED_AGAIN.at(
            place,
            "optimizer.spent|backward adds to the gradient of {names} that an earlier update has used already, "
            "and the next update uses the sum.",
            "optimizer.clear_after|Clear it after each update: `{code}`.",
            names=names, code=clear,
        )  # fmt: skip


def _left_gradients(evidence: Evidence) -> list[LeftGradient]:
    state, flow = evidence.state, evidence.state.flow
    found = dict(evidence.runs.left.found)
    for second, (call, step, tensors) in flow.reads.left.items():
        if call.leaf is not None and call.used_at is not None and call.leaf.id not in flow.optimized:
            names = [state.name_of(tensor) or f"leaf {tensor.id}" for tensor in tensors.values()]
            found.setdefault(second, LeftGradient(call.place, call.used_at, second, step, names))
    return list(found.values())


def _left(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients which another loss left, if a step uses the sum."""
    for left in _left_gradients(evidence):
        first, used, update = (line_of(one, left.second.file) for one in (left.first, left.used, left.update))
        yield LEFT.at(
            left.second,
            "optimizer.left|it adds to the gradient of {names}, which still contains that of the backward of {first}, "
            "although {used} was the step of that backward; {update} uses the sum of both.",
            "optimizer.clear_left|Clear these gradients before this line, unless the sum is intended.",
            names=and_more(left.names, A_PARAMETER), first=first, used=used, update=update,
        )  # fmt: skip


def _optimizer_in(text: str) -> str:
    """Return the optimizer of `o.step()` or `scaler.step(o)`, or "optimizer" for another text."""
    found = re.search(r"([\w.]+)\.step\(([\w.]*)", text)
    return "optimizer" if found is None else found[2] if found[2] and "scaler" in found[1].lower() else found[1]


def _not_called(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that name a method without a call, and the optimizers of a loop without a step."""
    for file, node in evidence.nodes(ast.Expr):
        if getattr(node.value, "attr", "") in ("backward", "step", "zero_grad"):
            code = ast.unparse(node)
            yield NOT_CALLED.at(
                Place(file, node.lineno, code),
                "call.parentheses|`{code}` names the method and does not call it.",
                "call.add_parentheses|Call it: `{code}()`.",
                code=code,
            )
    state, flow = evidence.state, evidence.state.flow
    calls = [call.place for call in flow.calls]
    not_stepped = {one.memory for number, one in flow.reached.items() if number not in flow.optimized}
    # The program may update these parameters itself.
    if len(calls) > len(set(calls)) and not_stepped - _written(state) and not _reads_gradients(evidence):
        yield from _never_stepped(evidence)


def _never_stepped(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that make an optimizer which the program only clears gradients with."""
    stepped = {ast.unparse(node.value) for _, node in evidence.nodes(ast.Attribute) if node.attr == "step"}
    for file, node in evidence.nodes(ast.Assign):
        made = _OPTIMIZER.match(ast.unparse(node))
        name = made[1].rpartition(".")[2] if made else ""
        if not made or any(owner.rpartition(".")[2] == name for owner in stepped):
            continue
        # An optimizer that the program passes on may be stepped elsewhere.
        trees = evidence.trees.values() if "." in made[1] else [evidence.trees[file]]
        texts = [ast.unparse(tree) for tree in trees]
        used, clears = (
            sum(len(re.findall(rf"\b{name}\b{end}", text)) for text in texts) for end in ("", r"\.zero_grad\(")
        )
        if used == 1 + clears and (clears or not stepped):
            yield NOT_CALLED.at(
                Place(file, node.lineno, ast.unparse(node)),
                "call.step|no line calls the step() of {name}, so it updates no parameter.",
                "call.add_step|Call it after backward: `{name}.step()`.",
                name=made[1],
            )


_OPTIMIZER = re.compile(r"([\w.]+) = (?:torch\.)?(?:optim\.)?(?:SGD|Adam|AdamW|RMSprop|Adagrad)\(")
NOT_CALLED = FaultKind("method that is not called", _not_called, after_error=False)
WITHOUT_A_LOSS = FaultKind("parameter that no loss depends on", _without_a_loss, after_error=False)
UNOPTIMIZED = FaultKind("gradient that no optimizer uses", _unoptimized, after_error=False)
# An optimizer is known from its first step: after an error, another step may have been next.
FOREIGN = FaultKind("optimizer of other parameters", _foreign, after_error=False)
CLEARED = FaultKind("gradient cleared before the step", _cleared)
CLIPPED = FaultKind("gradients clipped before backward", _clipped_early, after_error=False)
USED_AGAIN = FaultKind("gradient not cleared", _used_again)
LEFT = FaultKind("gradient of another loss", _left, after_error=False)
KINDS = (
    NOT_CALLED,
    FOREIGN,
    UNOPTIMIZED,
    WITHOUT_A_LOSS,
    CLEARED,
    CLIPPED,
    NO_EFFECT,
    USED_UP,
    COPIED_ONTO_THEMSELVES,
    SHARED,
    USED_AGAIN,
    LEFT,
)
