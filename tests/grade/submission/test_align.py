"""A submission's cells are found, restored and put back; an answer in another cell waits for a person."""

import nbformat
import pytest
from nbgrader.utils import determine_grade

from autograder.grade.submission.align import align
from autograder.grade.submission.submitted_files import parse
from tests.grade.plain_course import known
from tests.grade.small_course import KNOWN, answer, graded_cell, source, teacher

TEXT, CODE = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
HIDDEN = "\n### BEGIN HIDDEN TESTS: more\nassert f(2) == 2\n### END HIDDEN TESTS"


def locked(name, text, make=CODE):
    """Return a cell that only the teacher writes."""
    return make(text, metadata={"nbgrader": KNOWN | {"grade_id": name, "locked": True}})


def written(name, text="Because.", make=TEXT):
    """Return an answer that a person grades."""
    return known(make(text), name, solution=True, points=2)


SOURCE = source(
    TEXT("# Title"),
    teacher("import math"),
    locked("setup", "RATE = math.pi"),
    answer("a", "def f(x):\n    return x"),
    graded_cell("t", "assert f(1) == 1" + HIDDEN),
    TEXT("## Why?"),
    written("why"),
    TEXT("## How?"),
    written("how"),
    written("code", "print(1)", CODE),
    locked("end", "That was all.", TEXT),
)


def submission(change=lambda cells: cells):
    """Return the cells of a submission that differs from the release; `change` gets them by name or number."""
    cells = {}
    for number, cell in enumerate(SOURCE.cells):
        make = CODE if cell.cell.cell_type == "code" else TEXT
        cells[cell.id or number] = make(cell.visible, metadata=dict(cell.cell.metadata))
    changed = change(cells)
    return parse(nbformat.writes(nbformat.v4.new_notebook(cells=list((changed or cells).values()))).encode())


def names(aligned):
    """Return the aligned cells' names, or the texts of those that the source does not know by a name."""
    return [item[1].id if item[1] else item[0].source for item in aligned]


def was_put_back(item):
    """Return whether a cell was missing from the submission."""
    return item[0].metadata.get("autograder", {}).get("put_back", False)


ORDER = ["# Title", "import math", "setup", "a", "t", "## Why?", "why", "## How?", "how", "code", "end"]


@pytest.mark.parametrize("gone", [["setup"], ["a"], ["t"], ["end"], ["why"], ["setup", "t", "how", "code", "end"]])
def test_what_the_teacher_locked_or_grades_is_put_back_in_its_place(gone):
    """Setup cells, tests, written questions and texts; in the order of the source."""
    aligned = align(SOURCE, submission(lambda cells: [cells.pop(name) for name in gone] and cells))
    assert ORDER == names(aligned)
    assert gone == [item[1].id for item in aligned if was_put_back(item)]


def test_of_a_cell_that_occurs_twice_the_last_is_the_answer():
    """As nbgrader's DeduplicateIds (0.9.6) has it; the first is a cell of the student's own."""
    aligned = align(SOURCE, submission(lambda cells: {"copied": CODE("pass", metadata=cells["a"].metadata), **cells}))
    assert ["pass", *ORDER] == names(aligned)
    assert "pass" not in [item[0].source for item in aligned if item[1]]


def test_a_test_is_put_back_in_its_section_although_the_release_links_the_next_heading_to_the_glossary():
    """A released text with a link to the glossary is the source's text, so a deleted test stays above the next section.

    The graded notebook has the text without the link, which formgrader would show as raw Markdown.
    """
    heading = '## How? A [leaf](../start/glossary.ipynb#Leaf "A tensor (or two)") tells.'
    of = source(
        answer("a", "x = 1"), graded_cell("t", "assert x == 1"), TEXT("## How? A leaf tells."), answer("b", "y")
    )
    cells = [CODE(of.cells[0].visible, metadata=of.cells[0].cell.metadata), TEXT(heading)]
    cells.append(CODE(of.cells[3].visible, metadata=of.cells[3].cell.metadata))
    aligned = align(of, parse(nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()))
    assert ["a", "t", "## How? A leaf tells.", "b"] == names(aligned)


def test_a_setup_cell_is_put_back_before_what_follows_it_and_after_what_precedes_it():
    """A cell of the student's that uses it may come right after."""

    def change(cells):
        del cells["setup"]
        own = CODE("mine = RATE")
        return {0: cells.pop(0), 1: cells.pop(1), "a": cells.pop("a"), "own": own, **cells}

    assert ["# Title", "import math", "setup", "a", "mine = RATE", "t"] == names(align(SOURCE, submission(change)))[:6]


def test_locked_text_is_the_teachers_and_other_text_the_students():
    """As nbgrader has it (0.9.6, `OverwriteCells`): a cell with an id that is not locked keeps the student's text."""
    of = source(
        locked("s", "x = 1"), CODE("y = 1", metadata={"nbgrader": KNOWN | {"grade_id": "free"}}), graded_cell("t", "x")
    )
    cells = [CODE("changed", metadata=dict(cell.cell.metadata)) for cell in of.cells]
    aligned = align(of, parse(nbformat.writes(nbformat.v4.new_notebook(cells=cells)).encode()))
    assert ["x = 1", "changed", "x"] == [item[0].source for item in aligned]


def test_a_notebook_whose_metadata_were_lost_is_recognised_by_its_text():
    """No cell is duplicated; changed cells count as the student's own, and tests are restored."""

    def change(cells):
        for cell in cells.values():
            cell.metadata = {}
        cells["a"].source = "def f(x):\n    return x"
        return cells

    aligned = align(SOURCE, submission(change))
    assert [name for name in ORDER if name not in ("why", "how")] == [
        name for name in names(aligned) if name not in ("why", "how", "YOUR ANSWER HERE")
    ]
    tests = {item[1].id: item for item in aligned if item[1]}
    assert (SOURCE.by_id["t"].text, False) == (tests["t"][0].source, was_put_back(tests["t"]))
    assert [[2, 4, "more"]] == tests["t"][0].metadata.autograder.hidden_parts


def test_equal_texts_are_not_taken_for_each_other():
    """A copy of a test next to the test itself, and two cells with the text of a missing one."""
    copy = CODE(SOURCE.by_id["t"].visible)
    assert copy.source in names(align(SOURCE, submission(lambda cells: cells | {"copy": copy})))

    def twice(cells):
        del cells["setup"]
        return cells | {"one": CODE("RATE = math.pi"), "two": CODE("RATE = math.pi")}

    [setup] = [item for item in align(SOURCE, submission(twice)) if item[1] and item[1].id == "setup"]
    assert was_put_back(setup)


def after(name, *added):
    """Return a change: cells without metadata come after the one of a name, which may be `None` for the end."""

    def change(cells):
        found = {}
        for key, cell in cells.items():
            found[key] = cell
            if key == name:
                found |= {f"{name} {number}": one for number, one in enumerate(added)}
        return found if name else cells | {f"end {number}": one for number, one in enumerate(added)}

    return change


def without(*gone):
    """Return a change: these cells are removed."""
    return lambda cells: {name: cell for name, cell in cells.items() if name not in gone}


def both(*changes):
    """Return a change: these, one after another."""

    def change(cells):
        for one in changes:
            cells = one(cells)
        return cells

    return change


RETYPED = {
    "in its place": both(after("why", TEXT("I think so.")), without("why")),
    "at the end": both(after(None, TEXT("I think so.")), without("why")),
    "in a raw cell": both(after("why", nbformat.v4.new_raw_cell("I think so.")), without("why")),
    "in a code cell": both(after("why", CODE("I think so.")), without("why")),
    "in two cells": both(after("why", TEXT("I think"), TEXT("so.")), without("why")),
    "under a name that nobody knows": both(
        after("why", TEXT("I think so.", metadata={"nbgrader": {"grade_id": "x"}})), without("why")
    ),
    "below the question, which is as it was": after("why", TEXT("I think so.")),
}


def state(item):
    """Return the points that nbgrader gives a cell that a person grades: None if it waits for the person."""
    return determine_grade(item[0])[0]


@pytest.mark.parametrize("way", RETYPED)
def test_a_retyped_written_answer_waits_for_a_person_who_sees_it(way):
    """In any position; the other written answers have no response, as in the release."""
    aligned = {item[1].id: item for item in align(SOURCE, submission(RETYPED[way])) if item[1]}
    assert (None, 0) == (state(aligned["why"]), state(aligned["how"]))
    assert "I think" in aligned["why"][0].source
    assert "so." in aligned["why"][0].source
    assert "markdown" == aligned["why"][0].cell_type


def test_two_retyped_answers_take_their_places_in_order():
    """As many cells as answers: each is the answer, and is not shown twice."""
    change = both(after("how", TEXT("one"), TEXT("two")), without("how", "why", 7))
    aligned = align(SOURCE, submission(change))
    assert ["## Why?", "why", "how", "code"] == names(aligned)[5:9]
    assert ["one", "two"] == [item[0].source for item in aligned if item[1] and item[1].id in ("why", "how")]
    assert not any(was_put_back(item) for item in aligned)


def test_retyped_code_that_a_person_grades_runs_once():
    """In its place it is the answer; elsewhere the person sees it as a comment."""
    here = align(SOURCE, submission(both(after("code", CODE("print('mine')")), without("code"))))
    assert 1 == [item[0].source for item in here].count("print('mine')")
    far = align(SOURCE, submission(both(after("a", CODE("print('mine')")), without("code"))))
    assert ["# print('mine')"] == [item[0].source for item in far if item[1] and item[1].id == "code"]
    assert "print('mine')" in names(far)


def test_a_deleted_answer_that_was_not_retyped_has_no_response():
    """There is no text for a person to read: no points, as before."""
    for change in (without("why"), both(without("why"), after("a", CODE("x = 1")))):
        aligned = {item[1].id: item for item in align(SOURCE, submission(change)) if item[1]}
        assert (0, True) == (state(aligned["why"]), was_put_back(aligned["why"]))


def test_code_that_a_test_grades_may_be_retyped_anywhere_before_it():
    """In its place it is the answer; elsewhere it runs before the answer, which is empty and replaces no definition."""
    for place in ("a", 1):
        aligned = align(SOURCE, submission(both(after(place, CODE("f = abs")), without("a"))))
        texts = [item[0].source for item in aligned]
        assert ("f = abs" if place == "a" else "") == texts[names(aligned).index("a")]
        assert ["f = abs"] == [text for text in texts[: names(aligned).index("t")] if text.startswith("f")]
