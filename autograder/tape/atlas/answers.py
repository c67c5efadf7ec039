"""Text output of `autograder atlas`."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Iterator

from autograder.errors import InputError
from autograder.tape.atlas.atlas_text import (
    Atlas,
    Operation,
    installed_version,
    load_atlas,
    nearest_version,
    operation_text,
    sentence,
    state_of,
    summary_text,
    table_text,
    version_line,
    what_is_kept,
)

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
        + (f"Near are {', '.join(near)}." if near else "Write it as in `torch.exp`, `F.relu`, `mul_` or `@`.")
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
    found: dict[str, list[Operation]] = {}
    for names in (_whole, _parts, _looser):
        added: dict[str, list[Operation]] = {}
        for operation in atlas.operations:
            for name in names(operation):
                added.setdefault(name, []).append(operation)
        found = added | found
    return {name: tuple(dict.fromkeys(operations)) for name, operations in found.items()}


def _whole(operation: Operation) -> list[str]:
    return [operation.name, operation.key]


def _parts(operation: Operation) -> list[str]:
    names = [operation.name, *operation.aliases]
    written = [operation.in_place.name.partition("(")[0]] if operation.in_place else []
    return [*operation.aliases, *(name.rpartition(".")[2] for name in names), *written]


def _looser(operation: Operation) -> list[str]:
    alone = operation.nodes if len(operation.nodes) == 1 else ()
    return [*alone, *map(plain_name, (operation.name, *operation.aliases))]


def difference_text(older: Atlas, newer: Atlas) -> str:
    """Return a text with a line for each operation that was added, removed or changed, and the changes of each tensor."""
    before = {operation.key: operation for operation in older.operations}
    after = {operation.key: operation for operation in newer.operations}
    changed = [key for key in before if key in after and _answer(before[key]) != _answer(after[key])]
    lines = [
        f"PyTorch {older.pytorch} has {len(before)} differentiable operations here, {newer.pytorch} has {len(after)}; "
        f"{len(before.keys() & after.keys()) - len(changed)} keep the same in both."
    ]
    for version, listed, others in ((older.pytorch, before, after), (newer.pytorch, after, before)):
        if only := [key for key in listed if key not in others]:
            lines.append(f"only in {version}: {', '.join(only)}")
    for key in changed:
        lines += ["", key, *_changes(before[key], after[key])]
    return "\n".join(lines)


def _changes(before: Operation, after: Operation) -> Iterator[str]:
    """Yield a line for each tensor whose rule differs."""
    for name in dict.fromkeys((*before.arguments, *after.arguments, *before.outputs, *after.outputs)):
        was, now = state_of(before, name), state_of(after, name)
        if was != now:
            yield f"  {name}: {was} → {now}"


def _answer(operation: Operation) -> set[tuple[str, tuple[str, ...], str, bool]]:
    return {(keep.what, keep.gradients, keep.when, keep.guarded) for keep in operation.keeps}


def of_operation(word: str) -> str:
    """Return the tensors that the operations called `word` save, from the table closest to the installed PyTorch.

    Raises:
        InputError: if `word` is not the name of an operation.
    """
    atlas = load_atlas()
    return f"{operation_text(find_operations(atlas, word))}\n\n{version_line(atlas, installed_version())}"


def summary() -> str:
    """Return the number of operations by the kind of tensors they save, from the table closest to the installed PyTorch."""
    atlas = load_atlas()
    return f"{summary_text(atlas)}\n\n{version_line(atlas, installed_version())}"


def whole_table() -> str:
    """Return the table closest to the installed PyTorch as a JSON object."""
    return table_text(nearest_version(installed_version()))


def difference(older: str, newer: str) -> str:
    """Return the differences between two PyTorch releases in the tensors that operations save.

    Raises:
        InputError: if a release has no table.
    """
    return difference_text(load_atlas(older), load_atlas(newer))


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
    words = sentence if advice else what_is_kept
    return next((words(one) for one in operations if named == plain_name(one.name) and one.keeps), "")
