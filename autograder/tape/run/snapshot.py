"""Save the objects that a program can reach before it starts, so that it can be run again from the same state."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from autograder.tape.internals.tensor_fields import mode_paused, set_version, version_of
from autograder.tape.run.entropy import generator_states

MOST = 50_000  # maximum number of visited objects; a program that shares more cannot be restored completely


class Snapshot(contextlib.AbstractContextManager["Snapshot"]):
    """The tensors, containers and objects that are reachable from some roots, and the random generators.

    `restore` restores them, and so does the end of a `with` block.

    Tensors keep their identity: bytes, `.grad`, `requires_grad` and versions are restored in the same objects
    (`tensors`). State outside of Python objects (files, sockets, the position of an iterator) is not restored.
    """

    def __init__(self, roots: tuple[Any, ...], space: dict[Any, Any] | None = None):
        self.tensors: list[torch.Tensor] = []
        self._undo = generator_states()
        self._kept: list[object] = []
        self._seen: set[int] = set()
        self._storages: set[int] = set()
        if space is not None:  # only the bindings of the namespace, without the internal objects of the notebook
            self._container(space, dict(space), dict.update, [])
        waiting = list(roots)
        with mode_paused(), torch.no_grad():
            while waiting and len(self._seen) < MOST:
                value = waiting.pop()
                if id(value) not in self._seen:
                    self._seen.add(id(value))
                    self._kept.append(value)
                    waiting.extend(self._keep(value))

    def __exit__(self, *_raised: object) -> None:
        self.restore()

    def restore(self) -> None:
        """Restore the saved state."""
        with mode_paused(), torch.no_grad():
            for undo in self._undo:
                undo()

    def _keep(self, value: object) -> list[object]:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return self._container(value, dict(value), dict.update, list(value.values()))
        if isinstance(value, (list, deque)):
            return self._container(value, list(value), type(value).extend, list(value))
        if isinstance(value, set):
            return self._container(value, set(value), set.update, list(value))
        if isinstance(value, (tuple, frozenset)):
            return list(value)
        if isinstance(value, torch.Generator):
            self._undo.append(functools.partial(value.set_state, value.get_state()))
            return []
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return _named_in(value)
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and value.flags.writeable:  # type: ignore[attr-defined]
            copy = value.copy()  # type: ignore[attr-defined]
            self._undo.append(functools.partial(operator.setitem, value, ..., copy))  # type: ignore[call-overload]
            return []
        if isinstance(value, (type, types.ModuleType, str, bytes, int, float, complex, type(None))):
            return []
        inside: list[object] = [vars(value)] if type(getattr(value, "__dict__", None)) is dict else []
        return inside + self._slots(value)

    def _container(self, value: Any, before: Any, refill: Callable[..., Any], inside: list[Any]) -> list[object]:
        def undo() -> None:
            # Refilling an unchanged dictionary would change its order during an iteration over it.
            if not same_items(value, before):
                value.clear()
                refill(value, before)

        self._undo.append(undo)
        return inside

    def _slots(self, value: object) -> list[object]:
        """Save the slots of an object, as of a dataclass with `slots=True`, and return their values."""
        names = {name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ()) if name[:2] != "__"}
        before = {name: getattr(value, name) for name in names if hasattr(value, name)}

        def undo() -> None:
            for name, item in before.items():
                if getattr(value, name, None) is not item:
                    object.__setattr__(value, name, item)

        if before:
            self._undo.append(undo)
        return list(before.values())

    def _tensor(self, tensor: torch.Tensor) -> list[object]:
        self.tensors.append(tensor)
        try:
            storage, alias = tensor.untyped_storage(), tensor.data
            address, version = storage.data_ptr(), version_of(tensor)
        except (RuntimeError, NotImplementedError):
            return []
        if address not in self._storages:
            self._storages.add(address)
            self._undo.append(functools.partial(storage.copy_, storage.clone()))
        gradient, requires_grad = tensor.grad if tensor.is_leaf else None, tensor.requires_grad

        def undo() -> None:
            if tensor.untyped_storage().data_ptr() != address:
                tensor.data = alias
            if tensor.is_leaf:
                tensor.grad = gradient
                tensor.requires_grad_(requires_grad)
            if version is not None:  # restore the counter, which the copy increased
                set_version(tensor, version)

        self._undo.append(undo)
        return [] if gradient is None else [gradient]


def same_items(value: Any, before: Any) -> bool:
    """Return whether two dictionaries, sets or sequences contain the same objects."""
    if len(value) != len(before):
        return False
    if isinstance(value, dict):
        return all(key in value and value[key] is item for key, item in before.items())
    if isinstance(value, set):
        return value == before
    return all(now is then for now, then in zip(value, before, strict=True))


def _named_in(function: types.FunctionType | types.MethodType) -> list[object]:
    """Return the objects that a function reaches without arguments: its closure, the globals it names, and its method's object."""
    objects: list[object] = [function.__self__] if isinstance(function, types.MethodType) else []
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(plain, types.FunctionType):
        return objects
    space = plain.__globals__
    objects += [space[name] for name in plain.__code__.co_names if name in space]
    for cell in plain.__closure__ or ():
        with contextlib.suppress(ValueError):  # the closure variable is not set yet
            objects.append(cell.cell_contents)
    return objects
