"""Apply a change of a notebook's joined code to the notebook itself."""

from __future__ import annotations

import json
import re
from difflib import SequenceMatcher
from typing import Any

from autograder.locale.translations import in_english
from autograder.tape.run.programs.cell_text import python_of_cell
from autograder.tape.run.programs.notebook_text import HEADER, source_of

_HEADER = re.compile(rf"^{re.escape(HEADER)}(\d+)\]\n", re.MULTILINE)


def changed_notebook(content: str, text: str) -> str:
    """Return a notebook, as JSON, whose cells contain the parts of a changed `notebook_text` with their numbers.

    Magics and all other content of the notebook stay unchanged.
    """
    notebook = json.loads(content)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    _, *parts = _HEADER.split(text)
    for number, body in zip(parts[::2], parts[1::2], strict=True):
        cell = cells[int(number) - 1]
        before, after = source_of(cell), _with_magics(source_of(cell), body.rstrip("\n"))
        if after != before.rstrip("\n"):
            tail = before[len(before.rstrip("\n")) :]
            cell["source"] = _as_before(cell["source"], after + tail)
    return _written_like(content, notebook)


def place_in_cell(text: str, line: int) -> str:
    """Return the cell and the line in it of a line of `notebook_text`, in words."""
    headers = [at for at, one in enumerate(text.split("\n"), 1) if one.startswith(HEADER) and at < line]
    if not headers:
        return in_english("line {line}", line=line)
    return in_english("cell {cell}, line {line}", cell=len(headers), line=line - headers[-1])


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


def _as_before(old: Any, source: str) -> Any:
    """Return a source as a string or a list of lines, as in the notebook."""
    return source if isinstance(old, str) else source.splitlines(keepends=True)


def _written_like(content: str, notebook: Any) -> str:
    """Return the notebook as JSON in the layout of `content`, so that unchanged parts stay the same."""
    before, end = json.loads(content), content[len(content.rstrip("\n")) :]
    layouts: list[dict[str, Any]] = [
        {"indent": indent, "ensure_ascii": escaped} for indent in (1, 2, 4, None) for escaped in (False, True)
    ]
    like = next((one for one in layouts if json.dumps(before, **one) + end == content), layouts[0])
    return json.dumps(notebook, **like) + end
