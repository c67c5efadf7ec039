"""What a codec is: how values of one exact type are taken apart into a node, and put together again.

A node is `[tag, *parts]`. A part is None, a bool, a number, text, bytes, or a reference `[n]` to the node of that number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from autograder.locale.translations import in_english

Part = Callable[[Any], Any]
"""Turns a value inside another into a part."""


class Unsendable(TypeError):
    """A value that cannot be sent; the message names its type and what works instead.

    Attributes:
        what: the value in words, such as "an Axes".
    """

    def __init__(self, value: object, reason: str = "") -> None:
        self.what = reason or with_article(type(value).__name__[:100])
        super().__init__(
            in_english(
                "{what} cannot leave the submission's own process: return numbers, text, tensors, arrays, or lists, tuples, "
                "sets and dictionaries of them; or test it with check(...), which calls it there",
                what=self.what,
            )
        )


def with_article(name: str) -> str:
    """Returns a class's name after "a" or "an"."""
    return f"an {name}" if name[:1].lower() in set("aeiou") else f"a {name}"


class Codec(NamedTuple):
    """How values of one type cross.

    Attributes:
        tag: what its nodes begin with.
        take_apart: returns the parts of a value, using the given function for values inside.
        put_together: returns the value, given its parts with the values inside; any error means that they are no such value.
        write: changes a value to be like another one of the type; None for types whose values do not change.
        or_reference: whether a value that cannot be taken apart, because it holds itself, say, is referred to instead.
    """

    tag: str
    take_apart: Callable[[Any, Part], list[Any]]
    put_together: Callable[..., Any]
    write: Callable[[Any, Any], None] | None = None
    or_reference: bool = False
