"""A small course that is not this one: NumPy, plain assertions, a hidden test, a plot, a written answer with a formula."""

from __future__ import annotations

from pathlib import Path

import nbformat

from autograder.grade.batch.assignment import Options, grade_assignment
from autograder.grade.batch.student_rows import StudentRow

ASSIGNMENT = "vectors"
MODEL = {
    "answer_mean": "import numpy as np\n\ndef mean(x):\n    ### BEGIN SOLUTION\n    return sum(x) / len(x)\n    ### END SOLUTION",
    "answer_scale": "def scale(x, by):\n    ### BEGIN SOLUTION\n    return np.asarray(x) * by\n    ### END SOLUTION",
    "answer_slow": "def count(n):\n    ### BEGIN SOLUTION\n    return n + 1\n    ### END SOLUTION",
    "explain_mean": "*Your answer here.*",
}
"""Source text of each cell that a student fills in, by its grade_id."""


def source() -> nbformat.NotebookNode:
    """Return the teacher's notebook."""
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [
        text("# Vectors\n\nThe mean of $x$ is $\\frac{1}{n}\\sum_i x_i$, and $a<b$."),
        text("## The mean\n\nWrite a function that returns\n\n$$\\bar{x} = \\frac{1}{n}\\sum_{i=1}^{n} x_i$$"),
        known(code(MODEL["answer_mean"]), "answer_mean", solution=True),
        known(code("assert mean([1, 2, 3]) == 2"), "test_mean", points=1),
        known(
            code("### BEGIN HIDDEN TESTS: large numbers\nassert mean([1e9, 3e9]) == 2e9\n### END HIDDEN TESTS"),
            "test_mean_hidden",
            points=2,
        ),
        text("## Scaling"),
        known(code(MODEL["answer_scale"]), "answer_scale", solution=True),
        known(code('assert (scale([1, 2], 2) == [2, 4]).all(), "scale([1, 2], 2) is [2, 4]"'), "test_scale", points=2),
        text("A picture of a scaled vector, for which there is nothing to do:"),
        code("import matplotlib.pyplot as plt\nplt.plot([0, 1], [0, 2]);"),
        text("## Counting"),
        known(code(MODEL["answer_slow"]), "answer_slow", solution=True),
        known(code("assert count(1) == 2"), "test_count", points=1),
        text("## In your own words\n\nWhat is the mean of no numbers?"),
        known(text(MODEL["explain_mean"]), "explain_mean", solution=True, points=3),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def answered(answers: dict[str, str]) -> nbformat.NotebookNode:
    """Return a submission with these texts in the cells of these grade_ids; the others contain the model answers."""
    notebook = source()
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(name, cell.source)
    return notebook


def make_class(folder: Path, hand_ins: dict[str, nbformat.NotebookNode | bytes]) -> Path:
    """Write a course with the submissions of these students, and return its folder."""
    _write(folder / "source" / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", source())
    for student, notebook in hand_ins.items():
        _write(folder / "submitted" / student / ASSIGNMENT / f"{ASSIGNMENT}.ipynb", notebook)
    return folder


def grade_class(folder: Path, **options: object) -> list[StudentRow]:
    """Grade the class with feedback, and returns a row for each student."""
    return grade_assignment(ASSIGNMENT, folder, Options(**{"feedback": "name", "jobs": 1} | options))  # type: ignore[arg-type]


def page(folder: Path, student: str) -> Path:
    """Return where a student's feedback page is."""
    return folder / "feedback" / student / ASSIGNMENT / f"{ASSIGNMENT}.html"


def _write(path: Path, content: nbformat.NotebookNode | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else nbformat.writes(content).encode())


def known(
    cell: nbformat.NotebookNode, name: str, *, solution: bool = False, points: float | None = None
) -> nbformat.NotebookNode:
    """Return the cell with nbgrader's metadata (schema 3)."""
    cell.metadata["nbgrader"] = {
        "grade_id": name, "solution": solution, "grade": points is not None, "locked": not solution,
        "task": False, "schema_version": 3, "cell_type": cell.cell_type,
    } | ({} if points is None else {"points": points})  # fmt: skip
    return cell
