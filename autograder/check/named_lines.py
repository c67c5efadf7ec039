"""The line of an answer that a message names: where a value went wrong, the caller's memory was missed, or a leaf left the graph."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.locale.translations import localized, restored, translated
from autograder.tape.recording.schema import Recording, Step, nodes_below
from autograder.tape.recording.verdict_types import NamedLine, Place


def describe(named: NamedLine) -> str:
    """Return the line and a description of it; whether the line is right, the reader has to judge."""
    place, sentence = named.place, localized(named.sentence).rstrip(".。")
    return translated("line {line}: {text} ({told})", line=place.line, text=place.text, told=sentence)


def line_of_value(recording: Recording, path: str) -> NamedLine | None:
    """Return the last line that modifies a returned value, else the line that computes it; None if no return statement ran.

    `path` is the position in the returned object, such as "value", "value[0]" or "value['loss']".
    """
    statement = return_statement(recording)
    if statement is None:
        return None
    ended, returned = statement
    places: dict[str, tuple[int | None, Place]] = {}
    for step in recording.steps[: ended.index + 1]:
        # When a function has returned, its names are unbound.
        changes = [change for change in step.names if change.tensor is not None or step is not ended]
        places |= {change.name: (change.tensor, step.place) for change in changes}
    name = name_at(returned, path)
    leaf = places.get(name.removesuffix(".grad"), (None,))[0] if name.endswith(".grad") else None
    if leaf is not None and (root := _root_of_gradient(recording, leaf, ended)):
        message = Message(
            "line.last_gradient|{name} received its last gradient from the result computed here", name=name
        )
        return NamedLine(root, message)
    if name not in places:
        return NamedLine(ended.place, Message("line.gets_values|{name} gets its values here", name=path))
    tensor, made = places[name]
    storages = _storages(recording)
    written = list(_writes(recording, {storages[tensor]} if tensor in storages else set()))
    if written:
        return NamedLine(written[-1], Message("line.last|the last write into the memory of {name}", name=path))
    return NamedLine(made, Message("line.gets_values|{name} gets its values here", name=path))


def line_of_memory(recording: Recording, argument: str) -> NamedLine | None:
    """Return the line because of which a write misses the memory that the caller passed in, else the last write there.

    Return None if the function does not write at all.
    """
    storages = _storages(recording)
    changes = ((change, step.place) for step in recording.steps for change in step.names if argument == change.name)
    bound = [(storages[change.tensor], place) for change, place in changes if change.tensor in storages]
    if not bound:
        return None
    first = bound[0][0]
    swapped = [step.place for step in recording.steps for write in step.writes if write.operation == "data ="]
    written = list(_writes(recording, {first}))
    if written and written[-1] not in swapped:
        return NamedLine(written[-1], Message("line.last|the last write into the memory of {name}", name=argument))
    if others := [*swapped, *(place for storage, place in bound if storage != first)]:
        message = Message(
            "line.refers_to_other_memory|from here on {name} refers to other memory; the caller's tensor keeps its values",
            name=argument,
        )
        return NamedLine(others[0], message)
    message = Message("line.writes_elsewhere|this writes to memory other than that of {name}", name=argument)
    elsewhere = list(_writes(recording, set(storages.values()) - {first}))
    return NamedLine(elsewhere[-1], message) if elsewhere else None


def line_of_parameter(recording: Recording, name: str) -> NamedLine | None:
    """Return the line that assigns a parameter that the original module does not have, or None."""
    return _assignment(recording, name, Message("line.becomes_parameter|{name} becomes a parameter here", name=name))


def line_of_attribute(recording: Recording, name: str) -> NamedLine | None:
    """Return the line that assigns an attribute that has to be a parameter and is not, or None."""
    return _assignment(
        recording, name, Message("line.is_no_parameter|{name} is assigned here, and is not a parameter", name=name)
    )


def _assignment(recording: Recording, name: str, sentence: str) -> NamedLine | None:
    program = recording.programs[0]
    for node in (node for node in ast.walk(ast.parse(program.source)) if isinstance(node, ast.Assign)):
        if name.partition(".")[0] in {target.attr for target in node.targets if isinstance(target, ast.Attribute)}:
            text = program.source.splitlines()[node.lineno - 1].strip()
            return NamedLine(Place(program.file, node.lineno, text), sentence)
    return None


def return_statement(recording: Recording) -> tuple[Step, ast.expr] | None:
    """Return the last step that ran a return statement of the function itself, and the returned expression; or None."""
    tree = ast.parse(recording.programs[0].source)
    returned = {node.lineno: node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value}
    steps = (step for step in reversed(function_steps(recording)) if step.place.line in returned)
    return next(((step, returned[step.place.line]) for step in steps), None)


def _root_of_gradient(recording: Recording, leaf: int, ended: Step) -> Place | None:
    """Return the line that computed the root of the last backward to reach a leaf; None if it is outside of the function."""
    ends = {node.id for node in recording.nodes if node.tensor == leaf and not node.inputs}
    ran = [call for call in recording.backward if call.step is not None and call.step <= ended.index]
    last = next((call.step for call in reversed(ran) if call.node in ends and call.status == "passed"), None)
    first = next((call.node for call in ran if last is not None and call.step == last), None)
    places = {node.id: node.place for node in recording.nodes}
    place = None if first is None else places.get(first)
    return place if place in [step.place for step in recording.steps] else None


def function_steps(recording: Recording) -> list[Step]:
    """Return the steps of the called function or the module's forward, without those of helpers and custom backwards."""
    outer = [step for step in recording.steps if step.depth == 0]
    called = outer[0].function.removesuffix("__init__") if outer else ""
    return [step for step in outer if step.function in (called, f"{called}forward")]


def name_at(returned: ast.expr | None, path: str) -> str:
    """Return the name of a value in a return statement, such as "a" or "seen[0]"; "" for other expressions."""
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
    """Return the operand of `.detach()`, `.clone()`, `.item()` or `.data`, which has the same values as the result."""
    while True:
        if isinstance(returned, ast.Attribute) and returned.attr == "data":
            returned = returned.value
        elif isinstance(returned, ast.Call) and isinstance(called := returned.func, ast.Attribute):
            if called.attr not in ("detach", "clone", "item"):
                return returned
            returned = called.value
        else:
            return returned


def _storages(recording: Recording) -> dict[int, int]:
    return {tensor.id: tensor.storage for tensor in recording.tensors}


def _writes(recording: Recording, storages: set[int]) -> Iterator[Place]:
    """Yield the place of each write that changed values in these storages."""
    writes = (write for step in recording.steps for write in step.writes)
    yield from (write.place for write in writes if write.storage in storages and write.bytes_changed)


def find_wrong_backward(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the return statement of the first custom backward that does not match its forward; None if all match."""
    wrong = [check.question for check in recording.verdict.checks if "custom" in check.oracle and check.answer == "no"]
    for function in _custom_functions(recording):
        nodes = (node for method in _methods(function) if method.name == "backward" for node in ast.walk(method))
        ends = [node for node in nodes if isinstance(node, ast.Return)]
        if ends and any(f" {function.name} " in question for question in wrong):
            program = recording.programs[0]
            text = program.source.splitlines()[ends[-1].lineno - 1].strip()
            message = Message(
                "lost.not_derivative|this is not the derivative of forward, so the gradient of {name} is wrong",
                name=leaf,
            )
            return NamedLine(Place(program.file, ends[-1].lineno, text), message)
    return None


def _custom_functions(recording: Recording) -> Iterator[ast.ClassDef]:
    """Yield the classes that define both a forward and a backward."""
    for node in ast.walk(ast.parse(recording.programs[0].source)):
        if isinstance(node, ast.ClassDef) and {"forward", "backward"} <= {method.name for method in _methods(node)}:
            yield node


def _methods(definition: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    yield from (method for method in definition.body if isinstance(method, ast.FunctionDef))


def find_cut(recording: Recording, leaf: str, *, is_missing: bool) -> NamedLine | None:
    """Return the last line that removes a leaf's values from the graph and whose result is used again, or None.

    If the leaf has no gradient at all (`is_missing`), the removed value may also have been returned without further use.
    """
    named, places = _tensors_named(recording, leaf), {step.place for step in recording.steps}
    nodes = {node.id: node for node in recording.nodes}
    forwards = [
        method for function in _custom_functions(recording) for method in _methods(function) if method.name == "forward"
    ]
    # Autograd does not record in the forward of a custom Function, so no path is cut there. Tensors that the check itself
    # detaches do not belong to a line of the answer.
    silent = {line for method in forwards for line in range(method.lineno, (method.end_lineno or method.lineno) + 1)}
    lost = [cut for cut in recording.lost if cut.place in places and cut.place.line not in silent]
    above = [cut for cut in lost if named & {*cut.tensors, *(node.tensor for node in nodes_below(cut.nodes, nodes))}]
    used = [lost for lost in above if lost.is_used] or (above if is_missing else [])
    return NamedLine(used[-1].place, restored(used[-1].sentence, recording.verdict.messages), "lost") if used else None


def first_use_of_leaf(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the first line whose operation connects a leaf to the graph, or None."""
    named = _tensors_named(recording, leaf)
    ends = {node.id for node in recording.nodes if node.tensor in named and not node.inputs}
    readers = (node.place for node in recording.nodes if node.place and ends.intersection(node.inputs))
    places = {step.place for step in recording.steps}
    place = next((place for place in readers if place in places), None)
    message = Message("lost.reads_with_history|reads {name} with its history", name=leaf)
    return NamedLine(place, message) if place else None


def find_kept_history(recording: Recording, leaf: str) -> NamedLine | None:
    """Return the line of a module's `__init__` whose graph connects a forward to a leaf, or None."""
    named, nodes = _tensors_named(recording, leaf), {node.id: node for node in recording.nodes}
    for step in recording.steps:
        made = [node for node in step.nodes if nodes[node].inputs] if step.function.endswith("__init__") else []
        kept = [node for node in made if named & {below.tensor for below in nodes_below([node], nodes)}]
        if kept and any(set(kept) & {*other.inputs} for other in recording.nodes if other.id not in step.nodes):
            message = Message(
                "lost.history_from_init|runs once, in __init__, and keeps the history that leads to {name}: each "
                "forward adds its gradient",
                name=leaf,
            )
            return NamedLine(step.place, message)
    return None


def line_that_freed(recording: Recording, line: int) -> NamedLine | None:
    """Return the line of the last backward before a line, which freed the graph that this line uses again; or None."""
    steps = [recording.steps[call.step] for call in recording.backward if call.step is not None]
    earlier = [step.place for step in steps if step.place.line != line]
    message = Message(
        "lost.freed_graph|this backward freed the saved tensors of the graph that line {line} uses again", line=line
    )
    return NamedLine(earlier[-1], message) if earlier else None


def find_detached(recording: Recording) -> NamedLine | None:
    """Return the line that detaches a tensor of the graph in place, or None."""
    nodes: dict[int, int] = {}
    for step in recording.steps:
        lost = [state for state in step.states if state.node is None and state.tensor in nodes]
        if lost:
            message = Message(
                "lost.history_replaced|replaces the history of a tensor in place, although the graph uses that tensor"
            )
            return NamedLine(step.place, message, "lost")
        nodes |= {state.tensor: state.node for state in step.states if state.node is not None}
    return None


def _tensors_named(recording: Recording, leaf: str) -> set[int]:
    """Return the tensors to which an argument's name, or a parameter's name after `self.`, has referred."""
    changes = [change for step in recording.steps for change in step.names]
    named = [change.tensor for change in changes if change.name == leaf or change.name.endswith(f".{leaf}")]
    return {tensor for tensor in named if tensor is not None}
