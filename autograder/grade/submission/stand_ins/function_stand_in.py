"""A learner's function on the trusted side: calls it in the worker; its text and signature are read from the notebook."""

from __future__ import annotations

import types
from typing import Any

from autograder.grade.submission.stand_ins.refusals import Asks
from autograder.grade.submission.stand_ins.special_methods import is_hidden

CLASSES = {
    "function": types.FunctionType,
    "method": types.MethodType,
    "builtin_function_or_method": types.BuiltinFunctionType,
}
OWN = {"_asks", "_code", "__name__", "__qualname__", "__call__", "__module__"}


class FunctionStandIn:
    """A function, or a bound method, of the learner's.

    Args:
        asks: the session.
        kind: the name of its type.
        name: its `__name__`.
        qualified: its `__qualname__`.
        code: what the notebook's text says it is, compiled and never run; None where the text does not define it.
    """

    def __init__(self, asks: Asks, kind: str, name: str, qualified: str, code: types.CodeType | None) -> None:
        own = {
            "_asks": asks,
            "_code": code,
            "_kind": kind,
            "__name__": name,
            "__qualname__": qualified,
            "__module__": "__main__",
        }
        object.__getattribute__(self, "__dict__").update(own)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Returns what the learner's function returns."""
        return _asks(self).operate("call", self, arguments, keywords)

    def __getattribute__(self, name: str) -> Any:
        if name in OWN:
            return object.__getattribute__(self, name)
        if name == "__class__":
            return CLASSES.get(object.__getattribute__(self, "_kind"), FunctionStandIn)
        if name == "__code__":
            return _code(self)
        if is_hidden(name) or name == "__globals__":
            raise AttributeError(name)
        return _asks(self).operate("getattr", self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _asks(self).operate("setattr", self, name, value)

    def __delattr__(self, name: str) -> None:
        _asks(self).operate("delattr", self, name)

    def __dir__(self) -> Any:
        return _asks(self).operate("__dir__", self)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


# What `type(f).__name__` says of any function.
FunctionStandIn.__name__ = FunctionStandIn.__qualname__ = "function"


def set_code(function: FunctionStandIn, code: types.CodeType | None) -> None:
    """Sets what the notebook's text says a function is."""
    object.__getattribute__(function, "__dict__")["_code"] = code


def _asks(function: FunctionStandIn) -> Asks:
    return object.__getattribute__(function, "_asks")


def _code(function: FunctionStandIn) -> types.CodeType:
    code = object.__getattribute__(function, "_code")
    if code is None:
        raise _asks(function).refuse(f"{function.__name__}: its text could not be found in the notebook")
    return code
