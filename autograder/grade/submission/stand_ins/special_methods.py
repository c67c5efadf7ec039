"""Which of Python's special methods a stand-in passes on to the learner's object, and which not.

A comparison or an operator shows the learner's object the test's expected value, and lets it say what comes out: an
`__eq__` that is always True would pass every test. So these are passed on only where the model answer's class of that name
has them; else Python's default for any object applies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.grade.submission.stand_ins.refusals import Asks

PASSED_ON = frozenset(
    {
        "__len__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__bytes__", "__iter__", "__next__",
        "__reversed__", "__getitem__", "__setitem__", "__delitem__", "__call__", "__enter__", "__exit__", "__neg__",
        "__pos__", "__abs__", "__invert__", "__round__", "__trunc__", "__floor__", "__ceil__",
    }
)  # fmt: skip
_ARITHMETIC = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift",
               "and", "xor", "or")  # fmt: skip
OPERATORS = frozenset(f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r", "i")) | {
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__", "__hash__",
}  # fmt: skip
HIDDEN = ("__array", "__torch_", "__cuda_", "__dlpack", "__buffer", "__dataframe", "__arrow", "_repr_", "_ipython_")
"""Hooks by which NumPy, PyTorch, pandas and IPython would hand a comparison or a display to the object itself."""


def is_hidden(name: str) -> bool:
    """Returns whether a library would use this attribute to let the object act in its place."""
    return name.startswith(HIDDEN) or name in ("__reduce_ex__", "__reduce__", "__getstate__", "__set_name__")


def special_methods(asks: Asks, names: set[str], allowed: frozenset[str], library: bool) -> dict[str, Any]:
    """Returns the special methods of a stand-in's class.

    Args:
        asks: passes an operation on.
        names: the special methods that the learner's class has.
        allowed: the operators that the model answer's class of the same name has.
        library: whether the class is a library's; what its operators would say is not known here, so they are refused.
    """
    found: dict[str, Any] = {name: _passed_on(asks, name) for name in names & (PASSED_ON | (OPERATORS & allowed))}
    if library:
        found |= {name: _refused(asks, name) for name in (names & OPERATORS) - {"__hash__"}}
    if "__len__" in names:
        found["__bool__"] = _passed_on(asks, "__bool__")
    if "__exit__" in found:
        found["__exit__"] = _exit(asks)
    if "__eq__" in found and "__hash__" not in found:
        found["__hash__"] = object.__hash__ if library else None
    return found


def _passed_on(asks: Asks, name: str) -> Callable[..., Any]:
    def method(self: Any, *operands: Any, **keywords: Any) -> Any:
        if name == "__call__":
            return asks.operate("call", self, operands, keywords)
        return asks.operate(name, self, *operands)

    method.__name__ = name
    return method


def _refused(asks: Asks, name: str) -> Callable[..., Any]:
    def method(self: Any, *_: Any) -> Any:
        raise asks.refuse(
            f"{name} of a {type(self).__name__} cannot be trusted: compare numbers, text or arrays instead"
        )

    method.__name__ = name
    return method


def _exit(asks: Asks) -> Callable[..., Any]:
    def method(self: Any, kind: Any, error: Any, _: Any) -> bool:
        swallows = bool(asks.operate("__exit__", self, kind, error, None))
        # An answer may not hide that the test has failed, nor what the learner's own code raised.
        return swallows and not isinstance(error, AssertionError) and not asks.is_learners(error)

    method.__name__ = "__exit__"
    return method
