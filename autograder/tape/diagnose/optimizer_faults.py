"""Find gradients that no step uses or that two steps use, parameters that no optimizer trains, and targets outside of the graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

from autograder.errors import message_of
from autograder.locale.messages import Message, counted_message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import (
    COPIED,
    FaultKind,
    and_more,
    change_of,
    followers,
    how_it_cuts,
    is_early_copy,
    leaves_above,
    name_of,
    reached_elsewhere,
    tensors_of,
)
from autograder.tape.diagnose.graph_cut import NO_HISTORY
from autograder.tape.diagnose.shown_gradients import tracked_targets
from autograder.tape.observe.gradient_flow import EarlierGradient, StartedBackward
from autograder.tape.observe.left_gradients import LeftGradient
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

NOT_REQUIRED = "One of the differentiated Tensors does not require grad"  # PyTorch 2.6 to 2.14
UNUSED = re.compile(r"ifferentiated Tensors? .*appears? to not have been used in the graph")  # PyTorch 2.6 to 2.15


def _unused_target(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cause of a backward call that raised because its root has no graph, or none that contains the target."""
    state, error = evidence.state, message_of(evidence.runs.plain.error)
    if not evidence.runs.plain.in_backward or not state.flow.calls:
        return
    call = state.flow.calls[-1]
    if NO_HISTORY in error and call.recording and call.of is not None and all(node is None for node in call.nodes):
        if not call.of.call.creates_graph:
            yield _without_graph(state, call, call.of)
        elif custom := [node for node in state.graph.nodes if node.is_custom]:
            yield _custom_backward(state, call, call.of, custom[-1])
        elif not call.of.gradient.requires_grad and call.of.target is not None:
            yield _constant(state, call, call.of, call.of.target)
    elif NOT_REQUIRED in error:
        for given in (target for target in call.asked if target.node is None and not target.requires_grad):
            yield UNUSED_TARGET.at(
                call.place,
                "target.not_required|{name} does not require grad, so no graph contains it.",
                "target.require|Call {name}.requires_grad_() before the computation of {root}.",
                name=name_of(state, [given], Message("target.input|the input")),
                root=name_of(state, call.roots, Message("target.output|the output")),
            )  # fmt: skip
    elif UNUSED.search(error):
        reached, nodes = _below(state, call)
        target = next((target for target in call.asked if target.id not in reached), None)
        if target is not None:
            yield _unused(state, call, target, reached, nodes)


def _below(state: RunState, call: StartedBackward) -> tuple[set[int], list[GraphNode]]:
    """Return the ids of the tensors in the graph of a call's roots, and its nodes, nearest to the roots first."""
    nodes = state.graph.below(call.nodes)
    tensors = {tensor.id for tensor in state.tensors.all if tensor.node in nodes}
    return tensors | {node.tensor for node in nodes.values() if node.tensor is not None}, list(nodes.values())


def _unused(
    state: RunState, call: StartedBackward, target: TrackedTensor, reached: set[int], nodes: list[GraphNode]
) -> GraphFault:
    name = _plain_name(state, target, Message("target.input|the input"))
    made = [state.tensors.all[node.tensor] for node in nodes if node.tensor is not None and node.inputs]
    named = (_plain_name(state, tensor) for tensor in (*call.roots, *made))
    root = next(filter(None, named), Message("target.output|the output"))
    earlier = call.of
    cuts = [cut for cut in state.flow.cuts.values() if cut.joined and target.id in leaves_above(state, cut)]
    if cuts:
        clause, place = how_it_cuts(cuts[-1], state), cuts[-1].place
        message = Message(
            "target.clause|{clause}; so {name}, which {place} asks for, is not in the graph of {root}.",
            clause=clause, name=name, place=line_of(call.place, place.file), root=root,
        )  # fmt: skip
        return GraphFault(UNUSED_TARGET.name, place, message, change_of(cuts[-1], state))
    is_custom = any(node.is_custom for node in state.graph.nodes)
    is_second = earlier is not None and earlier.target is target and earlier.call.creates_graph and not is_custom
    if earlier is not None and is_second and (earlier.gradient.id in reached or not earlier.gradient.requires_grad):
        return _constant(state, call, earlier, target)
    base = state.tensors.all[target.base] if target.base is not None else target.origin and target.origin[0]
    if base is not None and base.id in reached and (of := _plain_name(state, base)):
        return UNUSED_TARGET.at(
            call.place,
            "target.new_tensor|it asks for the gradient of a new tensor that was made from {base}, but {root} was "
            "computed from {base} itself.",
            "target.index_gradient|Ask for the gradient of {base}, and index it.",
            base=of, root=root,
        )  # fmt: skip
    return UNUSED_TARGET.at(
        call.place,
        "target.not_in_graph|{root} was computed without {name}, so its graph does not contain it.",
        "target.compute_from|Compute it from {name}, or pass allow_unused=True, which gives None for {name}.",
        root=root, name=name,
    )  # fmt: skip


def _constant(state: RunState, call: StartedBackward, first: EarlierGradient, target: TrackedTensor) -> GraphFault:
    """Return the fault of a second derivative of something linear."""
    known = _first_derivative(state, call, first) | {
        "name": name_of(state, [target], Message("target.input|the input"))
    }
    change = (
        "target.zeros|If a second derivative of zero is right, pass materialize_grads=True (it gives zeros) or "
        "allow_unused=True (it gives None)."
    )
    if all(node is None for node in call.nodes):
        change = "target.use_zeros|If a second derivative of zero is right, use zeros instead of this call."
    return UNUSED_TARGET.at(
        call.place,
        "target.linear|{slope}, which {earlier} computed, is the derivative of something linear (or piecewise linear) "
        "in {name}: it does not depend on {name}.", change, **known,
    )  # fmt: skip


def _first_derivative(state: RunState, call: StartedBackward, first: EarlierGradient) -> dict[str, object]:
    """Return the values of a text on the gradient that an earlier call computed: its name, and the place of that call."""
    slope = name_of(state, [first.gradient], Message("target.gradient|the gradient"))
    return {"slope": slope, "earlier": _of_line(first.call.place, call.place)}


def _custom_backward(state: RunState, call: StartedBackward, first: EarlierGradient, node: GraphNode) -> GraphFault:
    known = _first_derivative(state, call, first) | {"function": node.name.removesuffix("Backward")}
    message = Message(
        "target.custom_backward|{slope}, which {earlier} computed, has no graph: the backward of {function} computed it "
        "without one, as `once_differentiable` does, or it is constant.", **known,
    )  # fmt: skip
    change = Message(
        "target.record_backward|Let the backward of {function} compute with recorded operations on its saved tensors "
        "and its incoming gradient.", **known,
    )  # fmt: skip
    return GraphFault(UNUSED_TARGET.name, call.place, message, change)


def _without_graph(state: RunState, call: StartedBackward, earlier: EarlierGradient) -> GraphFault:
    return UNUSED_TARGET.at(
        earlier.call.place,
        "target.no_graph|it computes {slope} without a graph, and {later} differentiates it again.",
        "target.graph|Pass create_graph=True here.",
        slope=name_of(state, [earlier.gradient], Message("target.gradient|the gradient")),
        later=_of_line(call.place, earlier.call.place),
    )


def _of_line(place: Place, other: Place) -> str:
    """Return the line of a call, or "another call of this line" if it is the same line as `other`."""
    return Message("target.same_line|another call of this line") if place == other else line_of(place, other.file)


def _plain_name(state: RunState, tracked: TrackedTensor, other: str = "") -> str:
    """Return a tensor's name as it is in the program, or `other` if it has only the description of an expression."""
    name = state.name_of(tracked) or other
    return other if "…" in name else name


ITS_PARAMETERS = Message("optimizer.its_parameters|its parameters")
_INITIAL = re.compile(r"init|normal_|uniform_")


def _without_a_loss(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute with parameters of an optimizer, if no backward call reached these parameters."""
    state, flow, elsewhere = evidence.state, evidence.state.flow, reached_elsewhere(evidence)
    if not flow.calls:
        return
    explained = {new.id for _, new in flow.steps.thrown_away}
    explained |= {number for cut in flow.cuts.values() for number in leaves_above(state, cut)}
    explained |= {leaf.id for leaves in state.given.values() for leaf in leaves}
    known = flow.reached.keys() | flow.steps.trained | flow.steps.frozen | explained
    places: dict[Place, list[TrackedTensor]] = {}
    for number, (place, tracked) in flow.steps.used.items():
        if number in flow.optimized and number not in known and tracked.shape not in elsewhere:
            places.setdefault(place, []).append(tracked)
    for place, tensors in places.items():
        yield WITHOUT_A_LOSS.at(
            place,
            "optimizer.result_unused|the result that it computes with {names} reaches no loss, so no backward call "
            "computes a gradient for {names}, which the optimizer holds.",
            "optimizer.use|Use the result in the loss, or take {names} out of the optimizer.",
            tensors_of(state, tensors, read=place),
            names=name_of(state, tensors, Message("tensor.a_parameter|a parameter")),
        )


def _unheld(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made parameters which get gradients and which no optimizer holds."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps

    def made_at(tracked: TrackedTensor) -> Place | None:
        return state.made_at(steps.wrapped.get(tracked.id, tracked))

    # A modification after the first backward may be a step by hand, unless it sets the values of a new parameter. Values
    # that were copied, as into a target network, are not random, whenever the program copied them.
    written = {
        (write.memory, write.place) for write in state.writes
        if write.changed and (write.call > 0 or COPIED.search(write.place.text))
    }  # fmt: skip
    by_hand = {(memory, place) for memory, place in written if not _INITIAL.search(place.text)}
    used = {
        number
        for number, one in steps.unoptimized.items()
        if number in steps.read
        or any(number == asked.id for call in flow.calls for asked in call.asked)
        or any(memory is one.memory and place != made_at(one) for memory, place in by_hand)
    }
    missed = [tracked for number, tracked in steps.unoptimized.items() if number not in used | flow.optimized.keys()]
    if steps.doubled_at is not None and missed:
        yield UNOPTIMIZED.at(
            steps.doubled_at,
            "optimizer.doubled|this optimizer holds the same parameters as the one whose step comes before it, and no "
            "optimizer updates {names}, although backward computes a gradient.",
            "optimizer.pass_other|Pass the other parameters to one of the two optimizers.",
            tensors_of(state, missed), names=name_of(state, missed, Message("tensor.a_parameter|a parameter")),
        )  # fmt: skip
        return
    foreign = {tensor.name for fault in _foreign(evidence) for tensor in fault.tensors}
    places: dict[Place, list[TrackedTensor]] = {}
    for tracked in steps.unoptimized.values():
        if (made := made_at(tracked)) is not None and state.name_of(tracked) not in foreign:
            places.setdefault(made, []).append(tracked)
    for made, tensors in sorted(places.items(), key=lambda one: (one[0].file, one[0].line)):
        if any(tensor.id in used or tensor.id in flow.optimized for tensor in tensors):
            continue
        effect = (
            "optimizer.unheld|no optimizer updates {names}, although backward computes a gradient: the random values "
            "from this line stay."
        )
        change = "optimizer.once|Make it once, before the optimizer, and pass its parameters to the optimizer."
        if all(steps.outlives(tensor) for tensor in tensors):
            change = (
                "optimizer.pass_or_freeze|Pass the parameters to the optimizer, or call requires_grad_(False) on them "
                "if they should keep these values."
            )
        if not (tensors[0].parameter and steps.is_random(tensors[0])):
            effect = (
                "optimizer.unheld_leaf|no optimizer updates {names}, although each backward adds to the gradient: the "
                "value from this line stays."
            )
        if not tensors[0].parameter:
            change = "optimizer.pass_it|Pass it to the optimizer, too."
        names = name_of(state, tensors, Message("tensor.a_parameter|a parameter"))
        yield UNOPTIMIZED.at(made, effect, change, tensors_of(state, tensors), names=names)


def _foreign(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the step of an optimizer whose parameters no backward reached, if the reached ones belong to no optimizer."""
    state, flow = evidence.state, evidence.state.flow
    written = {write.memory for write in state.writes if write.changed and write.call > 0 and not write.in_backward}
    thrown = {new.id for _, new in flow.steps.thrown_away}
    known, elsewhere = thrown | flow.reached.keys(), reached_elsewhere(evidence)
    idle = [one for number, one in flow.optimized.items() if number not in known and one.shape not in elsewhere]
    unoptimized = (one for number, one in flow.reached.items() if number not in flow.optimized and one.parameter)
    missed = [parameter for parameter in unoptimized if parameter.memory not in written]
    if flow.optimizer_at is None or not idle or not missed:
        return
    cuts = [cut for cut in flow.cuts.values() if cut.joined and not is_early_copy(cut)]
    cut_off = {number for cut in cuts for number in leaves_above(state, cut)}
    if {one.id for one in idle} & cut_off - followers(state):
        return
    message = counted_message(
        len(idle),
        "optimizer.foreign.one|the optimizer holds {count} tensor without a gradient, but not these, which do get gradients: {names}.",
        "optimizer.foreign|the optimizer holds {count} tensors without a gradient, but not these, which do get gradients: {names}.",
        names=name_of(state, missed, Message("optimizer.the_parameters|the parameters")),
    )
    change = Message(
        "optimizer.make_after|Make the optimizer after the model is complete, from the parameters of the model that computes the loss."
    )
    # A target network is not to be trained.
    meant = [one for one in idle if one.id not in followers(state)]
    concerned = tensors_of(state, meant) + tensors_of(state, missed)
    yield GraphFault(FOREIGN.name, flow.optimizer_at, message, change, concerned)


def _cleared(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the optimizer steps before which all gradients of a backward were cleared."""
    state = evidence.state
    for old, new in state.flow.steps.thrown_away:
        made = state.made_at(new)
        if made is not None:
            yield CLEARED.at(
                made,
                "optimizer.replaced|{names} is replaced by a new parameter without a gradient, after backward "
                "filled the gradient of the old one: the next step of the optimizer does not use it.",
                "optimizer.replace_after|Replace parameters after the step and before the next backward, or copy the gradient.",
                tensors_of(state, [old, new], lost=made), names=name_of(state, [new, old], "the parameter"),
            )  # fmt: skip
    for place, leaves in state.flow.cleared:
        yield CLEARED.at(
            place,
            "optimizer.cleared|the step changes nothing: backward filled the gradient of {names}, "
            "and it was cleared before this line.",
            "optimizer.clear_elsewhere|Clear gradients before backward or after the step, not between them.",
            tensors_of(state, leaves, lost=place), names=name_of(state, leaves, ITS_PARAMETERS),
        )  # fmt: skip


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


def _spent(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that add to gradients of an earlier update, if a later update uses the sum."""
    state, flow = evidence.state, evidence.state.flow
    flow.spend(state.writes)  # those after the last backward
    leaves: dict[Place, dict[int, TrackedTensor]] = {}
    for place, tracked in flow.used_twice:
        leaves.setdefault(place, {})[tracked.id] = tracked
    # A backward that fills gradients for another loss is reported where they are used.
    elsewhere = {left.first for left in _left_gradients(evidence)}
    for place, those in leaves.items():
        if place in elsewhere:
            continue
        names = name_of(state, those.values(), "a leaf")
        steps = [flow.updated_at[number].text for number in those if number in flow.updated_at]
        clear = f"{_optimizer_in(steps[0])}.zero_grad()" if steps else f"{names.partition(' ')[0]}.grad = None"
        yield SPENT.at(
            place,
            "optimizer.spent|backward adds to the gradient of {names} that an earlier update has used already, "
            "and the next update uses the sum.",
            "optimizer.clear_after|Clear it after each update: `{code}`.",
            names=names, code=clear,
        )  # fmt: skip


def _left_gradients(evidence: Evidence) -> list[LeftGradient]:
    state, flow = evidence.state, evidence.state.flow
    found = dict(evidence.runs.left.found)
    for second, (call, step, tensors) in flow.steps.left.items():
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
            names=and_more(left.names, Message("tensor.a_parameter|a parameter")), first=first, used=used, update=update,
        )  # fmt: skip


def _optimizer_in(text: str) -> str:
    """Return the optimizer of `o.step()` or `scaler.step(o)`, or "optimizer" for another text."""
    found = re.search(r"([\w.]+)\.step\(([\w.]*)", text)
    return "optimizer" if found is None else found[2] if found[2] and "scaler" in found[1].lower() else found[1]


def _without_effect(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the steps of an optimizer that changed no parameter in any step, although a gradient was not zero."""
    for steps in evidence.state.flow.steps.idle.values():
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
        tensors = tensors_of(evidence.state, steps[0].parameters)
        names = name_of(evidence.state, steps[0].parameters, ITS_PARAMETERS)
        yield NO_EFFECT.at(steps[0].place, effect, change, tensors, names=names)


FLAT = re.compile(r"(Round|Floor|Ceil|Trunc|Sign|Sgn)Backward\d")


def _flat(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the functions of derivative zero in front of parameters whose gradients are zero in each backward call."""
    state, calls = evidence.state, evidence.got.calls
    zero = {
        tracked.id: tracked
        for index, tracked in tracked_targets(evidence).items()
        if tracked is not None and tracked.id in state.flow.optimized
        if all(call[index] is not None and not call[index].any() for call in calls if index in call)  # type: ignore[union-attr]
    }
    places = {node.place: node for node in state.graph.nodes if FLAT.match(node.name)} if zero else {}
    for place, node in places.items():
        leaves = {below.tensor for below in state.graph.below([node.id]).values() if not below.inputs}
        if tensors := [tracked for number, tracked in zero.items() if number in leaves]:
            yield FLAT_DERIVATIVE.at(
                place,
                "flat.zero|the derivative of {function} is 0, so each backward call computes a gradient of zeros for {names}.",
                "flat.straight_through|Use a smooth function, or pass the gradient on: `y = x + ({function}(x) - x).detach()`.",
                names=name_of(state, tensors), function=f"torch.{FLAT.match(node.name)[1].lower()}",  # type: ignore[index]
            )  # fmt: skip


def _own_target(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the losses that compare a prediction with itself, because the target is in the same memory."""
    state = evidence.state
    for node in {node.place: node for node in state.graph.nodes if LOSS.match(node.name)}.values():
        kept = {save.name: save for save in node.saves}
        given, target = kept.get("self"), kept.get("target")
        if given and target and (given.memory, given.start, given.stop) == (target.memory, target.start, target.stop):
            tensors = [state.tensors.all[given.tensor]] if given.tensor is not None else []
            yield OWN_TARGET.at(
                node.place,
                "target.same_memory|the target has the memory of the prediction {name}, so their difference is 0, and "
                "so are the gradients.",
                "target.copy|Make the target from a copy of the values: `{name}.detach().clone()`.",
                name=name_of(state, tensors, "prediction"),
            )


LOSS = re.compile(r"(Mse|SmoothL1|Huber)LossBackward\d")
OWN_TARGET = FaultKind("target in the prediction's memory", _own_target, after_error=False)
FLAT_DERIVATIVE = FaultKind("derivative that is zero", _flat, after_error=False)
WITHOUT_A_LOSS = FaultKind("parameter that no loss depends on", _without_a_loss, after_error=False)
UNOPTIMIZED = FaultKind("gradient that no optimizer uses", _unheld, after_error=False)
# An optimizer is known from its first step: after an error, another step may have been next.
FOREIGN = FaultKind("optimizer of other parameters", _foreign, after_error=False)
CLEARED = FaultKind("gradient cleared before the step", _cleared)
CLIPPED = FaultKind("gradients clipped before backward", _clipped_early, after_error=False)
SPENT = FaultKind("gradient not cleared", _spent)
LEFT = FaultKind("gradient of another loss", _left, after_error=False)
NO_EFFECT = FaultKind("step without effect", _without_effect, after_error=False)
UNUSED_TARGET = FaultKind("target not in the graph", _unused_target)
OPTIMIZER_FAULTS = (
    OWN_TARGET, FLAT_DERIVATIVE, FOREIGN, UNOPTIMIZED, WITHOUT_A_LOSS, CLEARED, CLIPPED, NO_EFFECT, SPENT, LEFT,
)  # fmt: skip
