"""The forms of a line: the values in memory and of the name after each, in plain PyTorch."""

from __future__ import annotations

import pytest
import torch

from autograder.check.playground.play_program import forms_of

WRITES = [
    "h.mul_(2)",
    "h += 1",
    "h[0] = 2",
    "h.data -= 3",
    "h.detach().zero_()",
    "h[0] *= 5",
    "h.fill_(4)",
    "h **= 2",
    "h.copy_(3 * h)",
]


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
