"""What the trusted side makes of a reference: one stand-in for each of the learner's objects, and the test's own functions."""

from __future__ import annotations

import builtins
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from autograder.grade.submission.stand_ins.class_stand_in import (
    ClassStandIn,
    ErrorStandIn,
    base_of,
    lacks_bases,
    make_class,
    new_instance,
)
from autograder.grade.submission.stand_ins.coroutine_stand_in import CoroutineStandIn
from autograder.grade.submission.stand_ins.function_stand_in import FunctionStandIn
from autograder.grade.submission.stand_ins.refusals import Asks, LearnerError, steers
from autograder.grade.submission.stand_ins.source_facts import SourceFacts
from autograder.grade.wire.values.codec import Codec, Part, Unsendable
from autograder.grade.wire.values.data_subclasses import (
    BASES,
    data_base,
    held_parts,
    held_value,
    reader_of,
    subclass_codecs,
)
from autograder.grade.wire.values.library_names import SINGLETONS, find, imported, is_own, library_name
from autograder.grade.wire.values.shared_classes import SharedClasses

LONGEST_TEXT = 2000
ITERATORS = ("builtins", "itertools")  # that can do nothing else: generators, `zip`, `map`; a file has methods, too
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
        self._codecs = subclass_codecs(self._take_data_apart, self._put_data_together)
        self.shared = SharedClasses()
        self.lost_bases = ""
        self.is_empty = True

    def begin_test(self) -> None:
        """Begins a test, which knows none of the learner's objects yet, and whose functions alone can be called."""
        self.is_empty, self.lost_bases = True, ""
        self._callbacks.clear()  # the numbers go on, so that an old one is not taken for a new one

    def codec_of(self, value: Any) -> Codec | None:
        """Returns the codec of the stand-in of an object that holds data, or of an object of a class that both sides have."""
        if (codec := self.shared.codec_of(value)) is not None:
            return codec
        return self._codecs.get(base_of(type(value))) if id(value) in self._handles else None  # type: ignore[arg-type]

    def reader(self, tag: str) -> Codec | None:
        """Returns such a codec by its tag."""
        return self.shared.reader(tag) or reader_of(self._codecs, tag)

    def _take_data_apart(self, value: Any, part: Part) -> list[Any]:
        base: Any = base_of(type(value))
        return [self._handles[id(value)], *held_parts(base, value, part)]

    def _put_data_together(self, base: type, handle: Any, kind: Any, *parts: Any) -> Any:
        """Returns the stand-in of an object of a learner's class that extends a type of data."""
        self.is_empty = False
        if isinstance(kind, type) and data_base(kind) is base and not isinstance(kind, ClassStandIn):
            kind = self._for_library_instances(kind, base)
        if type(handle) is not int or not isinstance(kind, type) or base_of(kind) is not base:
            raise ValueError("an object holds other data than its class says")
        value, made = held_value(base, parts), self._stand_ins.get(handle)
        if made is None or type(made) is not kind:
            made = self._stand_ins[handle] = BASES[base].make(kind, value)
            self._handles[id(made)] = handle
        elif (write := BASES[base].write) is not None:
            write(made, value)
        self._note_lost_bases(made)
        return made

    def take_apart(self, value: Any, part: Part) -> list[Any]:
        """Returns how the worker knows this object, or may find it."""
        if id(value) in self._handles:
            return ["handle", self._handles[id(value)]]
        if self.shared.has(value):
            return ["shared", value.__name__]
        if (name := library_name(value)) is not None:
            return ["library", *name]
        if isinstance(value, BaseException):
            known = next(kind for kind in type(value).__mro__ if kind.__module__ == "builtins")
            return ["error", part(known), part((str(value)[:LONGEST_TEXT],)), str(value)[:LONGEST_TEXT]]
        if type(value).__module__ in ITERATORS and isinstance(value, Iterator):
            return ["iterator", self._callback_number(value.__next__)]
        if callable(value) and not inspect.isclass(value):
            return ["callback", self._callback_number(value), *_words_of(value)]
        raise Unsendable(value)

    def put_together(self, tag: str, parts: list[Any]) -> Any:
        """Returns the stand-in of an object, the test's own function, or a module that the source imports."""
        self.is_empty = False
        if tag == "callback":
            return self._callbacks[parts[0]]
        if tag == "library":
            return self._library(*parts)
        if tag == "shared":
            return self.shared.named(*parts)
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
        self._note_lost_bases(self._stand_ins[handle])
        return self._stand_ins[handle]

    def _note_lost_bases(self, made: Any) -> None:
        if isinstance(made, ClassStandIn) and lacks_bases(made):
            self.lost_bases = made.__name__

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
        if (module, name) not in SINGLETONS.values() and (name or not self._facts.imports(module)):
            raise ValueError(f"the source notebook does not import {module}")
        return imported(module, name)

    def _class(self, module: str, name: str, short: str, qualified: str, specials: str, own: str, *bases: Any) -> type:
        names = set(specials.split())
        real = self._library_class(module, name) if module else None
        if isinstance(real, type):
            self._specials[real] = names
            return real
        if not all(isinstance(base, type) for base in bases):
            raise ValueError("the base of a class is no class")
        allowed = self._facts.operators(short)
        return make_class(self._asks, short, qualified, names, allowed, list(bases), own=frozenset(own.split()))

    def _library_class(self, module: str, name: str) -> Any:
        if is_own(module) or not self._facts.knows_class(module, name):
            return None
        for known in self._facts.modules_beside(module) if module not in sys.modules else ():
            imported(known, "")  # what the source imports, which the cells that this test needs have not done yet
        return find(module, name)

    def _function(self, kind: str, name: str, qualified: str) -> FunctionStandIn:
        return FunctionStandIn(self._asks, kind, name, qualified, self._code_of(qualified))

    def _instance(self, kind: Any) -> Any:
        if kind is types.CoroutineType:
            return CoroutineStandIn(self._asks)
        if not isinstance(kind, ClassStandIn):
            kind = self._for_instances_of(kind)
        if issubclass(kind, Exception):
            raise ValueError("an exception is no plain instance")
        return new_instance(kind)

    def _for_instances_of(self, kind: Any) -> type:
        if not isinstance(kind, type) or _is_data(kind):
            raise ValueError(f"a kind of {getattr(kind, '__name__', kind)} is no data of that exact type")
        return self._for_library_instances(kind)

    def _for_library_instances(self, kind: Any, *bases: type) -> type:
        if kind not in self._library_stand_ins:
            names = self._specials.get(kind, set())
            self._library_stand_ins[kind] = make_class(
                self._asks, kind.__name__, kind.__qualname__, names, frozenset(), list(bases), claims=kind
            )
        return self._library_stand_ins[kind]

    def _error(self, kind: Any, arguments: Any, text: str, cause: Any = None) -> BaseException:
        error = self._error_alone(kind, arguments, text)
        error.__cause__ = cause if isinstance(cause, BaseException) else None
        return error

    def _error_alone(self, kind: Any, arguments: Any, text: str) -> BaseException:
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


def _words_of(function: Any) -> tuple[str, str | None]:
    """Returns the name and the docstring of a test's function, which a decorator of the learner's copies."""
    told = getattr(function, "__doc__", None)
    return str(getattr(function, "__name__", "callback")), told if isinstance(told, str) else None


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
