"""Helpers of several graph faults: text about cuts, names of tensors, statements of lines."""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import multimode
from typing import cast

from autograder.locale.messages import Message, message_with
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.observe.cuts import NEW_LEAF, NO_GRAD, VARIABLE, WRITTEN, WRITTEN_PART, Cut
from autograder.tape.observe.state import RunState
from autograder.tape.observe.statements import tree_of_file
from autograder.tape.observe.tensors import TrackedTensor
from autograder.tape.recording.verdict_types import FaultyTensor, GraphFault, Place

CONVERSIONS = {"__float__": "float()", "__int__": "int()", "__index__": "int()"}
NUMBERS = {"item": ".item()", "tolist": ".tolist()", **CONVERSIONS}
COPIES = {"tensor": "torch.tensor()", "new_tensor": ".new_tensor()", "numpy": ".numpy()", "__array__": "NumPy"}
ALIASES = {"detach": ".detach()", "data": ".data", "detach_": ".detach_()"}
COMPARISONS = {"gt": "`>`", "lt": "`<`", "ge": "`>=`", "le": "`<=`", "eq": "`==`", "ne": "`!=`"}
NEW_LEAVES = {NEW_LEAF: Message("cut.new_leaf|a new leaf"), VARIABLE: "Variable"}
THIS_LINE = Message("cut.this_line|this line")
NAMES = {**NUMBERS, **COPIES, **ALIASES, **NEW_LEAVES, WRITTEN: THIS_LINE, WRITTEN_PART: THIS_LINE}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ITS_INPUT = Message("cut.its_input|its input")
A_PARAMETER = Message("tensor.a_parameter|a parameter")
ITS_PARAMETERS = Message("optimizer.its_parameters|its parameters")
NAMELESS = Message("tensor.nameless|a tensor")


@dataclass(frozen=True)
class FaultKind:
    """A kind of graph fault and the function that finds it."""

    name: str
    find: Callable[[Evidence], Iterator[GraphFault]]
    after_error: bool = True  # whether to search for it after an error of the program

    def found(self, evidence: Evidence) -> tuple[GraphFault, ...]:
        """Return the faults of this kind. They are searched once, because other kinds and the notes also ask for them."""
        if self.name not in evidence.faults:
            evidence.faults[self.name] = tuple(self.find(evidence))
        return evidence.faults[self.name]

    def at(
        self, at: Place, effect: str, change: str, tensors: tuple[FaultyTensor, ...] = (), /, **values: object
    ) -> GraphFault:
        """Return a fault of this kind. Texts become messages, each with the values that it names; messages are kept."""
        return GraphFault(self.name, at, message_with(effect, values), message_with(change, values), tensors)

    def about(
        self, state: RunState, tensors: Sequence[TrackedTensor], at: Place, effect: str, change: str, *,
        nameless: str = A_PARAMETER, lost: Place | None = None, read: Place | None = None, **values: object,
    ) -> GraphFault:  # fmt: skip
        """Return a fault that concerns these tensors, which the texts call {names}."""
        concerned = tensors_of(state, tensors, lost=lost, read=read)
        return self.at(at, effect, change, concerned, names=name_of(state, tensors, nameless), **values)


def fault_kind(
    name: str, *, after_error: bool = True
) -> Callable[[Callable[[Evidence], Iterator[GraphFault]]], FaultKind]:
    """Return a decorator that makes a kind of fault of the function that finds it."""
    return lambda find: FaultKind(name, find, after_error)


def called(cut: Cut) -> str:
    """Return the expression that cut the graph, as in the program's source."""
    if cut.how == NO_GRAD:
        return "torch.no_grad()"
    if cut.how in ALIASES and cut.how not in cut.place.text:
        return THIS_LINE
    if cut.how in CONVERSIONS and not re.search(r"\b(float|int)\(", cut.place.text):
        return THIS_LINE  # such as math.exp(x) or torch.Tensor([x])
    return NAMES.get(cut.how, cut.how)


def words_on_cut(cut: Cut, state: RunState) -> tuple[Message, Message]:
    """Return the effect of a line on a value that has a graph, as a clause, and the replacement for the line."""
    switch = why_recording_is_off(state) if cut.how == NO_GRAD else ""
    values = cut.values
    # A distribution draws with other views of its parameters in each iteration.
    if cut in state.flow.cuts.drawn.values():
        values = list({state.name_of(value): value for value in reversed(values)}.values())[::-1]
    known: dict[str, object] = {
        "name": name_of(state, values) if is_in_view(state, values, cut.place) else ITS_INPUT,
        "call": called(cut), "switch": switch, "sign": COMPARISONS.get(cut.how.strip("_"), cut.how),
    }  # fmt: skip
    effect, change = _without_recording(cut, switch) if switch else _with_recording(cut)
    return message_with(effect, known), message_with(change, known)


CALL_WITH = (
    "cut.call_with|Call the module with these values instead: `torch.func.functional_call(module, values, inputs)`."
)
CHANGES = {
    **dict.fromkeys(COPIES, "cut.use_pytorch|Compute it with PyTorch's own functions."),
    "tensor": "cut.use_or_stack|Use the tensor itself, or torch.stack(...) for a list of tensors.",
    **dict.fromkeys(ALIASES, "cut.remove|Remove {call}, if you want to train the operations before it."),
    **dict.fromkeys(NEW_LEAVES, "cut.use_tensor|Use the tensor itself, if you want to train the operations before it."),
    WRITTEN: CALL_WITH,
}
"""By function that takes values without their history, the replacement."""


def _without_recording(cut: Cut, switch: str) -> tuple[str, str]:
    """Return the texts on a line that computes while recording is off, for the reason `switch`."""
    effect = "cut.while_off|it computes with {name} while {switch}, so the result has no history"
    change = "cut.compute_while_on|Compute it while recording is on."
    if switch == NO_GRAD:
        effect = "cut.in_no_grad|it computes with {name} while recording is off (no_grad), so the result has no history"
        change = "cut.compute_outside|Compute it outside of no_grad."
    elif "checkpoint" in switch:
        change = "cut.not_reentrant|Pass use_reentrant=False, or an input that requires grad."
    if ".copy_(" in cut.place.text:
        change = CALL_WITH
    elif ".sample(" in cut.place.text:
        change = "cut.rsample|Draw with rsample(), which keeps the history of the distribution's parameters."
    return effect, change


def _with_recording(cut: Cut) -> tuple[str, str]:
    """Return the texts on a line whose function takes values without their history, or has no gradient."""
    if cut.is_number:
        change = "cut.print|Compute with the tensor itself, and use {call} only to print it."
        if called(cut) == THIS_LINE:
            change = CHANGES["numpy"]
        return "cut.plain_number|{call} makes a plain number of {name}: for backward it is a constant", change
    if cut.is_copy and "copy" in cut.place.text:
        return (
            "cut.copied_leaves|it copies {name} into new leaves, and a gradient of these reaches only the copies",
            "cut.functional_call|Call the model itself with other parameters: `torch.func.functional_call(model, "
            "parameters, inputs)`, where the parameters are computed from its own.",
        )
    if cut.how == WRITTEN_PART:
        return (
            "cut.part|it writes through an alias, so the tensor itself has no history of the new values: for backward they "
            "are constants",
            "cut.write_itself|Write into the tensor itself, without .data or .detach().",
        )
    if cut.how not in CHANGES:
        return (
            "cut.compare|{sign} has no gradient, so its result for {name} has no history",
            "cut.differentiable|Compute the loss from the values before it, with differentiable operations.",
        )
    change = CHANGES[cut.how]
    if cut.how == NEW_LEAF and re.match(r"[\w.]+\.\w+ = .*Parameter\(", cut.place.text):
        change = CALL_WITH
    if cut.how in ALIASES and cut.how not in cut.place.text:
        change = "cut.use_tensors|Use the tensors themselves, if you want to train the operations before it."
    effect = "cut.constants|{call} takes the values of {name} without their history: for backward they are constants"
    return effect, change


def why_recording_is_off(state: RunState) -> str:
    """Return the reason why recording is off as a clause, or "no_grad" if the program contains that word."""
    text = "".join(line for file in state.statements.files for line in linecache.getlines(file))
    if NO_GRAD in text:
        return NO_GRAD
    if "use_reentrant" in text and "use_reentrant=False" not in text:
        return Message("no_grad.reentrant|a reentrant checkpoint runs it, and none of its inputs requires grad")
    known = [word for word in ("set_grad_enabled", "inference_mode") if word in text]
    if known:
        return Message("no_grad.turned_off_by|{switch} has turned recording off", switch=known[0])
    return Message("no_grad.is_off|recording is off")


def name_of(state: RunState, tensors: Iterable[TrackedTensor], other: str = ITS_INPUT) -> str:
    """Return the name of the first tensor that has one, and the number of the others in one iteration of a loop."""
    names = {tensor.id: state.name_of(tensor) for tensor in tensors}
    counts = Counter(filter(None, names.values()))
    # Several tensors of an iteration can have one name (`g` in `for g in grads`); most names have one in each iteration.
    rounds = max(multimode(counts.values()), default=1)
    different = dict.fromkeys(name or f"leaf {number}" for number, name in names.items())
    return and_more([name for name in different for _ in range(-(-counts.get(name, 1) // rounds))], other)


def is_in_view(state: RunState, sources: Sequence[TrackedTensor], place: Place) -> bool:
    """Return whether a caller of a line, the line's text, or the program's module has a variable that names a source.

    The variable may be one of a function that has returned.
    """
    depth = max((step.depth for step in state.finished_steps if step.place == place), default=1)
    here = variables_at(state, place.file, place.line).intersection(re.findall(r"\w+", place.text))
    variables = here | variables_at(state, state.statements.program.file)
    for tracked in sources:
        while tracked.name is None and tracked.origin:
            tracked = tracked.origin[0]
        if tracked.name_depth < depth or re.split(r"[.[]", tracked.name or "")[0] in variables:
            return True
    return False


def variables_at(state: RunState, file: str, line: int = 0) -> set[str]:
    """Return the variables that a line can read: those outside of functions, and those of the functions around it."""
    statements, names = state.statements, set[str]()
    for name in statements.files:
        if statements.program.shown(name) == file and (tree := tree_of_file(name)):
            names |= _variables(tree, line)
    return names


@functools.lru_cache(maxsize=1024)
def _variables(tree: ast.Module, line: int) -> frozenset[str]:
    names, stack = set[str](), [cast(ast.AST, tree)]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Name | ast.arg):
            names.add(node.id if isinstance(node, ast.Name) else node.arg)
        if not isinstance(node, FUNCTIONS) or node.lineno <= line <= (node.end_lineno or 0):
            stack += ast.iter_child_nodes(node)
    return frozenset(names)


def and_more(names: Sequence[str], other: str) -> str:
    """Return the best of several names and the number of the others, or `other` if none of them is in the program."""
    ordered = sorted(names, key=lambda name: name.startswith("self."))
    first = next((name for name in ordered if name[:5] != "leaf "), other)
    if len(names) > 1 and first != other:
        return Message("tensor.and_more|{name} and {count} more", name=first, count=len(names) - 1)
    return first


def tensors_of(
    state: RunState, tensors: Iterable[TrackedTensor], *, lost: Place | None = None, read: Place | None = None
) -> tuple[FaultyTensor, ...]:
    """Return the tensors of a fault that have a name, without duplicates."""
    named = {name: tensor for tensor in tensors if (name := state.name_of(tensor))}
    flow, steps = state.flow, state.flow.steps
    held = {*flow.optimized, *steps.unoptimized} - {*steps.trained, *steps.frozen} if flow.calls else set()
    untrained = held - {number for number in flow.reached if number not in steps.unoptimized}
    pairs = named.items()
    return tuple(FaultyTensor(name, state.made_at(leaf), lost, read, leaf.id in untrained) for name, leaf in pairs)
