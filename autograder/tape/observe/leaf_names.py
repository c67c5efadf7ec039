"""Name the leaves of a backward call: parameters by the outermost existing module, other leaves by a variable."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType

import torch

from autograder.tape.observe.names import tensors_in
from autograder.tape.run.engine import Backward
from autograder.tape.run.graph_walk import node_of

CHAIN = 4  # maximum number of operations between a leaf without a name and the tensor after which it is named


class LeafNames:
    """Expressions for the targets of each backward call of a run. `owns` returns whether a file belongs to the user."""

    def __init__(self, owns: Callable[[str], bool]):
        self.owns = owns
        self._known: set[int] = set()

    def note(self, call: Backward) -> None:
        """Store expressions for targets that are new in this call, taken from the frames that called backward."""
        new = {number for number in call.numbers if number not in self._known}
        if new:
            self._known |= new
            call.names = {number: name for number, name in names_in(self._frames()).items() if number in new}

    def _frames(self) -> list[FrameType]:
        """Return the user's frames that are running, outermost first."""
        frames, frame = [], sys._getframe()
        while frame := frame.f_back:  # type: ignore[assignment]
            if self.owns(frame.f_code.co_filename):
                frames.append(frame)
        return frames[::-1]


def names_in(frames: list[FrameType]) -> dict[int, str]:
    """Return an expression for each tensor, by `id`. Loop variables and `self` are used only without an alternative."""
    found: dict[int, str] = {}
    modules: list[tuple[str, torch.nn.Module]] = []
    for frame in frames:
        for name, value in _variables(frame):
            modules += [(path, one) for path, one in _modules(value, name)]
    inner = {id(part) for _, one in modules for part in list(one.modules())[1:]}
    for path, one in modules:
        if id(one) not in inner:
            for inside, parameter in one.named_parameters():
                found.setdefault(id(parameter), f"{path}.{inside}")
    below: dict[int, str] = {}
    for frame in frames:
        for name, value in _variables(frame):
            for path, tensor in tensors_in(value, name):
                found.setdefault(id(tensor), path)
                if (leaf := _only_leaf(tensor)) is not None:
                    below.setdefault(id(leaf), f"leaf of {path}")
    return below | found


def _only_leaf(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the leaf of `x` in `x = torch.tensor(1, requires_grad=True).float()`, which has no name, or None."""
    node = node_of(tensor)
    for _ in range(CHAIN):
        if node is None or hasattr(node, "variable"):
            break
        inputs = [one for one, _ in node.next_functions if one is not None]
        node = inputs[0] if len(inputs) == 1 else None
    return getattr(node, "variable", None)


def _variables(frame: FrameType) -> Iterator[tuple[str, object]]:
    """Yield the variables of a frame; loop variables and `self` come last."""
    late = {*loop_variables(frame.f_code), "self"}
    space = {name: value for name, value in frame.f_locals.items() if not name.startswith("__")}
    yield from ((name, value) for name, value in space.items() if name not in late)
    yield from ((name, value) for name, value in space.items() if name in late)


def _modules(value: object, name: str, depth: int = 2) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield the modules that a variable reaches: itself, in containers, or as attributes of an object of a user's class."""
    if isinstance(value, torch.nn.Module):
        if "_modules" in vars(value):
            yield name, value
    elif not depth:
        return
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value[:64]):
            yield from _modules(one, f"{name}[{place}]", depth - 1)
    elif isinstance(value, dict):
        for key, one in list(value.items())[:64]:
            yield from _modules(one, f"{name}[{key!r}]", depth - 1)
    elif (
        hasattr(value, "__dict__")
        and not isinstance(value, type)
        and type(value).__module__.split(".")[0] not in _LIBRARIES
    ):
        for attribute, one in list(vars(value).items())[:64]:
            yield from _modules(one, f"{name}.{attribute}", depth - 1)


_LIBRARIES = ("builtins", "torch", "numpy", "collections", "types", "functools")


@functools.lru_cache(maxsize=1000)
def loop_variables(code: CodeType) -> frozenset[str]:
    """Return the variables that the loops of a function, or of a module's text, bind."""
    found, binds = set(), False
    for step in dis.get_instructions(code):
        if step.opname == "FOR_ITER":
            binds = True
        elif binds and step.opname.startswith("STORE_"):
            found |= {name for name in (step.argval if isinstance(step.argval, tuple) else (step.argval,)) if name}
        elif binds and not step.opname.startswith(("UNPACK_", "CACHE", "EXTENDED_ARG")):
            binds = False
    return frozenset(found)
