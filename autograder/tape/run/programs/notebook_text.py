"""The code of a Jupyter notebook as one text of plain Python, and changes of that text applied to the notebook."""

from __future__ import annotations

import json
import re
import tokenize
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from autograder.locale.messages import Message
from autograder.tape.run.programs.source_text import ProgramError

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


HEADER = "# In ["  # start of the line above each cell's code; the cell's number and "]" follow


def notebook_text(content: str, file: str, cell: str | None = None) -> str:
    """Return the text of the code cells up to and including `cell`, each below a comment with its number.

    `python_of_cell` replaces magics and `!commands`. `cell` is the 1-based number of a code cell, or its id; None for all.

    Raises:
        ProgramError: if the content is not a notebook, or has no such cell.
    """
    cells = _code_cells(content, file)
    last = len(cells) if cell is None else _number(cells, cell, file)
    parts = [f"{HEADER}{number}]\n{python_of_cell(source_of(one))}" for number, one in enumerate(cells[:last], 1)]
    return "\n\n".join(parts) + "\n"


def _code_cells(content: str, file: str) -> list[dict[str, Any]]:
    try:
        cells = json.loads(content)["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        raise ProgramError.of(
            "notebook.not_format_4|{file} is not a notebook of format 4. Open and save it in JupyterLab.", file=file
        ) from None


def _number(cells: list[dict[str, Any]], cell: str, file: str) -> int:
    if cell.isdigit() and 1 <= int(cell) <= len(cells):
        return int(cell)
    numbers = [number for number, known in enumerate(cells, 1) if known.get("id") == cell]
    if numbers:
        return numbers[0]
    raise ProgramError.of(
        "notebook.no_cell|{file} has no code cell {cell}; it has {count}. Give a number from the top, or a cell's id.",
        file=file,
        cell=cell,
        count=len(cells),
    )


def source_of(cell: dict[str, Any]) -> str:
    """Return a cell's source as a string."""
    source = cell.get("source", "")
    return source if isinstance(source, str) else "".join(source)


_HEADER = re.compile(rf"^{re.escape(HEADER)}(\d+)\]\n", re.MULTILINE)


def changed_notebook(content: str, text: str) -> str:
    """Return a notebook, as JSON, with the parts of a changed `notebook_text` in its cells. Magics and all else stay unchanged."""
    notebook = json.loads(content)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    _, *parts = _HEADER.split(text)
    for number, body in zip(parts[::2], parts[1::2], strict=True):
        cell = cells[int(number) - 1]
        before, after = source_of(cell), _with_magics(source_of(cell), body.rstrip("\n"))
        if after != before.rstrip("\n"):
            whole = after + before[len(before.rstrip("\n")) :]
            cell["source"] = whole if isinstance(cell["source"], str) else whole.splitlines(keepends=True)
    return _written_like(content, notebook)


def place_in_cell(text: str, line: int) -> str:
    """Return the cell and the line in it of a line of `notebook_text`, in words."""
    headers = [at for at, text_line in enumerate(text.split("\n"), 1) if text_line.startswith(HEADER) and at < line]
    if not headers:
        return Message("place.line|line {line}", line=line)
    return Message("place.in_cell|cell {cell}, line {line}", cell=len(headers), line=line - headers[-1])


def _with_magics(before: str, after: str) -> str:
    """Return a cell's changed code with the magics of its source, which the code does not have."""
    raw, old, new = before.replace("\r\n", "\n").split("\n"), python_of_cell(before).split("\n"), after.split("\n")
    lines: list[str] = []
    for kind, start, stop, new_start, new_stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        changed = new[new_start:new_stop]
        if kind == "equal":
            changed = raw[start:stop]
        elif len(changed) == stop - start:
            changed = [_like(*three) for three in zip(raw[start:stop], old[start:stop], changed, strict=True)]
        lines += changed
    return "\n".join(lines)


def _like(raw: str, old: str, new: str) -> str:
    """Return a changed line after the magic of the original line, such as `%time `, if it has one."""
    code = old.strip()
    return raw.removesuffix(code) + new.strip() if raw != old and raw.endswith(code) else new


def _written_like(content: str, notebook: Any) -> str:
    """Return the notebook as JSON in the layout of `content`, so that unchanged parts stay the same."""
    before, end = json.loads(content), content[len(content.rstrip("\n")) :]
    layouts: list[dict[str, Any]] = [
        {"indent": indent, "ensure_ascii": escaped} for indent in (1, 2, 4, None) for escaped in (False, True)
    ]
    like = next((layout for layout in layouts if json.dumps(before, **layout) + end == content), layouts[0])
    return json.dumps(notebook, **like) + end
