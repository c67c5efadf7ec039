"""The recording as text: the first screen, every step, the timeline, gradient lines, a cell's lines, and the parts of a picture."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder import view
from autograder.locale.line_breaks import columns, join_lines, wrap_text
from autograder.locale.translations import join_names
from autograder.tape import record
from autograder.tape.recording.schema import Recording, SourceFile, Step, from_json, to_json
from autograder.tape.recording.verdict_types import Check, Fix, Gradient, GraphFault, Harm, Place, Verdict
from autograder.view import shapes
from autograder.view.draw.markup import write_svg
from autograder.view.scene.board import highlight
from autograder.view.scene.composition import lines_shown
from autograder.view.scene.timeline import timeline_of, timeline_text
from autograder.view.text.first_screen import changed_lines
from autograder.view.text.gradient_values import gradient_line, gradient_name
from autograder.view.text.headline import headline, title
from autograder.view.text.naming import count_noun, join_few
from tests.stored import assert_stored
from tests.view.conftest import NAMES, stored
from tests.view.shown import everything_shown

HEAD = "import torch\nw = torch.ones(2, requires_grad=True)\n"
LONG = {
    "deep": "h = w\nfor i in range(300):\n    h = (h * w).tanh()\nh.data.mul_(2)\nh.square().sum().backward()\n",
    "rounds": "for i in range(9):\n    h = w.exp()\n    if i > 6:\n        h.data.mul_(2)\n    h.sum().backward()\n",
}


@pytest.mark.parametrize("name", [*NAMES, *LONG])
def test_what_is_shown_is_what_was_stored(name):
    """The whole text, which has each fact of the picture for readers who do not see it, the screen, and every picture."""
    recording = record(HEAD + LONG[name], file="long.py") if name in LONG else stored(name)
    assert_stored("view.txt", name, view.as_text(recording, most=60) + everything_shown(recording))


def test_a_long_run_is_cut_in_the_middle_only_where_asked(recorded):
    """`most` keeps the first and the last steps and gives the number of the others; without it all are printed."""
    whole, cut = view.as_text(recorded("loop")), view.as_text(recorded("loop"), most=10)
    assert "more steps" not in whole
    assert "… 82 more steps …" in cut
    assert len(view.as_text(recorded("loop"), most=1).splitlines()) < len(cut.splitlines())
    assert whole.splitlines()[:5] == cut.splitlines()[:5]


def test_a_backward_that_is_refused_does_not_run_to_its_end(recorded):
    """The sentence states how many saved tensors it freed, and that it stopped."""
    whole = recorded("raises_backward")
    *before, last = whole.steps
    freed = msgspec.structs.replace(whole, steps=(*before, msgspec.structs.replace(last, freed=(whole.saved[0].id,))))
    text = view.as_text(freed)
    assert "Backward starts, frees 1 saved tensor, and stops with an error." in text
    assert "Backward runs" not in text


ONE_LINE = "a, b = w.exp(), w.exp()\nfor h in (a, b):\n    h.mul_(2)\n(a + b).sum().backward()\n"
TWO_LINES = "a, b = w.exp(), w.exp()\na.mul_(2)\nb.mul_(2)\n(a + b).sum().backward()\n"


@pytest.mark.parametrize(("lines", "expected"), [
    pytest.param(ONE_LINE, [("b and a", [3, 5, 6])], id="the same lines"),
    pytest.param(TWO_LINES, [("b", [3, 5, 6]), ("a", [3, 4, 6])], id="other lines"),
])  # fmt: skip
def test_storages_with_the_same_lines_share_a_column(lines, expected):
    """A line makes and saves two results; one line, or two lines, modify them. A column names all its storages."""
    timeline = timeline_of(record(HEAD + lines, file="bug.py"))
    assert expected == [(column.name, [int(row.line) for row in column.rows]) for column in timeline.columns]
    assert ("2 storages" in timeline_text(timeline)) == (len(expected) == 1)


def test_a_row_names_the_execution_of_its_line():
    """The write is into the result of the second of three executions. Leaving `with` is not a statement between two rows."""
    lines = "loss = 0\nfor i in range(3):\n    h = w.exp()\n    loss = loss + h.sum()\n    if i == 1:\n"
    lines += "        with torch.no_grad():\n            h.mul_(2)\nloss.backward()\n"
    [column] = timeline_of(record(HEAD + lines, file="bug.py")).columns
    assert [("5", "execution 2 of 3"), ("9", ""), ("10", "")] == [(row.line, row.remark) for row in column.rows]
    assert ["", "… 3 statements", "… 5 statements"] == [row.fold for row in column.rows]


@pytest.mark.parametrize(("lines", "expected"), [
    pytest.param("h = w * 1\nh.add_(1)\nh.mul_(2)\nh.square()\n", "h: 3 made, 4 modified, 5 modified", id="each write"),
    pytest.param("h = w * 1\ny = h.relu_()\n(y * y).sum().backward()\n", "h: 3 made, 4 modified, 5 fine", id="relu_"),
    pytest.param("h = w * 1\nh[0].mul_(2)\nh.sum().backward()\n", "h: 3 made, 4 modified, 5 fine", id="an unnamed view"),
    pytest.param("h = (w * 1).view(2, 1)\nh @ torch.ones(2, 1)\n", ": 4 raised", id="an error of shapes"),
    pytest.param("h, g = [c + 1 for c in (w, w)]\nh += 1\nh.sum().backward()\n", "h: 3 made, 4 modified, 5 fine", id="comprehension"),
])  # fmt: skip
def test_the_rows_of_a_program_that_no_write_harms(lines, expected):
    """All writes into the first storage are shown, and a leaf or view only if the error is about it; nothing is between the rows."""
    [column] = timeline_of(record(HEAD + lines, file="bug.py")).columns
    rows = [f"{row.line} {row.marks[-1].kind}" for row in column.rows]
    assert (expected, {("", "")}) == (
        f"{column.name}: {', '.join(rows)}",
        {(row.fold, row.remark) for row in column.rows},
    )


def test_the_title_names_all_storages_that_the_line_modified():
    """The gradient needs the variance, which is the second buffer that the line modifies."""
    lines = "norm = torch.nn.BatchNorm1d(1, affine=False).eval()\nx = torch.tensor([[1.0], [3.0]])\n"
    lines += "loss = norm(w.sum() * x).sum()\nnorm.train()(x)\nloss.backward()\n"
    title = timeline_of(record(HEAD + lines, file="bug.py")).title
    assert title.endswith("because line 6 modified norm.running_mean and norm.running_var")


def test_a_column_without_a_storage_is_headed_by_its_line():
    """The derivative frees the graph of the loss that contains it, of which no storage is the cause."""
    lines = "x = w.exp().sum()\n(g,) = torch.autograd.grad(x, w)\nloss = x + g.norm()\nloss.backward()\n"
    timeline = timeline_of(record(HEAD + lines, file="bug.py"))
    assert ["line 4"] == [column.heading for column in timeline.columns]


@pytest.mark.parametrize(("got", "line"), [
    pytest.param([1.0, 2.0], "w.grad  got [1, 2]  right [2, 4]  <- off by 50 %", id="wrong"),
    pytest.param(None, "w.grad  got nothing  right [2, 4]", id="missing"),
])  # fmt: skip
def test_only_a_computed_gradient_is_measured(got, line):
    """A gradient that backward computed shows its relative error; a missing one does not, since it was not computed."""
    assert line == gradient_line("w", Gradient(got, [2.0, 4.0], off=0.5 if got else 1.0))


@pytest.mark.parametrize(
    ("call", "name"), [("loss.backward()", "w.grad"), ("torch.autograd.grad(loss, w)", "The gradient of w")]
)
def test_a_gradient_is_named_as_the_program_can_read_it(call, name):
    """`autograd.grad` fills no `.grad`."""
    lines = f"loss = w.exp().sum()\n{call}\n"
    exec(HEAD + lines, plain := {})
    [(leaf, gradient)] = record(HEAD + lines).verdict.gradients.items()
    assert (name, name == "w.grad") == (gradient_name(leaf, gradient), plain["w"].grad is not None)


def test_a_narrow_line_shows_fewer_numbers_and_cuts_none():
    """Numbers that do not fit are counted; a cut one would be read as another number."""
    gradient = Gradient([0.125] * 9, [0.125] * 9, rounds=800)
    wide = "w.grad  got [0.125, 0.125, 0.125, … 6 more]  right [0.125, 0.125, 0.125, … 6 more]  (made 800 times)"
    assert wide == gradient_line("w", gradient)
    narrow = "w.grad  got [0.125, … 8 more]  right [0.125, … 8 more]  (made 800 times)"
    assert narrow == gradient_line("w", gradient, width=75)


CELL = (
    '"""Two programs."""\n\n\n@observed\ndef first():\n    a = 1\n\n\n@other\ndef second():\n    b = 2\n    return b\n'
)


def run_of(*lines: int, source: str = CELL) -> tuple[Recording, SourceFile]:
    """Return a recording in which these lines ran, and its program."""
    program = SourceFile("cell", source)
    steps = tuple(Step(number, Place("cell", line, "")) for number, line in enumerate(lines))
    recording = Recording(1, "2.13.0", (program,), steps, (), (), (), (), (), Verdict("correct"))
    return from_json(to_json(recording)), program


@pytest.mark.parametrize(("lines", "shown"), [
    pytest.param((6,), range(5, 7), id="the first function"),
    pytest.param((11, 12), range(9, 13), id="the second function"),
    pytest.param((6, 11), range(1, 13), id="both functions"),
    pytest.param((1, 6), range(1, 13), id="a line outside"),
    pytest.param((), range(1, 13), id="no line"),
])  # fmt: skip
def test_only_the_function_that_ran_is_shown(lines, shown):
    """Beside other functions, the one that ran is shown, without a decorator of the course; whatever ran elsewhere shows the whole cell."""
    assert shown == lines_shown(*run_of(*lines))


def test_a_cell_that_is_no_python_is_shown_whole():
    """A magic in the first line does not stop a picture."""
    assert range(1, 3) == lines_shown(*run_of(2, source="%%explain\na = 1\n"))


def test_a_program_without_other_functions_is_shown_without_a_decorator_of_the_course():
    """A picture repeats the program of its cell, and not the question about it."""
    source = "@versions_hidden\ndef alone():\n    a = 1\n"
    assert range(2, 4) == lines_shown(*run_of(3, source=source))
    assert range(1, 4) == lines_shown(*run_of(3, source=source.replace("versions_hidden", "torch.no_grad()")))


@pytest.mark.parametrize(("words", "cells"), [("loss", 4), ("", 0), ("損失", 4), ("e\u0301", 1)])
def test_text_is_measured_in_cells(words, cells):
    """East Asian characters take two cells, combining marks take none."""
    assert cells == columns(words)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=60), st.integers(1, 20))
def test_clipped_text_fits_and_says_that_it_was_cut(words, limit):
    """It is never wider than the limit; in a text that fits, only unnecessary spaces are removed."""
    clipped = shapes.clip(words, limit)
    assert columns(clipped) <= limit
    assert clipped == " ".join(words.split()) or clipped.endswith("…")


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=8), max_size=12), st.integers(8, 20))
def test_wrapped_text_loses_no_word(words, limit):
    """Each line fits, and the lines together are the words."""
    lines = wrap_text(" ".join(words), limit)
    assert all(columns(line) <= limit for line in lines)
    assert words == " ".join(lines).split()


@pytest.mark.parametrize(
    "source", ["for i in x:  # all\n    y = 'a' + 1\n", 'text = """a\nb"""\n', "not python (\n", ""]
)
def test_colours_change_no_character(source):
    """The joined runs of each line equal the line, even if the source is not Python."""
    assert source.rstrip("\n").split("\n") == ["".join(text for text, _ in line) for line in highlight(source)]


def test_colours_are_pythons_own_tokens():
    """A keyword, a number, a string and a comment have their kinds; names and operators do not."""
    (line,) = highlight("if x: y = 'a' + 1  # why")
    assert {"if": "keyword", "'a'": "string", "1": "number", "# why": "comment"} == {
        text: kind for text, kind in line if kind
    }


@given(st.text(st.characters(max_codepoint=0xD7FF, exclude_categories=["Cc"]), max_size=30))
def test_markup_is_well_formed_whatever_the_words(words):
    """An XML parser reads back the text, and no element that a program's names could have brought."""
    tree = ElementTree.fromstring(write_svg(shapes.group(shapes.text(1.0, 2.25, words), kind="pen")))
    assert ["text"] == [child.tag for child in tree]
    assert ("pen", "1", "2.2") == (tree.get("class"), tree[0].get("x"), tree[0].get("y"))
    assert words == (tree[0].text or "")


def test_lists_read_as_sentences():
    """Up to three things by name, more as a count."""
    assert ["", "a", "a and b", "a, b and c"] == [join_names(list("abc")[:count]) for count in range(4)]
    assert "a, b, c and 2 more" == join_few(list("abcde"))
    assert ("1 step", "2 steps") == (
        count_noun(1, "{count} step", "{count} steps"),
        count_noun(2, "{count} step", "{count} steps"),
    )


def test_chinese_is_wrapped_between_letters():
    """Lines respect the width, do not begin with a full stop, keep names whole, and give the text when joined."""
    text = "`h += y` 覆盖了 h，而 AddmmBackward0（第 13 行）为反向传播保留着它。"
    for width in range(20, 40):
        lines = wrap_text(text, width, "- ", "  ")
        assert all(columns(line) <= width and line[2:3] not in "，。）" for line in lines)
        assert text == join_lines([lines[0][2:], *lines[1:]])
    assert text.replace(" ", "") == "".join(wrap_text(text, 10)).replace(" ", "")


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
    shown = with_verdict(base, error=error, harms=(harm, harm_at(harm, 3)), fixes=(fix,), notes=(long,) * 3, runs=7)
    lines = view.as_screen(shown).splitlines()
    assert len(lines) <= LINES
    marks = {line[0] for line in lines if line[1:6].strip().isdigit() or line[2:6].strip().isdigit()}
    assert {">", "+"} <= marks
    assert any(line.startswith("The program ran 7 times") for line in lines)


def test_the_number_of_runs_is_in_words_for_a_single_run(recorded):
    """A program that stops before any backward call runs once."""
    assert "The program ran once." in view.as_screen(with_verdict(recorded("raises_forward"), runs=1)).splitlines()


def test_every_line_that_does_harm_is_named(recorded):
    """Harms after the first are counted by place, and each place is there as `line N`."""
    base = recorded("raises_backward")
    harm = base.verdict.harms[0]
    harms = [harm_at(harm, 20, 21), harm_at(harm, 31), harm_at(harm, 31), *(harm_at(harm, n) for n in range(40, 80))]
    told = " ".join(view.as_screen(with_verdict(base, harms=tuple(harms))).split())
    assert "line 31 (2)" in told
    assert all(f"line {number}" in told for number in (20, 21, 31, *range(40, 80)))


@pytest.mark.parametrize(("off", "true", "words"), [
    (0.75, 4.0, "off by 75 %"),
    (0.004, 4.0, "off by 0.4 %"),
    (12.0, 4.0, "off by 1200 %"),
    (None, 0.0, "w.grad is [1]; the right value is [0]"),
])  # fmt: skip
def test_how_far_off_is_a_percentage(recorded, off, true, words):
    """The distance divided by the norm of the right gradient; without a value if that is zero."""
    gradients = {"w": Gradient([1.0], [true], off=off)}
    told = " ".join(view.as_screen(with_verdict(recorded("silently_wrong"), gradients=gradients)).split())
    assert words in told


@pytest.mark.parametrize(("checks", "words"), [
    pytest.param((), "no write broke backward", id="an old recording"),
    pytest.param((Check(COPIES, "", "yes"),), "no write broke backward", id="writes alone"),
    pytest.param((Check(COPIES, "", "not asked"),), "backward was never called", id="no backward"),
    pytest.param((Check(DIFFERENCES, "", "yes"),), "finite differences confirm the gradients", id="finite differences"),
    pytest.param((Check(DIFFERENCES, "", "not known"),), "could not decide", id="undecided"),
])  # fmt: skip
def test_right_is_said_only_where_it_was_checked(checks, words):
    """The absence of a harmful write does not mean that the gradients are right."""
    told = headline(Verdict("correct", checks=checks))
    assert words in told
    assert "right" not in told


UPDATED = (
    "import torch", "w = torch.ones((), requires_grad=True)", "optimizer, w.grad = torch.optim.SGD([w]), torch.ones(())",
    "loss = w * w", "optimizer.step()", "loss.backward()",
)  # fmt: skip


def test_the_headline_names_the_file_of_a_line():
    """A line of another file has its name; of faults in several files, one in the program's own file comes first."""
    faults = [GraphFault("graph cut", Place(file, line, ""), "", "") for file, line in (("sam.py", 3), ("main.py", 36))]
    assert title(Verdict("correct", graph_faults=(faults[0],)), "main.py").endswith("but see sam.py, line 3")
    assert title(Verdict("correct", graph_faults=tuple(faults)), "main.py").endswith("but see line 36")


def test_an_update_of_a_parameter_is_not_advised_to_use_a_copy():
    """`optimizer.step()` has to come after backward, or before the loss; for a result of exp, a copy is the advice."""
    updated = record("\n".join(UPDATED))
    copied = record("\n".join([*UPDATED[:3], "loss = (loss := w.exp()).add_(1)", *UPDATED[5:]]))
    assert "Call backward() before line 5, or compute the loss again after it." in " ".join(
        view.as_screen(updated).split()
    )
    twice = record("\n".join([*UPDATED[:5], *UPDATED[4:]]).replace("w * w", "w * w * w"))
    assert "before line 5, or compute the loss again after line 6." in " ".join(view.as_screen(twice).split())
    assert "modify a copy" not in view.as_screen(updated)
    assert "modify a copy" in view.as_screen(copied)


def test_values_that_look_equal_are_left_out(recorded):
    """The first elements of both gradients are zero, so that the screen could not show the difference."""
    gradients = {"w": Gradient([0.0] * 99 + [1.0], [0.0] * 99 + [2.0], off=0.5)}
    told = " ".join(view.as_screen(with_verdict(recorded("silently_wrong"), gradients=gradients)).split())
    assert "w.grad is off by 50 %." in told


@pytest.mark.parametrize(("between", "shown"), [(" o.step()\n", "    o.step()\n"), (" o.step()\n f()\n", "  …\n")])
def test_a_moved_line_is_shown_with_a_gap(recorded, between, shown):
    """The removed and the added line are equal; "…" stands for the lines between them, if there are several."""
    change = f"@@ -1,4 +1,4 @@\n f()\n-o.zero_grad()\n{between}+o.zero_grad()\n f()\n"
    fault = GraphFault("cleared", Place("main.py", 1, ""), "", "", diff=f"--- main.py\n+++ main.py\n{change}")
    screen = view.as_screen(with_verdict(recorded("correct"), graph_faults=(fault,)))
    assert f":\n  - o.zero_grad()\n{shown}  + o.zero_grad()\n\n" in screen


@pytest.mark.parametrize(
    ("file", "line", "shown"),
    [
        ("main.py", 2, "main.py, line 2"), ("main.py", 4, "main.py, line 4"),
        ("main.py", 9, "main.py, line 9, at line 3"), ("net.py", 9, "net.py, line 9, at main.py, line 3"),
    ],
)  # fmt: skip
def test_a_change_elsewhere_is_shown_with_its_line(recorded, file, line, shown):
    """The same line may occur twice, so the text around a change does not show where it belongs."""
    change = "--- a/main.py\n+++ b/main.py\n@@ -1,3 +1,4 @@\n f()\n \n+x = 1\n g()\n"
    fault = GraphFault("mode", Place(file, line, ""), "", "", diff=change)
    screen = view.as_screen(with_verdict(recorded("correct"), graph_faults=(fault,)))
    assert f"Suggestion for {shown} (not tested):" in screen


def test_a_change_of_a_notebook_is_shown_as_code(recorded):
    """The patch is one of the file, whose lines are JSON."""
    change = '@@ -1,1 +1,1 @@\n-    "source": "x = \\"a\\"\\n"\n+    "source": "x = 1\\n"\n'
    code = '@@ -1,1 +1,1 @@\n-x = "a"\n+x = 1\n'
    fault = GraphFault("cut", Place("main.ipynb", 1, ""), "", "", diff=change, code=code)
    shown = with_verdict(recorded("correct"), graph_faults=(fault,))
    assert '  - x = "a"\n  + x = 1\n' in view.as_screen(shown)


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
