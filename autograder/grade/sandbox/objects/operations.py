"""What the grader may ask of a learner's object: calls, attributes, and Python's operators and protocols."""

from __future__ import annotations

import asyncio
import copy
import operator
from typing import Any


def _call(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return target(*arguments, **keywords)


BY_FUNCTION: dict[str, Any] = {
    "call": _call,
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "synchronise": lambda: None,
    "await": asyncio.run,
    "__len__": len,
    "__bool__": bool,
    "__str__": str,
    "__repr__": repr,
    "__format__": format,
    "__bytes__": bytes,
    "__hash__": hash,
    "__int__": int,
    "__float__": float,
    "__complex__": complex,
    "__index__": operator.index,
    "__iter__": iter,
    "__next__": next,
    "__reversed__": reversed,
    "__dir__": dir,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
    "__delitem__": operator.delitem,
    "__contains__": operator.contains,
}


def perform(operation: str, operands: tuple[Any, ...]) -> Any:
    """Returns the operation's result; a special method that is not listed is called as Python does, on the type."""
    if operation in BY_FUNCTION:
        return BY_FUNCTION[operation](*operands)
    target, *others = operands
    return getattr(type(target), operation)(target, *others)
