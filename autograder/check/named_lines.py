"""The line of an answer that a message names: the line that computed a wrong value, or did not modify the caller's memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.messages import Message
from autograder.locale.translations import localized, translated
from autograder.tape.recording.schema import Recording, Step
from autograder.tape.recording.verdict_types import NamedLine, Place


def describe(named: NamedLine) -> str:
    """Return the line and a description of it; whether the line is right, the reader has to judge."""
    place, sentence = named.place, localized(named.sentence).rstrip(".。")
    return translated("line {line}: {text} ({told})", line=place.line, text=place.text, told=sentence)


def line_of_value(recording: Recording, path: str) -> NamedLine | None:
    """Return the last line that modifies a returned value, else the line that computes it; None if no return statement ran.

    `path` is the position in the returned object, such as "value", "value[0]" or "value['loss']".
    """
    found = return_statement(recording)
    if found is None:
        return None
    ended, returned = found
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
