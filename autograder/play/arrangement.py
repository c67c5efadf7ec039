"""Which arrangements of a program are offered, and the text of each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import islice

from autograder.play.cards import Arrangement, PlacedCard, PlayProgram

MOST = 300
"""Arrangements of one program that are offered: a table of them stays small enough to be sent."""


def arrangements(program: PlayProgram, most: int = MOST) -> list[Arrangement]:
    """Returns the arrangements that are offered, the one given first.

    For a program with spare cards: every order of cards in which each name is bound before it is read, and that returns. For any
    other: each form of each line at each such place, the other lines as given.
    """
    found = _orders(program) if program.spare else _moves(program)
    return list(islice(_once_each(found), most))


def _once_each(found: Iterable[Arrangement]) -> Iterator[Arrangement]:
    known = set()
    for arrangement in found:
        if arrangement.key not in known:
            known.add(arrangement.key)
            yield arrangement


def text_of(program: PlayProgram, arrangement: Arrangement) -> str:
    """Returns the program's text; a return is replaced by the backward call from what it returns."""
    return "\n".join(as_run(text) for _, text in placed_texts(program, arrangement)) + "\n"


def answer_text(program: PlayProgram, arrangement: Arrangement) -> str:
    """Returns the function that the arrangement is an answer with, to be written into a cell."""
    fixed = {card.id for card in program.cards if card.is_fixed}
    body = [text for card, text in placed_texts(program, arrangement) if card not in fixed] or ["..."]
    lines = [line for text in body for line in text.splitlines()]
    return "\n".join([program.header, *(f"    {line}" for line in lines)])


def placed_texts(program: PlayProgram, arrangement: Arrangement) -> list[tuple[str, str]]:
    """Returns each card's id with its text, in order."""
    forms = {card.id: card.forms for card in program.cards}
    return [
        (placed.card, arrangement.edits.get(placed.card, forms[placed.card][placed.form].text))
        for placed in arrangement.lines
    ]


def as_run(text: str) -> str:
    """Returns a statement as it is run outside a function: `return a, b` becomes `(a.sum() + b.sum()).backward()`.

    It has as many lines as before.
    """
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, IndexError):
        return text
    if not isinstance(statement, ast.Return) or statement.value is None:
        return text
    value = statement.value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    sums = [f"{ast.unparse(part)}.sum()" if _is_simple(part) else f"({ast.unparse(part)}).sum()" for part in parts]
    whole = sums[0] if len(sums) == 1 else f"({' + '.join(sums)})"
    return f"{whole}.backward()" + "\n" * text.count("\n")


def _is_simple(part: ast.expr) -> bool:
    """Whether a dot can follow the expression."""
    return isinstance(part, ast.Name | ast.Attribute | ast.Call | ast.Subscript)


def _moves(program: PlayProgram) -> Iterator[Arrangement]:
    """Yields the program as given, then each line that can be switched in each form at each place."""
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
    """Yields each order of the spare cards that ends in a return, the shortest first where one begins another."""
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
    """Which names each card of a program binds and reads, to tell whether an order binds each before it is read."""

    def __init__(self, program: PlayProgram):
        texts = {(card.id, number): form.text for card in program.cards for number, form in enumerate(card.forms)}
        self._uses = {key: _names(text) for key, text in texts.items()}
        self._all = {name for binds, _ in self._uses.values() for name in binds}

    def are_bound_in(self, lines: Iterable[PlacedCard]) -> bool:
        """Returns whether every name that a line of the program binds is bound by an earlier line than those that read it."""
        bound: set[str] = set()
        for placed in lines:
            binds, reads = self._uses[placed.card, placed.form]
            if reads & self._all - bound:
                return False
            bound |= binds
        return True


def _names(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Returns the names that a statement binds, and those that it reads without binding them for itself only."""
    nodes = list(ast.walk(ast.parse(text)))
    binds = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own = {
        name.id
        for node in nodes
        if isinstance(node, ast.comprehension | ast.For)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }
    own |= {argument.arg for node in nodes if isinstance(node, ast.arguments) for argument in node.args}
    reads = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    reads |= {node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
    binds |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return frozenset(binds - own), frozenset(reads - own)
