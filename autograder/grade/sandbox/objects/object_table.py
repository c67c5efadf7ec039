"""The learner's objects that the grader holds by handle: the same object always has the same handle."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from autograder.errors import as_utf8
from autograder.grade.wire.values.codec import Codec, Part, Unsendable
from autograder.grade.wire.values.data_subclasses import (
    BASES,
    data_base,
    held_parts,
    held_value,
    reader_of,
    subclass_codecs,
)
from autograder.grade.wire.values.library_names import SINGLETONS, imported, library_name
from autograder.grade.wire.values.shared_classes import SharedClasses

LONGEST_NAME = 200
LONGEST_MESSAGE = 2000
FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.MethodWrapperType)


class ObjectTable:
    """The references of the worker's side.

    Args:
        call_back: calls a function of the test's by its number.
    """

    def __init__(self, call_back: Callable[..., Any]) -> None:
        self._call_back = call_back
        self._objects: list[Any] = []
        self._handles: dict[int, int] = {}
        self._callbacks: dict[int, Any] = {}
        self._callback_numbers: dict[int, int] = {}
        self._codecs = subclass_codecs(self._take_data_apart, self._put_data_together)
        self.shared = SharedClasses()

    def codec_of(self, value: Any) -> Codec | None:
        """Returns the codec of an object of a subclass of a data type, or of a class that both sides have."""
        return self.shared.codec_of(value) or self._codecs.get(data_base(type(value)))  # type: ignore[arg-type]

    def reader(self, tag: str) -> Codec | None:
        """Returns such a codec by its tag."""
        return self.shared.reader(tag) or reader_of(self._codecs, tag)

    def _take_data_apart(self, value: Any, part: Part) -> list[Any]:
        base: Any = data_base(type(value))
        return [self.handle(value), part(type(value)), *held_parts(base, value, part)]

    def _put_data_together(self, base: type, number: int, *parts: Any) -> Any:
        value, write = self._objects[number], BASES[base].write
        if write is not None:
            write(value, held_value(base, parts))
        return value

    def take_apart(self, value: Any, part: Part) -> list[Any]:
        """Returns the node of an object that is no data: its handle and a description."""
        if id(value) in self._callback_numbers:
            return ["callback", self._callback_numbers[id(value)]]
        if type(value) is types.ModuleType or id(value) in SINGLETONS:
            name = library_name(value)
            if name is None:
                raise Unsendable(value)
            return ["library", *name]
        if inspect.isclass(value):
            return ["shared", value.__name__] if self.shared.has(value) else self._class(value, part)
        if isinstance(value, BaseException):
            cause = _cause(value, part)
            return ["error", self.handle(value), part(type(value)), *_arguments(value, part), _text(value), cause]
        if isinstance(value, FUNCTIONS):
            names = (as_utf8(str(getattr(value, name, ""))[:LONGEST_NAME]) for name in ("__name__", "__qualname__"))
            return ["function", self.handle(value), type(value).__name__, *names]
        return ["instance", self.handle(value), part(type(value))]

    def put_together(self, tag: str, parts: list[Any]) -> Any:
        """Returns what the grader refers to."""
        if tag == "handle":
            return self._objects[parts[0]]
        if tag == "shared":
            return self.shared.named(parts[0])
        if tag == "callback":
            return self._callback(*parts)
        if tag == "iterator":
            return _iterate(self._callback(parts[0], "__next__"))
        if tag == "library":
            return imported(*parts)
        if tag == "error":
            kind, arguments, message = parts
            return _exception(kind, arguments, message)
        raise ValueError(f"{tag!r} is no kind of reference")

    def handle(self, value: Any) -> int:
        """Returns the object's handle."""
        if id(value) not in self._handles:
            self._handles[id(value)] = len(self._objects)
            self._objects.append(value)
        return self._handles[id(value)]

    def _class(self, value: type, part: Part) -> list[Any]:
        module, name = library_name(value) or ("", "")
        own = {name for base in value.__mro__ if library_name(base) is None for name in vars(base)}
        every = {name for base in value.__mro__ if base is not object for name in vars(base)}
        # What a type of data does by itself, its stand-in does, too.
        specials = filter(_is_special, own if data_base(value) else every)
        alone = module and not _compares_as_data(value)
        bases = [] if alone else [part(base) for base in value.__bases__ if base is not object]
        texts = (value.__name__[:LONGEST_NAME], value.__qualname__[:LONGEST_NAME])
        return ["class", self.handle(value), module, name, *texts, _words(specials), _words(own), *bases]

    def _callback(self, number: int, name: str, told: str | None = None) -> Any:
        if number not in self._callbacks:

            def callback(*arguments: Any, **keywords: Any) -> Any:
                return self._call_back(number, arguments, keywords)

            callback.__name__ = callback.__qualname__ = name
            callback.__doc__ = told
            self._callbacks[number] = callback
            self._callback_numbers[id(callback)] = number
        return self._callbacks[number]


def _iterate(step: Callable[[], Any]) -> Iterator[Any]:
    """Yields what an iterator of the test's does, each item when it is asked for."""
    while True:
        try:
            value = step()
        except StopIteration:
            return
        yield value


def _words(names: Iterable[str]) -> str:
    return " ".join(sorted(name for name in names if len(name) < LONGEST_NAME))


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and len(name) < LONGEST_NAME


def _compares_as_data(kind: type) -> bool:
    """Returns whether objects of a library's class compare as the data that they hold: an `IntEnum`, but no masked array."""
    base = data_base(kind)
    return base is not None and kind.__eq__ is base.__eq__


def _text(error: BaseException) -> str:
    try:
        return as_utf8(str(error)[:LONGEST_MESSAGE])
    except BaseException:  # noqa: BLE001 - a `__str__` of the learner's
        return ""


def _arguments(error: BaseException, part: Part) -> list[Any]:
    try:
        return [part(tuple(as_utf8(item) if type(item) is str else item for item in error.args))]
    except Unsendable:
        return [part((_text(error),))]


def _cause(error: BaseException, part: Part) -> Any:
    try:
        return part(error.__cause__)
    except Unsendable:  # it is the cause of itself
        return None


def _exception(kind: Any, arguments: tuple[Any, ...], message: str) -> BaseException:
    try:
        return kind(*arguments)
    except Exception:  # noqa: BLE001 - some exceptions want other arguments than they keep
        return RuntimeError(message)
