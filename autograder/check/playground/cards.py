"""The lines of a program as cards, and arrangements of them, as frozen data that can be encoded as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

FormName = Literal["as written", "in place", ".data", ".detach()", "out of place", "the tensor itself", "a copy"]


class LineForm(msgspec.Struct, frozen=True):
    """One way to write a line.

    Attributes:
        name: the kind of form.
        text: the statement, without indentation; it may have several lines.
    """

    name: FormName
    text: str


class LineCard(msgspec.Struct, frozen=True):
    """One statement of a program.

    Attributes:
        id: unique in the program.
        forms: the ways to write it, the original first; a write or an alias of a tensor has several.
        is_fixed: whether it keeps its place before or after the lines that can be moved.
    """

    id: str
    forms: tuple[LineForm, ...]
    is_fixed: bool = False


class PlacedCard(msgspec.Struct, frozen=True):
    """A card in an arrangement, and the index of its form."""

    card: str
    form: int = 0


class Arrangement(msgspec.Struct, frozen=True):
    """An order of cards, each in one of its forms.

    Attributes:
        lines: the cards, including the fixed ones; a card that is missing here is not in the program.
        edits: card id → the text that replaces its form.
    """

    lines: tuple[PlacedCard, ...]
    edits: dict[str, str] = {}

    @property
    def key(self) -> str:
        """A short text that is equal for equal arrangements, such as "0 1 3.2 2"; it does not include edits."""
        return " ".join(f"{line.card}.{line.form}" if line.form else line.card for line in self.lines)


class PlayProgram(msgspec.Struct, frozen=True):
    """A program whose lines can be moved and switched.

    Attributes:
        name: the id of the exercise or prediction that it comes from.
        cards: the cards in the order of the program.
        spare: ids of the cards that the given program omits: either all cards to be put in order, or ().
        header: the first line of the function that an exercise asks for, such as "def drain(buffer, total):"; ""
            without a function.
    """

    name: str
    cards: tuple[LineCard, ...]
    spare: tuple[str, ...] = ()
    header: str = ""

    @property
    def as_given(self) -> Arrangement:
        """The initial arrangement of the program."""
        return Arrangement(tuple(PlacedCard(card.id) for card in self.cards if card.id not in self.spare))

    @property
    def function_name(self) -> str:
        """The name of the function that an exercise asks for; "" without a function."""
        return self.header.removeprefix("def ").partition("(")[0]

    def card(self, identity: str) -> LineCard:
        """Return the card with this id; raise KeyError if it does not exist."""
        return {card.id: card for card in self.cards}[identity]
