"""A submission in another language has the points of the English version, and messages in its own language."""

from __future__ import annotations

import nbformat
import pytest

from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS, SOLUTIONS
from autograder.grade.submission.submitted_files import submitted_language
from autograder.locale.languages import METADATA, use_language
from autograder.locale.notebook_translation import in_language
from autograder.locale.translations import translated
from tests.fixture_class.submissions import Lesson
from tests.grade.conftest import grader_of
from tests.grade.small_course import source_of

FILE = "02_mutating_a_saved_tensor/02_mutating_a_saved_tensor.ipynb"
LESSON = Lesson(SOLUTIONS / FILE, NOTEBOOKS / FILE)


def test_the_points_are_the_same_and_the_words_are_the_learners(server):
    """Half-right work in Chinese: each cell has the status and points of the English one, and wrong ones a Chinese reason."""
    source, grader = source_of("lesson", read(SOLUTIONS / FILE)), grader_of(server)
    answers = LESSON.right() | {
        "shifted_exp": LESSON.wrong(0)["shifted_exp"],
        "prediction_times_three": "prediction_times_three = ''",
    }
    work = LESSON.answered(answers)
    english, chinese = (
        grader.grade(source, nbformat.writes(one).encode(), {}, seed=1).cells
        for one in (work, in_language(work, "zh-CN"))
    )
    assert {name: (cell.status, cell.points) for name, cell in english.items()} == {
        name: (cell.status, cell.points) for name, cell in chinese.items()
    }
    assert {cell.status for cell in chinese.values() if cell.max_points} == {"correct", "incorrect"}
    with use_language("zh-CN"):
        words = translated("one of {outcomes}").partition("{")[0]
    assert words in chinese["prediction_times_three"].reason
    assert "one of" in english["prediction_times_three"].reason


@pytest.mark.parametrize("metadata", ["1", "[]", '{"KEY": ["zh-CN"]}', '{"KEY": "../zh_CN"}'])
def test_a_language_that_is_none_is_english(metadata):
    """The language of a submission is looked up among the course's languages, and never used as a path."""
    metadata = metadata.replace("KEY", METADATA)
    assert submitted_language(b'{"metadata": ' + metadata.encode() + b"}") == "en"
    assert submitted_language(metadata.encode()) == "en"
