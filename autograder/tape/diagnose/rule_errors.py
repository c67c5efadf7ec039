"""Explain an error of a rule of autograd that no modified tensor and no cut of the graph caused.

A line broke the rule, or it made a tensor that a later line cannot use.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import FREEZES, Evidence
from autograder.tape.diagnose.fault_words import NAMELESS, fault_kind, name_of
from autograder.tape.diagnose.graph_cut import NO_HISTORY, graph_cut
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of


@dataclass(frozen=True)
class Rule:
    """A rule of autograd: words of PyTorch's message (2.6 to 2.15) whose groups are values of the two texts.

    `node` names the group or the start of the node at whose line the fault is; without one, it is at the line of the error.
    `line` is a part of that line, for a message that unrelated errors also have.
    """

    words: re.Pattern[str]
    effect: str
    change: str
    node: str = ""
    line: str = ""


RULES = (
    Rule(
        re.compile(r"hook on a tensor that doesn't require|retain_grad on Tensor that has requires_grad=False"),
        "rule.no_gradient|{name} does not require grad, so backward computes no gradient for it.",
        "rule.ask_for_gradient|Call {name}.requires_grad_() before this line if you want its gradient, and use a tensor with "
        "its history instead of a detached one.",
    ),
    Rule(
        re.compile("can require gradients"),
        "rule.not_floating|the tensor has no floating-point dtype, and only floating-point and complex numbers have a "
        "derivative.",
        "rule.make_floating|Make it of floating-point numbers: with dtype=torch.float32, or by .float() before this line.",
    ),
    Rule(
        re.compile("cannot resize variables that require grad"),
        "rule.resized|{name} requires grad, and PyTorch does not resize such a tensor in place.",
        "rule.reshape|Compute with another view of it, such as {name}.reshape(...), or make a new leaf of the other size.",
    ),
    Rule(
        re.compile(r"compatible with \.grad\(\)"),
        "rule.reentrant|the reentrant checkpoint of this line works only with a backward call that fills the .grad of the "
        "leaves, and not with autograd.grad or `inputs=`.",
        "cut.not_reentrant_only|Pass use_reentrant=False.",
        node="CheckpointFunctionBackward",
    ),
    Rule(
        re.compile(r"derivative for '(?P<function>\w+): (?P<argument>\w+)' is not implemented"),
        "rule.no_formula|PyTorch has no formula for the derivative of {function} with respect to {argument}.",
        "rule.write_backward|Detach this argument if it needs no gradient; otherwise, write a torch.autograd.Function with "
        "the derivative.",
        node="function",
    ),
    Rule(
        re.compile(
            r"grad_output\[\d+\] has a shape of torch\.Size\((?P<given>.*?)\) and .* torch\.Size\((?P<shape>.*?)\)"
        ),
        "rule.shape_of_grad_output|the gradient that backward is given has the shape {given}, and the tensor that it starts "
        "from has the shape {shape}.",
        "rule.give_same_shape|Give backward a tensor of the same shape.",
    ),
    Rule(
        re.compile("attempting to assign a gradient|assigned grad (has data|expected)"),
        "rule.assigned_gradient|the .grad of a tensor must be None, or a tensor of its shape, dtype and device.",
        "rule.assign_alike|Assign such a tensor, or None to clear it.",
    ),
    Rule(
        re.compile("autograd function with non-static forward"),
        "rule.legacy_function|the class is a torch.autograd.Function whose forward is not a static method.",
        "rule.static_methods|Declare forward and backward with @staticmethod and `ctx` as the first argument, and call the "
        "function with .apply(...).",
    ),
    Rule(
        re.compile(r"save_for_backward can only save variables, but argument (?P<number>\d+) is of type (?P<type>.+)"),
        "rule.saved_value|save_for_backward keeps only tensors, and its argument {number} (counted from 0) has type {type}.",
        "rule.keep_attribute|Keep other values as attributes of ctx.",
    ),
    Rule(
        re.compile(r"(?P<optimizer>\w+) does not support sparse gradients"),
        "rule.sparse|the optimizer holds the weight of an embedding with sparse gradients, which {optimizer} cannot use.",
        "rule.sparse_adam|Make the embedding with sparse=False, or update its weight with torch.optim.SparseAdam.",
    ),
    Rule(
        re.compile("can't optimize a non-leaf Tensor"),
        "rule.not_a_leaf|the optimizer is given the result of an operation, and it updates only leaves.",
        "rule.pass_leaf|Pass the leaf itself, without a call such as .clone() or .to(...) that returns another tensor.",
    ),
    Rule(
        re.compile("optimizer got an empty parameter list"),
        "rule.no_parameters|no parameter is passed to the optimizer.",
        "rule.register|Keep layers as attributes of a module or in an nn.ModuleList, and do not use a generator such as "
        "model.parameters() twice.",
    ),
    Rule(
        re.compile("argument to .{1,3}(grad|backward).{1,5}cannot be empty"),
        "rule.no_inputs|it is given no tensor whose gradient to compute: the list is empty.",
        "rule.pass_inputs|Pass the tensors whose gradients you want; they must require grad.",
    ),
    Rule(
        re.compile(r"Function '(?P<node>\w+)' returned nan values"),
        "rule.nan|the backward of this line computes nan, which anomaly mode reports as an error.",
        "nan.stay_away|Keep its input away from values where its derivative is not finite, for example with clamp.",
        node="node",
    ),
    Rule(
        re.compile(r"checkpoint: (A different number of tensors|Recomputed values)"),
        "rule.recomputed|backward runs the checkpointed function again, and the second run computes other tensors: the "
        "function depends on something that has changed since the first run.",
        "rule.only_arguments|Pass that as an argument, or do not change it before backward.",
    ),
    Rule(
        re.compile("'(float|int)' object is not iterable"),
        "rule.number|the gradient that backward is given is a number, and PyTorch expects a tensor.",
        "rule.give_tensor|Give it a tensor of the shape of the tensor that it starts from; a loss that is a scalar needs no argument.",
        line="backward(",
    ),
    Rule(
        re.compile("must be a string or a real number, not 'NoneType'"),
        "rule.closure|the step calls the closure, which returns None instead of the loss.",
        "rule.return_loss|Let the closure return the loss.",
        line=".step(",
    ),
    Rule(
        re.compile("more than one element of the written-to tensor"),
        "rule.expanded|the step modifies a parameter in place, and several of its elements are one number in memory, as in "
        "a view of expand().",
        "rule.clone_view|Make the parameter of a copy: `.expand(...).clone()`.",
        line=".step(",
    ),
    Rule(
        re.compile("'NoneType' object has no attribute '(next_functions|name|metadata|register_(pre)?hook)'"),
        "rule.graph_ends|the graph ends here: the grad_fn of a leaf and the entry of a constant in next_functions are None.",
        "rule.ask_result|Ask the result of an operation on a tensor that requires grad.",
        line="grad_fn",
    ),
    Rule(
        re.compile("implement either the backward or vjp method"),
        "rule.no_backward|a torch.autograd.Function of this program has no backward.",
        "rule.define_backward|Define `backward(ctx, grad_output)` as a static method, or detach the input if it needs no "
        "gradient.",
    ),
    Rule(
        re.compile("marked as dirty during the forward method were not returned"),
        "rule.dirty_not_returned|forward passes a tensor to ctx.mark_dirty and does not return it.",
        "rule.return_dirty|Return each tensor that forward modifies in place, or compute out of place.",
    ),
    Rule(
        re.compile(r"mark_dirty\(\) received a tensor that was not an input"),
        "rule.dirty_not_an_input|forward passes a tensor to ctx.mark_dirty that is not one of its inputs.",
        "rule.mark_inputs|Pass only inputs that forward modifies in place to ctx.mark_dirty.",
    ),
    Rule(
        re.compile("leaf Variable that requires grad has been used in an in-place operation"),
        "rule.dirty_leaf|a torch.autograd.Function modifies its input in place, and the input is a leaf that requires grad.",
        "rule.apply_to_copy|Apply it to a copy of the leaf, such as `.clone()`, or compute out of place in forward.",
    ),
    Rule(
        re.compile("would mutate a captured Tensor"),
        "rule.captured|the function that torch.func differentiates modifies a tensor that is not one of its arguments.",
        "rule.return_value|Return the new value as well, with has_aux=True, and store it outside of the function.",
    ),
    Rule(
        re.compile(r"requires_grad_\(\) .*inside of a function being transformed"),
        "rule.inside_transform|the function calls requires_grad_() while torch.func differentiates it.",
        "rule.inner_transform|Use torch.func.grad also for the inner derivative.",
    ),
)


@fault_kind("rule of autograd")
def broken_rule(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that broke a rule of autograd."""
    problem, error, call = evidence.runs.plain.problem, evidence.error_message, evidence.state.flow.last_call
    at = problem.place(evidence.file) if problem else None
    if problem is None or at is None or refused_tensor.found(evidence):
        return
    statement = evidence.statement_at(at)
    text = ast.unparse(statement) if statement else ""
    for rule in RULES:
        if rule.line in text and (match := rule.words.search(error)) is not None:
            values: dict[str, object] = match.groupdict()
            start = str(values.get(rule.node, rule.node)).replace("_", "").lower()  # as `igamma`, of IgammaBackward0
            named = (node for node in evidence.state.graph.nodes if start and node.name.lower().startswith(start))
            nodes = [node.place for node in named]
            tensors = call[1][:1] if call is not None and problem.is_at(call[2]) else []
            name = name_of(evidence.state, tensors, NAMELESS)
            yield broken_rule.at(nodes[-1] if nodes else at, rule.effect, rule.change, name=name, **values)
            return


@fault_kind("loss without a graph")
def nothing_required(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made tensors which do not require grad, if backward found no tensor that does and nothing cut the graph."""
    state, calls = evidence.state, evidence.state.flow.calls
    error = evidence.error_message
    # A gradient that an earlier call computed is another fault, `unused_target`.
    if NO_HISTORY not in error or not calls or not calls[-1].recording or calls[-1].of is not None:
        return
    if graph_cut.found(evidence):
        return
    last = calls[-1].place
    frozen_at = [evidence.frozen_at] if evidence.frozen_at is not None else evidence.lines_with(FREEZES)[-1:]
    for place in frozen_at if any(tensor.parameter for tensor in state.tensors.all) else ():
        yield nothing_required.at(
            place,
            "required.frozen|it sets requires_grad to False, and backward at {place} finds no tensor that requires grad.",
            "required.train|Let the parameters that the optimizer trains require grad.",
            place=line_of(last, place.file),
        )  # fmt: skip
        return
    wanted = [(tracked, made) for tracked in _wanted(evidence) if (made := state.made_at(tracked)) is not None]
    for tracked, made in wanted:
        yield nothing_required.at(
            made,
            "required.not_set|{name} does not require grad when the loss is computed, and backward at {place} finds no graph.",
            "required.set|Call `{name}.requires_grad_()` before the loss is computed.",
            name=name_of(state, [tracked]), place=line_of(last, made.file),
        )  # fmt: skip
    if not wanted:
        yield nothing_required.at(
            last,
            "required.nothing|no tensor that the loss is computed from requires grad.",
            "required.set_any|Call requires_grad_() on the tensors whose gradients you want, before the loss is computed.",
        )


def _wanted(evidence: Evidence) -> list[TrackedTensor]:
    """Return the tensors whose gradients the program wants: it reads their `.grad`, asks for it later, or has an optimizer of them.

    Without such a tensor, return the only one that the program made and named.
    """
    state, names = evidence.state, set[str]()
    for _, node in evidence.nodes(ast.Attribute):
        names |= {ast.unparse(node.value)} if node.attr in ("grad", "requires_grad", "requires_grad_") else set()
    for _, call in evidence.nodes(ast.Call):
        if "optim" in ast.unparse(call.func) and call.args:
            names |= {ast.unparse(part) for part in getattr(call.args[0], "elts", ())}
    floating = (tensor for tensor in state.tensors.all if tensor.name and re.match("b?float|complex", tensor.dtype))
    made = {tensor.name: tensor for tensor in floating if not tensor.requires_grad and not tensor.made}
    asked = [tensor for name, tensor in made.items() if name in names]
    return asked or (list(made.values()) if len(made) == 1 else [])


# Parts of PyTorch's messages, 2.6 to 2.15.
COPIED = "support the deepcopy protocol"
# By words of an error, its cause.
NOT_A_LEAF = {
    "can't optimize a non-leaf Tensor": "optimizer.not_a_leaf|{name} is computed here, so it is not a leaf, and the "
    "optimizer of {place} cannot update it.",
    "you can only change requires_grad flags of leaf": "requires_grad.not_a_leaf|{name} is computed here, so it is not "
    "a leaf, and {place} cannot change its requires_grad.",
}
MAKE_LEAF = "optimizer.make_leaf|Make a leaf of the result: `.detach().requires_grad_()`."
INFERENCE = ("nference tensor", "InferenceMode")
SWAPPED = re.compile(r"Couldn't swap (\w+\.(\w+))")
FOR_NUMPY = "Can't call numpy() on Tensor that requires grad"
VIEW = ("view was created in no_grad mode", "function that returns multiple views")
SEVERAL = ("split", "chunk", "unbind", "split_with_sizes")  # the ends of names of functions that return several views
VIEW_IN_FUNCTION = "created inside a custom Function"
# The effect and the change of a tensor that a later line cannot use.
INFERRED = (
    "inference.tensor_needed|{name} is made in inference mode here, and {place} needs a normal tensor.",
    "inference.use_no_grad|Use torch.no_grad() instead, or pass a clone that is made outside of inference mode.",
)
VIEW_IN_NO_GRAD = (
    "view.made_in_no_grad|{name} is a view that is made here while recording is off; {place} modifies it "
    "while recording is on, which PyTorch does not allow.",
    "view.index_in_grad|Index {base} where recording is on, and modify that view.",
)
ONE_OF_SEVERAL_VIEWS = (
    "view.one_of_several|{name} is one of several views that one call returns here (as unbind, chunk, "
    "split and iteration do); {place} modifies it in place, which PyTorch does not allow.",
    "view.index_base|Take the view by an index of {base} instead.",
)
VIEW_OF_FUNCTION = (
    "view.of_function|{name} is a view that a custom Function returns here, or its input; {place} modifies it in place, "
    "which would bypass the backward of the Function, so PyTorch does not allow it.",
    "view.copy_of_function|Modify a copy of it; a forward that modifies its input has to call ctx.mark_dirty.",
)


@fault_kind("tensor that a later line cannot use")
def refused_tensor(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that made the tensor which the last call of the program could not use."""
    state, error, call = evidence.state, evidence.error_message, evidence.state.flow.last_call
    problem = evidence.runs.plain.problem
    if problem is not None and (swapped := SWAPPED.search(error)) and problem.line:
        yield from _referenced(state, swapped[1], problem.place(evidence.file))
    if problem is not None and (place := problem.place(evidence.file)):
        for words, effect in NOT_A_LEAF.items():
            given = _named_in(evidence, place) if words in error else []
            yield from _not_a_leaf(state, given[:1], place, effect, MAKE_LEAF)
    if call is None or problem is None or not problem.is_at(call[2]):
        return
    function, inputs, at = call
    if COPIED in error and function == "__deepcopy__":
        yield from _not_a_leaf(
            state, inputs[:1], at,
            "deepcopy.not_a_leaf|{name} is computed here, so it is not a leaf, and deepcopy at {place} cannot copy it.",
            "deepcopy.detach|Keep it without its history (`.detach()`), or do not keep it in the copied object.",
        )  # fmt: skip
    elif FOR_NUMPY in error:
        yield refused_tensor.at(
            at,
            "numpy.has_a_graph|NumPy is given {name}, which requires grad, and an array has no graph.",
            "numpy.give_values|Pass its values: `.detach()`, or `.item()` where a number is put into a list.",
            name=name_of(state, inputs[:1], NAMELESS),
        )  # fmt: skip
    elif any(word in error for word in INFERENCE):
        yield from _made_elsewhere(state, [tensor for tensor in inputs if tensor.counter.version is None], at, INFERRED)
    elif VIEW_IN_FUNCTION in error:
        yield from _made_elsewhere(state, inputs, at, VIEW_OF_FUNCTION, Message("view.a_view|a view"))
    elif any(word in error for word in VIEW):
        texts = VIEW_IN_NO_GRAD if inputs and inputs[0].unrecorded else ONE_OF_SEVERAL_VIEWS
        yield from _made_elsewhere(state, inputs, at, texts, Message("view.a_view|a view"))


def _named_in(evidence: Evidence, place: Place) -> list[TrackedTensor]:
    """Return the tensors with a graph that the variables of a line name, the newest first."""
    statement = evidence.statement_at(place)
    names = {ast.unparse(node) for node in ast.walk(statement) if isinstance(node, ast.expr)} if statement else set()
    with_graph = (tensor for tensor in reversed(evidence.state.tensors.all) if tensor.node is not None)
    return [tensor for tensor in with_graph if {tensor.name, (tensor.name or "").partition("[")[0]} & names]


def _not_a_leaf(
    state: RunState, tensors: list[TrackedTensor], at: Place, effect: str, change: str
) -> Iterator[GraphFault]:
    for tracked in tensors:
        if tracked.node is not None:
            made = state.graph.nodes[tracked.node].place
            name, place = name_of(state, [tracked], NAMELESS), line_of(at, made.file)
            yield refused_tensor.at(made, effect, change, name=name, place=place)


def _made_elsewhere(
    state: RunState, tensors: list[TrackedTensor], at: Place, texts: tuple[str, str], nameless: str = NAMELESS
) -> Iterator[GraphFault]:
    """Yield the line that made the first of these tensors, unless it is the line that cannot use it."""
    for tracked in tensors[:1]:
        if texts == ONE_OF_SEVERAL_VIEWS:
            tracked = _part_of(tracked)
        if (made := state.made_at(tracked)) is not None and made != at:
            # A view of a view may have another shape than its base.
            is_part = texts == ONE_OF_SEVERAL_VIEWS and tracked.origin is not None
            base = tracked.origin[0] if is_part else tracked.base  # type: ignore[index]
            yield refused_tensor.at(
                made, *texts, name=name_of(state, [tracked], nameless), place=line_of(at, made.file),
                base=name_of(state, [base] if base else [], Message("view.the_base|the base")),
            )  # fmt: skip


def _part_of(tracked: TrackedTensor) -> TrackedTensor:
    """Return the tensor that one call returned with others, of those that a tensor is a view of; without one, itself."""
    part = tracked
    while part.origin is not None and not part.origin[1].endswith(SEVERAL):
        part = part.origin[0]
    return part if part.origin is not None else tracked


def _referenced(state: RunState, key: str, at: Place | None) -> Iterator[GraphFault]:
    """Yield the line that took a view of a parameter which a later conversion of its module cannot swap."""
    for tracked in state.tensors.all:
        base, made, name = tracked.base, state.made_at(tracked), state.name_of(tracked)
        if base is None or not base.parameter or made is None or name is None or at is None:
            continue
        if (state.name_of(base) or "").rpartition(".")[2] == key.rpartition(".")[2]:
            yield refused_tensor.at(
                made,
                "view.cannot_be_swapped|{name} is a view of {key}, so {place} cannot swap {key} with the converted tensor.",
                "view.take_after_conversion|Take the view after the conversion.",
                name=name, key=key, place=line_of(at, made.file),
            )  # fmt: skip
            return
