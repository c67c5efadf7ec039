"""Named tuples cross as data: a type with the same name and fields is made on the other side, one for each name and fields."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from autograder.grade.wire.values.codec import Codec, Unsendable

LONGEST_FIELDS = 10_000  # characters; `namedtuple` compiles them
_PLAIN = namedtuple("_PLAIN", ())  # noqa: PYI024
_KNOWN: set[str] = {
    *vars(_PLAIN),
    "__annotations__",
    "__orig_bases__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
}


def is_named_tuple_type(kind: object) -> bool:
    """Returns whether this is a type from `namedtuple` or `typing.NamedTuple` to which nothing else was added."""
    if not (isinstance(kind, type) and type(kind) is type and kind.__bases__ == (tuple,)):
        return False
    fields = getattr(kind, "_fields", None)
    if type(fields) is not tuple or not all(type(field) is str for field in fields):
        return False
    return not kind.__dict__.keys() - _KNOWN - set(fields)


class NamedTupleTypes:
    """The types of named tuples that one side has seen, by name and fields."""

    def __init__(self) -> None:
        self._types: dict[tuple[str, ...], type] = {}
        self.codec = Codec("namedtuple", lambda value, part: [part(type(value)), *map(part, value)], self._value)
        self.type_codec = Codec(
            "namedtuple type", lambda kind, part: [*self._key(kind), *self._defaults(kind, part)], self._type
        )

    def codec_of(self, value: object) -> Codec | None:
        """Returns the codec of a named tuple or of its type, None for anything else."""
        if is_named_tuple_type(value):
            self._types.setdefault(self._key(value), value)  # type: ignore[arg-type]
            return self.type_codec
        return self.codec if is_named_tuple_type(type(value)) else None

    def reader(self, tag: str) -> Codec | None:
        """Returns the codec of a tag."""
        return {self.codec.tag: self.codec, self.type_codec.tag: self.type_codec}.get(tag)

    @staticmethod
    def _key(kind: Any) -> tuple[str, ...]:
        return (kind.__name__, " ".join(kind._fields))

    @staticmethod
    def _defaults(kind: Any, part: Any) -> list[Any]:
        return [part(value) for value in kind._field_defaults.values()]

    def _type(self, name: str, fields: str, *defaults: Any) -> type:
        key = (name, fields)
        if len(fields) > LONGEST_FIELDS:
            raise ValueError("a named tuple has too many fields")
        if key not in self._types:
            self._types[key] = namedtuple(name, fields.split(), defaults=defaults or None)  # type: ignore[misc]  # noqa: PYI024
        return self._types[key]

    @staticmethod
    def _value(kind: Any, *items: Any) -> Any:
        if not is_named_tuple_type(kind) or len(items) != len(kind._fields):
            raise Unsendable(kind)
        return tuple.__new__(kind, items)
