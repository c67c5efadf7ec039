"""The forms of a line and the arrangements of lines: their text, values and verdicts agree with plain PyTorch."""

from __future__ import annotations

import msgspec
import pytest
import torch

from autograder.check.playground.arrangement import (
    Arrangement,
    PlacedCard,
    PlayProgram,
    answer_text,
    arrangements,
    run,
    text_of,
)
from autograder.check.playground.play_program import (
    Unplayable,
    forms_of,
    program_from_function,
    program_from_lines,
    program_from_text,
)
from autograder.tape import ProgramError

WRITES = [
    "h.mul_(2)", "h += 1", "h[0] = 2", "h.data -= 3", "h.detach().zero_()", "h[0] *= 5", "h.fill_(4)", "h **= 2",
    "h.copy_(3 * h)",
]  # fmt: skip


def left_by(text: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return the value of the name after a line, the contents of the old memory, and the version of the old tensor."""
    old = torch.tensor([1.0, 2.0, 3.0]) * 1
    space = {"torch": torch, "h": old}
    exec(text, space)
    return space["h"], old, old._version


@pytest.mark.parametrize("text", WRITES)
def test_every_form_gives_the_name_the_same_values(text):
    """Switching a write changes its target and its counter, never the values of the name afterwards."""
    forms = forms_of(text)
    assert {"in place", ".data", ".detach()", "out of place"} == {form.name for form in forms}
    assert text == forms[0].text
    values = [left_by(form.text)[0].tolist() for form in forms]
    assert values == values[:1] * 4


@pytest.mark.parametrize("text", WRITES)
def test_forms_are_what_they_are_called(text):
    """In place and `.detach()` are counted, `.data` writes uncounted, out of place leaves the old memory as it was."""
    before = [1.0, 2.0, 3.0]
    for form in forms_of(text):
        _, old, version = left_by(form.text)
        written, counted = old.tolist() != before, version > 0
        assert {
            "in place": (True, True),
            ".detach()": (True, True),
            ".data": (True, False),
            "out of place": (False, False),
        }[form.name] == (written, counted), form.text


@pytest.mark.parametrize("text", ["shown = h.data", "shown = h.detach()"])
def test_an_alias_can_be_the_tensor_or_a_copy(text):
    """The four forms share or copy the memory, as their names say."""
    shares = {}
    for form in forms_of(text):
        space = {"h": torch.ones(2)}
        exec(form.text, space)
        shares[form.name] = space["shown"].data_ptr() == space["h"].data_ptr()
    assert {".data": True, ".detach()": True, "the tensor itself": True, "a copy": False} == shares


@pytest.mark.parametrize(
    "text", ["a = h * 2", "torch.relu_(h)", "with torch.no_grad():\n    h.add_(1)", "h.sum().backward()"]
)
def test_other_lines_stay_as_they_are(text):
    """A line that is not a separate write, or that calls a function of a module, has one form: its text."""
    assert [("as written", text)] == [(form.name, form.text) for form in forms_of(text)]


def test_what_is_random_has_no_form_out_of_place():
    """There is no `Tensor.uniform`, so this form is not offered."""
    assert ["in place", ".data", ".detach()"] == [form.name for form in forms_of("h.uniform_()")]


FUNCTION = '''
@predicted("prediction_item_written")
def item_written():
    """A comment for the reader."""
    u = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    w = torch.tensor([[1.0, 0.5], [2.0, 1.0]], requires_grad=True)
    i = u[[0], :] * 1
    a = i @ w
    i[0] = 2
    a.sum().backward()
    return {"w": w.grad}
'''
LINES = ["return total", "buffer.zero_()", "total = total + buffer", "buffer = torch.zeros_like(buffer)"]
BEFORE = ["buffer = torch.tensor([1.0, 2.0]) * 1", "total = torch.tensor([3.0, 4.0], requires_grad=True)"]


@pytest.fixture(scope="module")
def program() -> PlayProgram:
    """The program of a prediction."""
    return program_from_function("item_written", FUNCTION)


@pytest.fixture(scope="module")
def unordered() -> PlayProgram:
    """Lines that are to be put in order, one of them not needed."""
    return program_from_lines("drain", LINES, "def drain(buffer, total):", BEFORE)


def outcome_in_plain_pytorch(text: str) -> str:
    """Return the outcome of a text that binds a leaf `w`: `w.grad` is compared with the central differences of backward's root."""

    def value(shift: torch.Tensor) -> torch.Tensor:
        shifted = text.replace("requires_grad=True)", "dtype=torch.float64) + shift").replace(".backward()", "")
        shifted = shifted.replace("a.sum()", "loss = a.sum().clone()").replace("4.0]])", "4.0]], dtype=torch.float64)")
        space = {"torch": torch, "shift": shift}
        exec(shifted, space)
        return space["loss"]

    space: dict = {"torch": torch}
    try:
        exec(text, space)
    except RuntimeError:
        return "raises-backward"
    right = torch.zeros(4, dtype=torch.float64)
    for index in range(4):
        step = torch.zeros(4, dtype=torch.float64)
        step[index] = 1e-4
        right[index] = (value(step.view(2, 2)) - value(-step.view(2, 2))) / 2e-4
    return "correct" if torch.allclose(space["w"].grad.double().view(-1), right, atol=1e-3) else "silently-wrong"


def test_verdicts_agree_with_plain_pytorch(program):
    """Every arrangement that is offered has the outcome that PyTorch's own run and finite differences give it; three of them occur."""
    offered = arrangements(program, 300)
    found = {one.key: run(program, one, {}, 2.0).verdict.outcome for one in offered}
    assert {one.key: outcome_in_plain_pytorch(text_of(program, one)) for one in offered} == found
    assert {"raises-backward", "silently-wrong", "correct"} == set(found.values())


def test_the_write_is_offered_at_each_place_in_each_form(program):
    """Where `i` is bound, the write may be placed: three places, four forms; the given program is first, and all differ."""
    offered = arrangements(program, 300)
    assert 12 == len(offered) == len({one.key for one in offered})
    assert program.as_given == offered[0]
    assert text_of(program, offered[0]) == "\n".join(line[4:] for line in FUNCTION.splitlines()[4:-1]) + "\n"


@pytest.mark.parametrize("reader", ["lambda *y: y", "lambda y, /: y", "lambda *, y: y", "lambda **y: y", "lambda y: y"])
def test_a_functions_parameters_are_not_names_of_the_program(reader):
    """A line whose function has a parameter with the name of a variable may precede the line that binds the variable."""
    program = program_from_lines("f", ["return y", f"g = {reader}", "y = w * 2"], "def f(w):")
    orders = {tuple(program.card(line.card).forms[0].text for line in one.lines) for one in arrangements(program, 300)}
    assert (f"g = {reader}", "y = w * 2", "return y") in orders


def test_orders_bind_before_they_read_and_end_in_the_return(unordered):
    """Each order that is offered runs in plain Python, and no order of the four lines that would run is missing."""
    offered = {one.key for one in arrangements(unordered, 300)} - {unordered.as_given.key}
    for key in offered:
        lines = [unordered.card(card).forms[0].text for card in key.split()]
        assert "return total" == lines[-1]
        exec("\n".join(lines[:-1]), {"torch": torch})
    # Two lines of BEFORE bind both names, so every subset of the three others in every order is one.
    assert 1 + 3 + 6 + 6 == len(offered)


def test_a_line_that_adds_in_place_stays_below_its_name():
    """`y += 1` reads `y`: above the line that binds it, Python would raise a NameError."""
    offered = arrangements(program_from_lines("f", ["return y", "y += 1", "y = w * 2"], "def f(w):"), 300)
    assert {"", "2 0", "2 1 0"} == {one.key for one in offered}


def test_a_table_has_an_end(unordered):
    """Ten lines have millions of orders; asking for 50 returns 50 quickly."""
    many = program_from_lines("many", [f"x{n} = {n}" for n in range(10)] + ["return x0"])
    assert 50 == len(arrangements(many, 50))


def test_the_answer_is_a_function(unordered):
    """What is written into the cell is the function that the exercise asks for, with the lines in order, and runs."""
    order = Arrangement((*unordered.as_given.lines, PlacedCard("4"), PlacedCard("3"), PlacedCard("2")))
    space = {"torch": torch}
    exec(answer_text(unordered, order), space)
    buffer = torch.ones(2)
    assert [2.0, 2.0] == space["drain"](buffer, torch.ones(2)).tolist()
    assert [0.0, 0.0] == buffer.tolist()
    assert "correct" == run(unordered, order, {}, 2.0).verdict.outcome


def test_an_edit_stands_in_place_of_the_form(program):
    """An edited line is run instead of the card's own text; the key does not change."""
    edited = msgspec.structs.replace(program.as_given, edits={"4": "i = i * 2"})
    assert "i = i * 2" in text_of(program, edited)
    outcomes = [run(program, order, {}, 2.0).verdict.outcome for order in (program.as_given, edited)]
    assert ["raises-backward", "correct"] == outcomes
    assert edited.key == program.as_given.key


def test_all_of_it_is_json(program, unordered):
    """A program and its arrangements come back from JSON as they were."""
    for one in (program, unordered):
        assert one == msgspec.json.decode(msgspec.json.encode(one), type=PlayProgram)
        offered = arrangements(one, 300)
        assert offered == msgspec.json.decode(msgspec.json.encode(offered), type=list[Arrangement])


def test_what_cannot_be_played_with_says_why():
    """A text that is not Python, one line, and an edit that is not Python: one sentence each."""
    with pytest.raises(Unplayable, match=r"early is not Python: .* on line 1"):
        program_from_text("early", "h = (")
    with pytest.raises(Unplayable, match="fewer than two lines"):
        program_from_text("early", "h = 1")
    with pytest.raises(Unplayable, match="is not a function"):
        program_from_function("Net", "class Net:\n    pass")
    program = program_from_text("early", "h = 1\nk = 2")
    with pytest.raises(ProgramError, match="is not Python"):
        run(program, msgspec.structs.replace(program.as_given, edits={"1": "k = ("}), {}, 2.0)
