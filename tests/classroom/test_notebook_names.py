"""A notebook is recognized under whatever name a browser, a system or a student gave it."""

import pytest

from autograder.classroom.collect.download import DownloadedFile
from autograder.classroom.collect.hand_in_files import NotebookShape, find_notebooks, like_name
from tests.classroom.made_class import STUDENTS, notebook

SHAPES = [
    NotebookShape("first", frozenset({"setup", "warm_days", "test_warm_days", "summary"})),
    NotebookShape("second", frozenset({f"second_{number}" for number in range(4)})),
]


def files(*paths: str, data: bytes | None = None) -> dict[str, DownloadedFile]:
    """Return files of these names that hold the first notebook, or what is given."""
    content = notebook(STUDENTS[0]) if data is None else data
    return {path: DownloadedFile(path, lambda most: content) for path in paths}


@pytest.mark.parametrize(
    "name",
    [
        "first.ipynb", "First.ipynb", "FIRST.IPYNB", "first (1).ipynb", "first (12).ipynb", "first-1.ipynb", "first - Copy.ipynb",
        "first-Copy1.ipynb", "first copy.ipynb", "first copy 2.ipynb", "Copy of first.ipynb", " first .ipynb", "first.ipynb.txt",
        "first.ipynb.json", "first (1).ipynb.txt", "first.ipynb.ipynb", "folder/first.ipynb", "ﬁrst.ipynb",
    ],
)  # fmt: skip
def test_like_names_are_recognised(name):
    """Copy, other case, blanks, added endings; even where the cells have lost their ids."""
    for data in (None, b'{"cells": []}'):
        assert name == find_notebooks(files(name, data=data), SHAPES, {}).found["first"].path


@pytest.mark.parametrize("name", ["homework.ipynb", "final version.ipynb", "Untitled.ipynb", "hw.txt", "hw.json", "hw"])
def test_a_renamed_notebook_is_recognised_by_its_cells(name):
    """No name helps, more than half of the cells do."""
    assert (name, "by its cells") == find_notebooks(files(name), SHAPES, {}).found["first"]


def test_the_name_of_one_and_the_cells_of_another(tmp_path):
    """first.ipynb holds the cells of second: it is second."""
    found = find_notebooks(files("first.ipynb", data=notebook(STUDENTS[0], source="second")), SHAPES, {})
    assert {"second"} == found.found.keys()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("other.ipynb", notebook(STUDENTS[0], source="third"), id="of another assignment"),
        pytest.param("other.ipynb", b"not json", id="damaged"),
        pytest.param("other.ipynb", b"[" * 100_000, id="nested deeply"),
        pytest.param("other.ipynb", b'{"cells": [{"metadata": {"nbgrader": []}}, 1]}', id="odd cells"),
    ],
)
def test_what_is_no_notebook_of_the_assignment_is_said(name, data):
    """The command does not guess; a teacher can specify the notebook."""
    given = files(name, data=data)
    assert {name} == find_notebooks(given, SHAPES, {}).unknown.keys()
    assert "as you said" == find_notebooks(given, SHAPES, {name: "first"}).found["first"].how


def test_texts_and_data_are_no_notebooks():
    """The command does not ask about a README, a data file or a picture."""
    for name, data in (
        ("README.txt", b"hello"),
        ("data.json", b'{"a": 1}'),
        ("data.json", b"[1]"),
        ("plot.png", b"\x89PNG"),
    ):
        assert ({}, {}) == find_notebooks(files(name, data=data), SHAPES, {})[:2]


def test_of_several_copies_the_latest_counts():
    """A browser numbers copies upwards; the others are named as left out."""
    found = find_notebooks(files("first.ipynb", "first (2).ipynb", "first (1).ipynb"), SHAPES, {})
    assert "first (2).ipynb" == found.found["first"].path
    assert ["first (1).ipynb", "first.ipynb"] == sorted(found.spare)
    for names in (["first.ipynb", "first copy 2.ipynb", "first copy.ipynb"], ["first.ipynb", "first - Copy.ipynb"]):
        assert names[1] == find_notebooks(files(*names), SHAPES, {}).found["first"].path


def test_names_that_are_alike_by_chance_stay_apart():
    """first and first2 are two notebooks of one assignment, and first-1 is a copy of the first."""
    shapes = [
        NotebookShape("hw1", frozenset({"a"})),
        NotebookShape("hw2", frozenset({"b"})),
        NotebookShape("hw-1", frozenset()),
    ]
    assert like_name("hw1") != like_name("hw2")
    given = {
        name: one
        for name in ("hw1.ipynb", "hw2.ipynb")
        for one in [DownloadedFile(name, lambda most: b'{"cells": []}')]
    }
    found = find_notebooks(given, shapes, {}).found
    assert {"hw1": "hw1.ipynb", "hw2": "hw2.ipynb"} == {name: one.path for name, one in found.items()}
