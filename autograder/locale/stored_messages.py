"""Messages as plain data next to the English texts of a recording or grade, for JSON and msgpack."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from autograder.locale.messages import Message


class StoredMessage(msgspec.Struct, frozen=True):
    """The id and the values of a text that is stored in English; see `Message`."""

    text: str
    id: str
    values: dict[str, str | int | float | StoredMessage] = {}

    def message(self) -> Message:
        """Return the message with this English text, id and values."""
        values = {
            key: value.message() if isinstance(value, StoredMessage) else value for key, value in self.values.items()
        }
        english = self.text.replace("{", "{{").replace("}", "}}") if values else self.text
        return Message(f"{self.id}|{english}", **values)


def stored(*texts: str | None) -> tuple[StoredMessage, ...]:
    """Return those texts that are messages as plain data."""
    return tuple(_stored(text) for text in texts if isinstance(text, Message))


def _stored(message: Message) -> StoredMessage:
    values = {key: _stored(value) if isinstance(value, Message) else value for key, value in message.values.items()}
    return StoredMessage(message.text, message.id, values)


def with_stored(data: Any, known: Iterable[StoredMessage] = ()) -> tuple[Any, tuple[StoredMessage, ...]]:
    """Return a copy of structs and lists as plain data, without messages, and their messages in order."""
    by_text = {message.text: message for message in known}

    def plain(text: Message) -> str:
        by_text[text.text] = _stored(text)
        return text.text

    return msgspec.to_builtins(data, enc_hook=plain), tuple(by_text.values())


def read_stored(data: Any) -> tuple[StoredMessage, ...]:
    """Return messages from the JSON of a graded notebook; () for anything else."""
    try:
        return msgspec.convert(data, tuple[StoredMessage, ...])
    except msgspec.ValidationError:
        return ()
