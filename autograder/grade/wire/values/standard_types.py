"""The codecs of Python's own types of data."""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import io
import pathlib
import random
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

from autograder.grade.wire.values.codec import Codec, Part, Unsendable

MOST_HASHED_ALIKE = 50
LONGEST_INTEGER = 1 << 16  # bytes; what a test computes with it takes time, too


def hashable(items: Iterable[Any]) -> list[Any]:
    """Returns the items if a set of them can be built fast; raises ValueError if too many have the same hash."""
    found = list(items)
    if len(found) > MOST_HASHED_ALIKE:
        # Integers, fractions, complex numbers and tuples can be chosen to collide: a set of n of them takes n * n steps.
        most = max(Counter(map(hash, found)).values())
        if most > MOST_HASHED_ALIKE:
            raise ValueError(f"{most} items of a set or dictionary have the same hash")
    return found


def _items(value: Iterable[Any], part: Part) -> list[Any]:
    return [part(item) for item in value]


def _pairs(value: dict[Any, Any], part: Part) -> list[Any]:
    return [part(item) for pair in value.items() for item in pair]


def _dictionary(*parts: Any) -> dict[Any, Any]:
    return dict(zip(hashable(parts[::2]), parts[1::2], strict=True))


def _write_list(target: Any, new: Any) -> None:
    target[:] = new


def _write_set(target: Any, new: Any) -> None:
    target.clear()
    target.update(new)


def _write_defaults(target: Any, new: Any) -> None:
    _write_set(target, new)
    target.default_factory = new.default_factory


def _write_deque(target: Any, new: Any) -> None:
    target.clear()
    target.extend(new)


def _integer(value: int, _: Part) -> list[Any]:
    size = value.bit_length() // 8 + 1
    if size > LONGEST_INTEGER:
        raise Unsendable(value, f"a number of {size} bytes")
    return [value.to_bytes(size, "little", signed=True)]


def _integer_back(data: bytes) -> int:
    if len(data) > LONGEST_INTEGER:
        raise ValueError("the number is too long")
    return int.from_bytes(data, "little", signed=True)


def _bytearray_back(data: bytes) -> bytearray:
    if type(data) is not bytes:
        raise ValueError("a bytearray is not made of bytes")  # of a number, Python would make so many zeros
    return bytearray(data)


def _time(value: Any, part: Part) -> list[Any]:
    zone = value.tzinfo
    if type(zone) not in (type(None), datetime.timezone, zoneinfo.ZoneInfo):
        raise Unsendable(zone)
    name = zone.key if type(zone) is zoneinfo.ZoneInfo else None
    offset = None if name or zone is None else part(zone.utcoffset(None))
    return [value.replace(tzinfo=None).isoformat(), value.fold, name, offset]


def _time_back(kind: type[Any]) -> Any:
    def put_together(text: str, fold: int, name: str | None, offset: datetime.timedelta | None) -> Any:
        zone = zoneinfo.ZoneInfo(name) if name else None if offset is None else datetime.timezone(offset)
        return kind.fromisoformat(text).replace(fold=fold, tzinfo=zone)

    return put_together


def _python_array(code: str, data: bytes) -> Any:
    if code not in "bBhHiIlLqQfd":  # "u" could hold numbers that are no letters
        raise ValueError(f"no array has items of the kind {code[:80]!r}")
    return array.array(code, data)


def _write_array(target: Any, new: Any) -> None:
    target[:] = new


def _file_in_memory(kind: Any) -> Codec:
    def put_together(data: Any, position: int) -> Any:
        if not 0 <= position <= len(data):
            raise ValueError("the position is not in the file")  # the next write would fill up to it
        found = kind(data)
        found.seek(position)
        return found

    def write(target: Any, new: Any) -> None:
        target.seek(0)
        target.truncate()
        target.write(new.getvalue())
        target.seek(new.tell())

    return Codec(kind.__name__, lambda value, part: [part(value.getvalue()), value.tell()], put_together, write)


def _random(state: Any) -> Any:
    found = random.Random(0)
    found.setstate(state)
    return found


def _view(name: str) -> Codec:
    def take_apart(value: Any, part: Part) -> list[Any]:
        return _pairs(dict(value.mapping), part)

    return Codec(f"dict_{name}", take_apart, lambda *parts: getattr(_dictionary(*parts), name)())


STANDARD: dict[type, Codec] = {
    list: Codec("list", _items, lambda *items: list(items), _write_list),
    tuple: Codec("tuple", _items, lambda *items: items),
    set: Codec("set", _items, lambda *items: set(hashable(items)), _write_set),
    frozenset: Codec("frozenset", _items, lambda *items: frozenset(hashable(items))),
    dict: Codec("dict", _pairs, _dictionary, _write_set),
    type({}.keys()): _view("keys"),
    type({}.values()): _view("values"),
    type({}.items()): _view("items"),
    Counter: Codec("Counter", _pairs, lambda *parts: Counter(_dictionary(*parts)), _write_set),
    OrderedDict: Codec("OrderedDict", _pairs, lambda *parts: OrderedDict(_dictionary(*parts)), _write_set),
    defaultdict: Codec(
        "defaultdict",
        lambda value, part: [part(value.default_factory), *_pairs(value, part)],
        lambda factory, *parts: defaultdict(factory, _dictionary(*parts)),
        _write_defaults,
    ),
    deque: Codec(
        "deque",
        lambda value, part: [value.maxlen, *_items(value, part)],
        lambda longest, *items: deque(items, longest),
        _write_deque,
    ),
    bytearray: Codec("bytearray", lambda value, _: [bytes(value)], _bytearray_back, _write_list),
    int: Codec("int", _integer, _integer_back),
    str: Codec(
        "str",
        lambda value, _: [value.encode("utf-8", "surrogatepass")],
        lambda data: data.decode("utf-8", "surrogatepass"),
    ),
    complex: Codec("complex", lambda value, _: [value.real, value.imag], complex),
    range: Codec("range", lambda value, part: _items((value.start, value.stop, value.step), part), range),
    slice: Codec("slice", lambda value, part: _items((value.start, value.stop, value.step), part), slice),
    fractions.Fraction: Codec(
        "Fraction", lambda value, part: _items((value.numerator, value.denominator), part), fractions.Fraction
    ),
    decimal.Decimal: Codec("Decimal", lambda value, _: [str(value)[:LONGEST_INTEGER]], decimal.Decimal),
    datetime.date: Codec("date", lambda value, _: [value.isoformat()], datetime.date.fromisoformat),
    datetime.time: Codec("time", _time, _time_back(datetime.time)),
    datetime.datetime: Codec("datetime", _time, _time_back(datetime.datetime)),
    datetime.timedelta: Codec(
        "timedelta", lambda value, _: [value.days, value.seconds, value.microseconds], datetime.timedelta
    ),
    datetime.timezone: Codec("timezone", lambda value, part: [part(value.utcoffset(None))], datetime.timezone),
    array.array: Codec("array.array", lambda value, _: [value.typecode, value.tobytes()], _python_array, _write_array),
    types.SimpleNamespace: Codec(
        "SimpleNamespace",
        lambda value, part: _pairs(vars(value), part),
        lambda *parts: types.SimpleNamespace(**_dictionary(*parts)),
        lambda target, new: _write_set(vars(target), vars(new)),
    ),
    types.MappingProxyType: Codec(
        "mappingproxy",
        lambda value, part: _pairs(dict(value), part),
        lambda *parts: types.MappingProxyType(_dictionary(*parts)),
    ),
    random.Random: Codec(
        "Random",
        lambda value, part: [part(value.getstate())],
        _random,
        lambda target, new: target.setstate(new.getstate()),
    ),
    io.StringIO: _file_in_memory(io.StringIO),
    io.BytesIO: _file_in_memory(io.BytesIO),
    uuid.UUID: Codec("UUID", lambda value, _: [value.hex], uuid.UUID),
    **{
        kind: Codec(kind.__name__, lambda value, _: [str(value)], kind)
        for kind in (pathlib.PurePosixPath, pathlib.PosixPath, pathlib.PureWindowsPath)
    },
}
