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
        "__len__", "__bool__", "__bytes__", "__iter__", "__next__", "__reversed__", "__getitem__", "__setitem__",
        "__delitem__", "__missing__", "__call__", "__enter__", "__exit__",
    }
)  # fmt: skip
CONVERSIONS = frozenset(
    {
        "__int__", "__float__", "__complex__", "__index__", "__neg__", "__pos__", "__abs__", "__invert__", "__round__",
        "__trunc__", "__floor__", "__ceil__",
    }
)  # fmt: skip
"""Passed on as operators are: `abs(f(x) - expected) < 1e-9` asks what came out of the difference."""
_ARITHMETIC = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift",
               "and", "xor", "or")  # fmt: skip
ARITHMETIC = frozenset(f"__{side}{name}__" for name in _ARITHMETIC for side in ("", "r", "i"))
COMPARISONS = {"__eq__": False, "__ne__": True, "__lt__": None, "__le__": None, "__gt__": None, "__ge__": None}
"""What each may say of the learner's object and a test's data: only that they differ."""
OPERATORS = ARITHMETIC | COMPARISONS.keys() | {"__contains__", "__hash__"}
FAILING = (AssertionError, AttributeError, TypeError, NameError)
"""How a test ends that finds something else than it expects."""
MIXED = "_mixed"  # marks a stand-in that came out of an operator with a test's data
NO_JUDGE = "cannot be trusted, because the answer's own code says what it is: compare numbers, text or arrays instead"
HIDDEN = ("__array", "__torch_", "__cuda_", "__dlpack", "__buffer", "__dataframe", "__arrow", "_repr_", "_ipython_")
"""Hooks by which NumPy, PyTorch, pandas and IPython would hand a comparison or a display to the object itself."""


def is_hidden(name: str) -> bool:
    """Returns whether a library would use this attribute to let the object act in its place."""
    return name.startswith(HIDDEN) or name in ("__reduce_ex__", "__reduce__", "__getstate__", "__set_name__")


def special_methods(
    asks: Asks,
    names: set[str],
    allowed: frozenset[str],
    library: bool,
    own: frozenset[str],
    *,
    holds_data: bool = False,
) -> dict[str, Any]:
    """Returns the special methods of a stand-in's class.

    Args:
        asks: passes an operation on.
        names: the special methods that the learner's class has.
        allowed: the operators that the model answer's class of the same name has.
        library: whether the class is a library's; what its operators would say is not known here, so they are refused.
        own: the names that the learner's classes define; the others are inherited from a library's class.
        holds_data: whether Python compares what an object holds.
    """
    found: dict[str, Any] = {name: _passed_on(asks, name) for name in names & (PASSED_ON | (OPERATORS & allowed))}
    inherited = names if library else names - own
    found |= {name: _converted(asks, name) for name in names & CONVERSIONS & (inherited | allowed)}
    if library:
        found |= {name: _refused(asks, name) for name in (names & OPERATORS) - {"__hash__"}}
    else:
        operators = inherited & (ARITHMETIC | COMPARISONS.keys()) - found.keys()
        found |= {name: _refused_of_data(asks, name) for name in operators}
    if not library and not holds_data:
        found |= {name: _doubted(asks, name) for name in (names & own & COMPARISONS.keys()) - found.keys()}
        found |= {name: _passed_on(asks, name) for name in names & own & {"__hash__"}}
    if "__len__" in names:
        found["__bool__"] = _passed_on(asks, "__bool__")
    if "__exit__" in found:
        found["__exit__"] = _exit(asks)
    if "__eq__" in found and "__hash__" not in found:
        found["__hash__"] = None if "__eq__" in allowed or not (library or holds_data) else object.__hash__
    return found


def _passed_on(asks: Asks, name: str) -> Callable[..., Any]:
    def method(self: Any, *operands: Any, **keywords: Any) -> Any:
        if name == "__call__":
            return asks.operate("call", self, operands, keywords)
        value = asks.operate(name, self, *operands)
        if (
            operands
            and name in ARITHMETIC | COMPARISONS.keys()
            and not all(_is_stand_in(operand) for operand in operands)
        ):
            _check_mixed(asks, name, self, value)
        return value

    method.__name__ = name
    return method


def _converted(asks: Asks, name: str) -> Callable[..., Any]:
    def method(self: Any, *operands: Any) -> Any:
        if MIXED in object.__getattribute__(self, "__dict__"):
            raise asks.refuse(f"{name} of what an operator made of a {type(self).__name__} and other data {NO_JUDGE}")
        return asks.operate(name, self, *operands)

    method.__name__ = name
    return method


def _check_mixed(asks: Asks, name: str, own: Any, value: Any) -> None:
    """Refuses what lets an object that is equal to everything pass for the number that a test expects."""
    fine = value is COMPARISONS[name] if name in COMPARISONS else _is_stand_in(value) and not _holds_data(value)
    if not fine and value is not NotImplemented:
        raise asks.refuse(f"{name} of a {type(own).__name__} and other data {NO_JUDGE}")
    if fine and name not in COMPARISONS:
        object.__getattribute__(value, "__dict__")[MIXED] = True


def _is_stand_in(value: Any) -> bool:
    return hasattr(type(type(value)), "_is_of_learners")


def _holds_data(value: Any) -> bool:
    """Returns whether Python reads what an object holds, so that an answer could show a number in it."""
    return type.__getattribute__(type(value), "_extends") is not None


def _refused(asks: Asks, name: str) -> Callable[..., Any]:
    def method(self: Any, *_: Any) -> Any:
        raise asks.refuse(
            f"{name} of a {type(self).__name__} cannot be trusted: compare numbers, text or arrays instead"
        )

    method.__name__ = name
    return method


def _refused_of_data(asks: Asks, name: str) -> Callable[..., Any]:
    """Returns a library's operator that a learner's class inherits; between two of the learner's objects, Python's default applies."""
    refused = _refused(asks, name)

    def method(self: Any, other: Any = None, *_: Any) -> Any:
        return NotImplemented if other is None or _is_stand_in(other) else refused(self)

    method.__name__ = name
    return method


def _doubted(asks: Asks, name: str) -> Callable[..., Any]:
    """Returns a comparison that no class of the source's has: it may say what Python's default says, else it is for a person.

    What a test expects is not shown to it.
    """
    refused = _refused(asks, name)

    def method(self: Any, other: Any) -> Any:
        if other is None:
            return NotImplemented
        if not _is_stand_in(other):
            return refused(self)
        default = {"__eq__": self is other, "__ne__": self is not other}.get(name, NotImplemented)
        value = asks.operate(name, self, other)
        return NotImplemented if value is NotImplemented or value is default else refused(self)

    method.__name__ = name
    return method


def _exit(asks: Asks) -> Callable[..., Any]:
    def method(self: Any, kind: Any, error: Any, _: Any) -> bool:
        swallows = bool(asks.operate("__exit__", self, kind, error, None))
        # An answer may not hide that the test has failed, that a value was of another kind, or what its own code raised.
        return swallows and not isinstance(error, FAILING) and not asks.is_learners(error)

    method.__name__ = "__exit__"
    return method
