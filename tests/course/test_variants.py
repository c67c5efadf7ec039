"""Variants of a lesson: other numbers, the same faults, outcomes and verdicts, for every seed that was tried."""

import ast
import re

import nbformat
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nbgrader.utils import compute_checksum

from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.course.variants.declared_changes import VariantError
from autograder.course.variants.variant import TAG, redraw, vary
from autograder.course.variants.variant_proof import check_numbers

SEEDS = range(20)
TAGGED = {
    path: [cell.source for cell in read(path).cells if TAG in cell.metadata.get("tags", [])]
    for path in lessons(SOLUTIONS)
}
"""The cells of each lesson in which numbers vary."""
VARIED = [path for path, cells in TAGGED.items() if cells]


def tensor(numbers: list) -> str:
    """Return a line of code that makes a tensor of these numbers."""
    return f"w = torch.tensor({numbers!r}, requires_grad=True)"


@given(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=5), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_what_matters_of_the_numbers_stays(numbers, seed):
    """Signs, zeros, order and equal numbers stay; a longer list begins as it did, and a single number stays single."""
    (call,) = [node for node in ast.walk(ast.parse(redraw(tensor(numbers), seed))) if isinstance(node, ast.List)]
    new = ast.literal_eval(call)
    size = len(numbers)
    assert size <= len(new) <= (size + 2 if size > 1 else 1)
    pairs = [(i, j) for i in range(size) for j in range(size)]
    assert [numbers[i] > 0 for i in range(size)] == [new[i] > 0 for i in range(size)]
    assert [numbers[i] == 0 for i in range(size)] == [new[i] == 0 for i in range(size)]
    same_side = [(i, j) for i, j in pairs if numbers[i] * numbers[j] > 0]
    assert [abs(numbers[i]) < abs(numbers[j]) for i, j in same_side] == [
        abs(new[i]) < abs(new[j]) for i, j in same_side
    ]


def test_only_decimal_numbers_in_tensors_change():
    """Indices, sizes, masks, factors, prose and the layout stay."""
    code = 'x = torch.tensor([1, 2])  # [1.0, 2.0]\nm = torch.tensor([True])\ny = x[[0]] * 3.0\nz = f([1.0, 2.0], "[1.0]")\n'
    assert code == redraw(code, 7)
    assert redraw(tensor([1.0, 2.0]), 7) != tensor([1.0, 2.0])


def test_one_seed_is_one_variant():
    """A list becomes the same list in every place, and another list with another seed."""
    lines = [redraw(tensor([1.0, 2.0, 3.0]), seed) for seed in SEEDS]
    assert lines == [redraw(tensor([1.0, 2.0, 3.0]), seed) for seed in SEEDS]
    assert len(set(lines)) > len(SEEDS) // 2


@pytest.mark.slow
@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in VARIED])
def test_all_seeds_keep_the_outcomes(path):
    """A seed never changes the outcome of a program; most seeds change its text, and only tagged cells ever change."""
    notebook = read(NOTEBOOKS / path.relative_to(SOLUTIONS))
    tagged = {cell.id for cell in notebook.cells if TAG in cell.metadata.get("tags", [])}
    assert tagged
    changed = []
    for seed in SEEDS:
        check_numbers(notebook, seed)
        varied = vary(notebook, seed)
        signed = [cell for cell in varied.cells if "checksum" in cell.metadata.get("nbgrader", {})]
        assert [] == [cell.id for cell in signed if cell.metadata.nbgrader.checksum != compute_checksum(cell)]
        different = {new.id for new, old in zip(varied.cells, notebook.cells, strict=True) if new != old}
        assert different <= tagged
        changed.append(len(different))
    assert sum(count > 0 for count in changed) > len(SEEDS) * 0.9


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in VARIED])
def test_prose_quotes_no_figure_that_varies(path):
    """In a section with a varied program no sentence holds a list of numbers, which a variant would make false."""
    sections: list[list] = []
    for cell in read(path).cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            sections.append([])
        sections[-1].append(cell)
    for section in sections:
        if any(TAG in cell.metadata.get("tags", []) for cell in section):
            prose = "\n".join(cell.source for cell in section if cell.cell_type == "markdown")
            assert [] == re.findall(r"\[-?\d[\d., -]*,[^\]]*\]|\.grad` is -?\d", prose)


def test_a_variant_with_another_outcome_is_refused():
    """A program whose error depends on its numbers cannot vary, and the message suggests a solution."""
    program = "\n".join(
        [
            "@observed",
            "def fragile():",
            "    w = torch.tensor([1.0, 2.0], requires_grad=True)",
            "    out = w.exp()",
            "    if w.sum() == 3.0:",
            "        out.add_(1)",
            "    out.sum().backward()",
            "    return {'w': w.grad}",
        ]
    )
    cells = [nbformat.v4.new_code_cell("import torch"), nbformat.v4.new_code_cell(program, metadata={"tags": [TAG]})]
    with pytest.raises(VariantError, match="fragile is correct instead of raises-backward"):
        [check_numbers(nbformat.v4.new_notebook(cells=cells), seed) for seed in SEEDS]


def test_a_variant_is_the_same_program_in_plain_pytorch():
    """An oracle without the recorder: the sigmoid's late write stays silent and wrong with other numbers."""
    program = "out = torch.sigmoid(w)\nloss = out.sum()\nout.data.zero_()\nloss.backward()"
    for seed in SEEDS:
        names = {"torch": torch}
        exec(f"{redraw(tensor([1.0, 2.0, 3.0]), seed)}\n{program}", names)
        right = torch.sigmoid(names["w"]) * (1 - torch.sigmoid(names["w"]))
        assert not torch.allclose(names["w"].grad, right)
        assert bool((names["w"].grad == 0).all())
