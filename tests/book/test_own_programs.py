"""A teacher's own programs in the book, and what cannot be shown there."""

from __future__ import annotations

import json

import pytest

from autograder.book.make_book import make_book
from autograder.book.record import own_programs
from autograder.book.record.own_programs import OwnProgramError, own_question, own_questions
from autograder.tape.recording.schema import VERSION, RecordingError, from_json, to_json

HARMFUL = "import torch\nw = torch.ones(2, requires_grad=True)\na = w.exp()\na.data += 1\na.sum().backward()\n"


@pytest.fixture
def program(tmp_path):
    """Returns a function that writes a program."""

    def write(text, name="mine.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.thorough
def test_a_program_becomes_a_question(program):
    """The right choice is what happens when it runs: nothing raises, and the gradient is not the slope of exp."""
    question = own_question(program(HARMFUL))
    assert ["silently-wrong"] == [choice.answer for choice in question.choices if choice.is_right]
    assert HARMFUL == question.source


@pytest.mark.thorough
def test_a_recording_is_shown_as_it_is(program):
    """A recording needs no run; one of a newer release is refused in one sentence."""
    recording = own_question(program(HARMFUL)).recording
    again = own_question(program(to_json(recording), "kept.json"))
    assert recording == again.recording
    newer = json.loads(to_json(recording)) | {"version": VERSION + 1}
    with pytest.raises(RecordingError, match="Update autograder"):
        own_question(program(json.dumps(newer), "newer.json"))
    assert from_json(to_json(recording)) == recording


@pytest.mark.thorough
def test_a_program_that_does_not_end(program, monkeypatch):
    """It is stopped, and the sentence says what to do."""
    monkeypatch.setattr(own_programs, "SECONDS", 3.0)
    with pytest.raises(OwnProgramError, match="still running after 3 seconds"):
        own_question(program("while True:\n    pass\n"))


@pytest.mark.thorough
def test_a_program_that_ends_python(program):
    """The command goes on to its sentence."""
    with pytest.raises(OwnProgramError, match="ended Python itself"):
        own_question(program("import os\nos._exit(0)\n"))


def test_nothing_is_written_for_a_bad_file(tmp_path, program):
    """A file that is not there, or two of one name, leave no folder behind."""
    with pytest.raises(OwnProgramError, match="cannot be read"):
        make_book(tmp_path / "book", added=[tmp_path / "absent.json"])
    with pytest.raises(OwnProgramError, match="Two programs are called mine"):
        own_questions([program(HARMFUL), program(HARMFUL, "mine.json")])
    assert not (tmp_path / "book").exists()
