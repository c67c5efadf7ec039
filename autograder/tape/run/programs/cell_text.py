"""Convert the code of a notebook cell to Python, line by line: IPython's magics, `!commands` and `?` are replaced."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise

# Magics that run Python in the namespace of the notebook, with patterns of their options. `%%explain` is defined here.
_OPTIONS = {
    "time": r"--no-raise-error",
    "timeit": r"-(?:[tcqov]*[nrp]\s*[\d_]+|[tcqov]+)",
    "prun": r"-(?:[rq]*[lsTD]\s*\S+|[rq]+)",
}
_CELL_MAGICS = (*_OPTIONS, "capture", "explain")
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")


def python_of_cell(source: str) -> str:
    """Return the cell as Python, with each statement on its original line numbers.

    The code in `%time`, `%timeit`, `%prun` and in cells under `%%time`, `%%timeit`, `%%capture`, `%%prun` runs once.
    Other magics and `!commands` become comments; if they are assigned, their values are None and [].
    """
    lines = source.replace("\r\n", "\n").split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    magic = re.match(r"\s*%%(\w+)[ \t]*(.*)", lines[first])
    if magic and magic[1] not in _CELL_MAGICS:
        return "\n".join(f"# {line}" for line in lines)
    if magic:
        setup = _code_in(magic[1], magic[2]) if magic[1] in ("timeit", "prun") else None
        lines[first] = setup or f"# {lines[first]}"
    return "\n".join(_python_lines(lines))


def _python_lines(lines: list[str]) -> Iterator[str]:
    done = 0
    while done < len(lines):
        python = _first_statement(lines[done:])
        yield from python
        done += len(python)


def _first_statement(lines: list[str]) -> list[str]:
    """Return the Python of the first statement, on as many lines, or the first line of a text that is not Python."""
    text = lines[0].lstrip()
    if not text or text.startswith("#"):
        return lines[:1]
    if text[0] in "%!?":
        return _replaced(lines, "")
    tokens = _first_tokens(lines)
    if (target := _assigned_magic(tokens)) is not None:
        row, column = target
        return _replaced(lines, lines[row - 1][:column]) if row == 1 else lines[:1]
    if not tokens or tokens[-1].type != tokenize.NEWLINE:
        return lines[:1]
    count = tokens[-1].start[0]
    asks_for_help = len(tokens) > 2 and tokens[-2].string == "?"
    return _comments(lines[:count]) if asks_for_help else lines[:count]


def _first_tokens(lines: list[str]) -> list[tokenize.TokenInfo]:
    """Return the tokens of the first logical line, or those before an error. The rest of the text is not read."""
    tokens: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(iter([f"{line}\n" for line in lines]).__next__):
            # Python 3.11 produces a token for a space before `!` and `?`.
            if token.type not in (tokenize.INDENT, tokenize.DEDENT) and token.string != " ":
                tokens.append(token)
            if token.type == tokenize.NEWLINE:
                break
    except (tokenize.TokenError, SyntaxError):
        pass
    return tokens


def _assigned_magic(tokens: list[tokenize.TokenInfo]) -> tuple[int, int] | None:
    """Return the position of the `!` or `%` that begins the right side of an assignment, or None."""
    depth = 0
    for token, following in pairwise(tokens):
        if token.type != tokenize.OP:
            continue
        depth += (token.string in _OPENING) - (token.string in _CLOSING)
        if token.string == "=" and not depth:
            return following.start if following.string in ("!", "%") else None
    return None


def _replaced(lines: list[str], target: str) -> list[str]:
    """Return the Python of a magic or command that begins after `target`, which ends with `=` or is empty."""
    count = 1
    while lines[count - 1].endswith("\\") and count < len(lines):
        count += 1
    whole = " ".join(line.removesuffix("\\") for line in lines[:count])
    name, _, argument = whole[len(target) :].strip().partition(" ")
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    code = _code_in(name[1:], argument.strip()) if name[1:] in _OPTIONS else None
    if target:
        value = "[]" if name.startswith("!") else "None"
        once = f"{indent}{code}; {target.strip()} {value}" if code else f"{target}{value}"
        code = f"{target}{code}" if code and name == "%time" else once
    elif code:
        code = f"{indent}{code}"
    return [code, *_comments(lines[1:count])] if code else _comments(lines[:count])


def _code_in(magic: str, argument: str) -> str | None:
    """Return the Python that a magic runs, or None if it does not run Python."""
    code = re.sub(rf"^(?:{_OPTIONS[magic]}\s+)*(?:--\s+)?", "", f"{argument} ").strip()
    return code if code and code[0] not in "%!?" else None


def _comments(lines: list[str]) -> list[str]:
    """Return the lines as comments. The first line of an indented block becomes `pass`."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines[:1]]
    if not any(indents):
        return [f"# {line}" for line in lines]
    return [f"{indents[0]}pass  # {lines[0].lstrip()}", *(f"# {line}" for line in lines[1:])]


class SilentShell:
    """The result of `get_ipython()` in a notebook that `explain` runs: magics and commands do nothing."""

    def getoutput(self, *_words: object) -> list[str]:
        """Return no output."""
        return []

    def __getattr__(self, name: str) -> object:
        return lambda *_words, **_options: None


def display(*_values: object, **_options: object) -> None:
    """Do nothing."""


NOTEBOOK_NAMES: dict[str, object] = {"get_ipython": SilentShell, "display": display}
