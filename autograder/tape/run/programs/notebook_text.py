"""The code of a Jupyter notebook as one text of plain Python, and changes of that text applied to the notebook."""

from __future__ import annotations

import ast
import getopt
import io
import json
import os
import re
import shlex
import sys
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import SequenceMatcher
from importlib.util import decode_source
from itertools import pairwise
from types import ModuleType
from typing import Any

from autograder.locale.messages import CLAUSES, Message, join_messages
from autograder.tape.internals.entry_points import replaced
from autograder.tape.run.programs.command_line import module_file, place_in_package
from autograder.tape.run.programs.source_text import ProgramError, compiled

# Magics that run Python in the namespace of the notebook, with patterns of their options. `%%explain` is defined here.
_OPTIONS = {
    "time": r"--no-raise-error",
    "timeit": r"-(?:[tcqov]*[nrp]\s*[\d_]+|[tcqov]+)",
    "prun": r"-(?:[rq]*[lsTD]\s*\S+|[rq]+)",
}
_CELL_MAGICS = (*_OPTIONS, "capture", "explain")
_WRITERS = ("writefile", "file")
_NOTEBOOKS = (".ipynb", ".ipy")  # files that `%run` runs as cells
_SHOWING = ("html", "HTML", "javascript", "js", "latex", "markdown", "svg", "SVG")  # cell magics that run no code
# Magics that IPython knows without `%`, if they are the only line of a cell. Those of the shell may also be valid Python.
_SHELL = ("cat", "cd", "cp", "ldir", "lf", "lk", "ll", "ls", "lx", "mkdir", "mv", "pwd", "rm", "rmdir", "who")
_LINE_MAGICS = (*_OPTIONS, "conda", "env", "load_ext", "matplotlib", "pip", "pylab", "reload_ext", "run", "set_env")
SHOWN = 4  # number of lines in a note
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_RUNS_CODE = re.compile(
    rf"%%(?!(?:{'|'.join((*_CELL_MAGICS, *_WRITERS, *_SHOWING))})\b)"
    r"|%(?:lprun|memit|mprun|px|snakeviz)\b"
    r"|(?:.*[=\s])?(?:!+|%(?:sx|system)\s)(?:.*[;&|(])?\s*(?:(?:\w+=\S*|env|exec|nohup|sudo|time)\s+)*"
    r"(?:(?:\S*/)?(?:i?python|pypy|bash|sh|torchrun|accelerate|deepspeed)[\d.]*|\{sys\.executable\}|\./\S+)(?=\s|$)"
    r"(?!\s+(?:-m\s+(?:pip|venv)\b|-V|--version))"
)
"""Magics and commands that run code, which `explain` does not."""


def python_of_cell(source: str) -> str:
    """Return the cell as Python, with each statement on its original line numbers.

    The code in `%time`, `%timeit`, `%prun` and in cells under `%%time`, `%%timeit`, `%%capture`, `%%prun` runs once.
    `%run` and `%%writefile` become the calls that IPython makes of them. Other magics and `!commands` become comments; if
    they are assigned, their values are None and [].
    """
    lines = source.replace("\r\n", "\n").split("\n")
    if len(source.splitlines()) == 1 and _is_automagic(lines[0].strip()):
        lines[0] = f"%{lines[0].strip()}"
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    magic = re.match(r"\s*%%(\w+)[ \t]*(.*)", lines[first])
    if magic and magic[1] in _WRITERS and lines[first + 1 :]:
        body = [repr(f"{line}\n") for line in lines[first + 1 : -1]] + [repr(lines[-1] and f"{lines[-1]}\n") + ")"]
        return "\n".join([*lines[:first], f"get_ipython().run_cell_magic({magic[1]!r}, {magic[2]!r},", *body])
    if magic and magic[1] not in _CELL_MAGICS:
        return "\n".join(f"# {line}" for line in lines)
    if magic:
        setup = _code_in(magic[1], magic[2]) if magic[1] in ("timeit", "prun") else None
        lines[first] = setup or f"# {lines[first]}"
    python: list[str] = []
    while len(python) < len(lines):  # each statement has as many lines as before
        python += _first_statement(lines[len(python) :])
    return "\n".join(python)


def _is_automagic(line: str) -> bool:
    """Return whether IPython reads the only line of a cell as a magic without its `%`, such as `ls -l | grep w`."""
    word, _, rest = line.partition(" ")
    if word not in (*_SHELL, *_LINE_MAGICS):
        return False
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return True
    # Python that shows a value: a variable may have such a name, but to leave the line out changes no other value.
    return word in _SHELL and isinstance(tree.body[0], ast.Expr) and (not rest or rest.startswith("-"))


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
    code = _code_in(name[1:], argument.strip()) if name[:1] == "%" else None
    if target:
        value = "[]" if name.startswith("!") else "None"
        once = f"{indent}{code}; {target.strip()} {value}" if code else f"{target}{value}"
        code = f"{target}{code}" if code and name == "%time" else once
    elif code:
        code = f"{indent}{code}"
    return [code, *_comments(lines[1:count])] if code else _comments(lines[:count])


def _code_in(magic: str, argument: str) -> str | None:
    """Return the Python that a magic runs, or None if it does not run Python."""
    if magic == "run":
        return f"get_ipython().run_line_magic('run', {argument!r})"
    if magic not in _OPTIONS:
        return None
    code = re.sub(rf"^(?:{_OPTIONS[magic]}\s+)*(?:--\s+)?", "", f"{argument} ").strip()
    if code.startswith("%run "):
        return _code_in("run", code[5:].strip())
    return code if code and code[0] not in "%!?" else None


def _comments(lines: list[str]) -> list[str]:
    """Return the lines as comments. The first line of an indented block becomes `pass`."""
    indents = [line[: len(line) - len(line.lstrip())] for line in lines[:1]]
    if not any(indents):
        return [f"# {line}" for line in lines]
    return [f"{indents[0]}pass  # {lines[0].lstrip()}", *(f"# {line}" for line in lines[1:])]


class SilentShell:
    """The result of `get_ipython()` in a notebook that `explain` runs: other magics than these, and commands, do nothing."""

    def getoutput(self, *_words: object) -> list[str]:
        """Return no output."""
        return []

    def run_line_magic(self, name: str, line: str, *_others: object) -> None:
        """Run the file of `%run`."""
        if name == "run":
            _run_file(_words_of(line))

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """Write the file of `%%writefile`."""
        if name in _WRITERS:
            words = _words_of(line)
            (file,) = (word for word in words if word not in ("-a", "--append"))
            with open(os.path.expanduser(file), "a" if len(words) > 1 else "w", encoding="utf-8") as target:
                target.write(cell)

    def __getattr__(self, name: str) -> object:
        return lambda *_words, **_options: None


def _words_of(line: str) -> list[str]:
    """Return the words after a magic, with the values of `{expression}` and `$name`, or as they are if one has no value."""
    space = vars(sys.modules["__main__"])
    with suppress(Exception):
        line = re.sub(r"\{(.+?)\}|\$(\w+)", lambda match: str(eval(match[1] or match[2], space)), line)
    return shlex.split(line)


def _run_file(words: list[str]) -> None:
    """Run a file as `%run` does: in a new module whose names the notebook gets, or with -i in the notebook's namespace."""
    if words[:1] == ["-m"]:
        words.insert(2, "--")  # the next words are the module's, as for `python -m`
    given, arguments = getopt.getopt(words, "nidtN:b:pD:l:rs:T:em:G")
    options, name = dict(given), "__main__"
    if "-m" in options:
        name, path = module_file(options["-m"])
    else:
        file, *arguments = arguments
        file = os.path.expanduser(file)
        path = os.path.abspath(file if os.path.isfile(file) or file.endswith((".py", *_NOTEBOOKS)) else f"{file}.py")
    shell = sys.modules["__main__"]
    module = ModuleType(os.path.basename(path).partition(".")[0] if "-n" in options else "__main__")
    if "-i" in options or path.endswith(_NOTEBOOKS):
        module = shell
    else:
        vars(module).update(NOTEBOOK_NAMES, __file__=path)
        place_in_package(module, name, path)
    with io.open_code(path) as opened:  # a trial replaces this function
        source = decode_source(opened.read())
    if path.endswith(_NOTEBOOKS):
        source = notebook_text(source, path) if path.endswith(".ipynb") else python_of_cell(source)
    with _started(module, path, arguments, ignores_exit="-e" in options):
        exec(compiled(source, path), vars(module))
    vars(shell).update({name: value for name, value in vars(module).items() if not name.startswith("__")})


@contextmanager
def _started(module: ModuleType, path: str, arguments: list[str], *, ignores_exit: bool) -> Iterator[None]:
    """Let the module be the program that Python has started with these arguments in the block."""
    shell, folder = sys.modules["__main__"], os.path.dirname(path)
    folders = [folder] if folder not in sys.path else []
    sys.path[:0] = folders
    sys.modules["__main__"] = module
    try:
        with replaced(sys, "argv", [path, *arguments]), replaced(module, "__file__", path):
            yield
    except SystemExit as end:
        if end.code and not ignores_exit:
            raise
    finally:
        sys.modules["__main__"] = shell
        for added in folders:
            sys.path.remove(added)


# The names that IPython binds before the first cell (IPython 9.18), without results of cells.
NOTEBOOK_NAMES: dict[str, object] = {
    "get_ipython": SilentShell, "display": lambda *_values, **_options: None,
    "In": [""], "Out": {}, "_ih": [""], "_oh": {}, **dict.fromkeys(("_", "__", "___"), ""),
}  # fmt: skip
HEADER = "# In ["  # start of the line above each cell's code; the cell's number and "]" follow


def notebook_text(content: str, file: str, cell: str | None = None, read: Callable[[str], str] = python_of_cell) -> str:
    """Return the text of the code cells up to and including `cell`, each below a comment with its number.

    `cell` is the 1-based number of a code cell, or its id; None for all. `read` returns the text of a cell's source, with
    as many lines.

    Raises:
        ProgramError: if the content is not a notebook, or has no such cell.
    """
    cells = _code_cells(content, file)
    last = len(cells) if cell is None else _number(cells, cell, file)
    parts = [f"{HEADER}{number}]\n{read(source_of(cell))}" for number, cell in enumerate(cells[:last], 1)]
    return "\n\n".join(parts) + "\n"


def _code_cells(content: str, file: str) -> list[dict[str, Any]]:
    try:
        cells = json.loads(content)["cells"]
        return [cell for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError):
        text = "notebook.not_format_4|{file} is not a notebook of format 4. Open and save it in JupyterLab."
        raise ProgramError.of(text, file=file) from None


def _number(cells: list[dict[str, Any]], cell: str, file: str) -> int:
    if cell.isdigit() and 1 <= int(cell) <= len(cells):
        return int(cell)
    numbers = [number for number, known in enumerate(cells, 1) if known.get("id") == cell]
    if numbers:
        return numbers[0]
    raise ProgramError.of(
        "notebook.no_cell|{file} has no code cell {cell}; it has {count}. Give a number from the top, or a cell's id.",
        file=file, cell=cell, count=len(cells),
    )  # fmt: skip


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


def note_on_other_code(content: str, file: str, text: str) -> str:
    """Return a note on the magics and commands that would run code which `notebook_text` leaves out, or ""."""
    lines = enumerate(zip(notebook_text(content, file, read=str).split("\n"), text.split("\n"), strict=False), 1)
    left_out = [
        Message("notebook.not_run|line {line}: `{code}` is not run", line=line, code=f"{before.strip():.60}")
        for line, (before, python) in lines if before != python and _RUNS_CODE.match(before.strip())
    ]  # fmt: skip
    more = "…" if len(left_out) > SHOWN else ""
    named = join_messages([*left_out[:SHOWN], more], CLAUSES)
    return named and Message("notebook.other_code|Magics and commands that run other code: {named}.", named=named)


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
