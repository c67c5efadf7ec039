"""Find the cause of an error of backward: gradients of a custom backward that do not fit, or a target outside of the graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import fault_kind, name_of, words_on_cut
from autograder.tape.diagnose.graph_cut import NO_HISTORY
from autograder.tape.observe.backward_watcher import node_of_visit
from autograder.tape.observe.gradient_flow import EarlierGradient, StartedBackward
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

RETURNED = re.compile(
    r"unction (\w+)Backward\w* returned (?:an incorrect number of gradients \(expected (\d+), got (\d+)\)"
    r"|an invalid gradient at index (\d+) - got (\[[\d, ]*\]) but expected shape compatible with (\[[\d, ]*\])"
    r"|a gradient different than None at position (\d+))"
)
"""PyTorch's messages on the gradients that a custom backward returns, 2.6 to 2.14."""


@fault_kind("gradients of a custom backward")
def custom_backward(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the custom backward that returned gradients of another number or shape than the inputs of its forward.

    The gradient for an input that is not a tensor must be None.
    """
    returned = RETURNED.search(evidence.error_message)
    if returned is None:
        return
    name, expected, got, index, got_shape, expected_shape, position = returned.groups()
    if (place := _backward_of(evidence, name)) is None:
        return
    if position is not None:
        yield custom_backward.at(
            place,
            "custom.gradient_of_value|the backward of {name} returns a gradient for argument number {number} of its forward "
            "(after ctx), which is not a tensor.",
            "custom.return_none|Return None for each argument that is not a tensor.",
            name=name, number=position,
        )  # fmt: skip
    elif index is None:
        yield custom_backward.at(
            place,
            "custom.number_of_gradients|the number of gradients that the backward of {name} returns ({got}) is not the "
            "number of its forward's arguments after ctx ({expected}).",
            "custom.return_one_for_each|Return one gradient for each argument, and None for one that needs none.",
            name=name, got=got, expected=expected,
        )  # fmt: skip
    else:
        yield custom_backward.at(
            place,
            "custom.shape_of_gradient|the backward of {name} returns a gradient of shape {got} for tensor number {number} "
            "of its forward's arguments, which has shape {expected}.",
            "custom.return_shape_of_argument|Return each gradient with the shape of its argument, in the order of the arguments.",
            name=name, got=got_shape, expected=expected_shape, number=int(index) + 1,
        )  # fmt: skip


def _backward_of(evidence: Evidence, name: str) -> Place | None:
    """Return the line of the backward of a class with this name, or None if the program has none."""
    classes = ((file, node) for file, node in evidence.nodes(ast.ClassDef) if node.name == name)
    methods = ((file, method) for file, node in classes for method in node.body if isinstance(method, ast.FunctionDef))
    places = (Place(file, method.lineno, "def backward") for file, method in methods if method.name == "backward")
    return next(places, None)


@fault_kind("no gradient of a custom backward", after_error=False)
def withheld_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the custom backwards that return None for an input, if parameters of an optimizer get no gradient through them."""
    state, steps = evidence.state, evidence.state.flow.steps
    leaves: dict[str, dict[int, TrackedTensor]] = {}
    for visit in (visit for visit in evidence.runs.trace.visits if visit.is_withheld):
        number = node_of_visit(visit, state)
        if number is not None and state.graph.nodes[number].is_custom:
            below = state.graph.leaves_below([number]) - steps.trained - steps.frozen
            missing = {leaf: state.flow.optimized[leaf] for leaf in below if leaf in state.flow.optimized}
            leaves.setdefault(visit.name.removesuffix("Backward"), {}).update(missing)
    for name, missing in leaves.items():
        if missing and (place := _backward_of(evidence, name)) is not None:
            tensors = [missing[number] for number in sorted(missing)]
            yield withheld_gradient.about(
                state, tensors, place,
                "custom.withheld|the backward of {function} returns None for an input that requires grad: it computes no "
                "gradient for {names}.",
                "custom.return_gradient|Return a gradient for each input that requires grad, in the order of the arguments.",
                lost=place, function=name,
            )  # fmt: skip


NOT_REQUIRED = "One of the differentiated Tensors does not require grad"  # PyTorch 2.6 to 2.14
UNUSED = re.compile(r"ifferentiated Tensors? .*appears? to not have been used in the graph")  # PyTorch 2.6 to 2.15


@fault_kind("target not in the graph")
def unused_target(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cause of a backward call that raised because its root has no graph, or its graph does not contain the target."""
    state, error = evidence.state, evidence.error_message
    if not evidence.runs.plain.in_backward or not state.flow.calls:
        return
    call = state.flow.calls[-1]
    if NO_HISTORY in error and call.recording and call.of is not None and not call.has_graph:
        if not call.of.call.creates_graph:
            yield unused_target.at(
                call.of.call.place,
                "target.no_graph|it computes {slope} without a graph, and {later} differentiates it again.",
                "target.graph|Pass create_graph=True here.",
                slope=name_of(state, [call.of.gradient], Message("target.gradient|the gradient")),
                later=_of_line(call.place, call.of.call.place),
            )
        elif custom := [node for node in state.graph.nodes if node.is_custom]:
            yield unused_target.at(
                call.place,
                "target.custom_backward|{slope}, which {earlier} computed, has no graph: the backward of {function} "
                "computed it without one, as `once_differentiable` does, or it is constant.",
                "target.record_backward|Let the backward of {function} compute with recorded operations from its incoming "
                "gradient and from saved inputs or outputs.",
                **_first_derivative(state, call, call.of), function=custom[-1].name.removesuffix("Backward"),
            )  # fmt: skip
        elif not call.of.gradient.requires_grad and call.of.target is not None:
            yield _constant(state, call, call.of, call.of.target)
    elif NOT_REQUIRED in error:
        for given in (given for given in call.asked if given.node is None and not given.requires_grad):
            yield unused_target.at(
                call.place,
                "target.not_required|{name} does not require grad, so no graph contains it.",
                "target.require|Call {name}.requires_grad_() before the computation of {root}.",
                name=name_of(state, [given], Message("target.input|the input")),
                root=name_of(state, call.roots, Message("target.output|the output")),
            )  # fmt: skip
    elif UNUSED.search(error) and (fault := _unused(state, call)):
        yield fault


def _unused(state: RunState, call: StartedBackward) -> GraphFault | None:
    """Return the fault of a call that asks for a tensor outside the graph of its roots, or None if all are inside."""
    nodes = state.graph.below(call.nodes)
    reached = {tensor.id for tensor in state.tensors.all if tensor.node in nodes}
    reached |= {node.tensor for node in nodes.values() if node.tensor is not None}
    target = next((target for target in call.asked if target.id not in reached), None)
    if target is None:
        return None
    name = _plain_name(state, target, Message("target.input|the input"))
    made = [state.tensors.all[node.tensor] for node in nodes.values() if node.tensor is not None and node.inputs]
    named = (_plain_name(state, tensor) for tensor in (*call.roots, *made))
    root = next(filter(None, named), Message("target.output|the output"))
    earlier = call.of
    cuts = [cut for cut in state.flow.cuts.all.values() if cut.used_at and target.id in state.leaves_above(cut)]
    if cuts:
        place, (clause, change) = cuts[-1].place, words_on_cut(cuts[-1], state)
        return unused_target.at(
            place,
            "target.clause|{clause}; so {name}, which {place} asks for, is not in the graph of {root}.",
            change, clause=clause, name=name, place=line_of(call.place, place.file), root=root,
        )  # fmt: skip
    is_custom = any(node.is_custom for node in state.graph.nodes)
    is_second = earlier is not None and earlier.target is target and earlier.call.creates_graph and not is_custom
    if earlier is not None and is_second and (earlier.gradient.id in reached or not earlier.gradient.requires_grad):
        return _constant(state, call, earlier, target)
    base = target.base or (target.origin and target.origin[0])
    if base is not None and base.id in reached and (of := _plain_name(state, base)):
        return unused_target.at(
            call.place,
            "target.new_tensor|it asks for the gradient of a new tensor that was made from {base}, but {root} was "
            "computed from {base} itself.",
            "target.index_gradient|Ask for the gradient of {base}, and index it.",
            base=of, root=root,
        )  # fmt: skip
    return unused_target.at(
        call.place,
        "target.not_in_graph|{root} was computed without {name}, so its graph does not contain it.",
        "target.compute_from|Compute it from {name}, or pass allow_unused=True, which gives None for {name}.",
        root=root, name=name,
    )  # fmt: skip


def _constant(state: RunState, call: StartedBackward, first: EarlierGradient, target: TrackedTensor) -> GraphFault:
    """Return the fault of a second derivative of something linear."""
    name = name_of(state, [target], Message("target.input|the input"))
    change = (
        "target.zeros|If a second derivative of zero is right, pass materialize_grads=True (it gives zeros) or "
        "allow_unused=True (it gives None)."
    )
    if not call.has_graph:
        change = "target.use_zeros|If a second derivative of zero is right, use zeros instead of this call."
    return unused_target.at(
        call.place,
        "target.linear|{slope}, which {earlier} computed, is the derivative of something linear (or piecewise linear) "
        "in {name}: it does not depend on {name}.", change, **_first_derivative(state, call, first), name=name,
    )  # fmt: skip


def _first_derivative(state: RunState, call: StartedBackward, first: EarlierGradient) -> dict[str, object]:
    """Return the values of a text on the gradient that an earlier call computed: its name, and the place of that call."""
    gradient = name_of(state, [first.gradient], Message("target.gradient|the gradient"))
    return {"slope": gradient, "earlier": _of_line(first.call.place, call.place)}


def _of_line(place: Place, other: Place) -> str:
    """Return the line of a call, or "another call of this line" if it is the same line as `other`."""
    return Message("target.same_line|another call of this line") if place == other else line_of(place, other.file)


def _plain_name(state: RunState, tracked: TrackedTensor, other: str = "") -> str:
    """Return a tensor's name as it is in the program, or `other` if it has only the description of an expression."""
    name = state.name_of(tracked) or other
    return other if "…" in name else name
