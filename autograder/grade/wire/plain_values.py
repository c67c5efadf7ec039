"""Plain values between two processes: bytes that contain only data, without code or objects that define their own behavior.

`encode(value)` returns bytes, and `decode(data)` returns an equal value. A list is a msgpack array; every other
container or library type is a map of one tag to its parts. Identity is not preserved: an object that occurs twice
becomes two objects. Iterators and generators are not plain, because reading them changes them. NumPy, PyTorch and
pandas are imported only for values of their own types.
"""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import functools
import importlib
import sys
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from autograder.grade.wire.channel import has_more_items

DEEPEST = 100
MOST_ITEMS = 2_000_000
MOST_OBJECTS = 20_000  # objects that a library builds in 10 to 1,000 microseconds, such as tables
MOST_NAMED_TUPLES = 200  # types of named tuples, each of which Python compiles
MOST_EQUAL_HASHES = 50
LONGEST_NUMBER = 1 << 16  # bytes
LONGEST_TERM = 1 << 13  # bytes of the terms of a fraction, which Python divides by their common divisor
LONGEST_NAME = 1000  # characters of the fields of a named tuple
SMALL = 1 << 20  # bytes, which become at most 64 MiB of objects
NATIVE = frozenset({type(None), bool, int, float, str, bytes})
"""The types that msgpack encodes directly."""
SIMPLE = NATIVE - {int}
LEAST, MOST = -(2**63), 2**64 - 1  # integers of msgpack
FACTORIES = {kind.__name__: kind for kind in (int, float, complex, bool, str, bytes, list, tuple, dict, set, frozenset)}
CONSTANTS = {"...": ..., "NotImplemented": NotImplemented}
# fmt: off
PURE_FUNCTIONS = frozenset({
    "abs", "all", "any", "ascii", "bin", "chr", "divmod", "hex", "len", "max", "min", "oct", "ord", "pow", "repr", "round", "sorted", "sum",
})
UNCHANGED = frozenset({
    "__module__", "__doc__", "__dict__", "__weakref__", "__init__", "__new__", "__slots__", "__annotations__", "__annotate__",
    "__annotate_func__", "__annotations_cache__", "__qualname__", "__firstlineno__", "__static_attributes__", "__orig_bases__",
    "__parameters__",
})
# fmt: on
"""Attributes of a subclass of a plain type that change neither the comparison nor the contents of its objects."""
LIBRARIES = {"numpy": "plain_arrays", "torch": "plain_arrays", "pandas": "plain_tables"}
"""The modules of this folder that define the forms for the types of a library."""


class NotPlain(TypeError):
    """The value is not plain; the message names its type."""


@dataclass(frozen=True)
class Codec:
    """The encoding of the values of one type."""

    tag: str  # name of the type; it begins with the name of the library, except for Python's own types
    split: Callable[[Any], list[Any]]  # returns the parts of a value, which are plain values themselves
    build: Callable[..., Any]  # returns the value with these parts
    is_slow: bool = False  # whether building takes so long that forged bytes could keep a process busy with it


def encode(value: Any) -> bytes:
    """Return a value as bytes. Raise NotPlain if it, or a part of it, is not plain."""
    try:
        return _ENCODER.encode(_Encoding().part(value, DEEPEST))
    except UnicodeEncodeError:
        raise NotPlain("a text with half a surrogate pair") from None


def decode(data: bytes) -> Any:
    """Return the value that `encode` has encoded as these bytes. Raise ValueError if they do not come from it."""
    try:
        if len(data) > SMALL and has_more_items(data, 2 * MOST_ITEMS):
            raise ValueError
        return _Decoding().value(_DECODER.decode(data))
    except Exception as error:  # forged bytes can break any rule that a type relies on
        raise ValueError(f"not a plain value: {type(error).__name__}") from None


class _Encoding:
    """The encoding of one value. It counts the items, because a list that contains itself twice would never end."""

    __slots__ = ("items", "objects")

    def __init__(self) -> None:
        self.items, self.objects = MOST_ITEMS, MOST_OBJECTS

    def part(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind in SIMPLE or (kind is int and LEAST <= value <= MOST):
            return value
        if depth == 0:
            raise NotPlain("a value that contains itself, or is nested too deeply")
        if kind is list:
            return self.parts(value, depth)
        form = codec_of(kind)
        if form is None:
            base = _plain_base(kind)
            if base in NATIVE:
                return self.part(base(value), depth - 1)
            form = codec_of(base) if base is not object else None
        if form is None:
            raise NotPlain(f"a value of type {kind.__name__!s:.80}")
        if form.is_slow:
            self.objects -= 1
        return {form.tag: self.parts(form.split(value), depth)}

    def parts(self, values: list[Any], depth: int) -> list[Any]:
        self.items -= len(values) + 1
        if self.items < 0 or self.objects < 0:
            raise NotPlain("a value with too many parts")
        if len(values) > 50:
            kinds = set(map(type, values))
            if kinds <= SIMPLE or (kinds == {int} and min(values) >= LEAST and max(values) <= MOST):
                return values
        return [value if type(value) in SIMPLE else self.part(value, depth - 1) for value in values]


class _Decoding:
    """The decoding of one value. It counts the items, slow objects, and types of named tuples."""

    __slots__ = ("items", "named_tuples", "objects")

    def __init__(self) -> None:
        self.items, self.objects = MOST_ITEMS, MOST_OBJECTS
        self.named_tuples: set[tuple[str, ...]] = set()

    def value(self, part: Any) -> Any:
        if type(part) in NATIVE:
            return part
        if type(part) is list:
            return self.values(part)
        [(tag, parts)] = part.items()
        form = _tagged(tag)
        if form.is_slow:
            self.objects -= 1
        values = self.values(parts)
        if form is _NAMED_TUPLE:
            self.named_tuples.add((values[0], *values[1]))
            if len(self.named_tuples) > MOST_NAMED_TUPLES:
                raise ValueError
        return form.build(*values)

    def values(self, parts: list[Any]) -> list[Any]:
        self.items -= len(parts) + 1
        if self.items < 0 or self.objects < 0 or type(parts) is not list:
            raise ValueError
        return [part if type(part) in NATIVE else self.value(part) for part in parts]


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()


def codec_of(kind: Any) -> Codec | None:
    """Return the form for objects of exactly this type; None if they are not plain."""
    return _CODECS.get(kind) or _other_form(kind)


@functools.lru_cache(maxsize=1000)
def _other_form(kind: Any) -> Codec | None:
    if _is_named_tuple(kind):
        return _NAMED_TUPLE
    forms = _library_codecs(str(kind.__module__).partition(".")[0])
    family = next((base for base in kind.__mro__ if base in forms and base.__name__ in ("generic", "dtype")), kind)
    return forms.get(kind) or forms.get(family)


@functools.lru_cache(maxsize=1000)
def _tagged(tag: str) -> Codec:
    forms = [*_CODECS.values(), _NAMED_TUPLE, *_library_codecs(tag.partition(".")[0]).values()]
    return next(form for form in forms if form.tag == tag)


@functools.lru_cache(maxsize=100)
def _library_codecs(library: str) -> dict[type, Codec]:
    if library not in LIBRARIES:
        return {}
    module = importlib.import_module(f"autograder.grade.wire.{LIBRARIES[library]}")
    return getattr(module, f"{library}_codecs")()


def _plain_base(kind: type) -> type:
    """Return the plain base of a class whose objects compare and iterate as those of the base; `object` if no base is plain."""
    for position, base in enumerate(kind.__mro__):
        if base in NATIVE or (base is not kind and codec_of(base) is not None):
            added = {name for extension in kind.__mro__[:position] for name in vars(extension)} - UNCHANGED
            changed = [name for name in added if hasattr(base, name) or name.startswith("__")]
            return object if changed else base
    return object


def _hashable(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the items of a set, or keys of a dict, if it can be built fast: n items with equal hashes take n * n steps."""
    if len(items) > MOST_EQUAL_HASHES and max(Counter(map(hash, items)).values()) > MOST_EQUAL_HASHES:
        raise ValueError
    return items


def _pairs(value: Any) -> list[Any]:
    return [item for pair in value.items() for item in pair]


def _dict(*parts: Any) -> dict[Any, Any]:
    return dict(zip(_hashable(parts[::2]), parts[1::2], strict=True))


def _counter(*parts: Any) -> Counter[Any]:
    counter: Counter[Any] = Counter()
    dict.update(counter, _dict(*parts))
    return counter


def _default_dict(factory: str | None, *parts: Any) -> defaultdict[Any, Any]:
    default = FACTORIES.get(factory, _unknown_default) if factory is not None else None
    return defaultdict(default, _dict(*parts))


def _unknown_default() -> Any:
    raise NotPlain("the default of a defaultdict")


def _factory(value: defaultdict[Any, Any]) -> str | None:
    factory = value.default_factory
    if factory is None:
        return None
    return next((name for name, known in FACTORIES.items() if known is factory), "")


def _number(value: int) -> list[Any]:
    if (size := value.bit_length() // 8 + 1) > LONGEST_NUMBER:
        raise NotPlain(f"a number of {size} bytes")
    return [value.to_bytes(size, "little", signed=True)]


def _decode_number(data: bytes) -> int:
    if len(data) > LONGEST_NUMBER:
        raise ValueError
    return int.from_bytes(data, "little", signed=True)


def _terms(value: fractions.Fraction) -> list[Any]:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 8 * LONGEST_TERM:
        raise NotPlain("a fraction of long numbers")
    return [value.numerator, value.denominator]


def _fraction(numerator: int, denominator: int) -> fractions.Fraction:
    if type(numerator) is not int or max(numerator.bit_length(), denominator.bit_length()) > 8 * LONGEST_TERM:
        raise ValueError
    return fractions.Fraction(numerator, denominator)


def _moment(value: Any) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, value.tzinfo]


def _decode_moment(kind: Any) -> Callable[..., Any]:
    return lambda text, fold, zone: kind.fromisoformat(text).replace(fold=fold, tzinfo=zone)


def _zone_info(value: zoneinfo.ZoneInfo) -> list[Any]:
    if value.key is None:
        raise NotPlain("a time zone without a name")
    return [value.key]


def _decode_zone(offset: datetime.timedelta, name: str) -> datetime.timezone:
    zone = datetime.timezone(offset)
    return zone if zone.tzname(None) == name else datetime.timezone(offset, name)


def _is_named_tuple(kind: type) -> bool:
    """Return whether this is a type from `namedtuple` or `typing.NamedTuple` without added methods."""
    fields = vars(kind).get("_fields")
    if kind.__bases__ != (tuple,) or type(fields) is not tuple or not all(type(field) is str for field in fields):
        return False
    return not vars(kind).keys() - vars(_Empty).keys() - UNCHANGED - set(fields) and len(repr(fields)) < LONGEST_NAME


_Empty = namedtuple("_Empty", ())  # its attributes are those of every named tuple


def _named_tuple(name: str, fields: list[str], *items: Any) -> Any:
    if len(repr(fields)) >= LONGEST_NAME or len(name) >= LONGEST_NAME:
        raise ValueError
    return _named_tuple_type(name, tuple(fields))._make(items)


_named_tuple_type: Any = functools.lru_cache(maxsize=200)(namedtuple)


def _named(value: Any) -> list[Any]:
    """Return the module and name of a class whose objects are plain, of a class of Python, or of a function that only computes."""
    home, name = str(value.__module__).partition(".")[0], value.__name__
    if _by_name(home, name) is not value:
        raise NotPlain(f"the {'class' if isinstance(value, type) else 'function'} {name!s:.80}")
    return [home, name]


def _by_name(home: str, name: str) -> Any:
    _library_codecs(home)  # imports the library
    value = getattr(sys.modules.get(home), name, None)
    is_plain_class = isinstance(value, type) and (home == "builtins" or codec_of(value) not in (None, _NAMED_TUPLE))
    is_pure = home == "math" or (home == "builtins" and name in PURE_FUNCTIONS)
    if not is_plain_class and not (is_pure and type(value) is type(len)):
        return None
    return value


def _decode_named(home: str, name: str) -> Any:
    if (value := _by_name(home, name)) is None:
        raise ValueError
    return value


def _decode_array(code: str, data: bytes) -> array.array[Any]:
    if code in "uw":
        raise ValueError
    return array.array(code, data)


def _typed_array(value: array.array[Any]) -> list[Any]:
    if value.typecode in "uw":
        raise NotPlain("an array of characters")
    return [value.typecode, value.tobytes()]


def _python_codecs() -> dict[type, Codec]:
    forms: list[tuple[type, Any, Any]] = [
        (tuple, list, lambda *items: items),
        (dict, _pairs, _dict),
        (set, list, lambda *items: set(_hashable(items))),
        (frozenset, list, lambda *items: frozenset(_hashable(items))),
        (int, _number, _decode_number),
        (complex, lambda value: [value.real, value.imag], complex),
        (range, lambda value: [value.start, value.stop, value.step], range),
        (slice, lambda value: [value.start, value.stop, value.step], slice),
        (bytearray, lambda value: [bytes(value)], lambda data: bytearray(memoryview(data))),
        (Counter, _pairs, _counter),
        (OrderedDict, _pairs, lambda *parts: OrderedDict(_dict(*parts))),
        (defaultdict, lambda value: [_factory(value), *_pairs(value)], _default_dict),
        (deque, lambda value: [value.maxlen, *value], lambda length, *items: deque(items, length)),
        (array.array, _typed_array, _decode_array),
        (type({}.keys()), list, lambda *items: dict.fromkeys(_hashable(items)).keys()),
        (type({}.values()), list, lambda *items: dict(enumerate(items)).values()),
        (type({}.items()), lambda value: _pairs(value.mapping), lambda *parts: _dict(*parts).items()),
        (fractions.Fraction, _terms, _fraction),
        (decimal.Decimal, lambda value: [str(value)], decimal.Decimal),
        (datetime.date, lambda value: [value.isoformat()], datetime.date.fromisoformat),
        (datetime.time, _moment, _decode_moment(datetime.time)),
        (datetime.datetime, _moment, _decode_moment(datetime.datetime)),
        (datetime.timedelta, lambda value: [value.days, value.seconds, value.microseconds], datetime.timedelta),
        (datetime.timezone, lambda value: [value.utcoffset(None), value.tzname(None)], _decode_zone),
        (zoneinfo.ZoneInfo, _zone_info, zoneinfo.ZoneInfo),
        (type, _named, _decode_named),
        (type(len), _named, _decode_named),
    ]
    by_type = {kind: Codec(kind.__name__, split, build) for kind, split, build in forms}
    for tag, constant in CONSTANTS.items():
        by_type[type(constant)] = Codec(tag, lambda value: [], lambda constant=constant: constant)
    return by_type


_CODECS: dict[type, Codec] = _python_codecs()
_NAMED_TUPLE = Codec(
    "namedtuple", lambda value: [type(value).__name__, list(value._fields), *value], _named_tuple, is_slow=True
)
