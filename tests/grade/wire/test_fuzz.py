"""Reading any notebook file gives cells or a reason, and metadata do not change the data on which a grade depends."""

import json

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.grade.submission.align import align
from autograder.grade.submission.submitted_files import UnreadableSubmission, parse
from tests.grade.hostile.lesson import POINTS, RIGHT, WRONG, source, submitted
from tests.grade.small_course import source_of

SOURCE = source_of("attacked", source())
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = ("cell_type", "source", "metadata", "outputs", "id", "execution_count")
KNOWN = ("grade", "grade_id", "locked", "points", "schema_version", "solution", "task", "checksum", "cell_type")
ODD = JSON | st.sampled_from(["scaled", "number", "answer_scaled", "code", "markdown", True, 1e308])


def attempt(data):
    """Return the cells and "", or None and the reason."""
    try:
        return parse(data), ""
    except UnreadableSubmission as error:
        return None, str(error)


@pytest.mark.parametrize("cells", [{"cell_type": "code"}, "text", 5, None])
def test_cells_that_are_no_list_are_told(cells):
    """A notebook whose cells are an object or a text has no cells."""
    assert (None, "the file is JSON but not a notebook: it has no list of cells") == attempt(
        json.dumps({"cells": cells}).encode()
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_old_notebook_that_cannot_be_converted_is_told(version):
    """nbformat 5.10 ends with an UnboundLocalError for a cell of an unknown type in the forms 1 to 3."""
    cells = [{"cell_type": None}]
    data = {"nbformat": version, "cells": cells, "worksheets": [{"cells": cells}]}
    assert (None, "the file is JSON but not a notebook: it has no list of cells") == attempt(json.dumps(data).encode())


@pytest.mark.parametrize("version", [-1, 0, 5, 10**30, "4", None, 1.5])
def test_a_version_that_is_none_loses_no_cell(version):
    """Cells are read as they are, whatever the version number."""
    found, reason = attempt(
        json.dumps({"nbformat": version, "cells": [{"cell_type": "code", "source": "x = 1"}]}).encode()
    )
    assert "" == reason
    assert ["x = 1"] == [cell.source for cell in found]


@st.composite
def notebooks(draw):
    """Draw a submission with some of its JSON replaced."""
    notebook = json.loads(nbformat.writes(submitted(WRONG)))
    for cell in notebook["cells"]:
        for key in draw(st.lists(st.sampled_from(KEYS), max_size=2)):
            cell[key] = draw(ODD)
        known = cell["metadata"].get("nbgrader") if isinstance(cell.get("metadata"), dict) else None
        if isinstance(known, dict):
            for key in draw(st.lists(st.sampled_from(KNOWN), max_size=3)):
                known[key] = draw(ODD)
    for key in draw(st.lists(st.sampled_from(["cells", "metadata", "nbformat", "nbformat_minor", "x"]), max_size=1)):
        notebook[key] = draw(ODD)
    return notebook


def examples(few: int, many: int):
    """Return the numbers of examples as a parameter: a few always, many where slow tests run."""
    return pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])


@examples(60, 300)
def test_any_json_becomes_cells_or_a_reason(examples):
    """The result has every test of the source exactly once, with the source's text, points and metadata."""
    settings(max_examples=examples, deadline=None)(given(notebooks())(holds_every_test))()


def holds_every_test(notebook):
    """The property of one notebook."""
    read, reason = attempt(json.dumps(notebook).encode())
    assert (read is None) == bool(reason)
    if read is None:
        return
    cells = align(SOURCE, read)
    tests = {known.id: cell for cell, known in cells if known and known.kind == "test"}
    assert POINTS.keys() == tests.keys()
    assert POINTS == {name: cell.metadata.nbgrader.points for name, cell in tests.items()}
    assert all(cell.source == SOURCE.by_id[name].text for name, cell in tests.items())
    assert len(tests) == sum(cell.metadata.get("nbgrader", {}).get("grade", False) for cell, _ in cells)


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200) | st.text(max_size=100).map(str.encode) | JSON.map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_become_cells_or_a_reason(data):
    """No file can make the reader fail in another way."""
    read, reason = attempt(data)
    assert (read is None) == bool(reason)


@examples(3, 12)
def test_no_json_gives_points_to_wrong_work(grader, examples):
    """Wrong answers get no points, however the file around them was changed."""

    @settings(max_examples=examples, deadline=None)
    @given(notebooks())
    def earns_nothing(notebook):
        graded = grader.grade(SOURCE, json.dumps(notebook).encode(), {})
        assert (0.0, POINTS.keys()) == (graded.points, graded.cells.keys())
        json.loads(graded.notebook)

    earns_nothing()


def test_right_work_earns_all_in_the_same_way(grader):
    """The control: the unchanged right notebook has full points."""
    graded = grader.grade(SOURCE, nbformat.writes(submitted(RIGHT)).encode(), {})
    assert sum(POINTS.values()) == graded.points
