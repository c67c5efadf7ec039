"""The line of a wrong answer that its message names, and what that line does, as the recording of the answer tells it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from autograder.check.subject.call_report import Call
from autograder.check.subject.subjects import LocalSubject
from autograder.locale.translations import in_english, retold, translatable, translated
from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.schema import LostHistory, Node, Recording, Step
from autograder.tape.recording.verdict_types import Harm, NamedLine, Place
from autograder.view.text.harm_sentences import harmed_tensor

_OVERWRITES = translatable("line {line}: {text} writes into the memory of {tensor}, which {node} keeps for backward")


def describe_line(named: NamedLine) -> str:
    """Returns the line and what it does; whether it should, the reader has to judge."""
    place, told = named.place, retold(named.sentence.removesuffix("."))
    return translated("line {line}: {text} ({told})", line=place.line, text=place.text, told=told)


def line_of_value(recording: Recording, path: str) -> NamedLine | None:
    """Returns the last line that writes into a returned value, else the one that makes it; None where no return statement ran.

    Args:
        path: of the value in what was returned, such as "value", "value[0]" or "value['loss']".
    """
    found = return_statement(recording)
    if found is None:
        return None
    ended, returned = found
    name, places = _name_at(returned, path), _places_of_names(recording, ended)
    leaf = places.get(name.removesuffix(".grad"), (None,))[0] if name.endswith(".grad") else None
    if leaf is not None and (root := _root_of_gradient(recording, leaf, ended)):
        return NamedLine(root, in_english("the last slope that {name} got is that of what is computed here", name=name))
    if name not in places:
        return NamedLine(ended.place, in_english("{name} gets its values here", name=path))
    tensor, made = places[name]
    storages = _storages(recording)
    written = list(_writes(recording, {storages[tensor]} if tensor in storages else set()))
    if written:
        return NamedLine(written[-1], in_english("the last write into the memory of {name}", name=path))
    return NamedLine(made, in_english("{name} gets its values here", name=path))


def line_of_memory(recording: Recording, argument: str) -> NamedLine | None:
    """Returns the line that keeps a write from the memory that the caller passed in, else the last one that writes there.

    None where no line writes at all.
    """
    storages = _storages(recording)
    changes = ((change, step.place) for step in recording.steps for change in step.names if argument == change.name)
    bound = [(storages[change.tensor], place) for change, place in changes if change.tensor in storages]
    if not bound:
        return None
    own = bound[0][0]
    swapped = [step.place for step in recording.steps for write in step.writes if write.operation == "data ="]
    written = list(_writes(recording, {own}))
    if written and written[-1] not in swapped:
        return NamedLine(written[-1], in_english("the last write into the memory of {name}", name=argument))
    if others := [*swapped, *(place for storage, place in bound if storage != own)]:
        told = in_english("from here on {name} has other memory, and the caller's keeps what it holds", name=argument)
        return NamedLine(others[0], told)
    told = in_english("this writes into other memory than that of {name}", name=argument)
    elsewhere = list(_writes(recording, set(storages.values()) - {own}))
    return NamedLine(elsewhere[-1], told) if elsewhere else None


def line_of_parameter(recording: Recording, name: str) -> NamedLine | None:
    """Returns the line that makes a module's attribute; None where none does."""
    program = recording.programs[0]
    assignments = (node for node in ast.walk(ast.parse(program.source)) if isinstance(node, ast.Assign))
    for node in assignments:
        attributes = {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
        if name.partition(".")[0] in attributes:
            text = program.source.splitlines()[node.lineno - 1].strip()
            return NamedLine(
                Place(program.file, node.lineno, text), in_english("{name} becomes a parameter here", name=name)
            )
    return None


def return_statement(recording: Recording) -> tuple[Step, ast.expr] | None:
    """Returns the step of the function's own return statement that ran, and what stands in it; None where none ran."""
    tree = ast.parse(recording.programs[0].source)
    returned = {node.lineno: node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value}
    steps = (step for step in reversed(own_steps(recording)) if step.place.line in returned)
    return next(((step, returned[step.place.line]) for step in steps), None)


def _root_of_gradient(recording: Recording, leaf: int, ended: Step) -> Place | None:
    """Returns the line that computes what the last backward to reach a leaf started from; None for none in the function."""
    ends = {node.id for node in recording.nodes if node.tensor == leaf and not node.inputs}
    ran = [one for one in recording.backward if one.step is not None and one.step <= ended.index]
    last = next((one.step for one in reversed(ran) if one.node in ends and one.status == "passed"), None)
    first = next((one.node for one in ran if last is not None and one.step == last), None)
    places = {node.id: node.place for node in recording.nodes}
    place = None if first is None else places.get(first)
    return place if place in [step.place for step in recording.steps] else None


def own_steps(recording: Recording) -> list[Step]:
    """Returns the steps of the function that was called, or of the module's forward: no helper's, no custom backward's."""
    outer = [step for step in recording.steps if step.depth == 0]
    called = outer[0].function.removesuffix("__init__") if outer else ""
    return [step for step in outer if step.function in (called, f"{called}forward")]


def _name_at(returned: ast.expr | None, path: str) -> str:
    """Returns the name that stands in a return statement for a value, such as "a" or "seen[0]"; "" for an expression."""
    keys: list[ast.expr] = []
    inner = ast.parse(path, mode="eval").body
    while isinstance(inner, ast.Subscript):
        keys.insert(0, inner.slice)
        inner = inner.value
    while keys and isinstance(returned, (ast.Tuple, ast.List, ast.Dict)):
        key = ast.literal_eval(keys.pop(0))
        if isinstance(returned, ast.Dict):
            pairs = zip(returned.keys, returned.values, strict=True)
            returned = next((v for k, v in pairs if isinstance(k, ast.Constant) and k.value == key), None)
        else:
            returned = returned.elts[key] if key < len(returned.elts) else None
    returned = _same_values(returned)
    if not isinstance(returned, (ast.Name, ast.Attribute)):
        return ""
    return ast.unparse(returned) + "".join(f"[{ast.unparse(key)}]" for key in keys)


def _same_values(returned: ast.expr | None) -> ast.expr | None:
    """Returns what stands before `.detach()`, `.clone()`, `.item()` or `.data`: its values are those that are returned."""
    while True:
        if isinstance(returned, ast.Attribute) and returned.attr == "data":
            returned = returned.value
        elif (
            isinstance(returned, ast.Call)
            and isinstance(returned.func, ast.Attribute)
            and returned.func.attr in ("detach", "clone", "item")
        ):
            returned = returned.func.value
        else:
            return returned


def _places_of_names(recording: Recording, ended: Step) -> dict[str, tuple[int | None, Place]]:
    """Returns for each name the tensor that it held before a statement, None for none any more, and the line that bound it."""
    places: dict[str, tuple[int | None, Place]] = {}
    for step in recording.steps[: ended.index + 1]:
        # A function's names hold nothing any more once it has returned.
        changes = [change for change in step.names if change.tensor is not None or step is not ended]
        places |= {change.name: (change.tensor, step.place) for change in changes}
    return places


def _storages(recording: Recording) -> dict[int, int]:
    return {tensor.id: tensor.storage for tensor in recording.tensors}


def _writes(recording: Recording, storages: set[int]) -> Iterator[Place]:
    """Yields the place of each write that changed values in some of these storages."""
    writes = (write for step in recording.steps for write in step.writes)
    yield from (write.place for write in writes if write.storage in storages and write.bytes_changed)


def describe_harm(harm: Harm | None) -> str:
    """Returns the write that harmed a saved tensor, and what the operation that saved it keeps; "" for none."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[0]
    told = translated(_OVERWRITES, line=place.line, text=place.text, tensor=harmed_tensor(harm), node=harm.saved_by)
    # What to write instead would be the answer.
    kept = words_on_node(harm.saved_by, advice=False) if harm.edge is not None else ""
    return told + translated(" ({parts})", parts=kept) if kept else told


def unrecorded_line(harm: Harm | None, missing: Place | None) -> NamedLine | None:
    """Returns the line of a write that the history does not tell of; None where a write harmed a saved tensor, or there is none.

    Args:
        harm: the first harm of the run, if any.
        missing: where such a write is; whether it is the reason, the reader has to judge.
    """
    if harm is not None and harm.mutated_at:
        place = harm.mutated_at[0]
        if harm.kind == "unrecorded write":
            told = in_english(
                "writes into {tensor} and autograd does not record it; {node} computes with the new values",
                tensor=harm.tensor,
                node=harm.saved_by,
            )
            return NamedLine(place, told, "unseen")
        # A node of the check's own, which starts backward in what came back, stands at no line.
        missing = place if harm.edge is None and not harm.saved_at.text else None
    told = in_english(
        "changes values whose history stays as it was: autograd does not know where the new ones come from"
    )
    return NamedLine(missing, told, "unseen") if missing else None


class Held(NamedTuple):
    """What a name held from a line on, as a recording tells it."""

    values: str
    place: Place


def record_original(program: Callable[..., object], call: Call) -> Recording | None:
    """Returns the recording of the original program's forward, with nothing that requires grad; None where it raises."""
    plain = Call(call.arguments, call.options, call.parameters, training=call.training, differentiate=False)
    recording = LocalSubject(program).recording(plain)
    return recording if recording is not None and return_statement(recording) else None


def find_other_values(recording: Recording, original: Recording) -> NamedLine | None:
    """Returns the first line at which a name gets values that it does not have in the original; None for none.

    Only names count that end with values which they never have there: on the way to the same values, others may be right.
    """
    known, steps = _held(original), recording.steps
    found = [
        (first, name)
        for name, mine in _held(recording).items()
        if name in known and mine[-1].values not in {one.values for one in known[name]}
        for first in [_first_other(mine, known[name])]
    ]
    order = {place: index for index, place in reversed(list(enumerate(step.place for step in steps)))}
    if not found:
        return None
    place, name = min(found, key=lambda one: order[one[0]])
    return NamedLine(place, in_english("{name} gets other values here than in the original program", name=name))


def _first_other(mine: list[Held], original: list[Held]) -> Place:
    """Returns where the first of as many values differs, else where the last ones come from: how others belong together is open."""
    if len(mine) != len(original):
        return mine[-1].place
    return next(own.place for own, other in zip(mine, original, strict=True) if own.values != other.values)


def _held(recording: Recording) -> dict[str, list[Held]]:
    """Returns for each name what it held, one after the other, in the function itself."""
    own = {step.index for step in own_steps(recording)}
    names: dict[str, int | None] = {}
    values: dict[int, str] = {}
    held: dict[str, list[Held]] = {}
    for step in recording.steps:
        values |= {state.tensor: state.values for state in step.states}
        names |= {change.name: change.tensor for change in step.names if change.tensor is not None}
        for name, tensor in names.items() if step.index in own else ():
            now, before = values.get(tensor or 0), held.setdefault(name, [])
            if now is not None and (not before or before[-1].values != now):
                before.append(Held(now, step.place))
    return {name: found for name, found in held.items() if found}


def find_cut(recording: Recording, leaf: str, *, is_missing: bool) -> NamedLine | None:
    """Returns the last line that takes what depends on a leaf out of the graph, and whose values are used again; None for none.

    Args:
        leaf: an argument or parameter, as the check calls it.
        is_missing: no gradient arrived at all, so that a value may have left the graph for good: it was returned.
    """
    named, own = _tensors_named(recording, leaf), {step.place for step in recording.steps}
    nodes = {node.id: node for node in recording.nodes}
    # What the check itself detaches stands at no line that ran.
    silent = lines_of_forward(recording)
    lost = [one for one in recording.lost if one.place in own and one.place.line not in silent]
    above = [one for one in lost if named & _tensors_above(one, nodes)]
    used = [lost for lost in above if lost.is_used] or (above if is_missing else [])
    return NamedLine(used[-1].place, used[-1].sentence, "lost") if used else None


def find_reader(recording: Recording, leaf: str) -> NamedLine | None:
    """Returns the first line that reads a leaf with its history; None for none."""
    named = _tensors_named(recording, leaf)
    ends = {node.id for node in recording.nodes if node.tensor in named and not node.inputs}
    readers = (node.place for node in recording.nodes if node.place and ends.intersection(node.inputs))
    own = {step.place for step in recording.steps}
    place = next((place for place in readers if place in own), None)
    return NamedLine(place, in_english("reads {name} with its history", name=leaf)) if place else None


def find_kept_history(recording: Recording, leaf: str) -> NamedLine | None:
    """Returns the line of a module's `__init__` whose history reaches from a forward back to a leaf; None for none."""
    named, nodes = _tensors_named(recording, leaf), {node.id: node for node in recording.nodes}
    for step in recording.steps:
        made = [node for node in step.nodes if nodes[node].inputs] if step.function.endswith("__init__") else []
        kept = [node for node in made if named & _tensors_below([node], nodes)]
        if kept and any(set(kept) & {*other.inputs} for other in recording.nodes if other.id not in step.nodes):
            told = in_english(
                "runs once, in __init__, and keeps the history that leads to {name}: each forward adds its slope",
                name=leaf,
            )
            return NamedLine(step.place, told)
    return None


def find_detached(recording: Recording) -> NamedLine | None:
    """Returns the line that takes the history of a tensor which the graph holds, in place; None for none."""
    nodes: dict[int, int] = {}
    for step in recording.steps:
        lost = [state for state in step.states if state.node is None and state.tensor in nodes]
        if lost:
            told = in_english("takes the history of a tensor in place, and the graph holds that tensor")
            return NamedLine(step.place, told, "lost")
        nodes |= {state.tensor: state.node for state in step.states if state.node is not None}
    return None


def _tensors_named(recording: Recording, leaf: str) -> set[int]:
    """Returns the tensors that an argument's name, or a parameter's name behind `self.`, has referred to."""
    changes = [change for step in recording.steps for change in step.names]
    named = [one.tensor for one in changes if one.name == leaf or one.name.endswith(f".{leaf}")]
    return {tensor for tensor in named if tensor is not None}


def _tensors_above(lost: LostHistory, nodes: dict[int, Node]) -> set[int]:
    """Returns the tensors from which the values at a line were computed, with these."""
    return set(lost.tensors) | _tensors_below(lost.nodes, nodes)


def _tensors_below(starts: Iterable[int], nodes: dict[int, Node]) -> set[int]:
    """Returns the tensors that backward would reach from some nodes."""
    found, stack, seen = set(), list(starts), set()
    while stack:
        node = nodes.get(stack.pop())  # a recording from a student's process may name any
        if node is not None and node.id not in seen:
            seen.add(node.id)
            found |= set() if node.tensor is None else {node.tensor}
            stack.extend(below for below in node.inputs if below is not None)
    return found


def lines_of_forward(recording: Recording) -> set[int]:
    """Returns the lines in the forward of each custom Function, in which nothing is recorded and no path is cut."""
    return {
        line
        for function in _custom_functions(recording)
        for method in _methods(function)
        if method.name == "forward"
        for line in range(method.lineno, (method.end_lineno or method.lineno) + 1)
    }


def find_wrong_backward(recording: Recording, leaf: str) -> NamedLine | None:
    """Returns what the backward of a custom Function returns, where that is not the slope of its forward; None for none."""
    wrong = [check.question for check in recording.verdict.checks if "custom" in check.oracle and check.answer == "no"]
    for function in _custom_functions(recording):
        nodes = (node for method in _methods(function) if method.name == "backward" for node in ast.walk(method))
        ends = [node for node in nodes if isinstance(node, ast.Return)]
        if ends and any(f" {function.name} " in question for question in wrong):
            program = recording.programs[0]
            text = program.source.splitlines()[ends[-1].lineno - 1].strip()
            told = in_english(
                "this is not the slope of what forward computes, so the gradient of {name} is wrong", name=leaf
            )
            return NamedLine(Place(program.file, ends[-1].lineno, text), told)
    return None


def _custom_functions(recording: Recording) -> Iterator[ast.ClassDef]:
    """Yields the classes that define a backward beside their forward."""
    for node in ast.walk(ast.parse(recording.programs[0].source)):
        if isinstance(node, ast.ClassDef) and {"forward", "backward"} <= {method.name for method in _methods(node)}:
            yield node


def _methods(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (method for method in definition.body if isinstance(method, ast.FunctionDef))
