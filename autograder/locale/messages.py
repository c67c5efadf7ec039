"""Messages: texts that are stored or sent in English, and shown in the reader's language by their id and values."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, Self

SENTENCES = "join.sentences|{first} {second}"
CLAUSES = "join.clauses|{first}; {second}"
LIST = "join.list|{first}, {second}"


class Message(str):
    """An English text that knows how it was made, so that `translations.localized` can show it in another language.

    Attributes:
        id: short stable name, such as "cut.while_off"; translations are stored under it.
        values: numbers, texts of the user, which are shown unchanged, and messages.
    """

    id: str
    values: dict[str, Any]

    def __new__(cls, text: str, /, **values: object) -> Self:
        """Return the message of a text such as "cut.while_off|it computes with {name}": its id, "|", its English text.

        A text without an id is a label, such as the name of a kind of fix, whose English text serves as id.
        """
        name, bar, english = text.partition("|")
        if not bar:
            name, english = "", text
        known = {key: value if isinstance(value, (str, int, float)) else str(value) for key, value in values.items()}
        message = super().__new__(cls, english.format(**known) if known else english)
        message.id, message.values, message._made_from = name, known, text
        return message

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self._made_from,), self.values

    def __str__(self) -> str:
        return self  # so that the text of an exception is still a message

    @property
    def text(self) -> str:
        """The English text without id and values."""
        return str.__str__(self)

    def without(self, part: str) -> Message:
        """Return the message without a text, such as the path of a copy, in its values."""
        values = {key: value.replace(part, "") if type(value) is str else value for key, value in self.values.items()}
        return self.with_values(
            **values | {key: value.without(part) for key, value in values.items() if isinstance(value, Message)}
        )

    def with_values(self, **values: object) -> Message:
        """Return the message with other values for some names."""
        return Message(self._made_from, **self.values | values)

    _made_from: str


def counted_message(count: int, singular: str, plural: str, **values: object) -> Message:
    """Return the message of one of two texts, depending on a number, such as "{count} node" and "{count} nodes"."""
    return Message(singular if count == 1 else plural, count=f"{count:,}", **values)


def message_with(text: str, values: dict[str, object]) -> Message:
    """Return the message of a text with the values that it names, or the text itself if it is a message."""
    if isinstance(text, Message):
        return text
    return Message(text, **{name: value for name, value in values.items() if f"{{{name}}}" in text})


def id_of(text: str) -> str:
    """Return the id of a message, or "" for any other text."""
    return text.id if isinstance(text, Message) else ""


def values_of(text: str) -> dict[str, Any]:
    """Return the values of a message, or {} for any other text."""
    return text.values if isinstance(text, Message) else {}


def ids_in(text: str) -> set[str]:
    """Return the ids of a message and of the messages in its values."""
    return {id_of(text)}.union(*(ids_in(value) for value in values_of(text).values() if isinstance(value, Message)))


def join_messages(messages: Iterable[str], joint: str = SENTENCES) -> str:
    """Return the non-empty messages as one, joined by the text of `joint`; "" without messages."""
    parts = [message for message in messages if message]
    return reduce(lambda first, second: Message(joint, first=first, second=second), parts) if parts else ""
