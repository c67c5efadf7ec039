"""Objects of subclasses of data types, `class Stack(list)`: what they hold as the base type crosses, as that type's values do.

Both sides read and write it without the subclass's own methods, so that Python, which reads such objects directly, too,
finds the same on the trusted side as in the learner's process.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from autograder.grade.wire.values.array_types import ARRAYS
from autograder.grade.wire.values.codec import Codec, Part
from autograder.grade.wire.values.standard_types import STANDARD

CODECS = STANDARD | ARRAYS


class DataBase(NamedTuple):
    """A type of data that classes extend.

    Attributes:
        plain: returns what an object holds, as a value of exactly this type.
        make: returns an object of a subclass that holds a value of this type.
        write: makes an object hold another value; None for types whose values do not change.
    """

    plain: Callable[[Any], Any]
    make: Callable[[type, Any], Any]
    write: Callable[[Any, Any], None] | None = None


def _changing(base: Any, plain: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> DataBase:
    def make(kind: type, value: Any) -> Any:
        made = base.__new__(kind)
        base.__init__(made)
        write(made, value)
        return made

    return DataBase(plain, make, write)


def _write_list(target: Any, new: Any) -> None:
    list.__setitem__(target, slice(None), new)


def _write_bytes(target: Any, new: Any) -> None:
    bytearray.__setitem__(target, slice(None), new)


def _write_set(target: Any, new: Any) -> None:
    set.clear(target)
    set.update(target, new)


def _write_dictionary(target: Any, new: Any) -> None:
    dict.clear(target)
    dict.update(target, new)


def _write_ordered(target: Any, new: Any) -> None:
    collections.OrderedDict.clear(target)
    for key, value in new.items():
        collections.OrderedDict.__setitem__(target, key, value)


_FACTORY: Any = vars(collections.defaultdict)["default_factory"]
_LONGEST: Any = vars(collections.deque)["maxlen"]


def _write_defaults(target: Any, new: Any) -> None:
    _write_dictionary(target, new)
    _FACTORY.__set__(target, new.default_factory)


def _plain_defaults(value: Any) -> Any:
    return collections.defaultdict(_FACTORY.__get__(value), dict.copy(value))


def _make_deque(kind: type, value: Any) -> Any:
    made: Any = collections.deque.__new__(kind)
    collections.deque.__init__(made, value, value.maxlen)
    return made


def _plain_deque(value: Any) -> Any:
    return collections.deque(collections.deque.__iter__(value), _LONGEST.__get__(value))


def _write_deque(target: Any, new: Any) -> None:
    collections.deque.clear(target)
    collections.deque.extend(target, new)


def _fields(base: Any, *names: str) -> DataBase:
    """Returns the base of a type whose values are made of a few fields, which are read by the type's own descriptors."""
    readers = [vars(base)[name] for name in names]

    def make(kind: type, value: Any) -> Any:
        return base.__new__(kind, *(reader.__get__(value) for reader in readers))

    return DataBase(lambda value: make(base, value), make)


def _make_datetime(kind: Any, value: Any) -> Any:
    day, clock = datetime.datetime.date(value), datetime.datetime.timetz(value)
    parts = (day.year, day.month, day.day, clock.hour, clock.minute, clock.second, clock.microsecond, clock.tzinfo)
    return datetime.datetime.__new__(kind, *parts, fold=clock.fold)


def _write_array(target: Any, new: Any) -> None:
    numpy.ndarray.__setitem__(target, ..., new)


BASES: dict[type, DataBase] = {
    list: _changing(list, lambda value: list.__getitem__(value, slice(None)), _write_list),
    dict: _changing(dict, dict.copy, _write_dictionary),
    set: _changing(set, set, _write_set),
    bytearray: _changing(bytearray, lambda value: bytearray.__getitem__(value, slice(None)), _write_bytes),
    collections.OrderedDict: _changing(
        collections.OrderedDict,
        lambda value: collections.OrderedDict(collections.OrderedDict.items(value)),
        _write_ordered,
    ),
    collections.Counter: _changing(
        collections.Counter, lambda value: collections.Counter(dict.copy(value)), _write_dictionary
    ),
    collections.defaultdict: _changing(collections.defaultdict, _plain_defaults, _write_defaults),
    collections.deque: DataBase(_plain_deque, _make_deque, _write_deque),
    tuple: DataBase(lambda value: tuple.__getitem__(value, slice(None)), tuple.__new__),
    frozenset: DataBase(frozenset, frozenset.__new__),
    str: DataBase(str.__str__, str.__new__),
    bytes: DataBase(lambda value: bytes.__getitem__(value, slice(None)), bytes.__new__),
    int: DataBase(int.__int__, int.__new__),
    float: DataBase(float.__float__, float.__new__),
    complex: DataBase(complex.__pos__, complex.__new__),
    decimal.Decimal: DataBase(decimal.Decimal, decimal.Decimal.__new__),
    fractions.Fraction: _fields(fractions.Fraction, "numerator", "denominator"),
    datetime.date: _fields(datetime.date, "year", "month", "day"),
    datetime.datetime: DataBase(lambda value: _make_datetime(datetime.datetime, value), _make_datetime),
    datetime.timedelta: _fields(datetime.timedelta, "days", "seconds", "microseconds"),
    numpy.ndarray: DataBase(
        lambda value: numpy.ndarray.view(value, numpy.ndarray), lambda kind, value: value.view(kind), _write_array
    ),
}


def data_base(kind: type) -> type | None:
    """Returns the type of data that a class extends, None if it extends none of which objects can cross."""
    return (
        next((base for base in kind.__mro__ if base in CODECS or base in BASES), None) if kind not in CODECS else None
    )


def subclass_codecs(
    take_apart: Callable[[Any, Part], list[Any]], put_together: Callable[..., Any]
) -> dict[type, Codec]:
    """Returns a codec for the subclasses of each base.

    Args:
        take_apart: returns the parts of such an object.
        put_together: returns the object, given its base and the parts; one that is known already is made to hold them.
    """

    def codec(base: type) -> Codec:
        tag = CODECS[base].tag if base in CODECS else base.__name__
        changes = BASES[base].write is not None
        return Codec(
            f"{tag} subclass", take_apart, lambda *parts: put_together(base, *parts), _written if changes else None
        )

    return {base: codec(base) for base in BASES}


def _written(target: Any, new: Any) -> None:
    """Does nothing: where the object is known, putting it together has written into it."""


def reader_of(codecs: dict[type, Codec], tag: str) -> Codec | None:
    """Returns the codec with this tag."""
    return next((codec for codec in codecs.values() if codec.tag == tag), None)


def held_parts(base: type, value: Any, part: Part) -> list[Any]:
    """Returns the parts of what an object of a subclass holds as the base type."""
    plain = BASES[base].plain(value)
    return [part(plain)] if base not in CODECS else CODECS[base].take_apart(plain, part)


def held_value(base: type, parts: tuple[Any, ...]) -> Any:
    """Returns the value of the base type; any error means that the parts are no such value."""
    return parts[0] if base not in CODECS else CODECS[base].put_together(*parts)
