# ruff: noqa: E501 - a submission's text, or a row of a table, is easier to read on one line
"""Attacks and accidents that lie in the files themselves: metadata, JSON, links, pipes. All with wrong answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tests.grade.hostile.lesson import ASSIGNMENT, WRONG, submitted

Write = Callable[[Path], None]
NAME = f"{ASSIGNMENT}.ipynb"


def _notebook(change: Callable[[NotebookNode], None]) -> Write:
    def write(folder: Path) -> None:
        notebook = submitted(WRONG)
        change(notebook)
        (folder / NAME).write_text(json.dumps(notebook), "utf-8")

    return write


def _bytes(change: Callable[[bytes], bytes]) -> Write:
    return lambda folder: (folder / NAME).write_bytes(change(nbformat.writes(submitted(WRONG)).encode()))  # type: ignore[return-value]


def _beside(files: dict[str, str]) -> Write:
    def write(folder: Path) -> None:
        (folder / NAME).write_text(nbformat.writes(submitted(WRONG)), "utf-8")
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")

    return write


def _instead(make: Callable[[Path], None]) -> Write:
    return lambda folder: make(folder / NAME)


def _links(folder: Path) -> None:
    notebook = submitted(WRONG)
    notebook.cells.insert(
        1, nbformat.v4.new_code_cell("print(open('data.txt', 'rb').read()[:100])\nprint('LEAKED link')")
    )
    (folder / NAME).write_text(nbformat.writes(notebook), "utf-8")
    (folder / "data.txt").symlink_to(folder.parents[2] / "gradebook.db")
    (folder / "up").symlink_to(folder.parents[2])


def _every(change: Callable[[NotebookNode], None]) -> Callable[[NotebookNode], None]:
    def apply(notebook: NotebookNode) -> None:
        for cell in notebook.cells:
            if "nbgrader" in cell.metadata:
                change(cell)

    return apply


def _without(*names: str) -> Callable[[NotebookNode], None]:
    def apply(notebook: NotebookNode) -> None:
        notebook.cells = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") not in names]

    return apply


def _set(**values: object) -> Callable[[NotebookNode], None]:
    return _every(lambda cell: cell.metadata.nbgrader.update(values))


def _twice(notebook: NotebookNode) -> None:
    notebook.cells += [json.loads(json.dumps(cell)) for cell in notebook.cells if "nbgrader" in cell.metadata]


def _emptied(cell: NotebookNode) -> None:
    if cell.metadata.nbgrader.grade:
        cell.source = "pass"


def _many_cells(notebook: NotebookNode) -> None:
    notebook.cells[1:1] = [nbformat.v4.new_code_cell("import time; time.sleep(1.5)") for _ in range(40)]


def _deep(notebook: NotebookNode) -> None:
    deep: list = []
    for _ in range(900):
        deep = [deep]
    notebook.metadata["deep"] = deep


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(500_000_000)


ODD: dict[str, Write] = {
    "test cells deleted": _notebook(_without("scaled", "mean_square", "number")),
    "everything deleted": _notebook(lambda notebook: notebook.cells.clear()),
    "tests emptied": _notebook(_every(_emptied)),
    "points raised": _notebook(_set(points=1000)),
    "points negative": _notebook(_set(points=-5)),
    "points of text": _notebook(_set(points="many")),
    "grade switched off": _notebook(_set(grade=False, locked=False)),
    "all marked as solutions": _notebook(_set(solution=True)),
    "schema version 99": _notebook(_set(schema_version=99)),
    "schema version of text": _notebook(_set(schema_version="three")),
    "ids that are lists": _notebook(_set(grade_id=["scaled"])),
    "ids of others": _notebook(_every(lambda cell: cell.metadata.nbgrader.update(grade_id="x" + cell.metadata.nbgrader.grade_id))),
    "one id for all": _notebook(_set(grade_id="scaled")),
    "metadata are no mapping": _notebook(_every(lambda cell: cell.update(metadata=["nbgrader"]))),
    "tests made markdown": _notebook(_every(lambda cell: cell.update(cell_type="markdown"))),
    "unknown cell types": _notebook(_every(lambda cell: cell.update(cell_type="heading"))),
    "everything twice": _notebook(_twice),
    "cells without source": _notebook(_every(lambda cell: cell.pop("source"))),
    "source is a number": _notebook(_every(lambda cell: cell.update(source=5))),
    "null bytes": _notebook(_every(lambda cell: cell.update(source="\0" + cell.source))),
    "lone surrogates": _notebook(_every(lambda cell: cell.update(source="'\ud800'\n" + cell.source))),
    "cells is a mapping": _notebook(lambda notebook: notebook.update(cells={"a": 1})),
    "another kernel": _notebook(lambda notebook: notebook.metadata.update(kernelspec={"name": "evil", "display_name": "x"})),
    "deep metadata": _notebook(_deep),
    "many cells just under the limit": _notebook(_many_cells),
    "half a million cells": _bytes(lambda data: data.replace(b'"cells": [', b'"cells": [' + b"{}," * 500_000, 1)),
    "truncated": _bytes(lambda data: data[: len(data) // 2]),
    "empty": _bytes(lambda data: b""),
    "byte order mark": _bytes(lambda data: b"\xef\xbb\xbf" + data),
    "utf-16": _bytes(lambda data: data.decode().encode("utf-16")),
    "no text": _bytes(lambda data: bytes(range(256)) * 100),
    "deeply nested JSON": _bytes(lambda data: b"[" * 200_000),
    "a number": _bytes(lambda data: b"5"),
    "a list": _bytes(lambda data: b"[]"),
    "format 3": _bytes(lambda data: json.dumps({"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": []}]}).encode()),
    "format 999": _bytes(lambda data: data.replace(b'"nbformat": 4', b'"nbformat": 999')),
    "too large": _instead(_sparse),
    "a pipe": _instead(os.mkfifo),
    "a folder": _instead(Path.mkdir),
    "a link to the source": _instead(lambda path: path.symlink_to(path.parents[3] / "source" / ASSIGNMENT / NAME)),
    "a link to nowhere": _instead(lambda path: path.symlink_to("/dev/zero")),
    "no notebook": lambda folder: None,
    "links beside it": _links,
    "modules beside it": _beside(dict.fromkeys(("torch.py", "sitecustomize.py", "autograder/__init__.py", "autograder/check.py", "IPython.py"), "raise SystemExit(0)")),
    "odd file names": _beside({"a\nb": "x", "ä ö": "x", "-rf": "x", "$(touch pwned)": "x", "a" * 200: "x"}),
    "a time that is none": _beside({"timestamp.txt": "yesterday, I swear"}),
    "a time far ahead": _beside({"timestamp.txt": "9999-12-31 23:59:59.999999 +9999"}),
    "an archive, which nobody opens": _beside({"data.zip": "PK" + "0" * 1000}),
}  # fmt: skip
