"""Explain an error of a rule of autograd that no modified tensor and no cut of the graph caused."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import NAMELESS, FaultKind, lines_with, name_of, statement_at
from autograder.tape.diagnose.graph_cut import GRAPH_CUT, NO_HISTORY
from autograder.tape.diagnose.refused_tensors import REFUSED_TENSOR
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, line_of

_FREEZES = re.compile(r"\.requires_grad = False|\.requires_grad_\((requires_grad=)?False\)")


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


def _broken_rules(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the line that broke a rule of autograd."""
    problem, error, call = (
        evidence.runs.plain.problem,
        evidence.error_message,
        evidence.state.flow.last_call,
    )
    at = problem.place(evidence.file) if problem else None
    if problem is None or at is None or REFUSED_TENSOR.found(evidence):
        return
    statement = statement_at(evidence.trees, at)
    text = ast.unparse(statement) if statement else ""
    for rule in RULES:
        if rule.line in text and (match := rule.words.search(error)) is not None:
            values: dict[str, object] = match.groupdict()
            start = str(values.get(rule.node, rule.node)).replace("_", "").lower()  # as `igamma`, of IgammaBackward0
            named = (node for node in evidence.state.graph.nodes if start and node.name.lower().startswith(start))
            nodes = [node.place for node in named]
            tensors = call[1][:1] if call is not None and problem.is_at(call[2]) else []
            name = name_of(evidence.state, tensors, NAMELESS)
            yield BROKEN_RULE.at(nodes[-1] if nodes else at, rule.effect, rule.change, name=name, **values)
            return


def _nothing_required(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made tensors which do not require grad, if backward found no tensor that does and nothing cut the graph."""
    state, calls = evidence.state, evidence.state.flow.calls
    error = evidence.error_message
    # A gradient that an earlier call computed is another fault, `UNUSED_TARGET`.
    if NO_HISTORY not in error or not calls or not calls[-1].recording or calls[-1].of is not None:
        return
    if GRAPH_CUT.found(evidence):
        return
    last = calls[-1].place
    for place in lines_with(_FREEZES, state)[-1:] if any(tensor.parameter for tensor in state.tensors.all) else ():
        yield NOTHING_REQUIRED.at(
            place,
            "required.frozen|it sets requires_grad to False, and backward at {place} finds no tensor that requires grad.",
            "required.train|Let the parameters that the optimizer trains require grad.",
            place=line_of(last, place.file),
        )  # fmt: skip
        return
    wanted = [(tracked, made) for tracked in _wanted(evidence) if (made := state.made_at(tracked)) is not None]
    for tracked, made in wanted:
        yield NOTHING_REQUIRED.at(
            made,
            "required.not_set|{name} does not require grad when the loss is computed, and backward at {place} finds no graph.",
            "required.set|Call `{name}.requires_grad_()` before the loss is computed.",
            name=name_of(state, [tracked]), place=line_of(last, made.file),
        )  # fmt: skip
    if not wanted:
        yield NOTHING_REQUIRED.at(
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


BROKEN_RULE = FaultKind("rule of autograd", _broken_rules)
NOTHING_REQUIRED = FaultKind("loss without a graph", _nothing_required)
