"""Find lines that cut values of a loss off the graph, so that a parameter or a term receives no gradient."""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from autograder.locale.messages import CLAUSES, Message, join_messages
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, ALIASES, CHANGES, fault_kind, name_of, words_on_cut
from autograder.tape.observe.cuts import NO_GRAD, Cut
from autograder.tape.observe.gradient_flow import EarlierGradient, StartedBackward
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

_SUM = re.compile("(Add|Sub|Rsub)Backward")
_SCALED = re.compile("(Mul|Div|Neg|Mean|Sum)Backward")
_CONVERSIONS = ("numpy", "__array__", "tolist", "item", "__float__")
_NO_BACKWARD = re.compile("'(float|int|numpy.*)' object has no attribute 'backward'")
NO_HISTORY = "does not require grad and does not have a grad_fn"  # PyTorch 2.6 to 2.15


@fault_kind("graph cut")
def graph_cut(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that cut the graph: of a loss without a graph, of parameters without a gradient, or inside a sum."""
    for find in (
        _without_history,
        _from_parameters,
        _untrained,
        _empty_steps,
        _detached_terms,
        _added_numbers,
        _penalties,
        _derivatives,
        _constant_steps,
        _samples,
    ):
        yield from find(evidence)


def _without_history(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cut of each backward that starts from a leaf or a tensor without a graph."""
    flow, error = evidence.state.flow, evidence.error_message
    yield from _number_backward(evidence, error)
    for call in flow.calls:
        if not call.recording and flow.modes.left_recording:
            continue  # the line that turned recording off is named
        cut = call.cut or (_last_cut(evidence.state, call.place) if not call.has_graph else None)
        frozen_at = evidence.frozen_at
        if cut is not None and frozen_at is not None and not _takes_trained(evidence.state, cut, call, frozen_at):
            cut = None  # the line that froze the parameters is named
        if not call.has_graph and cut is not None and (call.roots or NO_HISTORY in error):
            follows: str = Message(
                "cut.reaches_no_parameter|backward at {place} ends there and reaches no parameter.",
                place=line_of(call.place, cut.place.file),
            )
            made = (flow.cuts.new_leaves[root.id] for root in call.roots if root.id in flow.cuts.new_leaves)
            new_leaf = next(made, cut.place)
            if new_leaf != cut.place:
                hides = Message(
                    "cut.new_leaf_hides|They become a new leaf at {place}, which hides the error.",
                    place=line_of(new_leaf, cut.place.file),
                )
                follows = join_messages((follows, hides))
            above = (evidence.state.tensors.all[number] for number in sorted(evidence.state.leaves_above(cut)))
            leaves = [tensor for tensor in above if tensor.leaf]
            yield _cut_fault(evidence.state, cut, follows, leaves, call.place)


def _takes_trained(state: RunState, cut: Cut, call: StartedBackward, frozen_at: Place) -> bool:
    """Return whether a cut took values of parameters that earlier calls of the line reached, after the last run of `frozen_at`."""
    nodes, steps = state.graph.nodes, state.finished_steps
    last = max((number for number, step in enumerate(steps) if step.place == frozen_at), default=0)
    taken = [node for _, node in cut.sources.values() if node is not None and nodes[node].step > last]
    earlier = (node for other in state.flow.calls if other.place == call.place for node in other.nodes)
    return not state.graph.leaves_below(taken).isdisjoint(state.graph.leaves_below(earlier))


def _from_parameters(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the backward calls that start from a parameter of an optimizer, if others of its step never get a gradient."""
    state, flow = evidence.state, evidence.state.flow
    accounted_for = flow.accounted_for
    for call in {call.place: call for call in flow.calls if not (call.has_graph or call.asked)}.values():
        steps = {flow.updated_at[root.id] for root in call.roots if root.leaf and root.id in flow.optimized}
        without = [leaf for number, leaf in flow.optimized.items() if number not in accounted_for]
        if lost := [leaf for leaf in without if flow.updated_at[leaf.id] in steps]:
            yield graph_cut.about(
                state, lost, call.place,
                "cut.from_parameter|backward starts from {name}, a parameter of the optimizer, so it only adds to its gradient; "
                "no backward call computes one for {names}.",
                "cut.from_loss|Call backward on a loss that is computed with these parameters.",
                read=call.place, name=name_of(state, call.roots),
            )  # fmt: skip


def _number_backward(evidence: Evidence, error: str) -> Iterator[GraphFault]:
    """Yield the line that made a number or an array of a tensor, if the program called backward on it."""
    problem = evidence.runs.plain.problem
    at = problem.place(evidence.file) if problem and _NO_BACKWARD.search(error) else None
    if at is not None and (cut := _last_cut(evidence.state, at)) is not None:
        follows = Message("cut.number_backward|{place} calls backward on it.", place=line_of(at, cut.place.file))
        yield _cut_fault(evidence.state, cut, follows)


def _last_cut(state: RunState, before: Place) -> Cut | None:
    """Return the last line above a backward call that converted a tensor to an array or a number, which autograd cannot follow."""
    cuts = [cut for cut in state.flow.cuts.all.values() if cut.how in _CONVERSIONS]
    above = [cut for cut in cuts if cut.place.file == before.file and cut.place.line <= before.line]
    return above[-1] if above else None


def _untrained(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that cut off parameters of an optimizer that no backward reached."""
    state, flow = evidence.state, evidence.state.flow
    given = {leaf.id for leaves in state.given.values() for leaf in leaves}
    reached = flow.accounted_for | given | state.followers | state.leaves_of_derivatives
    elsewhere, empty = evidence.reached_elsewhere, evidence.recorded_steps(evidence.runs.left.without_gradient)
    reached |= {number for number, step in empty.items() if step.is_updated}
    held = {number: leaf for number, leaf in flow.optimized.items() if flow.calls and number not in reached}
    without = {number for number, leaf in held.items() if number in empty or leaf.shape not in elsewhere}
    # A cut whose values became a leaf that backward reached is on the way to the loss; of the others, the last is whose
    # values the graph uses. An array is not, if its values had left the graph before and reached the loss without it, as
    # a sampled action's do.
    new_leaves = [cut for parameter in flow.reached.values() if (cut := flow.cuts.origin([parameter])) is not None]
    known = [cut for cut in flow.cuts.all.values() if cut.behind is None or not cut.behind.used_at]
    fronts = [cut for cut in known if cut in new_leaves]
    others = [cut for cut in reversed(known) if cut not in fronts]
    made = _places_of_nodes(state)

    def rank(cut: Cut) -> tuple[bool, bool]:
        # Python computes with a number before the graph uses the result, and a statement may only print it.
        is_used = cut.used_at or (cut.is_number and cut.place in made)
        return not is_used, isinstance(evidence.statement_at(cut.place), ast.Expr)

    cuts = [*fronts, *sorted(others, key=rank)]
    in_losses, missing = evidence.nodes_of_losses if without else {}, set(without)
    # by id of a parameter, the graph of the loss of its own step; for it, other losses may be meant as constants
    steps = (
        [(tensors, state.graph.below(call.nodes)) for _, tensors, call in cut_steps(state).values()] if without else []
    )
    losses = {leaf.id: below for tensors, below in steps for leaf in tensors}
    for cut in cuts if without else ():
        # Several lines can make leaves of values behind which the same parameters are, such as the weight and the bias.
        kept_from = state.leaves_of_losses(cut, in_losses) & (missing if cut in fronts else without)
        kept_from = {n for n in kept_from if n not in losses or n in state.leaves_used_in(cut, losses[n])}
        # A value that left as another tensor and was not combined with the graph again was only read, and copies that no
        # backward reaches take no gradient away.
        looks = (not cut.is_number and cut.how != "numpy" and not cut.used_at) or cut.is_copy
        if kept_from and (not looks or cut in fronts) and not cut.is_early_copy:
            without -= kept_from
            tensors = [flow.optimized[number] for number in sorted(kept_from)]
            names = name_of(state, tensors, A_PARAMETER)
            follows: str = Message(
                "cut.not_updated|No backward call computes a gradient for {names}, which the optimizer holds.",
                names=names,
            )
            if cut.is_copy and (place := _updated_copies(evidence, cut)) is not None:
                also = Message(
                    "cut.copies_updated|The update of the copies through .data at {place} is not recorded either.",
                    place=line_of(place, cut.place.file),
                )
                follows = join_messages((follows, also))
            yield _cut_fault(state, cut, follows, tensors)


def _empty_steps(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cuts because of which the last backward before a step reached no parameter of that step, if another call does."""
    for step, (cut, tensors, call) in cut_steps(evidence.state).items():
        follows = Message(
            "cut.empty_step|The backward of {backward} computes no gradient for {names}, so the step of {step} changes nothing.",
            backward=line_of(call.place, cut.place.file),
            names=name_of(evidence.state, tensors, A_PARAMETER),
            step=line_of(step, cut.place.file),
        )
        yield _cut_fault(evidence.state, cut, follows, tensors)


def cut_steps(state: RunState) -> dict[Place, tuple[Cut, list[TrackedTensor], StartedBackward]]:
    """Return, by line of a step without gradients, the cut between its parameters and the loss of the call before it."""
    flow, cuts = state.flow, dict[Place, tuple[Cut, list[TrackedTensor], StartedBackward]]()
    replaced = {new.id for _, new in flow.steps.replaced}
    for step, held, count in flow.empty_steps:
        if not count or step in cuts:
            continue
        call = flow.calls[count - 1]
        below = state.graph.below(call.nodes)
        ids = {leaf.id for leaf in held} - {node.tensor for node in below.values()} - replaced
        for cut in flow.cuts.all.values():
            lost = state.leaves_used_in(cut, below) & ids
            if lost and not cut.is_early_copy:
                cuts.setdefault(step, (cut, [leaf for leaf in held if leaf.id in lost], call))
    return cuts


def _places_of_nodes(state: RunState) -> set[Place]:
    return {step.place for step in state.finished_steps if step.nodes and step.place}


def _added_numbers(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the numbers that were converted from tensors with a graph and are added to a loss."""
    state = evidence.state
    made = _places_of_nodes(state)
    losses = (node for call in state.flow.calls for node in _scaled_sums(state, call))
    sums = {node.place for node in losses if _SUM.match(node.name)}
    for cut in list(state.flow.cuts.all.values()):
        if not cut.is_number:
            continue
        place = _where_added(evidence, cut, sums)
        if place is None and cut.place in made and any(tracked.leaf for tracked in cut.values):
            yield _cut_fault(state, cut, Message("cut.result|the result of this line has no gradient for it."))
        if place is not None:
            follows = Message(
                "cut.added_to_loss|it is added to a loss at {place} and does not change its gradient.",
                place=line_of(place, cut.place.file),
            )
            yield _cut_fault(state, cut, follows)


def _where_added(evidence: Evidence, cut: Cut, sums: set[Place]) -> Place | None:
    """Return the sum of a loss that adds the number: in the statement of the cut, or in one that reads its variable."""
    state = evidence.state
    places = {place.line: place for place in sums if place.file == cut.place.file}
    # Several statements may be on the line.
    statements = evidence.around(cut.place.file, cut.place.line, ast.stmt) if places else []
    converting = [node for node in statements if any(map(_is_number, ast.walk(node)))]
    statement = max(converting or statements, key=lambda node: (node.lineno, node.col_offset), default=None)
    if statement is None:
        return None
    changes = [name for step in state.finished_steps for name in step.names if name.tensor is not None]
    with_graph = {change.name for change in changes if state.tensors.all[change.tensor].requires_grad}  # type: ignore[index]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AugAssign) else targets
    is_of_tensor = not targets or not {change.name for change in changes}.isdisjoint(map(ast.unparse, targets))
    here = places.get(statement.lineno)
    is_added = any(_is_summand(node, statement, with_graph) for node in ast.walk(statement) if _is_number(node))
    # In `total += loss(x).item()` only the loss has a graph; the name is that of a number.
    if here is not None and is_added and is_of_tensor:
        return here
    if not targets or not isinstance(targets[0], ast.Name) or targets[0].id in with_graph:
        return None
    for node in ast.walk(evidence.trees[cut.place.file]):
        if isinstance(node, ast.stmt) and node.lineno in places and node.lineno > statement.lineno:
            names = (read for read in ast.walk(node) if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load))
            if any(read.id == targets[0].id and _is_summand(read, node, with_graph) for read in names):
                return places[node.lineno]
    return None


def _penalties(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of `autograd.grad` without create_graph whose result a penalty in the loss was computed from."""
    state = evidence.state
    for place, (earlier, sums) in state.flow.constants.items():
        added = next((sums[node] for node in sums if node in evidence.visited), None)
        if added is not None:
            effect = (
                "cut.penalty|it computes {slope} without a graph, so the number that {place} adds to a loss, which is "
                "computed from it, does not change the loss's gradient."
            )
            yield _constant_gradient(state, place, effect, earlier, added)


def _derivatives(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of `autograd.grad` without create_graph whose result is a term beside values of the same model.

    The derivative is one for data. A sum with only the data itself, such as in an attack, or with another model is meant.
    """
    state = evidence.state
    optimized = state.flow.optimized.keys()
    for place, (earlier, target, added, node) in state.flow.derivatives.items():
        before, beside = (state.graph.leaves_below(nodes) for nodes in (earlier.call.nodes, [node]))
        # The tensor may be computed from the data, as `x.requires_grad_().reshape(-1, 1)` is.
        data = {target.id} if target.leaf else state.graph.leaves_below([target.node])
        is_model = before & beside & optimized and data and data <= beside - optimized
        if node in evidence.visited and is_model:
            effect = (
                "cut.derivative|it computes {slope} without a graph, so {place}, where a loss is computed from it, gets no "
                "gradient through this derivative."
            )
            yield _constant_gradient(state, place, effect, earlier, added)


def _constant_steps(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of `autograd.grad` without create_graph before a loss, if only they lead to parameters of an optimizer.

    An update of copies that is computed from such a gradient, as in meta learning, is constant for backward. A call that
    asks for gradients of data only, as each step of a simulation does, trains no parameter.
    """
    state, flow, elsewhere = evidence.state, evidence.state.flow, evidence.reached_elsewhere
    # The graph of a derivative does not reach a parameter that is only added, such as the last bias of an energy.
    added = state.graph.leaves_below([node for call in flow.calls if call.creates_graph for node in call.nodes])
    accounted_for = flow.accounted_for | added
    for call in flow.calls:
        earlier = call.of
        if earlier is None or not earlier.call.asked or earlier.call.creates_graph:
            continue
        if call.asked and flow.optimized.keys().isdisjoint(target.id for target in call.asked):
            continue
        others = accounted_for.union(target.id for target in earlier.call.asked)
        below = state.graph.leaves_below(earlier.call.nodes) - others
        missing = [leaf for number, leaf in sorted(flow.optimized.items()) if number in below]
        if missing and all(leaf.shape not in elsewhere for leaf in missing):
            place = earlier.call.place
            yield graph_cut.about(
                state, missing, place,
                "cut.constant_step|it computes {slope} without a graph, so the backward of {place}, whose loss is computed "
                "from it, computes no gradient for {names}, which the optimizer holds.",
                "target.graph|Pass create_graph=True here.",
                lost=place, place=line_of(call.place, place.file),
                slope=name_of(state, [earlier.gradient], Message("target.gradient|the gradient")),
            )  # fmt: skip


def _constant_gradient(
    state: RunState, place: Place, effect: str, earlier: EarlierGradient, added: Place
) -> GraphFault:
    """Return the fault of an `autograd.grad` call without a graph, whose result the line `added` uses in a loss."""
    gradient = name_of(state, [earlier.gradient], Message("target.gradient|the gradient"))
    change = "target.graph|Pass create_graph=True here."
    return graph_cut.at(place, effect, change, slope=gradient, place=line_of(added, place.file))


def _samples(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that draw a value of a loss with `Normal.sample`, or of a mean and a scale that are in the same loss.

    Values whose log probability is computed are left out.
    """
    state = evidence.state
    if not state.flow.cuts.drawn or evidence.uses_log_probabilities("attr='log_prob'"):
        return
    losses = [state.graph.below(call.nodes) for call in state.flow.calls]
    for cut in state.flow.cuts.drawn.values():
        is_sample = ".sample(" in cut.place.text
        parts = {node for _, node in cut.sources.values()} if cut.how == NO_GRAD and not is_sample else set()
        used = {node for node, *_ in cut.uses}
        is_drawn = (is_sample or not parts.isdisjoint(below) for below in losses if not used.isdisjoint(below))
        if any(is_drawn) and not _is_scored(state, cut):
            follows = Message("cut.drawn|a loss is computed from it, and its gradient does not contain this path.")
            yield _cut_fault(state, cut, follows, cut.values)


def _is_scored(state: RunState, cut: Cut) -> bool:
    """Return whether drawn values are combined with values of their distribution, as a log probability by hand does."""
    drawn_from = [state.graph.leaves_below([node]) for _, node in cut.sources.values()]
    beside = (other for node, *_ in cut.uses if node is not None for other in state.graph.nodes[node].inputs)
    beside_leaves = [state.graph.leaves_below([other]) for other in set(beside)]
    return any(leaves and leaves <= others for leaves in drawn_from for others in beside_leaves)


def _detached_terms(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that take values without their history for a term of a loss that trains all parameters behind them."""
    state, flow = evidence.state, evidence.state.flow
    for cut, sums in flow.cuts.terms.values():
        above = [state.tensors.all[number] for number in state.leaves_above(cut)]
        leaves = {tracked.id: tracked for tracked in above if tracked.leaf}
        is_term = leaves.keys() <= flow.optimized.keys() and any(math.prod(leaf.shape) > 1 for leaf in leaves.values())
        places = (_where_constant(evidence, call, cut, sums, {*leaves}) for call in flow.calls) if is_term else iter(())
        if (place := next(filter(None, places), None)) is not None:
            term = (
                "cut.detached_term|the term that {place} adds to a loss is computed from them, so it does not change "
                "the loss's gradient."
            )
            if cut.is_number or cut.how not in CHANGES:
                term = (
                    "cut.number_term|the term that {place} adds to a loss is computed from it, so it does not change "
                    "the loss's gradient."
                )
            follows = Message(term, place=line_of(place, cut.place.file))
            yield _cut_fault(state, cut, follows, cut.values)


def _where_constant(
    evidence: Evidence, call: StartedBackward, cut: Cut, added: dict[int, Place], leaves: set[int]
) -> Place | None:
    """Return the line of one of these sums if a loss is that sum, possibly times a constant or in another sum, else None.

    The loss must depend on all the leaves, or on some of them, and no loss on the values before the cut. In
    `proxy + (loss - proxy).detach()`, which has the value of one loss and the gradient of another, the values before the
    cut depend on the other term itself.
    """
    state = evidence.state
    sums = _scaled_sums(state, call)
    place = next((added[node.id] for node in sums if node.id in added and _SUM.match(node.name)), None)
    if place is None:
        return None
    below = state.graph.below(call.nodes)
    sources = {node for _, node in cut.sources.values()}
    before = state.graph.below(sources)
    terms = {number for node in sums for number in node.inputs if number is not None} - {node.id for node in sums}
    is_replaced = any(before[number].inputs for number in terms if number in before)
    trained = leaves & state.graph.leaves_below(call.nodes)
    is_lost = trained == leaves or (trained and sources.isdisjoint(evidence.visited))
    # The loss may subtract a value and add it again, as a logarithm of a sum does with its maximum.
    used = Counter(number for node, _, behind in cut.uses if node in below and behind for number in behind)
    is_undone = cut.how in (*ALIASES, NO_GRAD) and max(used.values(), default=0) > 1
    return place if is_lost and not is_replaced and not is_undone else None


def _scaled_sums(state: RunState, call: StartedBackward) -> list[GraphNode]:
    """Return the sums and products with constants from which only such nodes lead to a root of a backward call."""
    stack, nodes = [number for number in call.nodes if number is not None], {}
    while stack:
        number = stack.pop()
        node = state.graph.nodes[number]
        inputs = [below for below in node.inputs if below is not None]
        if number not in nodes and (_SUM.match(node.name) or (len(inputs) == 1 and _SCALED.match(node.name))):
            nodes[number] = node
            stack += inputs
    return list(nodes.values())


def _is_number(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist")
    return method or (isinstance(node.func, ast.Name) and node.func.id in ("float", "int") and bool(node.args))


def _is_summand(node: ast.AST, statement: ast.AST, with_graph: set[str]) -> bool:
    """Return whether a number, possibly times constants, is a term of a sum that is not multiplied by values with a graph."""
    parents = {child: parent for parent in ast.walk(statement) for child in ast.iter_child_nodes(parent)}
    is_added = False
    while isinstance(parent := parents.get(node), ast.BinOp | ast.AugAssign):
        other = parent.right if isinstance(parent, ast.BinOp) and parent.left is node else getattr(parent, "left", None)
        is_value = isinstance(other, ast.Constant | ast.Name | ast.Attribute)
        is_constant = is_value and ast.unparse(other) not in with_graph  # type: ignore[arg-type]
        if isinstance(parent.op, ast.Add | ast.Sub):
            is_added = True
        elif not (isinstance(parent.op, ast.Mult | ast.Div) and is_constant):
            return False
        node = parent
    return is_added


def _updated_copies(evidence: Evidence, cut: Cut) -> Place | None:
    """Return the line that wrote a value with history through `.data` after the copy, or None."""
    made = {step.place for step in evidence.state.finished_steps if step.nodes}
    writes = (write.place for write in evidence.state.writes if ".data" in write.place.text)
    return next((place for place in writes if place in made and place.line > cut.place.line), None)


def _cut_fault(
    state: RunState, cut: Cut, follows: str, tensors: Sequence[TrackedTensor] = (), read: Place | None = None
) -> GraphFault:
    clause, change = words_on_cut(cut, state)
    message = join_messages((clause, follows), CLAUSES if follows[0].islower() else "join.stop|{first}. {second}")
    return graph_cut.about(state, tensors, cut.place, message, change, lost=cut.place, read=read)
