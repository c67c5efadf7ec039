"""The lines of a program as cards, and an arrangement of them: frozen data, and their JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

FormName = Literal["as written", "in place", ".data", ".detach()", "out of place", "the tensor itself", "a copy"]


class LineForm(msgspec.Struct, frozen=True):
    """One way to write a line.

    Attributes:
        text: the statement, without indentation; it may have several lines.
    """

    name: FormName
    text: str


class LineCard(msgspec.Struct, frozen=True):
    """One statement of a program.

    Attributes:
        id: unique in the program.
        forms: the ways to write it, as the program writes it first; more than one for a write, and for an alias of a tensor.
        is_fixed: it keeps its place before or after the lines that move.
    """

    id: str
    forms: tuple[LineForm, ...]
    is_fixed: bool = False


class PlacedCard(msgspec.Struct, frozen=True):
    """A card in an arrangement, and which of its forms it has, counted from 0."""

    card: str
    form: int = 0


class Arrangement(msgspec.Struct, frozen=True):
    """An order of cards, each in one of its forms.

    Attributes:
        lines: the fixed cards too; a card that is missing here is not in the program.
        edits: card id → the text that stands there instead of its form.
    """

    lines: tuple[PlacedCard, ...]
    edits: dict[str, str] = {}

    @property
    def key(self) -> str:
        """A short text that is equal for equal arrangements, such as "0 1 3.2 2"; edits are not in it."""
        return " ".join(f"{line.card}.{line.form}" if line.form else line.card for line in self.lines)


class PlayProgram(msgspec.Struct, frozen=True):
    """A program whose lines can be moved and switched.

    Attributes:
        name: the id of the exercise or prediction that it comes from.
        cards: in the order of the program.
        spare: ids of the cards that the program as given leaves out: either all cards to be put in order, or ().
        header: the first line of the function that an exercise asks for, such as "def drain(buffer, total):"; "" without a function.
    """

    name: str
    cards: tuple[LineCard, ...]
    spare: tuple[str, ...] = ()
    header: str = ""

    @property
    def as_given(self) -> Arrangement:
        """The arrangement that the program starts with."""
        return Arrangement(tuple(PlacedCard(card.id) for card in self.cards if card.id not in self.spare))

    @property
    def function_name(self) -> str:
        """The name of the function that an exercise asks for; "" without a function."""
        return self.header.removeprefix("def ").partition("(")[0]

    def card(self, identity: str) -> LineCard:
        """Return the card with this id; raise KeyError if there is no such card."""
        return {card.id: card for card in self.cards}[identity]
