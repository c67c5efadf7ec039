"""The lessons in Chinese: every named wrong answer is refused in Chinese words, and every notebook runs from top to bottom in a kernel."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbclient
import nbformat
import pytest

from autograder.check.message import Incorrect
from autograder.course.author_cells import Answer, AuthorExercise, questions_of
from autograder.course.canonical import read
from autograder.course.glossary_links import lesson_in_language
from autograder.course.paths import NOTEBOOKS, SOLUTIONS, lessons
from autograder.locale.languages import VARIABLE, use_language
from autograder.locale.line_breaks import BLANK, columns, join_lines
from autograder.locale.translations import texts_in
from tests.lessons.solving import answered, right_answers, verdict
from tests.lessons.sources import exercises
from tests.lessons.test_notebooks import errors

SPOKEN = "zh-CN"
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SENTENCE = re.compile(r"\b[a-z]{3,} [a-z]{2,} [a-z]{2,} [a-z]{2,}\b")
BLANKS = re.compile(r"\\\{\w*\\\}")
WRONG = [
    pytest.param(path, exercise, answer, id=f"{exercise.id}: {answer.name}")
    for path in lessons(SOLUTIONS)
    for exercise in exercises(path)
    for answer in exercise.of_kind("wrong")
]
LESSONS = [path.relative_to(NOTEBOOKS) for path in lessons(NOTEBOOKS) if path.parent.name != "start"]


def translations_of(phrase: str) -> list[re.Pattern[str]]:
    """Return patterns of the translations of all texts that may contain a phrase of an English message, with any values."""
    found = []
    for english, chinese in texts_in(SPOKEN).items():
        pieces = [piece.strip(" :,") for piece in re.split(r"\{\w*\}", english)]
        if phrase in english or any(piece in phrase for piece in pieces if len(piece) > 3):
            found.append(re.compile(BLANKS.sub(".*", re.escape(BLANK.sub("", chinese)))))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("path", "exercise", "answer"), WRONG)
def test_a_wrong_answer_is_refused_in_chinese(path: Path, exercise: AuthorExercise, answer: Answer) -> None:
    """The message is Chinese, its lines are not wider than nbgrader shows, and it has the meaning of the author's phrase."""
    with use_language(SPOKEN):
        raised = verdict(path, exercise, answer.source)
    assert Incorrect is type(raised)
    assert CHINESE.search(str(raised))
    assert max(map(columns, str(raised).splitlines())) <= 76
    told = join_lines(str(raised).splitlines())
    assert not SENTENCE.search(told.partition("请看")[2]), told
    assert answer.phrase in told or any(words.search(told) for words in translations_of(answer.phrase)), told


def run_in_chinese(lesson: Path, answers: dict[str, str], folder: Path) -> nbformat.NotebookNode:
    """Return a lesson as released in Chinese, with these answers, after a run in a kernel that got its name from Jupyter only."""
    notebook = answered(lesson_in_language(read(NOTEBOOKS / lesson), SPOKEN), answers)
    path = folder / lesson.name
    nbformat.write(notebook, path)
    kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
    client = nbclient.NotebookClient(notebook, timeout=240, allow_errors=True)
    client.execute(env=kept | {"JPY_SESSION_NAME": str(path)})
    return notebook


def messages(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the message of each error of a notebook."""
    return [o.evalue for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "error"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("stub", marks=pytest.mark.exhaustive), "right", "wrong"])
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.stem)
def test_a_lesson_runs_in_chinese(lesson: Path, kind: str, tmp_path: Path) -> None:
    """As handed out each exercise is "not attempted" in Chinese; right answers pass; each wrong one is refused in Chinese."""
    source = SOLUTIONS / lesson
    wrong = {one.id: one.of_kind("wrong")[0].source for one in exercises(source) if one.of_kind("wrong")}
    answers = {"stub": dict[str, str](), "right": right_answers(source), "wrong": wrong}[kind]
    notebook = run_in_chinese(lesson, answers, tmp_path)
    expected = {} if kind == "right" else {exercise.id: "NotAttempted" for exercise in exercises(source)}
    if kind == "wrong":
        expected |= dict.fromkeys(wrong, "Incorrect")
        for exercise in exercises(source):  # a wrong prediction is shown, and not as an error
            if exercise.id in wrong and any(questions_of(exercise.check)):
                del expected[exercise.id]
    assert expected == errors(notebook.cells)
    assert all(CHINESE.search(message) for message in messages(notebook))
