"""Tables of arrangements: each entry is the result of PyTorch, and compression does not change it."""

from __future__ import annotations

import msgspec
import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograder.check.playground.arrangement import arrangements, text_of
from autograder.course.book.block_pages import share
from autograder.course.book.lesson_blocks import ExerciseBlock, QuestionBlock
from autograder.course.book.notebook_recorder import try_arrangements
from autograder.view.scene.composition import build_scene
from tests.course.book.small_course import NAME
from tests.course.book.unpacking import unpacked, unshared

ARRAYS = """def scaled():
    w = torch.tensor([2.0], requires_grad=True)
    h = w * float(np.float32(3))
    h.add_(1)
    h.sum().backward()
"""


def plain_run(text: str) -> str:
    """Return how plain PyTorch ends a program, without details that its errors do not show."""
    try:
        exec(text, {"torch": torch})
    except RuntimeError as error:
        return "raises-backward" if "modified by an inplace operation" in str(error) else "raises-forward"
    return "runs"


def test_each_entry_is_what_pytorch_does(blocks):
    """Plain PyTorch ends as the table says, for every arrangement; the table has all three endings of this program."""
    table = next(block for block in blocks if isinstance(block, QuestionBlock)).table
    outcomes = {one.key: one.recording.verdict.outcome for one in table.tried}
    offered = {one.key: text_of(table.program, one) for one in arrangements(table.program)}
    assert outcomes.keys() == offered.keys()
    for key, outcome in outcomes.items():
        assert plain_run(offered[key]) == (outcome if outcome.startswith("raises") else "runs"), offered[key]
    assert {"raises-backward", "silently-wrong", "correct"} == set(outcomes.values())


def test_a_program_without_a_write_has_no_table():
    """If nothing can be moved or switched, the page does not offer it."""
    assert (
        try_arrangements(
            "plain", "def plain():\n    w = torch.ones(2, requires_grad=True)\n    w.sum().backward()\n", {}
        )
        is None
    )


def test_modules_of_the_notebook_are_there():
    """A program may use modules that the lesson's first cell imported."""
    table = try_arrangements("scaled", ARRAYS, {"np": numpy, "unused": object()})
    assert "correct" == table.tried[0].recording.verdict.outcome


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=40,
)


@given(values)
def test_sharing_parts_changes_nothing(value):
    """Shared values come back equal, whatever their type, after three round trips."""
    plain = msgspec.to_builtins([value, value, {"again": value}])
    assert plain == unshared(share(plain))


def test_the_script_holds_every_scene_once(book, blocks):
    """The packed table gives back each arrangement's scene, and is smaller than its scenes one by one."""
    table = next(block for block in blocks if isinstance(block, QuestionBlock)).table
    content = unpacked(book[f"pictures/{NAME}/prediction_late-table.js"])
    tried = unshared(content)
    assert [one.key for one in table.tried] == [one["key"] for one in tried]
    scenes = msgspec.json.encode([build_scene(one.recording) for one in table.tried])
    assert msgspec.json.decode(scenes) == [one["scene"] for one in tried]
    assert len(msgspec.json.encode(content)) < 0.8 * len(msgspec.json.encode(tried))


def test_each_order_is_what_pytorch_and_the_check_say(blocks):
    """For each order of an exercise's lines, plain PyTorch ends as in the table; orders with the right value and gradient pass."""
    table = next(block.table for block in blocks if isinstance(block, ExerciseBlock) and block.table)
    offered = {one.key: one for one in arrangements(table.program)}
    passing = set()
    for one in table.tried:
        text = text_of(table.program, offered[one.key])
        outcome = one.recording.verdict.outcome
        assert plain_run(text) == (outcome if outcome.startswith("raises") else "runs"), text
        if one.passes:
            passing.add(tuple(text.splitlines()[1:-1]))
    assert passing == {("a = w.exp()", "a = a * 2")}
    assert all(one.said or one.passes or one.recording.verdict.outcome != "correct" for one in table.tried)
