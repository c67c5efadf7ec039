"""The arrangements of a program that are offered, the source of each, and its run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
import torch
from msgspec import structs
from torch import nn

from autograder.tape import record
from autograder.tape.recording.schema import Recording

FormName = Literal["as written", "in place", ".data", ".detach()", "out of place", "the tensor itself", "a copy"]


class LineForm(msgspec.Struct, frozen=True):
    """A form in which a student may write a line, such as in place or out of place."""

    name: FormName  # the kind of form
    text: str  # the statement, without indentation; it may have several lines


class LineCard(msgspec.Struct, frozen=True):
    """A statement that a student may move, or write in another form."""

    id: str  # unique in the program
    forms: tuple[LineForm, ...]  # the ways to write it, the original first; a write or an alias of a tensor has several
    is_fixed: bool = False  # whether it keeps its place before or after the lines that can be moved


class PlacedCard(msgspec.Struct, frozen=True):
    """A card in an arrangement, and the index of its form."""

    card: str
    form: int = 0


class Arrangement(msgspec.Struct, frozen=True):
    """An order of cards, each in one of its forms."""

    # the cards, including the fixed ones; a card that is missing here is not in the program
    lines: tuple[PlacedCard, ...]
    edits: dict[str, str] = {}  # card id → the text that replaces its form

    @property
    def key(self) -> str:
        """A short text that is equal for equal arrangements, such as "0 1 3.2 2"; it does not include edits."""
        return " ".join(f"{line.card}.{line.form}" if line.form else line.card for line in self.lines)


class PlayProgram(msgspec.Struct, frozen=True):
    """A program whose lines can be moved and switched."""

    name: str  # the id of the exercise or prediction that it comes from
    cards: tuple[LineCard, ...]  # the cards in the order of the program
    # ids of the cards that the given program omits: either all cards to be put in order, or ()
    spare: tuple[str, ...] = ()
    # the first line of the function that an exercise asks for, such as "def drain(buffer, total):"; "" without a
    # function
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
        """Return the card with this id. Raise KeyError if it does not exist."""
        return {card.id: card for card in self.cards}[identity]


def arrangements(program: PlayProgram, most: int) -> list[Arrangement]:
    """Return at most `most` arrangements that are offered, the given one first.

    For a program with spare cards, these are all orders of cards in which each name is bound before it is read, and
    that return. For other programs, each line is moved to each such place in each of its forms, with the other lines as
    given.
    """
    by_key: dict[str, Arrangement] = {}
    for arrangement in _orders(program) if program.spare else _moves(program):
        by_key.setdefault(arrangement.key, arrangement)
        if len(by_key) == most:
            break
    return list(by_key.values())


def text_of(program: PlayProgram, arrangement: Arrangement) -> str:
    """Return the program's source; a return statement is replaced with a backward call from the returned value."""
    return "\n".join(executable_text(text) for _, text in placed_texts(program, arrangement)) + "\n"


def answer_text(program: PlayProgram, arrangement: Arrangement) -> str:
    """Return the source of the function that the arrangement defines, to be written into a cell."""
    fixed = {card.id for card in program.cards if card.is_fixed}
    body = [text for card, text in placed_texts(program, arrangement) if card not in fixed] or ["..."]
    lines = [line for text in body for line in text.splitlines()]
    return "\n".join([program.header, *(f"    {line}" for line in lines)])


def placed_texts(program: PlayProgram, arrangement: Arrangement) -> list[tuple[str, str]]:
    """Return each card's id with its text, in order."""
    texts = {(card.id, number): form.text for card in program.cards for number, form in enumerate(card.forms)}
    return [(line.card, arrangement.edits.get(line.card, texts[line.card, line.form])) for line in arrangement.lines]


def shifted(program: PlayProgram, arrangement: Arrangement, code: str, by: int) -> Arrangement:
    """Return the arrangement with the statement that has the line `code` moved by `by` places, past no fixed card.

    A negative number moves it to an earlier place; if no statement has this line, the arrangement is unchanged.
    """
    lines, fixed = list(arrangement.lines), {card.id for card in program.cards if card.is_fixed}
    texts = [executable_text(text).splitlines() for _, text in placed_texts(program, arrangement)]
    at = next((place for place, text in enumerate(texts) if code in map(str.strip, text)), None)
    if at is None or lines[at].card in fixed:
        return arrangement
    movable = [place for place, line in enumerate(lines) if line.card not in fixed]
    lines.insert(min(max(at + by, movable[0]), movable[-1]), lines.pop(at))
    return structs.replace(arrangement, lines=tuple(lines))


def executable_text(text: str) -> str:
    """Return a statement as it is run outside a function, on as many lines: `return a, b` becomes `(a.sum() + b.sum()).backward()`."""
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return text
    if not isinstance(statement, ast.Return) or statement.value is None:
        return text
    value = statement.value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    simple = ast.Name | ast.Attribute | ast.Call | ast.Subscript  # a dot can follow these
    texts = [ast.unparse(part) if isinstance(part, simple) else f"({ast.unparse(part)})" for part in parts]
    sums = [f"{text}.sum()" for text in texts]
    whole = sums[0] if len(sums) == 1 else f"({' + '.join(sums)})"
    return f"{whole}.backward()" + "\n" * text.count("\n")


def _moves(program: PlayProgram) -> Iterator[Arrangement]:
    """Yield the program as given, then each line with several forms, in each form at each place."""
    yield program.as_given
    home = list(program.as_given.lines)
    names = BoundNames(program)
    free = [index for index, placed in enumerate(home) if not program.card(placed.card).is_fixed]
    for index in free:
        card = program.card(home[index].card)
        others = home[:index] + home[index + 1 :]
        for place in free if len(card.forms) > 1 else ():
            for form in range(len(card.forms)):
                lines = (*others[:place], PlacedCard(card.id, form), *others[place:])
                if names.are_bound_in(lines):
                    yield Arrangement(lines)


def _orders(program: PlayProgram) -> Iterator[Arrangement]:
    """Yield each order of the spare cards that ends in a return statement, a shorter order before its extensions."""
    names = BoundNames(program)
    start = program.as_given.lines
    waiting = [(start, tuple(program.spare))]
    yield program.as_given
    while waiting:
        lines, left = waiting.pop()
        for card in left:
            longer = (*lines, PlacedCard(card))
            if not names.are_bound_in(longer):
                continue
            if program.card(card).forms[0].text.startswith("return"):
                yield Arrangement(longer)
            else:
                waiting.append((longer, tuple(other for other in left if other != card)))


class BoundNames:
    """The names that each card of a program binds and reads, with which an order of cards is checked."""

    def __init__(self, program: PlayProgram):
        texts = {(card.id, number): form.text for card in program.cards for number, form in enumerate(card.forms)}
        self._uses = {key: _names(text) for key, text in texts.items()}
        self._all = {name for binds, _ in self._uses.values() for name in binds}

    def are_bound_in(self, lines: Iterable[PlacedCard]) -> bool:
        """Return whether each name that the program binds is bound by an earlier line than those that read it."""
        bound: set[str] = set()
        for placed in lines:
            binds, reads = self._uses[placed.card, placed.form]
            if reads & self._all - bound:
                return False
            bound |= binds
        return True


def _names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a statement binds, and those that it reads except for its own local names."""
    nodes = list(ast.walk(ast.parse(text)))
    binds = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local = {
        name.id
        for node in nodes
        if isinstance(node, ast.comprehension | ast.For)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    local |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    reads = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    reads |= {node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
    binds |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return frozenset(binds - local), frozenset(reads - local)


NAMES: dict[str, Any] = {"torch": torch, "nn": nn, "F": nn.functional}
"""The names that every program may use without an import, as in the lessons' first cells."""


def run(program: PlayProgram, arrangement: Arrangement, names: dict[str, Any], seconds: float) -> Recording:
    """Return the recording of the arrangement, with a verdict from several runs of its source, each of at most `seconds`.

    It may use `names` in addition to torch, nn and F; each run gets copies.

    Raises:
        ProgramError: it is not Python, or exceeds the time limit.
    """
    text = text_of(program, arrangement)
    return record(text, file=program.name, names=NAMES | names, seconds=seconds)
