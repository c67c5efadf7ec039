"""Assignments in the manner of public university courses, each a text that is turned into an nbgrader course.

`assignment.txt` holds the source's cells, each below a line `# %% kind grade_id points`; `hand_ins.txt` has below
`# %% student grade_id` what a student wrote instead of the model answer. The other files are data that the teacher hands out.
"""

from __future__ import annotations

import copy
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import nbformat
from nbformat import NotebookNode
from nbgrader.preprocessors import ClearHiddenTests, ClearSolutions

HERE = Path(__file__).parent
TEXTS = ("assignment.txt", "hand_ins.txt")
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
# What nbgrader's metadata say of each kind of cell; "code" and "text" are cells that nbgrader does not know.
KINDS = {
    "answer": {"solution": True},
    "test": {"grade": True, "locked": True},
    "manual": {"grade": True, "solution": True},
    "written": {"grade": True, "solution": True},
}


class Part(NamedTuple):
    """What stands below one line `# %%`: the words of that line, and the text."""

    words: list[str]
    text: str


def assignments() -> list[str]:
    """Returns the names of all assignments."""
    return sorted(path.parent.name for path in HERE.glob("*/assignment.txt"))


def source_of(name: str) -> NotebookNode:
    """Returns the teacher's notebook."""
    cells = [_cell(part) for part in _parts(HERE / name / "assignment.txt")]
    return nbformat.v4.new_notebook(metadata=KERNEL, cells=cells)


def released(source: NotebookNode) -> NotebookNode:
    """Returns what learners are given, by nbgrader's own preprocessors."""
    notebook = copy.deepcopy(source)
    for preprocessor in (ClearSolutions(), ClearHiddenTests()):
        notebook, _ = preprocessor.preprocess(notebook, {})
    return notebook


def hand_ins(name: str, source: NotebookNode) -> dict[str, NotebookNode]:
    """Returns each student's notebook; beside those of `hand_ins.txt` the model answers and what was handed out."""
    written: dict[str, dict[str, str]] = {"right": {}}
    for part in _parts(HERE / name / "hand_ins.txt"):
        student, cell = part.words
        written.setdefault(student, {})[cell] = part.text
    model = {cell.metadata.nbgrader.grade_id: cell.source for cell in source.cells if _is_answered(cell)}
    return {"untouched": released(source)} | {
        student: _filled_in(released(source), model | answers) for student, answers in written.items()
    }


def write_course(folder: Path, names: list[str]) -> None:
    """Writes a course with the sources, their data files, and every student's hand-ins."""
    for name in names:
        source = source_of(name)
        _write(source, folder / "source" / name, name)
        for student, notebook in hand_ins(name, source).items():
            _write(notebook, folder / "submitted" / student / name, name)


def _write(notebook: NotebookNode, folder: Path, name: str) -> None:
    shutil.copytree(HERE / name, folder, ignore=shutil.ignore_patterns(*TEXTS, "__pycache__"))
    (folder / f"{name}.ipynb").write_text(nbformat.writes(notebook), "utf-8")


def _parts(path: Path) -> list[Part]:
    pieces = re.split(r"^# %% (.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return [Part(head.split(), text.strip("\n")) for head, text in zip(pieces[::2], pieces[1::2], strict=True)]


def _cell(part: Part) -> NotebookNode:
    kind, name, points = [*part.words, "", ""][:3]
    make = nbformat.v4.new_markdown_cell if kind in ("text", "written") else nbformat.v4.new_code_cell
    if kind not in KINDS:
        return make(part.text)
    shape = {"grade_id": name, "grade": False, "solution": False, "locked": False, "task": False, "schema_version": 3}
    known = shape | KINDS[kind] | ({"points": float(points)} if points else {})
    return make(part.text, metadata={"nbgrader": known})


def _is_answered(cell: NotebookNode) -> bool:
    return bool(cell.metadata.get("nbgrader", {}).get("solution"))


def _filled_in(notebook: NotebookNode, answers: dict[str, str]) -> NotebookNode:
    for cell in notebook.cells:
        if _is_answered(cell):
            cell.source = answers.get(cell.metadata.nbgrader.grade_id, cell.source)
    return notebook
