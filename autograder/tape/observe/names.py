"""Find the expressions that reach tensors, such as `d`, `hs[0]` or `net.fc.bias`, and the names of the leaves of a backward call."""

from __future__ import annotations

import dis
import functools
import gc
import itertools
import operator
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FrameType, GeneratorType
from typing import Any

import torch

from autograder.tape.internals.module_parts import named_tensors, parts
from autograder.tape.run.graph_walk import node_of

CHAIN = 4  # maximum number of operations between a leaf without a name and the tensor after which it is named

# Naming all elements of a container that grows with each statement takes quadratic time, so only both ends are named.
ENDS = 8
DEPTH = 3
_PLAIN = (str, bytes, int, float, type(None))
_CONTAINERS = (list, tuple, dict, deque)
_LIBRARIES = ("builtins", "torch", "numpy", "collections", "types", "functools")


def tensors_in(value: object, name: str, depth: int = DEPTH) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield each tensor reachable from `value`, with the expression that reaches it from `name`."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif depth == 0 or isinstance(value, _PLAIN):
        return
    elif isinstance(value, torch.nn.Module):
        yield from _module(value, name, depth)
    else:
        inside = _items(value, name, _ends) if isinstance(value, _CONTAINERS) else _attributes(value, name)
        for path, inner in () if isinstance(value, torch.optim.Optimizer) else inside:
            yield from tensors_in(inner, path, depth - 1)


def _items(container: Any, name: str, choose: Callable[[Sequence[Any]], Sequence[Any]]) -> Iterator[tuple[str, object]]:
    """Yield the items of a container at the indices or keys that `choose` returns, with the expressions that reach them."""
    # The program's class may override `__getitem__` and others, so the methods of the base class are called.
    base: Any = next(kind for kind in _CONTAINERS if isinstance(container, kind))
    if base is dict:
        for key in choose(list(dict.keys(container))):
            if isinstance(key, (str, int)):
                yield f"{name}[{key!r}]", dict.__getitem__(container, key)
        return
    fields = getattr(container, "_fields", None)
    if fields or type(container).__getitem__ is base.__getitem__:
        for index in choose(range(base.__len__(container))):
            yield f"{name}.{fields[index]}" if fields else f"{name}[{index}]", base.__getitem__(container, index)


def _attributes(value: object, name: str, hidden: str = "__") -> Iterator[tuple[str, object]]:
    """Yield the attributes of a user's class, such as a configuration, or of its instance, except those that begin with `hidden`."""
    kind = value if isinstance(value, type) else type(value)
    if hasattr(value, "__dict__") and kind.__module__.partition(".")[0] not in _LIBRARIES:
        for attribute, inner in list(vars(value).items())[:64]:
            if not attribute.startswith(hidden):
                yield f"{name}.{attribute}", inner


def _module(module: torch.nn.Module, name: str, depth: int) -> Iterator[tuple[str, torch.Tensor]]:
    for inner, tensor in (*named_tensors(module), *named_tensors(module, "_buffers"), *_unregistered(module)):
        if isinstance(tensor, torch.Tensor):  # `higher` (0.2) replaces parameters with other objects
            yield f"{name}.{inner}", tensor
    for attribute, value in vars(module).items():
        if not attribute.startswith("_"):
            yield from tensors_in(value, f"{name}.{attribute}", depth - 1)


def _unregistered(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors that are plain attributes of a module or of its parts, such as `Variable(w, requires_grad=True)`."""
    for path, part in parts(module).items():
        for attribute, value in vars(part).items():
            if isinstance(value, torch.Tensor):
                yield f"{path}.{attribute}" if path else attribute, value


def _ends(items: Sequence[Any]) -> list[Any]:
    return [*items[:ENDS], *items[ENDS:][-ENDS:]]


def bindings(
    space: Mapping[str, object], modules: dict[str, int], rebound: set[str]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield names and tensors of a frame's variables, including the tensors of a module if its name is new (`modules`).

    Names that another module had before are added to `rebound`.
    """
    for name, value in list(space.items()):
        if isinstance(value, torch.Tensor):
            yield name, value
        elif isinstance(value, torch.nn.Module):
            if (known := modules.get(name)) != id(value):
                if known is not None:
                    rebound.add(name)
                modules[name] = id(value)
                yield from _module(value, name, 1)
        elif isinstance(value, (list, tuple, dict)) and value is not space and not name.startswith("_"):
            yield from tensors_in(value, name, 2)


def find_name(
    wanted: torch.Tensor, frames: list[FrameType], same: Callable[[torch.Tensor, torch.Tensor], bool] = operator.is_
) -> str | None:
    """Return the shortest expression in the innermost frame that reaches the tensor, or one that is the `same`, or None."""
    for frame in reversed(frames):
        variables = [pair for pair in frame.f_locals.items() if pair[0] == "_" or not pair[0].startswith("_")]
        paths = [path for name, value in variables for path, tensor in tensors_in(value, name) if same(tensor, wanted)]
        if paths:
            return min(paths, key=len)
    return None


def names_in(frames: list[FrameType]) -> dict[int, str]:
    """Return an expression for each tensor, by `id`. Loop variables and `self` are used only without an alternative."""
    names: dict[int, str] = {}
    modules: list[tuple[str, torch.nn.Module]] = []
    for frame in frames:
        reached = [pair for name, value in _variables(frame) for pair in _modules(value, name)]
        # A variable comes before a path to it through an object, such as `checkpoints.modules['model']`.
        late = late_variables(frame)
        named = {id(module) for path, module in reached if path.isidentifier() and path not in late}
        modules += [(path, module) for path, module in reached if path.isidentifier() or id(module) not in named]
    inner = {id(part) for _, module in modules for part in list(parts(module).values())[1:]}
    for path, module in modules:
        if id(module) not in inner:
            for inside, parameter in (*named_tensors(module), *_unregistered(module)):
                names.setdefault(id(parameter), f"{path}.{inside}")
    below: dict[int, str] = {}
    for frame in frames:
        for name, value in _variables(frame):
            for path, tensor in tensors_in(value, name):
                names.setdefault(id(tensor), path)
                if (leaf := _only_leaf(tensor)) is not None:
                    below.setdefault(id(leaf), f"leaf of {path}")
    return below | names


def path_from_outside(name: str, tensor: torch.Tensor, frames: list[FrameType]) -> str:
    """Return the name of a tensor, or a path that the frames have for one that is reached through `self` or a loop variable."""
    root = re.split(r"[.[]", name, maxsplit=1)[0]
    if root == name or not any(root in late_variables(frame) for frame in frames):
        return name
    return names_in(frames).get(id(tensor), name)


def used_up_iterators(frame: FrameType) -> list[str]:
    """Return the variables that a frame reads or binds, and attributes of its `self`, that hold an iterator without items left."""
    variables = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    variables |= frame.f_locals
    owner = variables.get("self")
    return [name for name, value in [*variables.items(), *_attributes(owner, "self")] if _is_used_up(value)]


def _is_used_up(value: object) -> bool:
    if isinstance(value, GeneratorType):
        return value.gi_frame is None
    if isinstance(value, filter):  # it keeps its iterator, and `chain` does not (Python 3.11)
        return any(_is_used_up(inner) for inner in gc.get_referents(value))
    return isinstance(value, itertools.chain) and not gc.get_referents(value)


def _only_leaf(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the leaf of `x` in `x = torch.tensor(1, requires_grad=True).float()`, which has no name, or None."""
    node = node_of(tensor)
    for _ in range(CHAIN):
        if node is None or hasattr(node, "variable"):
            break
        inputs = [node for node, _ in node.next_functions if node is not None]
        node = inputs[0] if len(inputs) == 1 else None
    return getattr(node, "variable", None)


def _variables(frame: FrameType) -> list[tuple[str, object]]:
    """Return the variables of a frame, without the dictionary of them; loop variables and `self` come last."""
    late, space = late_variables(frame), frame.f_locals
    named = (pair for pair in space.items() if not pair[0].startswith("__") and pair[1] is not space)
    return sorted(named, key=lambda pair: pair[0] in late)


def late_variables(frame: FrameType) -> set[str]:
    """Return the variables of a frame that name a tensor only without an alternative."""
    return {*loop_variables(frame.f_code), "self"}


def _modules(
    value: object, name: str, containers: int = 2, attributes: int = 2
) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules that a variable reaches through at most so many containers and attributes, with their expressions."""
    if isinstance(value, torch.nn.Module):
        yield name, value
    inside: Iterable[tuple[str, object]] = ()
    if isinstance(value, _CONTAINERS) and containers:
        most = 4 ** (containers + 1)  # 64 items of an outer container, and 16 of an inner one
        inside, containers = _items(value, name, lambda keys: keys[:most]), containers - 1
    elif attributes:
        hidden = "_" if isinstance(value, torch.nn.Module) else "__"  # its submodules are in `_modules`
        inside, attributes = _attributes(value, name, hidden), attributes - 1
    for path, item in inside:
        if not isinstance(item, (torch.Tensor, *_PLAIN)):
            yield from _modules(item, path, containers, attributes)


@functools.lru_cache(maxsize=1000)
def loop_variables(code: CodeType) -> frozenset[str]:
    """Return the variables that the loops of a function, or of a module's text, bind."""
    variables, binds = set(), False
    for step in dis.get_instructions(code):
        if step.opname == "FOR_ITER":
            binds = True
        elif binds and step.opname.startswith("STORE_"):
            variables |= {name for name in (step.argval if isinstance(step.argval, tuple) else (step.argval,)) if name}
        elif binds and not step.opname.startswith(("UNPACK_", "CACHE", "EXTENDED_ARG")):
            binds = False
    return frozenset(variables)
