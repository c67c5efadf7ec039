"""The values that both processes know by number: encodes and decodes them, and tells the other side what has changed.

    table.pack([1, 2])  ->  Values(structure=msgpack of the nodes and roots, blobs=[])

No recursion, no code: a node refers only to nodes before it, and each is put together by the codec of its tag.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from autograder.grade.wire.values.array_types import ARRAYS, DTYPE, SCALAR, array_codec
from autograder.grade.wire.values.codec import Codec, Part, Unsendable, with_article
from autograder.grade.wire.values.message_form import BLOB, Values, from_message, to_message
from autograder.grade.wire.values.named_tuples import NamedTupleTypes
from autograder.grade.wire.values.optional_types import OPTIONAL_TAGS, optional_codec, optional_reader
from autograder.grade.wire.values.standard_types import STANDARD

DEEPEST = 100
MOST_ITEMS = 5_000_000
"""Items of a value, each counted as often as it is reached: shared parts could make a small message endless to compare."""

EXACT = STANDARD | ARRAYS
BY_TAG = {codec.tag: codec for codec in [*EXACT.values(), SCALAR, DTYPE]}
SCALARS = (type(None), bool, float)


class References(Protocol):
    """How one side refers to what is no data."""

    def take_apart(self, value: Any, part: Part) -> list[Any]:
        """Returns the node of a value that is no data; raises Unsendable."""

    def put_together(self, tag: str, parts: list[Any]) -> Any:
        """Returns what such a node refers to; raises ValueError."""

    def codec_of(self, value: Any) -> Codec | None:
        """Returns the codec of a value that holds data but is of a class of its own; None for anything else."""

    def reader(self, tag: str) -> Codec | None:
        """Returns such a codec by its tag."""


class NoReferences:
    """Nothing but data crosses."""

    def take_apart(self, value: Any, _: Part) -> list[Any]:
        """Refuses it."""
        raise Unsendable(value)

    def put_together(self, tag: str, _: list[Any]) -> Any:
        """Refuses it."""
        raise ValueError(f"{str(tag)[:80]!r} is no kind of value")

    def codec_of(self, _: Any) -> Codec | None:
        """Knows none."""
        return None

    def reader(self, _: str) -> Codec | None:
        """Knows none."""
        return None


class ValueTable:
    """One side's list of the values that have crossed; the other side has its own under the same numbers.

    Attributes:
        objects: by number.
        own: the numbers of values that were made on this side.
    """

    def __init__(self, references: References | None = None) -> None:
        self._references = references or NoReferences()
        self._types = NamedTupleTypes()
        self.objects: list[Any] = []
        self.own: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._states: dict[int, bytes] = {}
        self._refused: dict[int, Any] = {}
        self._extents: list[tuple[int, int]] = []
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.objects)

    def truncate(self, length: int) -> None:
        """Forgets the values from this number on."""
        for number in range(length, len(self.objects)):
            self._numbers.pop(id(self.objects[number]), None)
            self._states.pop(number, None)
            self._refused.pop(number, None)
            self.own.discard(number)
        del self.objects[length:], self._extents[length:]
        self.bytes = self.bytes if length else 0

    def pack(self, *roots: Any) -> Values:
        """Returns the values for the other side, with what has changed here since they last crossed.

        Raises:
            Unsendable: one of them cannot be sent; then none is known by number.
        """
        start, packing = len(self), _Packing(self)
        try:
            writes = [[number, *node] for number, node in self._changes(packing.part)]
            found = [packing.part(root) for root in roots]
            return to_message([packing.nodes, found, writes])
        except BaseException:
            self.truncate(start)
            raise

    def unpack(self, values: Values, accept: Callable[[int], bool] = lambda _: True) -> list[Any]:
        """Returns the roots, and makes the changes to values that are known already.

        Args:
            values: what the other side packed.
            accept: is asked for each number whether its value may change.

        Raises:
            ValueError: it is no encoded value, too large, or built to be slow; the table is as before then.
        """
        start = len(self)
        try:
            nodes, roots, writes = from_message(values)
            for node in nodes:
                self._add_node(node)
            accepted = [self.objects[number] for number, *node in writes if self._write(number, node, accept)]
            return self._with_refused([self._whole(root) for root in roots], accepted)
        except ValueError:
            self.truncate(start)
            raise
        except Exception as error:  # noqa: BLE001 - a forged value can break any rule that a type relies on, in any way
            self.truncate(start)
            raise ValueError(f"no plain value: {str(error)[:80]}") from None

    def node(self, value: Any, part: Part) -> tuple[list[Any], bool]:
        """Returns the node of a value, and whether the value can change."""
        codec = self._codec(value) or self._references.codec_of(value)
        if codec is None:
            return self._references.take_apart(value, part), False
        try:
            if codec is optional_codec(value):
                # A table's columns are new objects each time it is asked for them, so they get no numbers of their own.
                parts = ValueTable().pack(codec.take_apart(value, lambda item: item))
                return [codec.tag, msgspec.msgpack.encode(parts)], codec.write is not None
            return [codec.tag, *codec.take_apart(value, part)], codec.write is not None
        except Unsendable:
            if not codec.or_reference:
                raise
            return self._references.take_apart(value, part), False

    def add(self, value: Any, node: list[Any], changes: bool, own: bool) -> int:
        """Gives a value the next number."""
        number = len(self.objects)
        self._extents.append(self._extent(node))
        self.objects.append(value)
        self._numbers[id(value)] = number
        if changes:
            self._states[number] = self._state(node)
        if own:
            self.own.add(number)
        return number

    def number(self, value: Any) -> int | None:
        """Returns the number of a value that has crossed."""
        return self._numbers.get(id(value))

    def _changes(self, part: Part) -> list[tuple[int, list[Any]]]:
        changed = []
        for number, state in list(self._states.items()):
            node, _ = self.node(self.objects[number], part)
            now = self._state(node)
            if now != state:
                self._states[number] = now
                changed.append((number, node))
        return changed

    def _add_node(self, node: list[Any]) -> None:
        value, codec = self._put_together(node)
        self.add(value, node, codec is not None and codec.write is not None, own=False)

    def put_back(self) -> None:
        """Has the next message tell the other side how the values are here that may not change; it has gone on with its own."""
        self._states |= dict.fromkeys(self._refused, b"")
        self._refused.clear()

    def _write(self, number: int, node: list[Any], accept: Callable[[int], bool]) -> bool:
        """Changes a value to be like the other side's; if it may not change, keeps the other side's. Returns which of them."""
        target = self.objects[number]
        self._extents[number] = self._extent(node)
        new, codec = self._put_together(node)
        if number not in self._states or type(new) is not type(target) or codec is None or codec.write is None:
            raise ValueError("a value that cannot change has changed")
        if accept(number):
            codec.write(target, new)
            self._states[number] = self._state(node)
            return True
        self._refused[number] = new
        return False

    def _with_refused(self, roots: list[Any], accepted: list[Any]) -> list[Any]:
        """Returns the roots as the other side sees them, also where they hold values that may not change here."""
        if not self._refused:
            return roots
        written = {id(value): value for value in accepted}
        written |= {id(self.objects[number]): new for number, new in self._refused.items()}
        data = {id(value): value for value in self.objects if self._codec(value) is None}
        return copy.deepcopy(roots, data | written)

    def _put_together(self, node: list[Any]) -> tuple[Any, Codec | None]:
        tag, *parts = node
        found = [self._whole(part) for part in parts]
        if tag in OPTIONAL_TAGS:
            codec = optional_reader(tag)
            found = ValueTable().unpack(msgspec.msgpack.decode(found[0], type=Values))[0]
        else:
            codec = BY_TAG.get(tag) or self._types.reader(tag) or self._references.reader(tag)
        if codec is None:
            return self._references.put_together(tag, found), None
        return codec.put_together(*found), codec

    def _whole(self, part: Any) -> Any:
        return self.objects[part[0]] if type(part) is list else part

    def _codec(self, value: Any) -> Codec | None:
        return EXACT.get(type(value)) or array_codec(value) or self._types.codec_of(value) or optional_codec(value)

    def _extent(self, node: list[Any]) -> tuple[int, int]:
        """Returns how deep a node is and how many items it holds; raises ValueError for too deep or too many."""
        below = [self._extents[part[0]] for part in node if type(part) is list]
        deep = 1 + max((extent[0] for extent in below), default=0)
        items = len(node) + sum(extent[1] for extent in below)
        if deep > DEEPEST or items > MOST_ITEMS:
            raise ValueError(f"the value has {items} items and is {deep} deep, which is too much to compare")
        return deep, items

    def _state(self, node: list[Any]) -> bytes:
        self.bytes += sum(len(part) for part in node if type(part) is bytes)
        return hashlib.blake2b(msgspec.msgpack.encode(node), digest_size=16).digest()


class _Packing:
    """One message while it is made."""

    def __init__(self, table: ValueTable) -> None:
        self.nodes: list[Any] = []
        self._table, self._inside = table, set[int]()

    def part(self, value: Any) -> Any:
        """Returns the part that stands for a value: itself, or a reference to its node."""
        kind = type(value)
        if kind in SCALARS or (kind is int and -(2**63) <= value < 2**64) or (kind is bytes):
            return value
        if kind is str and len(value) <= BLOB and _is_text(value):
            return value
        known = self._table.number(value)
        return [self._new(value) if known is None else known]

    def _new(self, value: Any) -> int:
        if id(value) in self._inside or len(self._inside) > DEEPEST:
            raise Unsendable(value, f"{with_article(type(value).__name__)} that holds itself, or is nested too deeply,")
        self._inside.add(id(value))
        try:
            node, changes = self._table.node(value, self.part)
        finally:  # what holds this one may refer to it in another way
            self._inside.discard(id(value))
        try:
            number = self._table.add(value, node, changes, own=True)
        except ValueError as error:
            raise Unsendable(value, f"{with_article(type(value).__name__)} ({error})") from None
        self.nodes.append(node)
        return number


def _is_text(value: str) -> bool:
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


def packed(value: Any) -> Values:
    """Returns one value of data by itself; raises Unsendable."""
    return ValueTable().pack(value)


def unpacked(values: Values) -> Any:
    """Returns the value; raises ValueError."""
    return ValueTable().unpack(values)[0]
