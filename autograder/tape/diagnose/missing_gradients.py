"""Find gradients that are None, zero or not finite, and leaves that lose their name."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, THIS_LINE, fault_kind, name_of
from autograder.tape.diagnose.shown_gradients import tracked_targets
from autograder.tape.observe.backward_watcher import node_of_visit
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of
from autograder.tape.run.engine import SAMPLED
from autograder.tape.run.storages import is_zero

_CLEARS = re.compile(r"\.grad\.(zero_|detach_|requires_grad_)\(|\.grad = None$|^print\(")
# a training step that does not give its optimizer other parameters
_STEP = re.compile(r"(?!.*(param_groups|optim\.|add_param_group)).*\.backward\(.*\.step\(", re.DOTALL)
LOOP_NAME = "leaf.loop_name|the loop's name {name} is bound to a new tensor, and the leaf itself keeps its old values."
LEFT_OPTIMIZER = (
    "leaf.left_optimizer|{name} is then another tensor, and the optimizer goes on with the leaf that {name} was before."
)
COPY = "leaf.copy_in_place|Modify the leaf in place, under torch.no_grad(): `{name}.copy_({new})`."


@fault_kind("leaf lost")
def lost_leaf(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that bind a leaf's name to an updated tensor, which is not a leaf that requires grad or is not used."""
    for name, place, at, leaf, other in _rebound(evidence.state):
        statement = evidence.statement_at(place)
        new = getattr(statement, "value", None)
        if not isinstance(statement, ast.Assign) or [*map(ast.unparse, statement.targets)] != [name]:
            continue
        is_replaced = leaf in evidence.state.flow.optimized and _is_replaced(evidence, statement, place, name, other)
        if is_replaced and _is_left_behind(evidence.state, leaf, name, at):
            yield lost_leaf.at(place, LEFT_OPTIMIZER, COPY, name=name, new=ast.unparse(statement.value))
        tensors = evidence.state.tensors.all
        if not isinstance(new, ast.BinOp | ast.Call) or tensors[other].memory is tensors[leaf].memory:
            continue
        if isinstance(new, ast.BinOp) and _is_update(new, name) and not tensors[other].leaf:
            effect = (
                "leaf.becomes_other|{name} is then another tensor, which is not a leaf that requires grad: the next "
                "backward call computes no gradient for it."
            )
            yield lost_leaf.at(
                place,
                LOOP_NAME if _loops_over(evidence, place.file, place.line, name) else effect,
                "leaf.modify_in_place|Modify the leaf in place, under torch.no_grad(): `{name} -= {step}`.",
                name=name, step=ast.unparse(new.right),
            )  # fmt: skip
        elif _is_unused(evidence, place.file, new.lineno, name):
            yield lost_leaf.at(place, LOOP_NAME, COPY, name=name, new=ast.unparse(new))


def _is_update(new: ast.BinOp, name: str) -> bool:
    """Return whether an expression is `name - step`, and the step is computed from the gradient."""
    is_own, text = ast.unparse(new.left) in (name, f"{name}.data"), ast.unparse(new)
    return isinstance(new.op, ast.Sub) and is_own and f"{name}.grad" in text and "detach" not in text


def _is_replaced(evidence: Evidence, statement: ast.Assign, place: Place, name: str, new: int) -> bool:
    """Return whether the innermost loop around a line is a training step in which the line replaces a leaf.

    It computes the new value from the old one, or `new` is a leaf that backward reaches and no optimizer holds.
    """
    loops = evidence.around(place.file, place.line, ast.For) + evidence.around(place.file, place.line, ast.While)
    loop = max(loops, key=lambda loop: loop.lineno, default=statement)
    names = {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
    is_leaf = new in evidence.state.flow.reached.keys() - evidence.state.flow.optimized.keys()
    return (name in names or is_leaf) and _STEP.match(ast.unparse(loop)) is not None


def _is_left_behind(state: RunState, leaf: int, name: str, at: int) -> bool:
    """Return whether the step `at` took a leaf's only name, and backward is called later, but no step is for other leaves only.

    A leaf with another name may be an initial value, to which the name is bound again.
    """
    flow, steps = state.flow, state.finished_steps
    bound = [(step.function, change.name) for step in steps for change in step.names if change.tensor == leaf]
    later = [number for number, call in enumerate(flow.calls) if call.graph.step > at]
    held = [{tracked.id for tracked in held} for calls, held in flow.steps.calls if later and calls > later[0]]
    is_only_name = {known for _, known in bound} == {name} and bound.count((steps[at].function, name)) == 1
    return is_only_name and bool(later) and (not held or any(leaf in ids for ids in held))


def _rebound(state: RunState) -> Iterator[tuple[str, Place, int, int, int]]:
    """Yield the names of leaves that were bound to another tensor, with the line, the number of the step, and both ids."""
    bound: dict[tuple[str, str], int] = {}
    for number, step in enumerate(state.finished_steps):
        for change in step.names:
            key = (step.function, change.name)
            old, new = bound.get(key), change.tensor
            if new is not None:
                bound[key] = new
            if old is not None and new is not None and step.place is not None and state.tensors.all[old].leaf:
                yield change.name, step.place, number, old, new


def _is_unused(evidence: Evidence, file: str, line: int, name: str) -> bool:
    """Return whether a line reads the name of a loop around it, and no line of the loop below it does."""
    uses = [node for where, node in evidence.nodes(ast.Name) if where == file and node.id == name]
    reads = [use.lineno for use in uses if isinstance(use.ctx, ast.Load)]
    end = max((loop.end_lineno or 0 for loop in _loops_over(evidence, file, line, name)), default=0)
    return line in reads and line <= end and not any(line < other <= end for other in reads)


def _loops_over(evidence: Evidence, file: str, line: int, name: str) -> list[ast.For]:
    """Return the loops around a line that bind a name in each iteration."""
    loops = evidence.around(file, line, ast.For)
    return [loop for loop in loops if name in {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}]


@fault_kind("gradient of a tensor that is not a leaf")
def missing_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that read the `.grad` of a tensor with a graph."""
    state, problem = evidence.state, evidence.runs.plain.problem
    for place, tracked in state.flow.retained_late.items():
        if problem is not None and problem.is_at(place):
            yield missing_gradient.at(
                place,
                "leaf.retained_late|{name}.grad is None: retain_grad() was called after backward, and keeps only the "
                "gradients of later calls.",
                "leaf.retain_before|Call {name}.retain_grad() before backward.",
                name=name_of(state, [tracked], "it"),
            )
    visited = [call.graph.visited for call in state.flow.calls]
    for place, (tracked, _, calls) in state.flow.missing.items():
        is_early = not any(tracked.node in nodes for nodes in visited[:calls]) and (
            calls == 0 or any(tracked.node in nodes for nodes in visited[calls:])
        )
        is_expected = is_early and not (problem and problem.is_at(place))
        if tracked.node is not None and not is_expected and not _only_clears(evidence, place):
            yield missing_gradient.at(
                place,
                "leaf.grad_is_none|{name}.grad is None: {name} is not a leaf, because {place} computed it; "
                "backward fills only the .grad of leaves.",
                "leaf.make_leaf|Make {name} itself the leaf (requires_grad_() after that computation), "
                "or call {name}.retain_grad() before backward.",
                name=name_of(state, [tracked], "it"),
                place=line_of(state.graph.nodes[tracked.node].place, place.file),
            )


def _only_clears(evidence: Evidence, place: Place) -> bool:
    """Return whether a line is in the test of an `if` statement that only clears a `.grad` or prints it."""
    guards = ((guard.test, guard.body) for guard in evidence.around(place.file, place.line, ast.If))
    bodies = [body for test, body in guards if test.lineno <= place.line <= (test.end_lineno or place.line)]
    texts = [ast.unparse(statement) for body in bodies for statement in body]
    uses = [text for text in texts if ".grad" in text]
    return bool(uses) and all(_CLEARS.search(text) for text in uses)


@fault_kind("gradient that is None")
def empty_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that raised an error because it used the `.grad` of a leaf, which is None."""
    state, problem = evidence.state, evidence.runs.plain.problem
    at = problem.place(evidence.file) if problem is not None and "NoneType" in problem.message else None
    if at is None:
        return
    for place, (leaf, is_required, _) in state.flow.missing.items():
        if leaf.node is not None or (place.file, place.line) != (at.file, at.line):
            continue
        last = line_of(state.flow.calls[-1].place, place.file) if state.flow.calls else ""
        cuts = (cut for cut in state.flow.cuts.all.values() if not cut.is_copy and leaf.id in state.leaves_above(cut))
        cut = next(cuts, None)
        cut_at = line_of(cut.place, place.file) if cut else ""
        reason = _why_empty(state, leaf, cut_at, is_required=is_required)
        yield empty_gradient.at(place, *reason, name=name_of(state, [leaf], "it"), place=last, cut=cut_at)


def _why_empty(state: RunState, leaf: TrackedTensor, cut_at: str, *, is_required: bool) -> tuple[str, str]:
    """Return the reason why the `.grad` of a leaf is None, and the change. `cut_at` is the line of a cut below the leaf."""
    require = "empty.require|Call {name}.requires_grad_() before the computation of the loss, or skip it."
    if not is_required:
        return (
            "empty.not_required|{name}.grad is None: {name} does not require grad, so backward computes no gradient for it.",
            require,
        )
    if not state.flow.calls:
        return (
            "empty.too_early|{name}.grad is None: no backward call was made before this line.",
            "empty.call_backward|Call backward before this line.",
        )
    if leaf.id in state.flow.reached:
        return (
            "empty.cleared|{name}.grad is None: backward filled it, and it was set to None before this line, "
            "as zero_grad() does.",
            "empty.read_earlier|Read it after backward and before zero_grad().",
        )
    if leaf.id in state.flow.constant:
        return (
            "empty.required_late|{name}.grad is None: the backward call of {place} did not reach {name}. Its loss does not "
            "depend on {name}, or only through operations that used {name} before it required grad.",
            require,
        )
    if cut_at:
        return (
            "empty.cut|{name}.grad is None: the backward call of {place} did not reach {name}. Its loss does not depend "
            "on {name}, or only through {cut}, which takes values without their history.",
            "empty.keep_history|Keep the history in {cut}, if the loss should depend on {name}.",
        )
    return (
        "empty.not_reached|{name}.grad is None: the backward call of {place} did not reach {name}, because its loss "
        "does not depend on it.",
        "empty.skip|Use {name} in the loss, or skip each parameter whose .grad is None.",
    )


FLAT = re.compile(r"(Round|Floor|Ceil|Trunc|Sign|Sgn|Bernoulli|Poisson)Backward\d")


def _with_zeros(evidence: Evidence) -> dict[int, TrackedTensor]:
    """Return the parameters of optimizers whose gradients are zero in each backward call, by id."""
    calls = evidence.got.calls
    return {
        tracked.id: tracked
        for index, tracked in tracked_targets(evidence).items()
        if tracked is not None and tracked.id in evidence.state.flow.optimized
        if all(call[index] is not None and is_zero(call[index]) for call in calls if index in call)  # type: ignore[arg-type]
    }


def notes_on_zeros(evidence: Evidence) -> Iterator[str]:
    """Yield a note on parameters whose gradients are zero in each of several backward calls, if no line is named for it."""
    zeros = _with_zeros(evidence) if len(evidence.got.calls) > 2 else {}
    # Other elements of a large gradient may differ from 0.
    whole = [tensor for tensor in zeros.values() if math.prod(tensor.shape) <= SAMPLED]
    # In a difference of scores, as of a Wasserstein GAN, the bias of the last layer cancels.
    has_matrix = any(len(tensor.shape) > 1 for tensor in zeros.values())
    if whole and has_matrix and not (flat_derivative.found(evidence) or own_target.found(evidence)):
        yield Message(
            "note.zeros|The gradient of {names} is 0 in each backward call: terms of the loss cancel each other, or a "
            "derivative on the way is 0.",
            names=name_of(evidence.state, whole, A_PARAMETER),
        )


@fault_kind("derivative that is zero", after_error=False)
def flat_derivative(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the functions of derivative zero in front of parameters whose gradients are zero in each backward call."""
    state, zero = evidence.state, _with_zeros(evidence)
    places = {node.place: node for node in state.graph.nodes if FLAT.match(node.name)} if zero else {}
    for place, node in places.items():
        leaves = state.graph.leaves_below([node.id])
        if tensors := [tracked for number, tracked in zero.items() if number in leaves]:
            yield flat_derivative.at(
                place,
                "flat.zero|the derivative of {function} is 0, so each backward call computes a gradient of zeros for {names}.",
                "flat.straight_through|Use a smooth function, or pass the gradient on: `y = x + ({function}(x) - x).detach()`.",
                names=name_of(state, tensors), function=f"torch.{FLAT.match(node.name)[1].lower()}",  # type: ignore[index]
            )  # fmt: skip

    yield from _drawn(evidence)


def _drawn(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of `torch.normal` with computed parameters, whose derivative is 0, that a backward call visited."""
    state = evidence.state
    visited = sorted({number for call in state.flow.calls for number in call.graph.visited})
    nodes = [state.graph.nodes[number] for number in visited]
    drawn = {node.place: node for node in nodes if node.name.startswith("NormalBackward")}
    for place in drawn if drawn and not evidence.uses_log_probabilities() else ():
        yield flat_derivative.at(
            place,
            "flat.normal|the derivative of torch.normal is 0, so no gradient reaches the mean and the standard deviation "
            "through the numbers that this line draws.",
            "flat.reparametrize|Draw `mean + std * torch.randn_like(std)`, if backward should reach them.",
        )


LOSS = re.compile(r"(Mse|SmoothL1|Huber)LossBackward\d")


@fault_kind("target in the prediction's memory", after_error=False)
def own_target(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the losses that compare a prediction with itself, because the target is in the same memory."""
    state = evidence.state
    for node in {node.place: node for node in state.graph.nodes if LOSS.match(node.name)}.values():
        kept = {save.name: save for save in node.saves}
        given, target = kept.get("self"), kept.get("target")
        # A tensor inside a transform of torch.func has no memory of its own.
        if not (given and target and given.memory.size):
            continue
        if (given.memory, given.start, given.stop) == (target.memory, target.start, target.stop):
            tensors = [state.tensors.all[given.tensor]] if given.tensor is not None else []
            yield own_target.at(
                node.place,
                "target.same_memory|the target has the memory of the prediction {name}, so their difference is 0, and "
                "so are the gradients.",
                "target.copy|Make the target from a copy of the values: `{name}.detach().clone()`.",
                name=name_of(state, tensors, "prediction"),
            )


_RESHAPES = re.compile(r"(Unsafe)?(View|Reshape|Alias|Squeeze|Unsqueeze|Transpose|Permute)Backward\d")


@fault_kind("target with a graph", after_error=False)
def recorded_target(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute a target `r + c * q(s)` with a graph, if the prediction depends on the same parameters."""
    state, nodes = evidence.state, evidence.state.graph.nodes
    for loss in evidence.visited.values():
        pair = loss.inputs[:2] if LOSS.match(loss.name) else ()
        sides = [_without_reshapes(nodes, nodes[number]) for number in pair if number is not None]
        if len(sides) < 2 or not _is_constant_plus_product(nodes, target := sides[1]):
            continue
        below = [state.graph.leaves_below([side.id]) for side in sides]
        if shared := below[0] & below[1] & state.flow.optimized.keys():
            yield recorded_target.about(
                state, [state.flow.optimized[leaf] for leaf in sorted(shared)], target.place,
                "target.recorded|the target of the loss of {place} has a graph, so backward also computes the gradient for "
                "{names} that passes through the target.",
                "target.detach|If the target is meant as a constant, as in Q-learning, compute it under torch.no_grad().",
                place=line_of(loss.place, target.place.file),
            )  # fmt: skip


def _is_constant_plus_product(nodes: list[GraphNode], node: GraphNode) -> bool:
    """Return whether a node adds a value without a graph to a multiple of one with a graph, as `r + 0.9 * q`."""
    terms = [number for number in node.inputs if number is not None]
    is_sum = node.name.startswith("AddBackward") and len(node.inputs) == 2 and len(terms) == 1
    factor = _without_reshapes(nodes, nodes[terms[0]]) if is_sum else node
    return is_sum and factor.name.startswith("MulBackward") and None in factor.inputs


def _without_reshapes(nodes: list[GraphNode], node: GraphNode) -> GraphNode:
    """Return the first node below that does not only give the values another shape."""
    while _RESHAPES.match(node.name) and node.inputs[0] is not None:
        node = nodes[node.inputs[0]]
    return node


def _given(evidence: Evidence, functions: dict[str, str]) -> Iterator[tuple[GraphNode, GraphNode, str]]:
    """Yield the nodes of losses that get the result of a function, that node, and the function, by `functions`: loss to function."""
    nodes = evidence.state.graph.nodes
    for loss in evidence.visited.values():
        name = functions.get(loss.name.rstrip("0123456789"))
        if name is not None and loss.inputs[0] is not None:
            given = _without_reshapes(nodes, nodes[loss.inputs[0]])
            if given.name.startswith(f"{name}Backward"):
                yield loss, given, name.lower()


@fault_kind("softmax or sigmoid computed twice", after_error=False)
def normalized_twice(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute the softmax or sigmoid which the loss computes itself."""
    computed = {"LogSoftmaxBackward": "Softmax", "BinaryCrossEntropyWithLogitsBackward": "Sigmoid"}
    for loss, given, function in _given(evidence, computed):
        yield normalized_twice.at(
            given.place,
            "twice.normalized|it computes a {function}, and {place} computes one of its result, so the gradients are "
            "those of a {function} of a {function}.",
            "twice.logits|Give {place} the values before the {function}.",
            function=function,
            place=THIS_LINE if loss.place == given.place else line_of(loss.place, given.place.file),
        )


@fault_kind("probabilities without a logarithm", after_error=False)
def without_logarithm(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute a softmax for a negative log-likelihood, which takes logarithms (`nn.NLLLoss`, PyTorch 2.13)."""
    for loss, given, _ in _given(evidence, dict.fromkeys(("NllLossBackward", "NllLoss2DBackward"), "Softmax")):
        yield without_logarithm.at(
            given.place,
            "logarithm.missing|it computes probabilities, and {place} expects their logarithms, so the loss is the negative "
            "probability, and not its negative logarithm.",
            "logarithm.take|Compute `log_softmax` in place of `softmax`.",
            place=THIS_LINE if loss.place == given.place else line_of(loss.place, given.place.file),
        )


@fault_kind("nan or inf")
def not_finite(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line of the first node that computes nan or inf from finite gradients."""
    call = evidence.not_finite_call
    visits = [visit for visit in evidence.runs.trace.visits if visit.call == call and visit.not_finite]
    node = node_of_visit(visits[0], evidence.state) if visits else None
    if node is None or call is None:
        return
    effect = (
        "nan.here|in backward call {number}, {node} computes nan or inf here from finite gradients, also with private "
        "copies of the saved tensors, so no in-place modification causes it."
    )
    change = "nan.stay_away|Keep its input away from values where its derivative is not finite, for example with clamp."
    if visits[0].not_finite == "from zero":
        effect = (
            "nan.from_zero|in backward call {number}, {node} computes nan here, also with private copies of the saved "
            "tensors: it receives 0, as behind torch.where or a mask, and 0 times an infinite derivative is nan."
        )
        change = "nan.replace_before|Replace these elements before this line, not after it."
    place = evidence.state.graph.nodes[node].place
    yield not_finite.at(place, effect, change, number=call + 1, node=visits[0].name)
