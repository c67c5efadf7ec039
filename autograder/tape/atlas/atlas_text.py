"""The text form of the atlas: one operation on a screen, and a summary of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from autograder.locale.translations import join_names, join_sentences, translated
from autograder.tape.atlas.atlas_table import Atlas, Keep, Operation, known_versions

COMMANDS = (
    "autograder atlas exp                      one operation; also torch.exp, Tensor.exp_, nn.ReLU, @, ExpBackward0",
    "autograder atlas --json                   the whole table",
    "autograder atlas --diff 2.13.0 2.15.0     what changed between two releases",
)


def sentence(operation: Operation) -> str:
    """Return a sentence on the saved tensors of an operation and on in-place modifications, such as "exp keeps its output: …"."""
    kept, read = _kept_and_read(operation)
    told = []
    if kept:
        told.append(translated("{what}: modify a copy, or use an out-of-place operation.", what=kept))
    if read:
        told.append(
            translated(
                "{what}: an in-place modification before backward gives a wrong gradient and no error.", what=read
            )
        )
    if told:
        return join_sentences(told)
    return translated(
        "{name} saves no tensor: you may modify its arguments and its output in place.", name=_short_name(operation)
    )


def what_is_kept(operation: Operation) -> str:
    """Return the first part of that sentence without the advice, such as "exp keeps its output", or "" if no tensor is saved."""
    kept, read = _kept_and_read(operation)
    return kept or read


def _kept_and_read(operation: Operation) -> tuple[str, str]:
    """Return texts on the saved tensors with a version check, and on those without, or "" for an empty group."""
    guarded = _kept(operation, [keep for keep in operation.keeps if keep.guarded])
    silent = _kept(operation, [keep for keep in operation.keeps if not keep.guarded])
    name = _short_name(operation)
    return (
        translated("{name} keeps {kept}", name=name, kept=join_names(guarded)) if guarded else "",
        translated("{name} reads {kept} without a version check", name=name, kept=join_names(silent)) if silent else "",
    )


def _short_name(operation: Operation) -> str:
    return operation.name.rpartition(".")[2]


def _kept(operation: Operation, keeps: Sequence[Keep]) -> list[str]:
    """Return descriptions of the saved tensors, or only their names if there are more than two."""
    names = dict.fromkeys(keep.what for keep in keeps)
    return [_named(operation, what) + (_for(operation, keeps, what) if len(names) < 3 else "") for what in names]


def _named(operation: Operation, what: str) -> str:
    alone = operation.outputs if what in operation.outputs else operation.arguments
    if len(alone) == 1 and what == "input":
        return translated("its input")
    return translated("its output") if len(alone) == 1 and what == "output" else f"`{what}`"


def _for(operation: Operation, keeps: Sequence[Keep], what: str) -> str:
    """Return the gradients and calls for which a tensor is saved, or "" if it is saved for all gradients in all calls."""
    gradients: dict[str, set[str]] = {}
    for keep in keeps:
        if keep.what == what:
            gradients.setdefault(keep.when, set()).update(keep.gradients)
    parts = [" ".join(filter(None, (_whose(operation, named), translated(when)))) for when, named in gradients.items()]
    return translated(" ({parts})", parts=translated("; ").join(parts)) if any(parts) else ""


def _whose(operation: Operation, named: set[str]) -> str:
    return (
        ""
        if named == set(operation.gradients)
        else translated("for the gradient of {names}", names=join_names(sorted(named)))
    )


def operation_text(operations: Sequence[Operation]) -> str:
    """Return the text on one operation in all its forms. Forms with equal saved tensors share a paragraph."""
    alike: dict[Operation, list[Operation]] = {}
    for one in operations:
        alike.setdefault(msgspec.structs.replace(one, form="", nodes=(), calls=0), []).append(one)
    return "\n\n".join("\n".join(_lines(group)) for group in alike.values())


def _lines(group: Sequence[Operation]) -> Iterable[str]:
    first = group[0]
    forms = ", ".join(one.form for one in group if one.form)
    nodes = ", ".join(first.nodes[:3]) + (", …" if len(first.nodes) > 3 else "")
    yield f"{first.name}{f' ({forms})' if forms else ''}, recorded as {nodes}; {sum(one.calls for one in group)} calls observed"
    yield f"  {sentence(first)}"
    tensors = (*first.arguments, *first.outputs)
    width = max(map(len, tensors))
    for name in tensors:
        yield f"    {name:{width}}  {state_of(first, name)}"
    yield from (f"  {note}" for note in _in_place_lines(first))
    yield from (f"  {note}" for note in first.notes)


def state_of(operation: Operation, name: str) -> str:
    """Return the rule for one tensor of an operation, such as "may be written" or "kept (for the gradient of other)"."""
    rows = [keep for keep in operation.keeps if keep.what == name]
    if not rows:
        return "may be written"
    word = "kept" if any(keep.guarded for keep in rows) else "read without a guard"
    if not any(keep.read for keep in rows):
        word += ", though its values are not read"
    return word + _for(operation, rows, name)


def _in_place_lines(operation: Operation) -> Iterable[str]:
    form = operation.in_place
    if form is None:
        return
    kept = [f"{_result(keep.what)}{f' ({keep.when})' if keep.when else ''}" for keep in form.keeps]
    # The operation overwrites the values that its backward needs.
    if _keeps_input(operation.keeps) and not _keeps_input(form.keeps):
        kept.append("a copy of what it overwrote")
    yield f"In place, as {form.name}: keeps {join_names(list(dict.fromkeys(kept))) if kept else 'nothing'}."


def _keeps_input(keeps: Iterable[Keep]) -> bool:
    return any(keep.what == "input" and keep.read for keep in keeps)


def _result(what: str) -> str:
    return "its result, the tensor it wrote into" if what == "input" else f"`{what}`"


def summary_text(atlas: Atlas) -> str:
    """Return the number of operations by the kind of tensors they save, remarks on unusual ones, and the commands of the atlas."""
    groups: dict[str, list[str]] = {}
    for one in atlas.operations:
        groups.setdefault(_group(one), []).append(one.key)
    lines = [
        f"{len(atlas.operations)} differentiable operations of PyTorch {atlas.pytorch}, each way of calling counted once:",
        "",
    ]
    for group in ("nothing", "inputs", "outputs", "inputs and outputs"):
        names = groups.get(group, [])
        lines.append(f"  {len(names):4} keep {group:18} such as {', '.join(names[:: max(1, len(names) // 4)][:4])}")
    return "\n".join([*lines, "", *_remarks(atlas), "", *(f"  {command}" for command in COMMANDS)])


def _group(operation: Operation) -> str:
    kept = {keep.what for keep in operation.keeps}
    sides = [side for side, of in (("inputs", operation.arguments), ("outputs", operation.outputs)) if kept & set(of)]
    return " and ".join(sides) or "nothing"


def _remarks(atlas: Atlas) -> Iterable[str]:
    conditional = sum(any(keep.when for keep in one.keeps) for one in atlas.operations)
    yield f"{conditional} depend on how they are called: whether an argument is a tensor, on a keyword, dtype or shape."
    unread = [one.key for one in atlas.operations if any(note.startswith(tuple(_unread(one))) for note in one.notes)]
    yield f"{len(unread)} check the version of a tensor whose values they do not read, so backward may raise an error that is not needed."
    silent = [one.key for one in atlas.operations if not all(keep.guarded for keep in one.keeps)]
    if silent:
        yield f"{len(silent)} read a tensor without a version check, so a write gives a wrong gradient: {', '.join(silent)}."
    if atlas.not_covered:
        yield f"Not covered: {', '.join(one.key for one in atlas.not_covered)}."


def _unread(operation: Operation) -> set[str]:
    read = {keep.what for keep in operation.keeps if keep.read}
    return {f"{keep.what}:" for keep in operation.keeps if keep.what not in read}


def version_line(atlas: Atlas, installed: str | None) -> str:
    """Return a line with the release of the table, and the installed release if it differs."""
    if installed == atlas.pytorch:
        return f"Measured with PyTorch {atlas.pytorch}, the one installed here."
    here = f"PyTorch {installed} is installed here" if installed else "PyTorch is not installed here"
    return f"{here}; this is the table of {atlas.pytorch} ({', '.join(known_versions())} are known)."
