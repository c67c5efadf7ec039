"""A teacher's own programs in the book, and tables of arrangements, whose entries are the results of PyTorch."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograder.check.playground.arrangement import arrangements, text_of
from autograder.course.book import own_programs
from autograder.course.book.block_pages import share
from autograder.course.book.lesson_blocks import ExerciseBlock, QuestionBlock
from autograder.course.book.make_book import make_book
from autograder.course.book.notebook_recorder import try_arrangements
from autograder.course.book.own_programs import own_question, own_questions
from autograder.errors import InputError
from autograder.tape.recording.schema import VERSION, from_json, to_json
from autograder.view.scene.composition import build_scene
from tests.course.book.small_course import NAME
from tests.course.book.unpacking import unpacked, unshared

RECORDINGS = Path(__file__).parents[2] / "view" / "recordings"

HARMFUL = "import torch\nw = torch.ones(2, requires_grad=True)\na = w.exp()\na.data += 1\na.sum().backward()\n"


@pytest.fixture
def program(tmp_path):
    """Return a function that writes a program."""

    def write(text, name="mine.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


@pytest.mark.thorough
def test_a_program_becomes_a_question(program):
    """The right choice is the outcome of the program: it does not raise, and the gradient is not the derivative of exp."""
    question = own_question(program(HARMFUL))
    assert ["silently-wrong"] == [choice.answer for choice in question.choices if choice.is_right]
    assert HARMFUL == question.source


@pytest.mark.thorough
def test_a_recording_is_shown_as_it_is(program):
    """A recording needs no run; one of a newer release, or other JSON, is refused by its name, and only the first is out of date."""
    recording = own_question(program(HARMFUL)).recording
    again = own_question(program(to_json(recording), "kept.json"))
    assert recording == again.recording
    newer = json.loads(to_json(recording)) | {"version": VERSION + 1}
    with pytest.raises(InputError, match=r"newer\.json cannot be shown.*Update autograder"):
        own_question(program(json.dumps(newer), "newer.json"))
    with pytest.raises(InputError, match=r"other\.json cannot be shown. This is not a recording: it has no"):
        own_question(program('{"a": 1}', "other.json"))
    assert from_json(to_json(recording)) == recording


@pytest.mark.thorough
def test_a_program_that_does_not_end(program, monkeypatch):
    """The program is stopped, and the message suggests a solution."""
    monkeypatch.setattr(own_programs, "SECONDS", 3.0)
    with pytest.raises(InputError, match="still running after 3 seconds"):
        own_question(program("while True:\n    pass\n"))


@pytest.mark.thorough
def test_a_program_that_ends_python(program):
    """The command goes on to its sentence."""
    with pytest.raises(InputError, match="ended the Python process"):
        own_question(program("import os\nos._exit(0)\n"))


@pytest.mark.parametrize("name", ["pipe.json", "pipe.py", "pipe.ipynb", "folder.json"])
def test_what_is_no_file_is_not_waited_for(tmp_path, name):
    """A named pipe, which may never be written to, and a folder are refused immediately, whatever their names end with."""
    place = tmp_path / name
    place.mkdir() if name.startswith("folder") else os.mkfifo(place)
    with pytest.raises(InputError, match="is not a file"):
        own_question(place)


@pytest.mark.parametrize(
    "harm",
    [
        {"programs": []},
        {"tensors": []},
        {"saved": [{"id": 0, "node": 99, "name": "self", "storage": 99, "start": 0, "stop": 4,
                    "saved_version": 0, "version_now": 0, "bytes_changed": False}]},
    ],
)  # fmt: skip
def test_a_recording_that_contradicts_itself_is_refused(program, harm):
    """Each field has the right type, but refers to something missing: one sentence is printed before any page is made."""
    whole = json.loads((RECORDINGS / "silently_wrong.json").read_text("utf-8"))
    with pytest.raises(InputError, match="is damaged and cannot be drawn"):
        own_question(program(json.dumps(whole | harm), "kept.json"))


def test_a_program_without_a_statement_is_refused(program):
    """Such a program cannot be predicted, and does not have a step to show."""
    for text in ("", "# later\n"):
        with pytest.raises(InputError, match=r"mine.py contains no statement to run. Name a program"):
            own_question(program(text))


def test_two_names_of_one_address_are_refused(program):
    """Names that differ in case or in signs alone would be one file in the book."""
    for first, second in (("a-b.json", "a_b.json"), ("Mine.json", "mine.json")):
        with pytest.raises(InputError, match="Two programs are called"):
            own_questions([program("{}", first), program("{}", second)])


def test_nothing_is_written_for_a_bad_file(tmp_path, program):
    """A file that is not there, or two of one name, leave no folder behind."""
    with pytest.raises(InputError, match="cannot be read"):
        make_book(tmp_path / "book", added=[tmp_path / "absent.json"])
    with pytest.raises(InputError, match="Two programs are called mine"):
        own_questions([program(HARMFUL), program(HARMFUL, "mine.json")])
    assert not (tmp_path / "book").exists()


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
    offered = {one.key: text_of(table.program, one) for one in arrangements(table.program, 300)}
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
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=3).filter("$".__ne__), inner, max_size=4)
    ),
    max_leaves=40,
)


@given(values)
def test_sharing_parts_changes_nothing(value):
    """Shared values without the key `$` come back equal, whatever their type, after three round trips."""
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
    offered = {one.key: one for one in arrangements(table.program, 300)}
    passing = set()
    for one in table.tried:
        text = text_of(table.program, offered[one.key])
        outcome = one.recording.verdict.outcome
        assert plain_run(text) == (outcome if outcome.startswith("raises") else "runs"), text
        if one.passes:
            passing.add(tuple(text.splitlines()[1:-1]))
    assert passing == {("a = w.exp()", "a = a * 2")}
    assert all(one.said or one.passes or one.recording.verdict.outcome != "correct" for one in table.tried)
