"""Find values and leaves that leave the graph on their way to the loss, so that a tensor receives no gradient."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence

from autograder.errors import message_of
from autograder.locale.messages import CLAUSES, Message, join_messages
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import (
    NUMBERS,
    FaultKind,
    change_of,
    followers,
    how_it_cuts,
    is_copy,
    is_early_copy,
    leaves_above,
    name_of,
    reached_elsewhere,
    statement_at,
    tensors_of,
)
from autograder.tape.observe.gradient_flow import Cut, StartedBackward
from autograder.tape.observe.left_gradients import FirstStep
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import tree_of_file
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of


def trees_of(evidence: Evidence) -> dict[str, ast.Module]:
    """Return the tree of each file by its name in the report. Files that are not valid Python are left out."""
    statements = evidence.state.statements
    trees = {statements.program.shown(file): tree_of_file(file) for file in statements.files}
    return {file: tree for file, tree in trees.items() if tree is not None}


_CLEARS = re.compile(r"\.grad\.(zero_|detach_|requires_grad_)\(|\.grad = None$|^print\(")
LOOP_NAME = "leaf.loop_name|the loop's name {name} is bound to a new tensor, and the leaf itself keeps its old values."
COPY = "leaf.copy_in_place|Modify the leaf in place, under torch.no_grad(): `{name}.copy_({new})`."


def _lost_leaf(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the statements that bind a leaf's name to an updated tensor, which is not a leaf that requires grad or is not used."""
    trees = trees_of(evidence)
    for name, place, regained in _rebound(evidence.state):
        statement = statement_at(trees, place)
        if not regained and _is_step(statement, name):
            yield _lost_leaf_fault(trees, name, place, statement)
        elif (new := _assigned(statement, name)) and _is_unused(trees[place.file], name, new.lineno):
            yield LOST_LEAF.at(place, LOOP_NAME, COPY, name=name, new=ast.unparse(new))


def _rebound(state: RunState) -> Iterator[tuple[str, Place, bool]]:
    """Yield the names of leaves that were bound to another tensor, the line, and whether that tensor became a leaf later."""
    bound: dict[tuple[str, str], int] = {}
    for step in state.finished_steps:
        for change in step.names:
            key = (step.function, change.name)
            old, new = bound.get(key), change.tensor
            if new is not None:
                bound[key] = new
            if old is not None and new is not None and step.place is not None and state.tensors.all[old].leaf:
                yield change.name, step.place, state.tensors.all[new].leaf


def _assigned(statement: ast.stmt | None, name: str) -> ast.BinOp | None:
    """Return the value of a statement `name = … + …`, with any operator, or None for another statement."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
        return None
    return statement.value if [ast.unparse(target) for target in statement.targets] == [name] else None


def _is_step(statement: ast.stmt | None, name: str) -> bool:
    """Return whether a statement is `w = w - … w.grad …` without a `detach`."""
    value = _assigned(statement, name)
    if value is None or not isinstance(value.op, ast.Sub):
        return False
    text = ast.unparse(value)
    return f"{name}.grad" in text and "detach" not in text and ast.unparse(value.left) in (name, f"{name}.data")


def _is_unused(tree: ast.Module, name: str, line: int) -> bool:
    """Return whether a line reads the name of a loop around it, and no line of the loop below it does."""
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    reads = [use.lineno for use in uses if isinstance(use.ctx, ast.Load)]
    end = max((loop.end_lineno or 0 for loop in _loops_over(tree, name, line)), default=0)
    return line in reads and line <= end and not any(line < other <= end for other in reads)


def _lost_leaf_fault(trees: dict[str, ast.Module], name: str, place: Place, statement: ast.stmt | None) -> GraphFault:
    value = statement.value if isinstance(statement, ast.Assign) else None
    step = ast.unparse(value.right) if isinstance(value, ast.BinOp) else "…"
    effect = (
        "leaf.becomes_other|{name} is then another tensor, which is not a leaf that requires grad: the next backward "
        "call computes no gradient for it."
    )
    tree = trees.get(place.file)
    if tree is not None and _loops_over(tree, name, place.line):
        effect = LOOP_NAME
    change = "leaf.modify_in_place|Modify the leaf in place, under torch.no_grad(): `{name} -= {step}`."
    return LOST_LEAF.at(place, effect, change, name=name, step=step)


def _loops_over(tree: ast.Module, name: str, line: int) -> list[ast.For]:
    """Return the loops around a line that bind a name in each round."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    inside = [loop for loop in loops if loop.lineno <= line <= (loop.end_lineno or loop.lineno)]
    return [loop for loop in inside if name in {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}]


def _missing(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that read the `.grad` of a tensor with a graph."""
    state, trees = evidence.state, trees_of(evidence)
    problem = evidence.runs.plain.problem
    for place, tracked in state.flow.retained_late.items():
        if problem is not None and problem.is_at(place):
            yield MISSING.at(
                place,
                "leaf.retained_late|{name}.grad is None: retain_grad() was called after backward, and keeps only the "
                "gradients of later calls.",
                "leaf.retain_before|Call {name}.retain_grad() before backward.",
                name=name_of(state, [tracked], "it"),
            )
    for place, (tracked, _) in state.flow.missing.items():
        if tracked.node is not None and not _only_clears(trees.get(place.file), place.line):
            yield MISSING.at(
                place,
                "leaf.grad_is_none|{name}.grad is None: {name} is not a leaf, because {place} computed it; "
                "backward fills only the .grad of leaves.",
                "leaf.make_leaf|Make {name} itself the leaf (requires_grad_() after that computation), "
                "or call {name}.retain_grad() before backward.",
                name=name_of(state, [tracked], "it"),
                place=line_of(state.graph.nodes[tracked.node].place, place.file),
            )


def _only_clears(tree: ast.Module | None, line: int) -> bool:
    """Return whether a line is in the test of an `if` statement that only clears a `.grad` or prints it."""
    guards = [node for node in ast.walk(tree) if isinstance(node, ast.If)] if tree is not None else []
    tested = [guard for guard in guards if guard.test.lineno <= line <= (guard.test.end_lineno or line)]
    texts = [ast.unparse(statement) for guard in tested for statement in guard.body]
    uses = [text for text in texts if ".grad" in text]
    return bool(uses) and all(_CLEARS.search(text) for text in uses)


def _empty(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that raised an error because it used the `.grad` of a leaf, which is None."""
    state, problem = evidence.state, evidence.runs.plain.problem
    at = problem.place(evidence.file) if problem is not None and "NoneType" in problem.message else None
    if at is None:
        return
    for place, (leaf, is_required) in state.flow.missing.items():
        if leaf.node is not None or (place.file, place.line) != (at.file, at.line):
            continue
        last = line_of(state.flow.calls[-1].place, place.file) if state.flow.calls else ""
        cuts = (cut for cut in state.flow.cuts.values() if not is_copy(cut) and leaf.id in leaves_above(state, cut))
        cut = next(cuts, None)
        cut_at = line_of(cut.place, place.file) if cut else ""
        reason = _why_empty(state, leaf, cut_at, is_required=is_required)
        yield EMPTY.at(place, *reason, name=name_of(state, [leaf], "it"), place=last, cut=cut_at)


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


MISSING = FaultKind("gradient of a tensor that is not a leaf", _missing)
EMPTY = FaultKind("gradient that is None", _empty)
LOST_LEAF = FaultKind("leaf lost", _lost_leaf)

_SUM = re.compile("(Add|Sub|Rsub)Backward")
_SCALED = re.compile("(Mul|Div|Neg|Mean|Sum)Backward")
_NO_BACKWARD = re.compile("'(float|int|numpy.*)' object has no attribute 'backward'")
NO_HISTORY = "does not require grad and does not have a grad_fn"  # PyTorch 2.6 to 2.15


def _graph_cut(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that cut the graph: of a loss without a graph, of parameters without a gradient, or inside a sum."""
    for find in (_without_history, _untrained, _detached_terms, _added_numbers, _penalties):
        yield from find(evidence)


def _without_history(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the cut of each backward that starts from a leaf or a tensor without a graph."""
    flow, error = evidence.state.flow, message_of(evidence.runs.plain.error)
    yield from _number_backward(evidence, error)
    for call in flow.calls:
        if not call.recording and flow.steps.left_recording:
            continue  # the line that turned recording off is named
        bare = all(node is None for node in call.nodes)
        cut = call.cut or (_last_cut(evidence.state, call.place) if bare else None)
        if bare and cut is not None and (call.roots or NO_HISTORY in error):
            follows: str = Message(
                "cut.reaches_no_parameter|backward at {place} ends there and reaches no parameter.",
                place=line_of(call.place, cut.place.file),
            )
            new_leaf = next((flow.new_leaves[root.id] for root in call.roots if root.id in flow.new_leaves), cut.place)
            if new_leaf != cut.place:
                hides = Message(
                    "cut.new_leaf_hides|They become a new leaf at {place}, which hides the error.",
                    place=line_of(new_leaf, cut.place.file),
                )
                follows = join_messages((follows, hides))
            above = (evidence.state.tensors.all[number] for number in sorted(leaves_above(evidence.state, cut)))
            leaves = [tensor for tensor in above if tensor.leaf]
            yield _cut_fault(evidence.state, cut, follows, leaves, call.place)


def _number_backward(evidence: Evidence, error: str) -> Iterator[GraphFault]:
    """Yield the line that made a number or an array of a tensor, if the program called backward on it."""
    problem = evidence.runs.plain.problem
    at = problem.place(evidence.file) if problem and _NO_BACKWARD.search(error) else None
    if at is not None and (cut := _last_cut(evidence.state, at)) is not None:
        follows = Message("cut.number_backward|{place} calls backward on it.", place=line_of(at, cut.place.file))
        yield _cut_fault(evidence.state, cut, follows)


def _last_cut(state: RunState, before: Place) -> Cut | None:
    """Return the last line above a backward call that converted a tensor to an array or a number, which autograd cannot follow."""
    cuts = [cut for cut in state.flow.cuts.values() if cut.how in ("numpy", "__array__", "tolist", "item", "__float__")]
    above = [cut for cut in cuts if cut.place.file == before.file and cut.place.line <= before.line]
    return above[-1] if above else None


def _untrained(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that cut off parameters of an optimizer that no backward reached."""
    state, flow = evidence.state, evidence.state.flow
    given = (leaf.id for leaves in state.given.values() for leaf in leaves)
    reached = {*flow.reached, *given, *flow.steps.trained, *flow.steps.frozen, *followers(state)}
    elsewhere, empty = reached_elsewhere(evidence), _without_gradient(evidence)
    reached |= {number for number, step in empty.items() if step.is_updated}
    held = {number: one for number, one in flow.optimized.items() if flow.calls and number not in reached}
    without = {number for number, one in held.items() if number in empty or one.shape not in elsewhere}
    # A cut whose values became a leaf that backward reached is on the way to the loss; of the others, the last is. An
    # array is not, if its values had left the graph before and reached the loss without it, as a sampled action's do.
    new_leaves = [cut for parameter in flow.reached.values() if (cut := flow.origin([parameter])) is not None]
    last = [cut for cut in reversed(flow.cuts.values()) if cut.behind is None or not cut.behind.joined]
    cuts = sorted(last, key=lambda cut: all(cut is not made for made in new_leaves))
    for cut in cuts if without else ():
        kept_from = leaves_above(state, cut) & without
        looks = _only_reads(cut) or is_copy(cut)  # copies that no backward reaches take no gradient away
        if kept_from and (not looks or any(cut is made for made in new_leaves)) and not is_early_copy(cut):
            without -= kept_from
            tensors = [flow.optimized[number] for number in sorted(kept_from)]
            names = name_of(state, tensors, Message("tensor.a_parameter|a parameter"))
            follows: str = Message(
                "cut.not_updated|No backward call computes a gradient for {names}, which the optimizer holds.",
                names=names,
            )
            if is_copy(cut) and (place := _updated_copies(evidence, cut)) is not None:
                also = Message(
                    "cut.copies_updated|The update of the copies through .data at {place} is not recorded either.",
                    place=line_of(place, cut.place.file),
                )
                follows = join_messages((follows, also))
            yield _cut_fault(state, cut, follows, tensors)


def _without_gradient(evidence: Evidence) -> dict[int, FirstStep]:
    """Return the recorded parameters that had no gradient in any step of the whole run, by id, with their first steps."""
    excerpt, held = evidence.runs.excerpt, evidence.state.flow.first_held
    before = excerpt.first - 1 if excerpt else 0
    empty = {(step.calls - before, step.position): step for step in evidence.runs.left.without_gradient}
    return {number: empty[at] for number, at in held.items() if at in empty}


def _only_reads(cut: Cut) -> bool:
    """Return whether the value left as another tensor and was not combined with the graph again."""
    return cut.how not in (*NUMBERS, "numpy") and not cut.joined


def _added_numbers(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the numbers that were converted from tensors with a graph and are added to a loss."""
    state, trees = evidence.state, trees_of(evidence)
    made = {step.place for step in state.finished_steps if step.nodes}
    losses = (node for call in state.flow.calls for node in _scaled_sums(state, call))
    sums = {node.place for node in losses if _SUM.match(node.name)}
    for cut in list(state.flow.cuts.values()):
        if cut.how not in NUMBERS:
            continue
        place = _where_added(state, cut, sums, trees)
        if place is None and cut.place in made and any(tracked.leaf for tracked, _ in cut.sources.values()):
            yield _cut_fault(state, cut, Message("cut.result|the result of this line has no gradient for it."))
        if place is not None:
            follows = Message(
                "cut.added_to_loss|it is added to a loss at {place} and does not change its gradient.",
                place=line_of(place, cut.place.file),
            )
            yield _cut_fault(state, cut, follows)


def _where_added(state: RunState, cut: Cut, sums: set[Place], trees: dict[str, ast.Module]) -> Place | None:
    """Return the sum of a loss that adds the number: in the statement of the cut, or in one that reads its variable."""
    places = {place.line: place for place in sums if place.file == cut.place.file}
    statement = statement_at(trees, cut.place) if places else None
    if statement is None:
        return None
    here, with_graph = places.get(statement.lineno), _names_with_graph(state)
    is_added = any(_is_summand(node, statement, with_graph) for node in ast.walk(statement) if _is_number(node))
    # In `total += loss(x).item()` only the loss has a graph; the sum of two numbers has none.
    if here is not None and is_added and _binds_tensor(state, statement):
        return here
    target = _targets(statement)[:1]
    if not target or not isinstance(target[0], ast.Name) or target[0].id in with_graph:
        return None
    for node in ast.walk(trees[cut.place.file]):
        if isinstance(node, ast.stmt) and node.lineno in places and node.lineno > statement.lineno:
            names = (read for read in ast.walk(node) if isinstance(read, ast.Name) and isinstance(read.ctx, ast.Load))
            if any(read.id == target[0].id and _is_summand(read, node, with_graph) for read in names):
                return places[node.lineno]
    return None


def _targets(statement: ast.stmt) -> list[ast.expr]:
    """Return the expressions that a statement assigns to, or [] for another statement."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AugAssign) else []


def _binds_tensor(state: RunState, statement: ast.stmt) -> bool:
    """Return whether a statement assigns to a name of a tensor. In `total += loss(x).item()`, the name is that of a number."""
    names = {ast.unparse(target) for target in _targets(statement)}
    if not names:
        return True
    changes = (change for step in state.finished_steps for change in step.names)
    return any(change.name in names and change.tensor is not None for change in changes)


def _penalties(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the calls of `autograd.grad` without create_graph whose result a penalty in the loss was computed from."""
    for place, (earlier, added) in evidence.state.flow.constants.items():
        yield GRAPH_CUT.at(
            place,
            "cut.penalty|it computes {slope} without a graph, so the number that {place} adds to a loss, which is "
            "computed from it, does not change the loss's gradient.",
            "target.graph|Pass create_graph=True here.",
            slope=name_of(evidence.state, [earlier.gradient], Message("target.gradient|the gradient")),
            place=line_of(added, place.file),
        )


def _detached_terms(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that take values without their history for a term of a loss that trains all parameters behind them."""
    state, flow = evidence.state, evidence.state.flow
    for cut, sums in flow.detached_terms.values():
        above = [state.tensors.all[number] for number in leaves_above(state, cut)]
        leaves = {tracked.id for tracked in above if tracked.leaf}
        is_term = leaves <= flow.optimized.keys() and any(
            tracked.leaf and math.prod(tracked.shape) > 1 for tracked in above
        )
        places = (_where_constant(state, call, cut, sums, leaves) for call in flow.calls) if is_term else iter(())
        if (place := next(filter(None, places), None)) is not None:
            term = (
                "cut.detached_term|the term that {place} adds to a loss is computed from them, so it does not change "
                "the loss's gradient."
            )
            if cut.how in NUMBERS:
                term = (
                    "cut.number_term|the term that {place} adds to a loss is computed from it, so it does not change "
                    "the loss's gradient."
                )
            follows = Message(term, place=line_of(place, cut.place.file))
            yield _cut_fault(state, cut, follows, [tracked for tracked, _ in cut.sources.values()])


def _where_constant(
    state: RunState, call: StartedBackward, cut: Cut, added: dict[int, Place], leaves: set[int]
) -> Place | None:
    """Return the line of one of these sums if a loss is that sum, possibly times a constant or in another sum, else None.

    The loss must depend on all the leaves. In `proxy + (loss - proxy).detach()`, which has the value of one loss and the
    gradient of another, the values before the cut depend on the other term itself.
    """
    sums = _scaled_sums(state, call)
    place = next((added[node.id] for node in sums if node.id in added and _SUM.match(node.name)), None)
    if place is None:
        return None
    below = state.graph.below(call.nodes)
    before = state.graph.below(node for _, node in cut.sources.values())
    terms = {number for node in sums for number in node.inputs if number is not None} - {node.id for node in sums}
    is_replaced = any(before[number].inputs for number in terms if number in before)
    is_whole = leaves <= {node.tensor for node in below.values() if not node.inputs}
    return place if is_whole and not is_replaced else None


def _is_scaled_sum(node: GraphNode) -> bool:
    inputs = sum(number is not None for number in node.inputs)
    return _SUM.match(node.name) is not None or (inputs == 1 and _SCALED.match(node.name) is not None)


def _scaled_sums(state: RunState, call: StartedBackward) -> list[GraphNode]:
    """Return the sums and products with constants from which only such nodes lead to a root of a backward call."""
    stack, found = [number for number in call.nodes if number is not None], {}
    while stack:
        number = stack.pop()
        node = state.graph.nodes[number]
        if number not in found and _is_scaled_sum(node):
            found[number] = node
            stack += [below for below in node.inputs if below is not None]
    return list(found.values())


def _is_number(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    method = isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist")
    return method or (isinstance(node.func, ast.Name) and node.func.id in ("float", "int") and bool(node.args))


def _is_summand(node: ast.AST, statement: ast.AST, with_graph: set[str]) -> bool:
    """Return whether a number, possibly times constants, is a term of a sum that is not multiplied by values with a graph."""
    parents, is_added = (
        {child: parent for parent in ast.walk(statement) for child in ast.iter_child_nodes(parent)},
        False,
    )
    while isinstance(parent := parents.get(node), ast.BinOp | ast.AugAssign):
        other = parent.right if isinstance(parent, ast.BinOp) and parent.left is node else getattr(parent, "left", None)
        is_constant = (
            isinstance(other, ast.Constant | ast.Name | ast.Attribute) and ast.unparse(other) not in with_graph
        )
        if isinstance(parent.op, ast.Add | ast.Sub):
            is_added = True
        elif not (isinstance(parent.op, ast.Mult | ast.Div) and is_constant):
            return False
        node = parent
    return is_added


def _names_with_graph(state: RunState) -> set[str]:
    """Return the names that were bound to tensors which require grad."""
    changes = (change for step in state.finished_steps for change in step.names)
    return {one.name for one in changes if one.tensor is not None and state.tensors.all[one.tensor].requires_grad}


def _updated_copies(evidence: Evidence, cut: Cut) -> Place | None:
    """Return the line that wrote a value with history through `.data` after the copy, or None."""
    made = {step.place for step in evidence.state.finished_steps if step.nodes}
    writes = (write.place for write in evidence.state.writes if ".data" in write.place.text)
    return next((place for place in writes if place in made and place.line > cut.place.line), None)


def _cut_fault(
    state: RunState, cut: Cut, follows: str, tensors: Sequence[TrackedTensor] = (), read: Place | None = None
) -> GraphFault:
    clause = how_it_cuts(cut, state)
    message = join_messages((clause, follows), CLAUSES if follows[0].islower() else "join.stop|{first}. {second}")
    concerned = tensors_of(state, tensors, lost=cut.place, read=read)
    return GraphFault(GRAPH_CUT.name, cut.place, message, change_of(cut, state), concerned)


GRAPH_CUT = FaultKind("graph cut", _graph_cut)
