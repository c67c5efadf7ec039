"""Messages are translated by their id; texts of a user are shown as they are, even if they read like a message."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import msgspec
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_output

from autograder import cli
from autograder.grade.batch.feedback_page import page_html
from autograder.grade.clean.harmless_cells import ProcessorBudget, harmless_output
from autograder.grade.submission.align import align
from autograder.grade.submission.notebook_grade import CellGrade, NotebookGrade
from autograder.grade.submission.submission_run import SubmissionRun, unreadable
from autograder.locale.languages import METADATA, use_language
from autograder.locale.messages import Message, join_messages
from autograder.locale.translations import localized, messages_in
from autograder.tape import explain_program
from autograder.tape.recording.schema import Recording, explain_json, from_json, storable, to_json
from autograder.tape.repair.trial.program_factory import factory_of_text
from autograder.view import as_screen, as_text
from autograder.view.notebook import RECORDING_TYPE, ShownRecording
from tests.grade import small_course

CHINESE = re.compile(r"[\u4e00-\u9fff]")
CUT = """import torch
w = torch.ones(2, requires_grad=True)
mean = float((w * w).mean())
loss = torch.tensor(mean, requires_grad=True)
loss.backward()
"""


def in_chinese(text: str) -> str:
    """Return a text as a Chinese reader sees it."""
    with use_language("zh-CN"):
        return localized(text)


def test_a_message_is_its_english_text_and_shown_by_its_id() -> None:
    """With its values, also inside another message, and in another process; its English text may be another one by then."""
    inner = Message("grade.processor_time|it used more than {seconds} seconds of processor time", seconds="30")
    outer = Message("grade.ended_in_cell|the program was ended in cell {number}: {reason}", number=4, reason=inner)
    assert (
        outer == localized(outer) == "the program was ended in cell 4: it used more than 30 seconds of processor time"
    )
    chinese = "程序在第 4 个单元格中被结束：它用掉了超过 30 秒的处理器时间"
    assert chinese == in_chinese(outer) == in_chinese(pickle.loads(pickle.dumps(outer))) == in_chinese(str(outer))
    assert in_chinese(join_messages([inner, inner, ""])) == "它用掉了超过 30 秒的处理器时间" * 2
    assert chinese == in_chinese(Message("grade.ended_in_cell|ended ({number}, {reason})", number=4, reason=inner))
    assert in_chinese(Message("grade.ended_in_cell|it ended after {n} s", n=9)) == "it ended after 9 s"


@pytest.mark.parametrize(
    "text", ["the last step", "line 3; line 4", "it still raises. it still raises.", "keep the graph"]
)
def test_a_text_of_a_user_is_never_looked_up(text: str) -> None:
    """Alone and as a value: each of these is, or consists of, texts with a translation."""
    assert in_chinese(text) == text
    assert text in in_chinese(Message("trial.ends_as|{name} ends as {now}, not {meant}", name=text, now=1, meant=2))


def test_names_of_files_and_errors_of_a_user_are_kept(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the messages of a command."""
    file = tmp_path / "line 3; line 4.py"
    file.write_text("raise ValueError('the last step')\ndef f(): pass\n")
    with use_language("zh-CN"):
        assert cli.main(["explain", f"{file}::f"]) == 2
        assert cli.main(["explain", str(tmp_path / "line 3; line 4")]) == 2
    failed, missing = capfd.readouterr().err.strip().splitlines()
    assert "line 3; line 4.py" in failed
    assert "the last step" in failed
    assert "line 3; line 4" in missing
    assert CHINESE.search(failed)
    assert CHINESE.search(missing)


@pytest.fixture(scope="module")
def recording() -> Recording:
    """Return the recording of a program with a graph fault, which a note describes."""
    return explain_program(factory_of_text(CUT, "<program>"))


def shown(recording: Recording) -> str:
    """Return everything that is written about a recording for a Chinese reader."""
    with use_language("zh-CN"):
        return as_screen(recording) + as_text(recording)


def test_a_recording_keeps_its_messages_in_json(recording: Recording) -> None:
    """The notes are English texts as before; read back, the recording looks the same in Chinese, and is written alike."""
    text = to_json(recording)
    back = from_json(text)
    verdict = json.loads(text)["verdict"]
    assert verdict["notes"]
    assert verdict["notes"] == list(recording.verdict.notes)
    assert shown(back) == shown(recording)
    assert to_json(back) == text
    printed = explain_json(recording, "a.py")["messages"]
    assert {message["text"] for message in printed} >= {*verdict["notes"]}
    assert all(message in verdict["messages"] for message in printed)


def test_a_recording_of_the_last_release_is_english_with_chinese_labels(recording: Recording) -> None:
    """It has no messages: its notes are shown as they are, below a Chinese title."""
    old = json.loads(to_json(recording))
    del old["verdict"]["messages"]
    told = shown(from_json(json.dumps(old)))
    assert all(note in told for note in recording.verdict.notes)
    assert "说明：" in told


def test_a_message_of_a_forged_recording_is_harmless(recording: Recording) -> None:
    """Values that a translation does not have, and messages inside of hundreds of others."""
    text = to_json(recording)
    for depth in (0, 400):
        forged, value = json.loads(text), "{0.__class__}"
        for _ in range(depth):
            value = {"text": "x", "id": "join.end", "values": {"told": value}}
        for message in forged["verdict"]["messages"]:
            message["values"] = {"self": value}
        told = shown(from_json(json.dumps(forged)))
        assert all(note in told for note in recording.verdict.notes)


def test_a_recording_of_a_submission_is_drawn_in_each_language(recording: Recording) -> None:
    """Two students, who read different languages, have the same wrong answer."""
    text = msgspec.json.encode(ShownRecording(storable(recording))).decode()
    output = nbformat.v4.new_output("display_data", {RECORDING_TYPE: text})
    with use_language("zh-CN"):
        chinese = harmless_output(output, ProcessorBudget(10)).data["text/plain"]
    assert CHINESE.search(chinese)
    assert not CHINESE.search(harmless_output(output, ProcessorBudget(10)).data["text/plain"])


def page_of(grade: NotebookGrade) -> str:
    """Return the feedback page of a Chinese submission."""
    notebook = nbformat.reads(grade.notebook, 4)
    notebook.metadata[METADATA] = "zh-CN"
    return page_html(notebook, {"notebook": "n", "score": 0, "max_score": 2, "late_penalty": 0})


SOURCE = small_course.source(
    small_course.answer("f", "def f():\n    return 1"), small_course.graded_cell("test_f", "assert f() == 1", 2)
)


def test_a_grade_keeps_its_messages_and_the_students_errors() -> None:
    """The record is English; the page is Chinese, but for an error of a student's own class."""
    cells = [new_code_cell("def f():\n    return 1", metadata=SOURCE.cells[0].cell.metadata)]
    run = SubmissionRun(SOURCE, align(SOURCE, cells))
    run.ended = Message("grade.time_limit|it exceeded its time limit")
    reason = Message("test.not_judged|this test could not be judged: {reason}", reason="the last step")
    run.grades["test_f"] = CellGrade(status="for a person", points=None, max_points=2.0, reason=reason)
    run.cells[0][0].outputs = [
        new_output("error", ename="Missing", evalue="the last step", traceback=[]),
        new_output("error", ename="Ended", evalue=run.ended, traceback=[]),
    ]
    grade = run.grade(1.0)
    assert ("it exceeded its time limit", reason) == (grade.ended, grade.cells["test_f"].reason)
    assert {message.id for message in grade.messages} == {"grade.time_limit", "test.not_judged"}
    page = page_of(grade)
    assert page.count("它超时了") >= 2
    assert "the last step" in page
    assert f"无法评判这个测试：{reason.values['reason']}" in page_of(run.grade(1.0))
    assert "最后一步" not in page
    assert "could not be judged" not in page


def test_an_unreadable_submission_has_a_chinese_reason() -> None:
    """It is stored in English with its message."""
    grade = unreadable(SOURCE, Message("submission.not_text|the file is not text (UTF-8), so not a notebook"))
    assert grade.ended == "the file is not text (UTF-8), so not a notebook"
    assert messages_in("zh-CN")["submission.not_text"] in page_of(grade)
