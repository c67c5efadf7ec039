"""Find operations of the atlas by name: `torch.exp`, `Tensor.exp_`, `F.relu`, `nn.ReLU`, `@`, `*=`, `ExpBackward0`."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

from autograder.errors import InputError
from autograder.tape.atlas.atlas_table import Atlas, Operation

OPERATORS = {
    "+": "add", "-": "sub", "*": "mul", "/": "true_divide", "@": "matmul", "**": "pow", "%": "remainder", "[]": "__getitem__",
    "__truediv__": "true_divide", "__mod__": "remainder",
}  # fmt: skip
HOMES = re.compile(r"^(torch|nn|functional|F|Tensor|special|linalg|x)\.")


def find_operations(atlas: Atlas, word: str) -> list[Operation]:
    """Return all forms of the operation with a name, such as the three forms of `max`.

    Args:
        atlas: the table to search.
        word: name of a function, method, module or node class, or a Python operator.

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
