"""Find the line that made a tensor which a later line cannot use: a rule of autograd raises an error there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import NAMELESS, FaultKind, name_of, statement_at
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import GraphFault, Place, line_of

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


def _refused_tensor(evidence: Evidence) -> Iterator[GraphFault]:
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
        yield REFUSED_TENSOR.at(
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
    statement = statement_at(evidence.trees, place)
    names = {ast.unparse(node) for node in ast.walk(statement) if isinstance(node, ast.expr)} if statement else set()
    return [
        tracked
        for tracked in reversed(evidence.state.tensors.all)
        if tracked.node is not None and {tracked.name, (tracked.name or "").partition("[")[0]} & names
    ]


def _not_a_leaf(
    state: RunState, tensors: list[TrackedTensor], at: Place, effect: str, change: str
) -> Iterator[GraphFault]:
    for tracked in tensors:
        if tracked.node is not None:
            made = state.graph.nodes[tracked.node].place
            name, place = name_of(state, [tracked], NAMELESS), line_of(at, made.file)
            yield REFUSED_TENSOR.at(made, effect, change, name=name, place=place)


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
            yield REFUSED_TENSOR.at(
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
            yield REFUSED_TENSOR.at(
                made,
                "view.cannot_be_swapped|{name} is a view of {key}, so {place} cannot swap {key} with the converted tensor.",
                "view.take_after_conversion|Take the view after the conversion.",
                name=name, key=key, place=line_of(at, made.file),
            )  # fmt: skip
            return


REFUSED_TENSOR = FaultKind("tensor that a later line cannot use", _refused_tensor)
