"""A graded lesson runs as in JupyterLab: cells of a right submission do not raise, and its imports are loaded by the server."""

import json
import sys

import msgspec
import nbformat
import pytest

from autograder import graded
from autograder.course.canonical import read
from autograder.course.paths import SOLUTIONS, lessons
from autograder.grade.submission.submission_grader import SubmissionGrader, recordings_of
from autograder.grade.submission.teacher.source import AssignmentSource
from autograder.grade.validation.validate import model_answers, release
from autograder.grade.wire import messages
from tests.grade.conftest import LIMITS
from tests.grade.small_course import answer, graded_cell, hand_in, points, source, teacher

LESSONS = [path for path in lessons(SOLUTIONS) if path.parent.name != "start"]
LOADED = "import sys\nprint(sorted(name for name in sys.modules if name.partition('.')[0] == 'autograder'))"


def printed(worker, text):
    """Return the text that a cell printed."""
    return [one["text"] for one in json.loads(worker.ask(messages.RunCell(text), messages.CellRan).outputs)]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_cell_of_a_right_hand_in_ends_in_an_error(server, path):
    """Neither the first cell, with all its imports, nor `play` and `can_now`, nor the plots; a prediction is still to be made."""
    lesson = AssignmentSource(path.stem, read(path))
    grade = SubmissionGrader(server, LIMITS).grade(lesson, nbformat.writes(model_answers(lesson)).encode(), {}, 5)
    cells = nbformat.reads(grade.notebook, 4).cells
    others = [cell for cell in cells if not cell.metadata.get("nbgrader", {}).get("grade")]
    raised = [(cell.source[:60], one.evalue) for cell in others for one in cell.get("outputs", ()) if "evalue" in one]
    assert ([], "") == (raised, grade.ended)
    assert sum(bool(cell.get("outputs")) for cell in cells) > len(lesson.tests)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_server_has_loaded_what_a_lesson_imports(server, path):
    """Its first cell, which every submission runs, loads no further module of ours: a quarter of a second for each of them."""
    lesson = AssignmentSource(path.stem, read(path))
    first = next(cell.source for cell in release(lesson).cells if cell.cell_type == "code")
    with server.worker({}, lesson.late_modules) as worker:
        before = printed(worker, LOADED)
        assert [] == printed(worker, first)
        assert before == printed(worker, LOADED)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_no_demonstration_is_recorded_again(server, path):
    """Recordings of the source's own cells are made once for the class, also for a student who added a cell above them."""
    lesson = AssignmentSource(path.stem, read(path))
    made_once = recordings_of(lesson, server)
    with server.worker({}, lesson.late_modules, begin=messages.Begin({}, 0.0, 0, made_once)) as worker:
        for cell in ["1", *(cell.source for cell in release(lesson).cells if cell.cell_type == "code")]:
            worker.ask(messages.RunCell(cell), messages.CellRan)
        [known] = worker.ask(messages.ListRecordings(), messages.Recorded).recordings
    pictures = [cell.text for cell in lesson.cells if "picture=False" not in cell.text]
    shown = sum("@observed" in text or "@versions_hidden" in text for text in pictures)
    assert shown == len(msgspec.msgpack.decode(made_once or b"\x80")) == len(msgspec.msgpack.decode(known))


@pytest.mark.parametrize("magic", ["%%explain", "%%explain found", "%%time"])
def test_a_magic_above_an_answer_leaves_it_to_be_graded(server, magic):
    """As in JupyterLab, where the clinic proposes it, the cell runs, and its definitions are available."""
    known = source(
        answer("first", "pass"), answer("f", "def f(x):\n    return 2 * x"), graded_cell("test", "assert f(2) == 4")
    )
    answers = {"first": "%load_ext autograder\n%explain", "f": f"{magic}\ndef f(x):\n    return x + x"}
    assert {"test": 1.0} == points(SubmissionGrader(server, LIMITS).grade(known, hand_in(known, answers), {}, 5))


def test_an_explanation_is_refused_in_one_line(server):
    """The search for repairs is hidden from submissions; a call that needs it prints so and does not raise."""
    with server.worker({}) as worker:
        assert ["Explanations are off while a submission is graded.\n"] == printed(
            worker, "import autograder\nautograder.explain('x = 1')"
        )


def test_this_process_is_marked_only_while_it_tests(server, monkeypatch):
    """A program that grades and then explains, as this test suite does, explains: the mark is gone after each submission."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    asks = "import autograder.graded\nassert autograder.graded.is_graded()"
    known = source(answer("f", "f = 1"), graded_cell("test", asks))
    assert {"test": 1.0} == points(SubmissionGrader(server, LIMITS).grade(known, hand_in(known, {"f": "f = 1"}), {}, 5))
    assert not graded.is_graded()


def test_only_grading_is_meant(monkeypatch):
    """Only nbgrader's own environment during autograde counts; its validation, and a student's kernel, do not."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    assert not graded.is_graded()
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")
    assert not graded.is_graded()
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert graded.is_graded()
    assert sys.modules["autograder"].explain is graded.explain


def test_a_program_that_the_answer_defines_again_is_not_judged(server):
    """The check judges the locked program, whose backward raises, and not the one of the same name in the answer's cell."""
    program = (
        "def late():\n    w = torch.ones(2, requires_grad=True)\n    a = w.exp()\n    a.add_(1)\n    a.sum().backward()"
    )
    known = source(
        teacher("import torch\nfrom autograder.check import predicted"),
        teacher(program),
        answer("answer_guess", 'guess = "..."'),
        graded_cell("guess", 'predicted("guess", late)'),
    )
    again = "\n\n\ndef late():\n    return {}"
    for outcome, points_given in {"correct": 0.0, "raises-backward": 1.0}.items():
        answers = {"answer_guess": f'guess = "{outcome}"{again}'}
        assert {"guess": points_given} == points(
            SubmissionGrader(server, LIMITS).grade(known, hand_in(known, answers), {}, 5)
        )
