"""The atlas: its data classes, one table for each measured PyTorch release, and its text for one operation or all."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from autograder.errors import InputError
from autograder.locale.translations import join_names, join_sentences, translated

FORMAT = 1
TABLES = Path(__file__).parent / "tables"


class Keep(msgspec.Struct, frozen=True):
    """A tensor that an operation saves."""

    what: str  # name of the argument or output
    gradients: tuple[str, ...] = msgspec.field(name="for")  # names of the arguments whose gradients need the tensor
    when: str  # condition on the call, such as "where exponent is a tensor"; "" for all calls
    guarded: bool  # whether `backward()` raises an error after an in-place modification of the tensor
    read: bool  # whether a gradient changes if the values are modified without a change of the version counter


class InPlaceForm(msgspec.Struct, frozen=True):
    """The tensors that the in-place form of an operation saves. "input" is the modified first argument."""

    name: str
    keeps: tuple[Keep, ...]


def _key(entry: Operation | NotCovered) -> str:
    """Return the name and the form, such as "max (binary)"."""
    return f"{entry.name} ({entry.form})" if entry.form else entry.name


class Operation(msgspec.Struct, frozen=True):
    """The tensors that an operation saves."""

    name: str  # name below `torch`, such as "exp" or "nn.functional.relu"
    aliases: tuple[str, ...]  # other names of the operation
    nodes: tuple[str, ...]  # names of the node classes in its graph
    calls: int  # number of observed calls
    arguments: tuple[str, ...]  # names of its tensor arguments
    outputs: tuple[str, ...]  # names of its outputs
    gradients: tuple[str, ...]  # names of the arguments that can have a gradient
    keeps: tuple[Keep, ...]  # the saved tensors; empty if the operation saves nothing
    form: str = ""  # variant of the call, if PyTorch tests several, such as "reduction_with_dim"; else ""
    in_place: InPlaceForm | None = None  # the in-place form, or None
    # sentences on differences between PyTorch's version check and the values that backward reads
    notes: tuple[str, ...] = ()

    key = property(_key)


class NotCovered(msgspec.Struct, frozen=True):
    """A differentiable operation that could not be observed, and the reason."""

    name: str
    why: str
    form: str = ""

    key = property(_key)


class Atlas(msgspec.Struct, frozen=True):
    """The table of one PyTorch release."""

    format: int
    pytorch: str
    operations: tuple[Operation, ...]
    not_covered: tuple[NotCovered, ...]


def known_versions() -> list[str]:
    """Return the releases that have a table, oldest first."""
    return sorted((file.stem for file in TABLES.glob("*.json")), key=_place)


def nearest_version(version: str | None) -> str:
    """Return the release with a table that is closest to `version` (of two, the older one), or the newest if it is None."""
    known = known_versions()
    if version is None:
        return known[-1]
    return min(known, key=lambda other: abs(_place(other) - _place(version)))


def _place(version: str) -> int:
    """Return the three version numbers as a single integer, for comparison."""
    major, minor, patch = map(int, [*re.findall(r"\d+", version), "0", "0", "0"][:3])
    return (major * 1000 + minor) * 1000 + patch


def installed_version() -> str | None:
    """Return the version of the installed PyTorch without importing it, or None if it is not installed."""
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return None


def table_text(version: str | None = None) -> str:
    """Return the JSON text of the table of a release such as "2.13.0", by default of that closest to the installed PyTorch.

    Raises:
        InputError: if the release has no table; the message lists the releases that do.
    """
    known, version = known_versions(), version or nearest_version(installed_version())
    if version not in known:
        text = "atlas.unknown_version|There is no atlas of PyTorch {version}; available are {known}."
        raise InputError.of(text, version=repr(version), known=", ".join(known))
    return (TABLES / f"{version}.json").read_text("utf-8")


@functools.cache
def load_atlas(version: str | None = None) -> Atlas:
    """Return the table of a release, by default of the release closest to the installed PyTorch.

    Raises:
        InputError: if the release has no table.
    """
    return msgspec.json.decode(table_text(version), type=Atlas)


COMMANDS = (
    "autograder atlas exp                      one operation; also torch.exp, Tensor.exp_, nn.ReLU, @, ExpBackward0",
    "autograder atlas --json                   the whole table",
    "autograder atlas --diff 2.13.0 2.15.0     what changed between two releases",
)


def sentence(operation: Operation) -> str:
    """Return a sentence on the saved tensors of an operation and on in-place modifications, such as "exp keeps its output: …"."""
    kept, read = _kept_and_read(operation)
    clauses = []
    if kept:
        clauses.append(translated("{what}: modify a copy, or use an out-of-place operation.", what=kept))
    if read:
        clauses.append(
            translated(
                "{what}: an in-place modification before backward gives a wrong gradient and no error.", what=read
            )
        )
    if clauses:
        return join_sentences(clauses)
    return translated(
        "{name} saves no tensor: you may modify its arguments and its output in place.", name=_short_name(operation)
    )


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
    parts = []
    for when, named in gradients.items():
        some = translated("for the gradient of {names}", names=join_names(sorted(named)))
        parts.append(" ".join(filter(None, ("" if named == set(operation.gradients) else some, translated(when)))))
    return translated(" ({parts})", parts=translated("; ").join(parts)) if any(parts) else ""


def operation_text(operations: Sequence[Operation]) -> str:
    """Return the text on one operation in all its forms. Forms with equal saved tensors share a paragraph."""
    alike: dict[Operation, list[Operation]] = {}
    for operation in operations:
        alike.setdefault(msgspec.structs.replace(operation, form="", nodes=(), calls=0), []).append(operation)
    return "\n\n".join("\n".join(_lines(group)) for group in alike.values())


def _lines(group: Sequence[Operation]) -> Iterable[str]:
    first = group[0]
    forms = ", ".join(operation.form for operation in group if operation.form)
    nodes = ", ".join(first.nodes[:3]) + (", …" if len(first.nodes) > 3 else "")
    yield f"{first.name}{f' ({forms})' if forms else ''}, recorded as {nodes}; {sum(operation.calls for operation in group)} calls observed"
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
    named = {"input": "its result, the tensor it wrote into"}
    kept = [named.get(save.what, f"`{save.what}`") + (f" ({save.when})" if save.when else "") for save in form.keeps]
    # The operation overwrites the values that its backward needs.
    if _keeps_input(operation.keeps) and not _keeps_input(form.keeps):
        kept.append("a copy of what it overwrote")
    yield f"In place, as {form.name}: keeps {join_names(list(dict.fromkeys(kept))) if kept else 'nothing'}."


def _keeps_input(keeps: Iterable[Keep]) -> bool:
    return any(keep.what == "input" and keep.read for keep in keeps)


def summary() -> str:
    """Return the number of operations by the kind of tensors they save, remarks on unusual ones, and the commands of the atlas.

    The table is the one closest to the installed PyTorch.
    """
    atlas = load_atlas()
    groups: dict[str, list[str]] = {}
    for entry in atlas.operations:
        kept = {keep.what for keep in entry.keeps}
        sides = [side for side, of in (("inputs", entry.arguments), ("outputs", entry.outputs)) if kept & set(of)]
        groups.setdefault(" and ".join(sides) or "nothing", []).append(entry.key)
    lines = [
        f"{len(atlas.operations)} differentiable operations of PyTorch {atlas.pytorch}, each way of calling counted once:",
        "",
    ]
    for group in ("nothing", "inputs", "outputs", "inputs and outputs"):
        names = groups.get(group, [])
        lines.append(f"  {len(names):4} keep {group:18} such as {', '.join(names[:: max(1, len(names) // 4)][:4])}")
    lines += ["", *_remarks(atlas), "", *(f"  {command}" for command in COMMANDS)]
    return "\n".join([*lines, "", version_line(atlas, installed_version())])


def _remarks(atlas: Atlas) -> Iterable[str]:
    conditional = sum(any(keep.when for keep in operation.keeps) for operation in atlas.operations)
    yield f"{conditional} depend on how they are called: whether an argument is a tensor, on a keyword, dtype or shape."
    unread = []
    for operation in atlas.operations:
        read = {keep.what for keep in operation.keeps if keep.read}
        guarded = tuple(f"{keep.what}:" for keep in operation.keeps if keep.what not in read)
        if any(note.startswith(guarded) for note in operation.notes):
            unread.append(operation.key)
    yield f"{len(unread)} check the version of a tensor whose values they do not read, so backward may raise an error that is not needed."
    silent = [operation.key for operation in atlas.operations if not all(keep.guarded for keep in operation.keeps)]
    if silent:
        yield f"{len(silent)} read a tensor without a version check, so a write gives a wrong gradient: {', '.join(silent)}."
    if atlas.not_covered:
        yield f"Not covered: {', '.join(operation.key for operation in atlas.not_covered)}."


def version_line(atlas: Atlas, installed: str | None) -> str:
    """Return a line with the release of the table, and the installed release if it differs."""
    if installed == atlas.pytorch:
        return f"Measured with PyTorch {atlas.pytorch}, the one installed here."
    here = f"PyTorch {installed} is installed here" if installed else "PyTorch is not installed here"
    return f"{here}; this is the table of {atlas.pytorch} ({', '.join(known_versions())} are known)."


OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "true_divide", "@": "matmul", "**": "pow", "%": "remainder", "[]": "__getitem__",
    "__truediv__": "true_divide", "__mod__": "remainder",
}  # fmt: skip
HOMES = re.compile(r"^(torch|nn|functional|F|Tensor|special|linalg|x)\.")


def find_operations(atlas: Atlas, word: str) -> list[Operation]:
    """Return all forms of the operation with a name, such as the three forms of `max`.

    `word` is the name of a function, method, module or node class, or a Python operator.

    Raises:
        InputError: if no operation has this name; the message lists similar names.
    """
    index = _index(atlas)
    for name in _readings(word.strip()):
        if name in index:
            return list(index[name])
    near = difflib.get_close_matches(plain_name(word), index, n=4)
    raise InputError(
        f"{word!r} is not a known differentiable operation of PyTorch {atlas.pytorch}. "
        + (f"Did you mean {', '.join(near)}?" if near else "Write it like `torch.exp`, `F.relu`, `mul_` or `@`.")
    )


def _readings(word: str) -> Iterable[str]:
    """Yield the names under which the index may list the word, most exact first."""
    word = word.removesuffix("()")
    yield word
    operator = OPERATORS.get(word) or OPERATORS.get(word.removesuffix("="))
    if operator:
        yield operator
    while shorter := HOMES.sub("", word):
        yield shorter
        yield shorter.removesuffix("_")
        if shorter == word:
            break
        word = shorter
    if dunder := re.fullmatch(r"__i?(\w+?)__", word):
        yield dunder[1]
    yield plain_name(word)
    yield re.sub(r"\dd$", "", plain_name(word))  # BatchNorm1d, 2d and 3d call the same function


def plain_name(word: str) -> str:
    """Return the common name of a module and its function: "leakyrelu" for LeakyReLU and for leaky_relu."""
    return word.rpartition(".")[2].lower().replace("_", "")


@functools.cache
def _index(atlas: Atlas) -> dict[str, tuple[Operation, ...]]:
    """Return the operations by each of their names. A full name has priority over a part of another name."""
    index: dict[str, list[Operation]] = {}
    for of_rank in zip(*map(_names, atlas.operations), strict=True):
        added: dict[str, list[Operation]] = {}
        for operation, names in zip(atlas.operations, of_rank, strict=True):
            for name in names:
                added.setdefault(name, []).append(operation)
        index = added | index
    return {name: tuple(dict.fromkeys(operations)) for name, operations in index.items()}


def _names(operation: Operation) -> tuple[list[str], list[str], list[str]]:
    """Return the full names of an operation, parts of its names, and looser forms of them."""
    names = [operation.name, *operation.aliases]
    written = [operation.in_place.name.partition("(")[0]] if operation.in_place else []
    parts = [*operation.aliases, *(name.rpartition(".")[2] for name in names), *written]
    alone = operation.nodes if len(operation.nodes) == 1 else ()
    return [operation.name, operation.key], parts, [*alone, *map(plain_name, names)]


def difference(older: str, newer: str) -> str:
    """Return a line for each operation that differs between two PyTorch releases, and the changes of each tensor.

    Raises:
        InputError: if a release has no table.
    """
    before = {operation.key: operation for operation in load_atlas(older).operations}
    after = {operation.key: operation for operation in load_atlas(newer).operations}
    changed = [key for key in before if key in after and _answer(before[key]) != _answer(after[key])]
    lines = [
        f"PyTorch {older} has {len(before)} differentiable operations here, {newer} has {len(after)}; "
        f"{len(before.keys() & after.keys()) - len(changed)} keep the same in both."
    ]
    for version, listed, others in ((older, before, after), (newer, after, before)):
        if only := [key for key in listed if key not in others]:
            lines.append(f"only in {version}: {', '.join(only)}")
    for key in changed:
        old, new = before[key], after[key]
        names = dict.fromkeys((*old.arguments, *new.arguments, *old.outputs, *new.outputs))
        rules = [(name, state_of(old, name), state_of(new, name)) for name in names]
        lines += ["", key, *(f"  {name}: {was} → {now}" for name, was, now in rules if was != now)]
    return "\n".join(lines)


def _answer(operation: Operation) -> set[tuple[str, tuple[str, ...], str, bool]]:
    return {(keep.what, keep.gradients, keep.when, keep.guarded) for keep in operation.keeps}


def of_operation(word: str) -> str:
    """Return the tensors that the operations called `word` save, from the table closest to the installed PyTorch.

    Raises:
        InputError: if `word` is not the name of an operation.
    """
    atlas = load_atlas()
    return f"{operation_text(find_operations(atlas, word))}\n\n{version_line(atlas, installed_version())}"


def words_on_node(kind: str, *, advice: bool = True) -> str:
    """Return a sentence on the tensors that a node's operation saves, such as "exp keeps its output: …" for ExpBackward0.

    Several operations can create the same kind of node; the sentence is about the operation that gives the node its
    name. The result is "" if the operation is unknown. `advice` includes advice on in-place modifications.
    """
    named = plain_name(kind.partition("Backward")[0])
    try:
        operations = find_operations(load_atlas(), kind)
    except InputError:
        return ""
    operation = next((entry for entry in operations if named == plain_name(entry.name) and entry.keeps), None)
    if operation is None:
        return ""
    return sentence(operation) if advice else next(filter(None, _kept_and_read(operation)))
