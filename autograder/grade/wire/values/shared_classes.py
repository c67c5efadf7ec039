"""Objects of classes that both processes have, because a cell of the teacher's that everybody sees defines them: `class Node`.

Such an object crosses as what it holds, and is an object of the same class on the other side: its methods are the teacher's
on the trusted side, whatever a submission has made of them.
"""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable
from typing import Any

from autograder.grade.wire.values.codec import Codec, Part

MODULES = ("__main__", "abc", "typing", "enum")
"""Where a class and all that it extends are defined; another library's objects hold more than their attributes."""


class _Empty:
    pass


class SharedClasses:
    """The classes that one side shares with the other."""

    def __init__(self) -> None:
        self._space: dict[str, Any] = {}
        self._names: frozenset[str] = frozenset()
        self._objects = Codec("object", self._take_apart, self._put_together, _write, or_reference=True)
        self._members = Codec("member", self._take_member_apart, self._put_member_together)

    def share(self, namespace: dict[str, Any], names: Iterable[str]) -> None:
        """Shares the classes that have these names in a namespace, at any time from now on."""
        self._space, self._names = namespace, frozenset(names)

    def present(self) -> list[str]:
        """Returns the names of those that are there now."""
        return sorted(name for name in self._names if self.has(self._space.get(name)))

    def has(self, kind: Any) -> bool:
        """Returns whether a class is shared."""
        return isinstance(kind, type) and self._is_named(kind) and (_is_enum(kind) or _holds_attributes(kind))

    def named(self, name: str) -> type:
        """Returns a shared class; raises ValueError if there is none of this name."""
        kind: Any = self._space.get(name)
        if not self.has(kind):
            raise ValueError(f"no class {str(name)[:80]!r} is shared")
        return kind

    def codec_of(self, value: Any) -> Codec | None:
        """Returns the codec of an object of a shared class, None for any other value."""
        kind = type(value)
        if not self._names or not self.has(kind):
            return None
        return self._members if _is_enum(kind) else self._objects

    def reader(self, tag: str) -> Codec | None:
        """Returns one of these codecs by its tag."""
        return {"object": self._objects, "member": self._members}.get(tag)

    def _is_named(self, kind: type) -> bool:
        return kind.__name__ in self._names and self._space.get(kind.__name__) is kind

    def _take_apart(self, value: Any, part: Part) -> list[Any]:
        return [type(value).__name__, *(part(item) for pair in vars(value).items() for item in pair)]

    def _put_together(self, name: str, *parts: Any) -> Any:
        kind = self.named(name)
        attributes = dict(zip(parts[::2], parts[1::2], strict=True))
        for attribute in attributes:
            # `node.total = lambda: 42` would take the place of the teacher's method.
            if type(attribute) is not str or hasattr(getattr(kind, attribute, None), "__get__"):
                raise ValueError(f"an object of {name} has an attribute named like one of its class's methods")
        made: Any = object.__new__(kind)
        vars(made).update(attributes)
        return made

    def _take_member_apart(self, value: Any, _: Part) -> list[Any]:
        return [type(value).__name__, value.name]

    def _put_member_together(self, name: str, member: str) -> Any:
        kind: Any = self.named(name)
        return kind[member]


def _write(target: Any, new: Any) -> None:
    vars(target).clear()
    vars(target).update(vars(new))


def _is_enum(kind: type) -> bool:
    return type(kind) is enum.EnumMeta and not issubclass(kind, enum.Flag)


def _holds_attributes(kind: type) -> bool:
    """Returns whether all that an object of a class holds are its attributes."""
    known = all(base.__module__ in MODULES for base in kind.__mro__ if base is not object)
    return known and type(kind) in (type, abc.ABCMeta) and kind.__basicsize__ == _Empty.__basicsize__
