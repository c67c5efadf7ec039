"""A notebook becomes blocks, judged by the lesson's own check, in a browser without threads and processes."""

from __future__ import annotations

import subprocess
import sys

import nbformat
import pytest

from autograder.course.book.lesson_blocks import CodeBlock, ExerciseBlock, ProseBlock, QuestionBlock
from autograder.course.book.make_book import blocks_of
from autograder.course.book.notebook_recorder import record_notebook, start_shell
from autograder.errors import UnfinishedError
from tests.course.book.small_course import PROGRAM, SLOPE, small_notebook


def test_each_kind_of_cell_becomes_its_block(blocks):
    """Text, set-up, a question, a demonstration, an exercise and plain code appear in the notebook's order.

    Check cells and cells with lines to be moved are not blocks; the latter are shown in their exercise.
    """
    kinds = [
        *(ProseBlock, CodeBlock),
        *(ProseBlock, QuestionBlock, ProseBlock, CodeBlock),
        *(ProseBlock, QuestionBlock, ProseBlock),
        *(ProseBlock, ExerciseBlock),
        *(ProseBlock, ExerciseBlock, CodeBlock),
    ]
    assert kinds == [type(block) for block in blocks]
    assert blocks[1].is_setup
    assert "10\n" == blocks[-1].printed
    assert "check(" not in "".join(block.source for block in blocks if not isinstance(block, ProseBlock | CodeBlock))


def test_a_question_passes_only_what_pytorch_does(blocks):
    """The only right answer is the outcome of a plain run of the program: backward raises."""
    import torch

    space = {"torch": torch}
    exec(PROGRAM, space)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        space["late"]()
    question = next(block for block in blocks if isinstance(block, QuestionBlock))
    assert {"raises-backward"} == {choice.answer for choice in question.choices if choice.is_right}
    assert 4 == len({choice.verdict for choice in question.choices})
    assert "raises-backward" == question.recording.verdict.outcome


def test_a_question_for_a_value_is_answered_by_running_it(blocks):
    """The value is the function's return value: the derivative of w², which is 3 by hand."""
    question = next(block for block in blocks if isinstance(block, QuestionBlock) and block.kind == "value")
    assert 3.0 == question.value
    assert "a number" == question.hint
    assert "correct, it is 3, as you predicted" == question.choices[0].verdict


def test_a_demonstration_keeps_its_recording(blocks):
    """What `observed` shows is a recording of that very program."""
    shown = [one.recording for block in blocks if isinstance(block, CodeBlock) for one in block.recordings]
    assert ["correct"] == [recording.verdict.outcome for recording in shown]
    assert "h = h + 1" in shown[0].programs[0].source


def test_a_picture_shows_the_program_alone(blocks):
    """Neither the line that asks for a prediction nor the one that shows a run is part of a program's picture or text."""
    shown = {block.id: one.recording for block in blocks if isinstance(block, CodeBlock) for one in block.recordings}
    shown |= {block.id: block.recording for block in blocks if isinstance(block, QuestionBlock)}
    seen = PROGRAM.replace("late", "seen").replace("h.add_(1)", "h = h + 1")
    assert {"seen": seen.strip(), "prediction_late": PROGRAM.strip(), "prediction_slope": SLOPE.strip()} == {
        name: recording.programs[0].source.strip() for name, recording in shown.items()
    }
    assert [] == [block.id for block in blocks if isinstance(block, CodeBlock) and "@" in block.source]


@pytest.mark.parametrize(("cell", "shown"), [("6 * 7", "Out[0]: 42\n"), ("6 * 7;", ""), ("6 * 7;  \n", "")])
def test_a_semicolon_hides_a_value(blocks, cell, shown):
    """As in a notebook, the return value of a plotting function is not shown with the plot."""
    assert shown == start_shell().run(cell).printed


def test_a_cell_that_fails_stops_the_book(tmp_path):
    """A lesson that raises unexpectedly is named, and the book is not made."""
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0", id="divides")]), path)
    with pytest.raises(UnfinishedError, match="broken, cell divides: ZeroDivisionError"):
        record_notebook(path)


@pytest.mark.thorough
def test_recordings_are_kept_by_content(tmp_path, blocks):
    """The second book records nothing: even the notebook next to a damaged one uses the stored recordings."""
    notebook, kept = small_notebook(tmp_path), tmp_path / "kept"
    first = blocks_of([notebook], kept)
    files = {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert first == blocks_of([notebook], kept)
    assert files == {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    assert [type(block) for block in blocks] == [type(block) for block in first[0]]
    notebook.write_text(notebook.read_text().replace("sum(range(5))", "sum(range(6))"))
    assert "15\n" == blocks_of([notebook], kept)[0][-1].printed


REFUSED = """
import os, subprocess, threading, _thread, torch

def refuse(*_, **__):
    raise AssertionError("a thread or a process was started")

threading.Thread.start = _thread.start_new_thread = subprocess.Popen.__init__ = os.fork = refuse
"""
RECORDED = """
from autograder.tape import record
from autograder.view.scene.composition import build_scene

recording = record('''
import torch
w = torch.tensor([2.0], requires_grad=True)
d = w * 3
f = d * d
d.data[:] = 1
f.backward()
''')
print(recording.verdict.outcome, build_scene(recording).outcome)
"""


@pytest.mark.thorough
def test_recording_starts_no_thread_and_no_process():
    """The whole way from the text to the scene, with everything unusable that a browser has not."""
    done = subprocess.run([sys.executable, "-c", REFUSED + RECORDED], capture_output=True, text=True)
    assert "silently-wrong silently-wrong\n" == done.stdout, done.stderr
    broken = subprocess.run(
        [sys.executable, "-c", REFUSED + "threading.Timer(1, print).start()"], capture_output=True, text=True
    )
    assert "a thread or a process was started" in broken.stderr
