"""Programs to play with, from a text, a function, or lines that are to be put in order."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator

from autograder.errors import InputError
from autograder.locale.translations import in_english
from autograder.play.cards import LineCard, LineForm, PlayProgram
from autograder.play.line_forms import forms_of


class Unplayable(InputError):
    """The program has no lines that could be moved; the message says why."""


def program_from_text(name: str, text: str, before: Iterable[str] = ()) -> PlayProgram:
    """Returns the program whose lines are the statements of a text.

    Args:
        before: statements that make what the text starts from; they keep their place.

    Raises:
        Unplayable: it is not Python, or has fewer than two statements.
    """
    fixed = [LineCard(f"{number}", (LineForm("as written", line),), True) for number, line in enumerate(before)]
    lines = list(statements(text, name))
    if len(lines) < 2:
        raise Unplayable(
            in_english("{name} has fewer than two lines, so none can be moved. Give a longer program.", name=name)
        )
    cards = [LineCard(f"{number}", forms_of(line)) for number, line in enumerate(lines, len(fixed))]
    return PlayProgram(name, (*fixed, *cards))


def program_from_function(name: str, source: str, before: Iterable[str] = ()) -> PlayProgram:
    """Returns the program that a function's body is; what it returns is what backward starts from, unless it runs one itself.

    Args:
        source: the function's own text; a decorator and a docstring are left out.
        before: statements that make its arguments.

    Raises:
        Unplayable: the text is no function, or its body has fewer than two statements.
    """
    tree = _parsed(textwrap.dedent(source), name)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise Unplayable(
            in_english("{name} is no function, so it has no lines that could be moved. Name a function.", name=name)
        )
    body = function.body[1:] if ast.get_docstring(function) else function.body
    lines = textwrap.dedent(source).splitlines()
    text = textwrap.dedent("\n".join(lines[body[0].lineno - 1 : body[-1].end_lineno]) if body else "")
    if ".backward(" in text and isinstance(body[-1], ast.Return):
        text = "\n".join(text.splitlines()[: body[-1].lineno - body[0].lineno])
    return program_from_text(name, text, before)


def program_from_lines(
    name: str, lines: Iterable[str], header: str = "", before: Iterable[str] = (), spare: bool = True
) -> PlayProgram:
    """Returns the program to be made from lines that stand in no order, of which not all may be needed.

    Args:
        lines: one statement each.
        header: the first line of the function that they are the body of.
        before: statements that make the function's arguments.
        spare: whether the program starts empty.

    Raises:
        Unplayable: a line is not Python.
    """
    fixed = [LineCard(f"{number}", (LineForm("as written", line),), True) for number, line in enumerate(before)]
    cards = []
    for number, line in enumerate(lines, len(fixed)):
        _parsed(line, name)
        cards.append(LineCard(f"{number}", (LineForm("as written", line),)))
    return PlayProgram(name, (*fixed, *cards), tuple(card.id for card in cards) if spare else (), header)


def statements(text: str, name: str) -> Iterator[str]:
    """Yields each statement of a text with the comment behind it; those that share a line stay together."""
    lines, last = text.splitlines(), 0
    for node in _parsed(text, name).body:
        if node.lineno > last:
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
            last = node.end_lineno or node.lineno
            yield "\n".join(lines[first - 1 : last])


def _parsed(text: str, name: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        told = in_english(
            "{file} is not Python: {reason} on line {line}. Correct that line.",
            file=name,
            reason=error.msg,
            line=error.lineno,
        )
        raise Unplayable(told) from None
