"""The question about version counters: the right answers are PyTorch's counters, and the messages refer to the write."""

import re
import sys

import pytest
import torch

from autograder.tape import record
from autograder.view.draw.html import static_frame_number
from autograder.view.draw.svg import draw_picture
from autograder.view.scene.composition import build_scene


def aliases():
    """Five tensors in two storages, and three counters."""
    t = torch.zeros(3)
    row = t[:2]
    blind = t.data
    apart = t.detach()
    copy = t.clone()
    row.mul_(2).sub_(1)
    blind.zero_()
    apart.add_(1)
    copy.fill_(7)


def rebound():
    """A name bound to a new tensor after a write, an uncounted write, and a write under no_grad."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    a = w * 2
    b = a * a
    a += 1
    c = a
    a = a * 3
    b.data.zero_()
    with torch.no_grad():
        w.mul_(2)
    return (a, b, c)


def initialized():
    """A table that was written while it was made, and a lookup that writes without an underscore."""
    layer = torch.nn.Embedding(3, 2, max_norm=1.0)
    table = layer.weight
    layer(torch.tensor([0, 1]))
    return table.sum()


def counted_by_pytorch(program):
    """Return the version of each tensor that a function's variables name when it returns, as PyTorch counts it."""
    found = {}

    def watch(frame, event, _):
        if event == "return" and frame.f_code is program.__code__:
            known = frame.f_locals.items()
            found.update({name: value._version for name, value in known if isinstance(value, torch.Tensor)})

    sys.setprofile(watch)
    try:
        program()
    finally:
        sys.setprofile(None)
    return found


def asked(program):
    """Return the scene that asks for the versions."""
    return build_scene(record(program), counters=True)


@pytest.mark.parametrize("program", [aliases, rebound, initialized])
def test_the_versions_are_those_that_pytorch_counts(program):
    """The right answer for each variable is `_version`, read without a recorder."""
    rows = {row.name: row.version for row in asked(program).counters.rows}
    assert counted_by_pytorch(program) == {name: rows[name] for name in rows if "." not in name}


@pytest.mark.parametrize("program", [aliases, rebound, initialized])
def test_each_number_that_is_too_small_has_its_write(program):
    """There is a hint for every smaller number, and the frame that it leads to comes before the question."""
    scene = asked(program)
    assert scene.counters.rows
    for row in scene.counters.rows:
        assert row.version == len(row.too_few)
        assert all(0 <= hint.frame < scene.ask for hint in (*row.too_few, row.too_many))


def test_a_hint_names_the_line_and_what_it_went_through():
    """A write through a view counts for the base; a write through .data does not, and the sentence names the path."""
    row = {row.name: row for row in asked(aliases).counters.rows}
    assert "row.mul_(2).sub_(1), writes through row, which shares memory" in row["t"].too_few[0].sentence
    assert "row.mul_(2).sub_(1), writes into it" in row["row"].too_few[1].sentence
    assert "through blind, which has its own counter" in row["t"].too_many.sentence
    assert "no other line writes into it" in row["copy"].too_many.sentence
    assert "no line writes into its memory" in {r.name: r for r in asked(rebound).counters.rows}["a"].too_many.sentence
    assert "at version 1 when it was created" in asked(initialized).counters.rows[0].too_few[0].sentence


def test_the_saved_picture_tells_no_version():
    """The saved notebook has question marks in place of versions; the same frame of another scene has versions."""
    scene = asked(rebound)
    number = static_frame_number(scene) - 1  # the last write; after it the function only returns
    hidden = draw_picture(scene, number, verdict=False)
    shown = draw_picture(build_scene(record(rebound)), number, verdict=False)
    assert not re.search(r"\bv\d|version \d", hidden)
    assert re.search(r"\bv\d", shown)
    assert re.search(r"version \d", shown)
