"""The first answer fits on a screen, names every harmful line, and states only checked results."""

from __future__ import annotations

import msgspec
import pytest

from autograder import view
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Check, Fix, Gradient, Harm, Place, Verdict
from autograder.view.text.first_screen import changed_lines
from autograder.view.text.headline import headline

LINES, WIDTH = 25, 100
"""The size of the screen that the documentation promises."""

COPIES, DIFFERENCES = "copies of saved tensors", "finite differences"


def with_verdict(recording: Recording, **fields: object) -> Recording:
    """Return the recording with other fields in its verdict."""
    return msgspec.structs.replace(recording, verdict=msgspec.structs.replace(recording.verdict, **fields))


def harm_at(harm: Harm, *lines: int) -> Harm:
    """Return the harm as if these lines had done it."""
    file = harm.saved_at.file
    return msgspec.structs.replace(harm, mutated_at=tuple(Place(file, line, f"h{line}.mul_(2)") for line in lines))


def test_the_answer_fits_on_a_screen(recording):
    """For any recording, at most 25 lines of 100 columns, with the outcome first and the next steps last."""
    lines = view.as_screen(recording).splitlines()

    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith(recording.verdict.outcome)
    assert "--steps" in lines[-1]


def test_it_fits_with_long_notes_and_repairs_too(recorded):
    """A long error, thirty notes and a repair of forty lines are shortened, with a remark."""
    long = "a word and " * 200
    fix = Fix("a kind", 8, "\n".join(["old"] * 20), "\n".join(["new"] * 20), True)
    base = recorded("raises_backward")
    error = msgspec.structs.replace(base.verdict.error, message=long)
    lines = view.as_screen(with_verdict(base, error=error, notes=(long,) * 30, fixes=(fix,))).splitlines()

    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert any("more notes" in line for line in lines)
    assert any("more lines" in line for line in lines)


def test_it_fits_where_everything_is_long_and_nothing_is_proven(recorded):
    """For a long error, harm and change in distant lines of code, lines without a write or save are left out."""
    base, long = recorded("raises_backward"), "a word and " * 40
    error = msgspec.structs.replace(base.verdict.error, message=long)
    harm = msgspec.structs.replace(base.verdict.harms[0], tensor="a_long_name." * 12)
    fix = Fix("a kind", 8, "old", "\n".join(["new"] * 9), False, "changes what is computed", long)
    shown = with_verdict(base, error=error, harms=(harm, harm_at(harm, 3)), fixes=(fix,), notes=(long,) * 3)
    lines = view.as_screen(shown).splitlines()

    assert len(lines) <= LINES
    marks = {line[0] for line in lines if line[1:6].strip().isdigit() or line[2:6].strip().isdigit()}
    assert {">", "+"} <= marks


def test_the_first_harm_is_told_in_a_sentence_with_its_code(recorded):
    """The line, the alias, the overwritten tensor, the node that keeps it, and the error of the gradient."""
    told = " ".join(view.as_screen(recorded("silently_wrong")).split())

    assert (
        "At line 9, `d.data[:] = 1` overwrites d through d.data, which MulBackward0 (line 8) keeps for backward."
        in told
    )
    assert "> 9 | d.data[:] = 1" in told
    assert "w2.grad is off" in told or "[1]; the right value is [4]" in told


def test_every_line_that_does_harm_is_named(recorded):
    """Harms after the first are counted by place, and each place is there as `line N`."""
    base = recorded("raises_backward")
    harm = base.verdict.harms[0]
    harms = [harm_at(harm, 20, 21), harm_at(harm, 31), harm_at(harm, 31), *(harm_at(harm, n) for n in range(40, 80))]
    told = " ".join(view.as_screen(with_verdict(base, harms=tuple(harms))).split())

    assert "line 31 (2)" in told
    assert all(f"line {number}" in told for number in (20, 21, 31, *range(40, 80)))


@pytest.mark.parametrize(
    ("off", "true", "words"),
    [
        (0.75, 4.0, "off by 75 %"),
        (0.004, 4.0, "off by 0.4 %"),
        (12.0, 4.0, "off by 1200 %"),
        (None, 0.0, "w.grad is [1]; the right value is [0]"),
    ],
)
def test_how_far_off_is_a_percentage(recorded, off, true, words):
    """The distance divided by the norm of the right gradient; without a value if that is zero."""
    gradients = {"w": Gradient([1.0], [true], off=off)}
    told = " ".join(view.as_screen(with_verdict(recorded("silently_wrong"), gradients=gradients)).split())

    assert words in told


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        pytest.param((), "no write broke backward", id="an old recording"),
        pytest.param((Check(COPIES, "", "yes"),), "no write broke backward", id="writes alone"),
        pytest.param((Check(COPIES, "", "not asked"),), "backward was never called", id="no backward"),
        pytest.param((Check(DIFFERENCES, "", "yes"),), "the gradients are those of the loss", id="finite differences"),
        pytest.param((Check(DIFFERENCES, "", "not known"),), "no write broke backward", id="undecided"),
    ],
)
def test_right_is_said_only_where_it_was_checked(checks, words):
    """The absence of a harmful write does not mean that the gradients are right."""
    told = headline(Verdict("correct", checks=checks))

    assert words in told
    assert "right" not in told


def test_a_page_opens_with_the_timeline_and_the_fix(recorded):
    """A page and a notebook's saved output begin with the cause; the fix follows the lines. Before a prediction neither is there."""
    base = recorded("raises_backward")
    fixed = with_verdict(base, fixes=(Fix("out of place", 9, "a = 1\nd += 1", "a = 1\nd = d + 1", True),))

    for page in (view.as_html(fixed), view.mimebundle(fixed)["text/html"]):
        shown = page.partition("<details")[0]
        assert shown.index("line 9 modified d after line 8 had saved it") < shown.index("Fix in line 9: d = d + 1")
    for page in (view.as_html(fixed, predict=True), view.mimebundle(fixed, predict=True)["text/html"]):
        assert "line 9 modified d" not in page.partition("<details")[0]
        assert "d = d + 1" not in page.partition("<details")[0]


def test_lines_that_a_repair_leaves_alone_are_not_shown():
    """For a repair with two distant changes, only these are listed, with one line for the lines between."""
    before = "x += y\n" + "same\n" * 20 + "z += y\n"
    fix = Fix("out of place", 1, before, before.replace("x += y", "x = x + y").replace("z += y", "z = z + y"), True)

    assert ["- x += y", "+ x = x + y", "…", "- z += y", "+ z = z + y"] == changed_lines(fix)


def test_what_a_long_line_gets_is_not_cut_away():
    """For two long lines with the same beginning, the difference is shown completely."""
    begin = "    optimizer.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0);"
    fix = Fix("detach", 1, f"{begin} step()\n", f"{begin} step(); state = state.detach()\n", True)
    assert ["- … step()", "+ … step(); state = state.detach()"] == changed_lines(fix)
