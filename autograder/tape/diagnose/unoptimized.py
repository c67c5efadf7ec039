"""Find parameters that no loss or no optimizer trains, and optimizers of other parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from autograder.locale.messages import Message, counted_message
from autograder.tape.diagnose.evidence import Evidence
from autograder.tape.diagnose.fault_words import A_PARAMETER, fault_kind, name_of, tensors_of
from autograder.tape.observe.cuts import COPIED
from autograder.tape.observe.nodes import GraphNode
from autograder.tape.observe.optimizer_steps import OptimizerSteps
from autograder.tape.observe.state import RunState
from autograder.tape.observe.tensors import TrackedTensor, WriteEvent
from autograder.tape.recording.verdict_types import GraphFault, Place, note_on_line
from autograder.tape.run.storages import Memory

_UNFREEZES = re.compile(r"\.requires_grad = True|\.requires_grad_\((requires_grad=)?(True)?\)")
_LAYER, _TRANSPOSED = re.compile("Addmm|Mm|Linear|Convolution"), re.compile("T(ranspose)?Backward")
_CONVERSION = re.compile(r"\.(double|float|half|bfloat16|to|cuda|cpu)\(")
_ARGUMENTS = re.compile(r"\((?:[^()]|\(\))+\)")  # the converted value in the arguments of a call is not the module
# with the arguments of `Parameter` and of two calls inside it
_CONVERTED = re.compile(rf"Parameter\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\){_CONVERSION.pattern}")
_LIST, _ITEM = re.compile(r"self\.(\w+) = \["), re.compile(r"\.(\w+)\[[^\]]*\]\.")
_IN_LIST = re.compile(r"self\.(\w+)(?: = \[|\.append\().*\bParameter\(")
_PATH = re.compile(r"[^\W\d]\w*")
_BOUND = re.compile(r"^(?:[\w.]+\.)?(\w+) = (?!.*\b\1\.)[\w.]+\(")
_INITIAL = re.compile(r"init|normal_|uniform_")


@fault_kind("parameter that no loss depends on", after_error=False)
def without_a_loss(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that compute with parameters of an optimizer, if no backward call reached these parameters."""
    state, flow, elsewhere = evidence.state, evidence.state.flow, evidence.reached_elsewhere
    if not flow.calls:
        return
    explained = {new.id for _, new in flow.steps.replaced}
    explained |= {number for cut in flow.cuts.all.values() for number in state.leaves_above(cut)}
    explained |= {leaf.id for leaves in state.given.values() for leaf in leaves}
    explained |= flow.accounted_for | state.leaves_of_derivatives
    places: dict[Place, list[TrackedTensor]] = {}
    for number, (place, tracked) in flow.steps.used.items():
        if number in flow.optimized and number not in explained and tracked.shape not in elsewhere:
            places.setdefault(place, []).append(tracked)
    foreign = _names_of_foreign(evidence) if places else set()
    for place, tensors in places.items():
        if foreign.issuperset(state.name_of(tensor) for tensor in tensors):
            continue
        yield without_a_loss.about(
            state, tensors, place,
            "optimizer.result_unused|the result that it computes with {names} reaches no loss, so no backward call "
            "computes a gradient for {names}, which the optimizer holds.",
            "optimizer.use|Use the result in the loss, or take {names} out of the optimizer.",
            read=place,
        )  # fmt: skip


@fault_kind("gradient that no optimizer uses", after_error=False)
def unoptimized_gradient(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the lines that made parameters which get gradients and which no optimizer holds."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    fine = _used_otherwise(evidence) | flow.optimized.keys()
    missed = [tracked for number, tracked in steps.unoptimized.items() if number not in fine]
    if steps.doubled_at is not None and missed:
        yield unoptimized_gradient.about(
            state, missed, steps.doubled_at,
            "optimizer.doubled|this optimizer holds the same parameters as the one whose step comes before it, and no "
            "optimizer updates {names}, although backward computes a gradient.",
            "optimizer.pass_other|Pass the other parameters to one of the two optimizers.",
        )  # fmt: skip
        return
    # The line that replaces a parameter before the step is named.
    foreign = _names_of_foreign(evidence) | {state.name_of(old) for old, _ in steps.replaced}
    places: dict[Place, list[TrackedTensor]] = {}
    in_lists = set[Place]()
    lists = _lists_of_modules(evidence) if steps.unoptimized else {}
    held = {state.name_of(leaf) or "" for leaf in flow.optimized.values()}
    makers = _makers(evidence) if steps.unoptimized else {}
    for tracked in steps.unoptimized.values():
        made, name = _made_at(state, tracked), state.name_of(tracked)
        if made is None or name in foreign:
            continue
        item = _ITEM.search(name or "")
        place, owner = lists.get(item[1] if item else "", (None, None))
        # Of a layer that the class of the list makes, the line that makes it is named.
        if place is not None and (made == place or owner not in evidence.around(made.file, made.line, ast.ClassDef)):
            in_lists.add(made := place)
        elif (maker := _maker_of(name or "", held, makers)) is not None and maker.file != made.file:
            made = maker  # the class is in another file
        places.setdefault(made, []).append(tracked)
    for made, tensors in sorted(places.items(), key=lambda item: (item[0].file, item[0].line)):
        if not any(tensor.id in fine for tensor in tensors):
            effect, change = _words_on_unoptimized(steps, tensors, made)
            if made in in_lists:
                change = (
                    "optimizer.module_list|Use nn.ModuleList: a module's parameters() does not list the layers in a "
                    "Python list."
                )
            elif _is_in_list(evidence, made, tensors):
                change = (
                    "optimizer.parameter_list|Use nn.ParameterList: a module's parameters() does not list the parameters "
                    "in a Python list."
                )
            yield unoptimized_gradient.about(state, tensors, made, effect, change)
    yield from _unfrozen(evidence)


def _lists_of_modules(evidence: Evidence) -> dict[str, tuple[Place, ast.ClassDef]]:
    """Return the lines that make a list as an attribute of a module, with its class, by the attribute if only one class has it."""
    lists: dict[str, list[tuple[Place, ast.ClassDef]]] = {}
    for file, owner in evidence.nodes(ast.ClassDef):
        for node in ast.walk(owner) if _is_module(owner) else ():
            if isinstance(node, ast.Assign) and (name := _LIST.match(ast.unparse(node))):
                lists.setdefault(name[1], []).append((Place(file, node.lineno, ast.unparse(node)), owner))
    return {name: places[0] for name, places in lists.items() if len(places) == 1}


def _is_module(owner: ast.ClassDef) -> bool:
    return any("Module" in ast.unparse(base) for base in owner.bases)


def _is_in_list(evidence: Evidence, made: Place, tensors: list[TrackedTensor]) -> bool:
    """Return whether a line makes parameters in a Python list of a module, and no conversion puts other tensors into it."""
    kept, classes = _IN_LIST.search(made.text), evidence.around(made.file, made.line, ast.ClassDef)
    is_other = _CONVERTED.search(made.text) and not (evidence.state.name_of(tensors[0]) or "").endswith("]")
    owners = [ast.unparse(owner) for owner in classes if _is_module(owner)]
    return kept is not None and not is_other and any(f"self.{kept[1]} = [" in owner for owner in owners)


def _makers(evidence: Evidence) -> dict[str, list[Place]]:
    """Return the lines that bind a variable or an attribute to the result of a call, by the last part of its name."""
    makers: dict[str, list[Place]] = {}
    for place in dict.fromkeys(evidence.lines_with(_BOUND)):
        makers.setdefault(_BOUND.findall(place.text)[0], []).append(place)
    return makers


def _maker_of(name: str, held: set[str], makers: dict[str, list[Place]]) -> Place | None:
    """Return the only line that makes the outermost module of a parameter of which no optimizer holds one, or None."""
    parts = name.split(".")[:-1]
    for end in range(1, len(parts) + 1):
        if not any(path.startswith(f"{'.'.join(parts[:end])}.") for path in held):
            places = makers.get(parts[end - 1], [])
            return places[0] if len(places) == 1 else None
    return None


def _unfrozen(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the last line that let parameters require grad after a step, if no optimizer holds them."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    lines = evidence.lines_with(_UNFREEZES)
    if not lines or evidence.runs.excerpt is not None:
        return
    handled = flow.optimized.keys() | steps.unoptimized.keys() | _used_otherwise(evidence)
    unused = [leaf for number, leaf in flow.reached.items() if number not in handled and leaf.parameter]
    late = [leaf for leaf in unused if steps.is_filled_late(leaf)]
    if late:
        yield unoptimized_gradient.about(
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
    """Return the ids of tensors in no optimizer whose gradient the program uses, or that it updates or has updated itself."""
    state, flow, steps = evidence.state, evidence.state.flow, evidence.state.flow.steps
    # A modification after the first backward may be a step by hand, unless it sets the values of a new parameter. Values
    # that were copied, as into a target network, are not random, whenever the program copied them.
    written = {
        (write.memory, write.place) for write in state.writes
        if write.changed and not _is_conversion(write) and (write.call > 0 or COPIED.search(write.place.text))
    }  # fmt: skip
    by_hand = {(memory, place) for memory, place in written if not _INITIAL.search(place.text)}
    asked = {asked.id for call in flow.calls for asked in call.asked}
    updated = {
        number for number, leaf in steps.unoptimized.items()
        if any(memory is leaf.memory and place != _made_at(state, leaf) for memory, place in by_hand)
    }  # fmt: skip
    others = {number: leaf for number, leaf in steps.unoptimized.items() if number not in steps.attributes}
    entering = {number for number, leaf in others.items() if not leaf.parameter and _enters_layer(state, leaf)}
    # a line that copies the state of another module into this one may run only later, such as in every thousandth step
    calls = (call for _, call in evidence.nodes(ast.Call) if getattr(call.func, "attr", "") == "load_state_dict")
    loads = (call for call in calls if "state_dict()" in "".join(map(ast.unparse, call.args)))
    copied = {_PATH.findall(ast.unparse(call.func))[-2] for call in loads}
    names = {number: state.name_of(leaf) or "" for number, leaf in steps.unoptimized.items()}
    follow = {number for number, name in names.items() if copied.intersection(_PATH.findall(name))}
    # An earlier optimizer may have updated a parameter before its conversion; hooks read gradients.
    held = {leaf.object_id for leaf in flow.optimized.values()} | {
        number for number, count in flow.hooks.items() if count
    }
    known = {number for number, leaf in steps.unoptimized.items() if leaf.object_id in held}
    return steps.read | asked | updated | entering | follow | known | _renewed_copies(state, steps.unoptimized.values())


def _renewed_copies(state: RunState, leaves: Iterable[TrackedTensor]) -> set[int]:
    """Return the ids of copies of trained parameters that are made anew after a backward call, as those of an old policy."""
    flow = state.flow
    trained = flow.optimized.keys() & flow.reached
    renewed = {number for cut in flow.cuts.all.values() if cut.is_copy and cut.last for number in cut.sources} & trained
    cuts = ((leaf.id, flow.cuts.of(leaf)) for leaf in leaves)
    return {number for number, cut in cuts if cut is not None and cut.is_copy and cut.sources.keys() <= renewed}


def _inputs(state: RunState, node: GraphNode) -> list[GraphNode]:
    return [state.graph.nodes[number] for number in node.inputs if number is not None]


def _enters_layer(state: RunState, leaf: TrackedTensor) -> bool:
    """Return whether the first parameters of an optimizer that a leaf meets are the weights of a layer, so that it is data."""
    stack, seen = [node for node in state.graph.nodes if node.tensor == leaf.id and not node.inputs], set[int]()
    while stack:
        node = stack.pop()
        for consumer in node.consumers if node.id not in seen else ():
            below = [other for other in _inputs(state, consumer) if other is not node]
            transposed = [other for other in below if _TRANSPOSED.match(other.name)]
            below += [inner for other in transposed for inner in _inputs(state, other)]
            if not any(other.tensor in state.flow.optimized and not other.inputs for other in below):
                stack.append(consumer)
            elif _LAYER.match(consumer.name):
                return True
        seen.add(node.id)
    return False


def notes_on_parts(evidence: Evidence) -> Iterator[str]:
    """Yield a note for each step at which no optimizer held some parameters of a module and one held others."""
    state, flow = evidence.state, evidence.state.flow
    by_hand = written_after_backward(state)
    known = flow.steps.read | flow.optimized.keys() | {asked.id for call in flow.calls for asked in call.asked}
    known |= flow.steps.unoptimized.keys()  # a fault reports these
    for place, tensors in flow.steps.beside.items():
        others = (tensor for tensor in tensors if tensor.parameter and tensor.id not in known)
        copies = _renewed_copies(state, tensors)
        if missed := [tensor for tensor in others if tensor.memory not in by_hand and tensor.id not in copies]:
            text = Message(
                "note.part_of_module|at this step, no optimizer holds {names}, although backward computes a gradient, and "
                "one holds other parameters of the same module. Pass all parameters that should be trained.",
                names=name_of(state, sorted(missed, key=lambda tensor: tensor.id), A_PARAMETER),
            )
            yield note_on_line(place, evidence.file, text)


def _words_on_unoptimized(steps: OptimizerSteps, tensors: list[TrackedTensor], made: Place) -> tuple[str, str]:
    """Return the effect and the change for the tensors that a line made and no optimizer holds."""
    effect = (
        "optimizer.unheld|no optimizer updates {names}, although backward computes a gradient: the initial values stay."
    )
    change = "optimizer.once|Make it once, before the optimizer, and pass its parameters to the optimizer."
    outlives = all(steps.outlives(tensor) for tensor in tensors)
    if outlives:
        change = (
            "optimizer.pass_or_freeze|Pass the parameters to the optimizer, or call requires_grad_(False) on them "
            "if they should keep these values."
        )
    if outlives and tensors[0].first is None and not (tensors[0].parameter and steps.is_random(tensors[0])):
        effect = (
            "optimizer.unheld_leaf|no optimizer updates {names}, although each backward adds to the gradient: the "
            "value from this line stays."
        )
    if not tensors[0].parameter:
        change = "optimizer.pass_it|Pass it to the optimizer as well."
    if tensors[0].id in steps.attributes:
        change = (
            "optimizer.make_parameter|Make it an nn.Parameter: a module's parameters() does not list other tensors."
        )
    elif tensors[0].parameter and _CONVERTED.search(made.text):
        change = "optimizer.convert_before|Convert the values before: a converted parameter is another tensor and no parameter."
    return effect, change


# An optimizer is known from its first step: after an error, another step may have been next.
@fault_kind("optimizer of other parameters", after_error=False)
def foreign_optimizer(evidence: Evidence) -> Iterator[GraphFault]:
    """Yield the step of an optimizer whose parameters no backward reached, if the reached ones belong to no optimizer."""
    state, flow = evidence.state, evidence.state.flow
    written = written_after_backward(state)
    known, elsewhere = {new.id for _, new in flow.steps.replaced} | flow.reached.keys(), evidence.reached_elsewhere
    if flow.reached.keys() & flow.optimized.keys():
        known |= flow.steps.frozen  # such as the vectors of a spectral norm, next to parameters that are trained
    idle = [leaf for number, leaf in flow.optimized.items() if number not in known and leaf.shape not in elsewhere]
    unoptimized = (leaf for number, leaf in flow.reached.items() if number not in flow.optimized and leaf.parameter)
    missed = [parameter for parameter in unoptimized if parameter.memory not in written]
    if flow.optimizer_at is None or not idle or not missed:
        return
    cuts = [cut for cut in flow.cuts.all.values() if cut.used_at and not cut.is_early_copy]
    in_losses = evidence.nodes_of_losses
    cut_off = {number for cut in cuts for number in state.leaves_of_losses(cut, in_losses)}
    if {leaf.id for leaf in idle} & cut_off - state.followers:
        return
    message = counted_message(
        len(idle),
        "optimizer.foreign.one|the optimizer holds {count} tensor without a gradient, but not these, which do get gradients: {names}.",
        "optimizer.foreign|the optimizer holds {count} tensors without a gradient, but not these, which do get gradients: {names}.",
        names=name_of(state, missed, Message("optimizer.the_parameters|the parameters")),
    )
    # A target network is not to be trained.
    meant = [leaf for leaf in idle if leaf.id not in state.followers]
    yield foreign_optimizer.at(
        flow.optimizer_at,
        message,
        "optimizer.make_after|Make the optimizer after the model is complete, from the parameters of the model that computes the loss.",
        tensors_of(state, missed) + tensors_of(state, meant),
    )


def _names_of_foreign(evidence: Evidence) -> set[str | None]:
    return {tensor.name for fault in foreign_optimizer.found(evidence) for tensor in fault.tensors}


def written_after_backward(state: RunState) -> set[Memory]:
    """Return the memories that the program modified after the first backward call, as a step by hand does."""
    late = (write for write in state.writes if write.call > 0 and not write.in_backward)
    return {write.memory for write in late if write.changed and not _is_conversion(write)}


def _is_conversion(write: WriteEvent) -> bool:
    """Return whether a module converted its parameters, for which it gives them other memory (`Module.double`, 2.13)."""
    text = write.place.text
    while (outer := _ARGUMENTS.sub("()", text)) != text:
        text = outer
    return write.swapped and ".data" not in text and _CONVERSION.search(text) is not None
