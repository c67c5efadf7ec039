"""What the trusted side makes of a reference: one stand-in for each of the learner's objects, and the test's own functions."""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable
from typing import Any

from autograder.grade.submission.stand_ins.class_stand_in import (
    ClassStandIn,
    ErrorStandIn,
    lacks_bases,
    make_class,
    new_instance,
)
from autograder.grade.submission.stand_ins.function_stand_in import FunctionStandIn
from autograder.grade.submission.stand_ins.refusals import Asks, LearnerError, steers
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.wire.values.codec import Part, Unsendable
from autograder.grade.wire.values.library_names import find, is_own, library_name

LONGEST_TEXT = 2000
TABLES = ("numpy", "torch", "pandas")
DATA = ("ndarray", "generic", "Tensor", "DataFrame", "Series", "Index", "ExtensionArray")


class LearnerReferences:
    """The references of the trusted side.

    Args:
        asks: the session, for the stand-ins.
        facts: what the source says about modules and classes.
        code_of: returns the code of a function by its qualified name, as the notebook's text has it.
    """

    def __init__(self, asks: Asks, facts: SourceFacts, code_of: Callable[[str], types.CodeType | None]) -> None:
        self._asks, self._facts, self._code_of = asks, facts, code_of
        self._stand_ins: dict[int, Any] = {}
        self._handles: dict[int, int] = {}
        self._specials: dict[type, set[str]] = {}
        self._library_stand_ins: dict[type, type] = {}
        self._callbacks: dict[int, Any] = {}
        self._next_callback = 0
        self.lost_bases = ""
        self.is_empty = True

    def begin_test(self) -> None:
        """Begins a test, which knows none of the learner's objects yet, and whose functions alone can be called."""
        self.is_empty, self.lost_bases = True, ""
        self._callbacks.clear()  # the numbers go on, so that an old one is not taken for a new one

    def take_apart(self, value: Any, part: Part) -> list[Any]:
        """Returns how the worker knows this object, or may find it."""
        if id(value) in self._handles:
            return ["handle", self._handles[id(value)]]
        if (name := library_name(value)) is not None:
            return ["library", *name]
        if isinstance(value, BaseException):
            known = next(kind for kind in type(value).__mro__ if kind.__module__ == "builtins")
            return ["error", part(known), part((str(value)[:LONGEST_TEXT],)), str(value)[:LONGEST_TEXT]]
        if callable(value) and not inspect.isclass(value):
            return ["callback", self._callback_number(value), str(getattr(value, "__name__", "callback"))]
        raise Unsendable(value)

    def put_together(self, tag: str, parts: list[Any]) -> Any:
        """Returns the stand-in of an object, the test's own function, or a module that the source imports."""
        self.is_empty = False
        if tag == "callback":
            return self._callbacks[parts[0]]
        if tag == "library":
            return self._library(*parts)
        makers: dict[Any, Callable[..., Any]] = {
            "class": self._class,
            "function": self._function,
            "instance": self._instance,
            "error": self._error,
        }
        handle, *others = parts
        if tag not in makers or type(handle) is not int:
            raise ValueError(f"{str(tag)[:80]!r} is no kind of reference")
        if handle not in self._stand_ins:
            made = makers[tag](*others)
            self._stand_ins[handle] = made
            self._handles[id(made)] = handle
        made = self._stand_ins[handle]
        if isinstance(made, ClassStandIn) and lacks_bases(made):
            self.lost_bases = made.__name__
        return made

    def callback(self, number: int) -> Any:
        """Returns the test's function of that number; raises KeyError if this test has passed none."""
        return self._callbacks[number]

    def _callback_number(self, function: Any) -> int:
        for number, known in self._callbacks.items():
            if known is function:
                return number
        self._callbacks[self._next_callback] = function
        self._next_callback += 1
        return self._next_callback - 1

    def _library(self, module: str, name: str) -> Any:
        allowed = (
            module == "builtins"
            and name in ("Ellipsis", "NotImplemented")
            or (not name and self._facts.imports(module))
        )
        if not allowed:
            raise ValueError(f"the source notebook does not import {module}")
        return find(module, name)

    def _class(self, module: str, name: str, short: str, qualified: str, specials: str, *bases: Any) -> type:
        names = set(specials.split())
        real = find(module, name) if module and not is_own(module) and self._facts.knows_class(module, name) else None
        if isinstance(real, type):
            self._specials[real] = names
            return real
        if not all(isinstance(base, type) for base in bases):
            raise ValueError("the base of a class is no class")
        return make_class(self._asks, short, qualified, names, self._facts.operators(short), list(bases))

    def _function(self, kind: str, name: str, qualified: str) -> FunctionStandIn:
        return FunctionStandIn(self._asks, kind, name, qualified, self._code_of(qualified))

    def _instance(self, kind: Any) -> Any:
        if not isinstance(kind, ClassStandIn):
            kind = self._for_instances_of(kind)
        if issubclass(kind, Exception):
            raise ValueError("an exception is no plain instance")
        return new_instance(kind)

    def _for_instances_of(self, kind: Any) -> type:
        if not isinstance(kind, type) or _is_data(kind):
            raise ValueError(f"a kind of {getattr(kind, '__name__', kind)} is no data of that exact type")
        if kind not in self._library_stand_ins:
            names = self._specials.get(kind, set())
            self._library_stand_ins[kind] = make_class(
                self._asks, kind.__name__, kind.__qualname__, names, frozenset(), [], claims=kind
            )
        return self._library_stand_ins[kind]

    def _error(self, kind: Any, arguments: Any, text: str) -> BaseException:
        name = getattr(kind, "__name__", "Exception")
        if type(arguments) is not tuple or type(text) is not str:
            raise ValueError("the arguments of an exception are no tuple")
        if not (isinstance(kind, type) and issubclass(kind, Exception)) or (steers(kind) and kind is not StopIteration):
            return LearnerError(f"{name}: {text}")
        if issubclass(kind, ErrorStandIn):
            error = Exception.__new__(kind)
            error.args = arguments
            vars(error)["text"] = text
            return error
        return _library_error(kind, arguments, text)


def _is_data(kind: type) -> bool:
    """Returns whether instances of a library's class are data: the worker sends these by value, so a handle is a pretence."""
    if kind.__module__ == "builtins":
        return issubclass(kind, (int, float, complex, str, bytes, list, tuple, dict, set, frozenset, type(None)))
    return any(base.__module__.partition(".")[0] in TABLES and base.__name__ in DATA for base in kind.__mro__)


def _library_error(kind: type[Exception], arguments: tuple[Any, ...], text: str) -> Exception:
    try:
        if kind.__module__ == builtins.__name__:
            return kind(*arguments)
        error = Exception.__new__(kind)  # its own __init__ may want other arguments
        error.args = arguments or (text,)
        return error
    except Exception:  # noqa: BLE001 - whatever a library's class does with arguments from the learner
        return LearnerError(f"{kind.__name__}: {text}")
