"""Programs for the playground, from a source text, a function, or lines to put in order."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator

from autograder.errors import InputError
from autograder.locale.translations import in_english
from autograder.play.cards import LineCard, LineForm, PlayProgram
from autograder.play.line_forms import forms_of


class Unplayable(InputError):
    """The program has no lines that can be moved; the message gives the reason."""


def program_from_text(name: str, text: str, before: Iterable[str] = ()) -> PlayProgram:
    """Return the program whose lines are the statements of a text.

    Args:
        name: the name of the program.
        text: the source.
        before: statements that create the program's inputs; they keep their place.

    Raises:
        Unplayable: the text is not Python, or has fewer than two statements.
    """
    fixed = [LineCard(f"{number}", (LineForm("as written", line),), True) for number, line in enumerate(before)]
    lines = list(statements(text, name))
    if len(lines) < 2:
        raise Unplayable(
            in_english("{name} has fewer than two lines, so no line can be moved. Give a longer program.", name=name)
        )
    cards = [LineCard(f"{number}", forms_of(line)) for number, line in enumerate(lines, len(fixed))]
    return PlayProgram(name, (*fixed, *cards))


def program_from_function(name: str, source: str, before: Iterable[str] = ()) -> PlayProgram:
    """Return the program in a function's body; backward starts from the returned value, unless the body calls backward itself.

    Args:
        name: the name of the program.
        source: the function's source; its decorators and docstring are omitted.
        before: statements that create its arguments.

    Raises:
        Unplayable: the text is not a function, or its body has fewer than two statements.
    """
    tree = _parsed(textwrap.dedent(source), name)
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise Unplayable(
            in_english("{name} is not a function, so it has no lines that can be moved. Name a function.", name=name)
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
    """Return the program to be built from unordered lines, some of which may not be needed.

    Args:
        name: the name of the program.
        lines: one statement each.
        header: the first line of the function whose body they form.
        before: statements that create the function's arguments.
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
    """Yield each statement of a text with its trailing comment; statements on the same line stay together."""
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
