"""The line of an answer that a refusal names: which line gave a value what it holds, or left the caller's memory as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from autograder.locale.translations import in_english, retold, translated
from autograder.tape.recording.schema import Recording, Step
from autograder.tape.recording.verdict_types import NamedLine, Place


def describe(named: NamedLine) -> str:
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
