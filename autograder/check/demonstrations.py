"""Recordings of a course's demonstrations, reused as long as everything that they depend on is unchanged."""

from __future__ import annotations

import builtins
import dis
import hashlib
import marshal
import re
import sys
import types
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any

import msgspec
import torch
from torch import nn

from autograder.locale.languages import bound
from autograder.tape import record
from autograder.tape.internals.mode_stack import dispatch_modes, function_modes
from autograder.tape.recording.schema import Recording, storable

NAMESPACES = (builtins, torch, torch.Tensor, torch.autograd, nn, nn.functional, nn.Module, nn.Parameter)
"""The namespaces in which a program that replaces a part of PyTorch or Python usually does so."""

REPLACED = {"input", "exit", "quit"}  # IPython replaces these while a cell runs


def parts() -> list[dict[str, Any]]:
    """Return the current contents of each of `NAMESPACES`."""
    return [
        {name: value for name, value in vars(namespace).items() if name not in REPLACED} for namespace in NAMESPACES
    ]


NUMBER = re.compile(r"(?<=^<ipython-input)-\d+")

_before = parts()


def set_baseline() -> None:
    """Store the current contents of `NAMESPACES` as the original ones.

    Importing `torch._dynamo`, as an optimizer does, replaces `torch.manual_seed` (PyTorch 2.13).
    """
    global _before
    _before = parts()


_cache: ContextVar[RecordingCache | None] = ContextVar("recording cache", default=None)


class RecordingCache:
    """Recordings, by a hash of the inputs that determine them: the program's code, the libraries that it uses, and settings.

    A program that uses a value, function or class of another cell is recorded each time. The same applies to a program
    if a name that it uses was replaced in one of the modules of `NAMESPACES`, or any attribute of one of its classes; this
    is detected only if this module was imported before the replacement.
    """

    def __init__(self) -> None:
        self._known: dict[str, Recording] = {}

    def add(self, encoded: bytes) -> None:
        """Add recordings that `encoded` returned in another process."""
        self._known |= msgspec.msgpack.decode(encoded, type=dict[str, Recording]) if encoded else {}

    def encoded(self) -> bytes:
        """Return all recordings as msgpack."""
        return msgspec.msgpack.encode({key: storable(recording) for key, recording in self._known.items()})

    def recording(self, program: Callable[[], Any]) -> Recording:
        """Return the recording of a program; if it is unknown, record and store it."""
        key = _cache_key(program)
        if key is None:
            return record(program)
        if key not in self._known:
            self._known[key] = record(program)
        return self._known[key]


def use_recordings(cache: RecordingCache) -> AbstractContextManager[object]:
    """Make `demonstration` use and extend these recordings inside the block."""
    return bound(_cache, cache)


def demonstration(program: Callable[[], Any]) -> Recording:
    """Return the recording of a program that is shown but not checked; inside `use_recordings`, a stored one if possible."""
    cache = _cache.get()
    return record(program) if cache is None else cache.recording(program)


def _cache_key(program: Callable[[], Any]) -> str | None:
    """Return a hash of the inputs that determine the recording of a function without arguments; None if they are unknown."""
    if function_modes() or dispatch_modes():
        return None
    if not isinstance(program, types.FunctionType) or program.__closure__ or program.__defaults__ or vars(program):
        return None
    if _is_replaced(_used_names(program.__code__)):
        return None
    namespace = program.__globals__
    read, written = _global_names(program.__code__)
    used = {name: _library_name(namespace[name]) for name in read if name in namespace}
    if written or None in used.values():
        return None
    settings = (
        str(torch.get_default_dtype()),
        torch.is_grad_enabled(),
        torch.is_anomaly_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        repr(warnings.filters),
    )
    # Version 2 of the format does not depend on the reference counts of objects.
    code = marshal.dumps(_without_number(program.__code__), 2)
    return hashlib.sha256(repr((code, sorted(used.items()), settings)).encode()).hexdigest()


def _without_number(code: types.CodeType) -> types.CodeType:
    """Return the code without the number of its cell: IPython 9 names its file by this number and the hash of its text."""
    inner = [
        _without_number(constant) if isinstance(constant, types.CodeType) else constant for constant in code.co_consts
    ]
    return code.replace(co_filename=NUMBER.sub("", code.co_filename), co_consts=tuple(inner))


def _used_names(code: types.CodeType) -> set[str]:
    """Return the names and attributes in a function and its inner functions, also in lower case: `nn.ReLU` calls `relu`."""
    inner = [_used_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return {*code.co_names, *map(str.lower, code.co_names)}.union(*inner)


def _is_replaced(names: set[str]) -> bool:
    """Return whether an object of these names in `NAMESPACES`, or any attribute of a class, was replaced or added since import.

    The thousands of other names of PyTorch are not compared: reading them would copy a forked worker's memory pages.
    """
    for namespace, before in zip(NAMESPACES, _before, strict=True):
        now, is_class = vars(namespace), isinstance(namespace, type)
        if is_class and len(now) != len(before):
            return True
        if any(now.get(name) is not before[name] for name in (before if is_class else names & before.keys())):
            return True
    return False


def _global_names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Return the global names that a function and its inner functions read, and those that they bind or delete."""
    steps = [(step.opname.removesuffix("_GLOBAL"), step.argval) for step in dis.get_instructions(code)]
    read = {name for does, name in steps if does in ("LOAD", "LOAD_NAME")}
    written = {name for does, name in steps if does in ("STORE", "DELETE")}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            further = _global_names(inner)
            read, written = read | further[0], written | further[1]
    return read, written


def _library_name(value: object) -> str | None:
    """Return the qualified name of a module, class or function that every process can import; None for other objects."""
    if isinstance(value, types.ModuleType):
        return value.__name__ if sys.modules.get(value.__name__) is value else None
    if not isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return None
    home, name = str(value.__module__), str(value.__name__)
    loaded = getattr(sys.modules.get(home), name, None) if home != "__main__" else None
    return f"{home}.{name}" if loaded is value else None
