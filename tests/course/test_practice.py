"""Quiz and review: items over every belief, two forms with one outcome, growing intervals, and files that survive."""

import contextlib
import datetime
import io
import json
import tomllib

import pytest

from autograder.course.catalogue import lessons
from autograder.course.paths import SOLUTIONS
from autograder.course.practice import quiz as quiz_module
from autograder.course.practice.question_cards import IMPORTS, PracticeQuestion, QuestionCards, practice_items, run_item
from autograder.course.practice.quiz import (
    PracticeStore,
    QuizAnswer,
    QuizError,
    ReviewState,
    due_topics,
    passed_items,
    quiz,
    review,
    summary,
)
from tests.lessons.cells import outcome_of

ITEMS = [pytest.param(item, id=item.id) for item in practice_items()]
TODAY = datetime.date(2026, 11, 22)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """The files of a student, in a temporary folder."""
    file = tmp_path / "practice.json"
    monkeypatch.setattr(quiz_module, "PracticeStore", lambda: PracticeStore(file))
    return file


@pytest.fixture
def shown(monkeypatch):
    """What is displayed."""
    displayed = []
    monkeypatch.setattr(quiz_module, "display", displayed.append)
    return displayed


@pytest.mark.parametrize("item", ITEMS)
def test_both_forms_have_the_outcome_of_plain_pytorch(item):
    """An item has one outcome in both forms and with any numbers; plain PyTorch, asked twice, agrees; the texts differ."""
    texts = [item.text(second=second, seed=seed) for second, seed in ((False, 11), (True, 23), (True, 4))]
    assert len(set(texts)) == 3
    outcomes = {run_item(text).verdict.outcome for text in texts}
    for text in texts[:2]:
        names: dict = {}
        exec(IMPORTS + text, names)
        outcomes.add(outcome_of(names["program"]).word)
    assert 1 == len(outcomes)


@pytest.mark.thorough
def test_every_belief_of_the_teachers_pages_has_an_item():
    """At least 30 items, five of them larger, over each misconception that a teacher reads about; all four outcomes occur."""
    teaching = tomllib.loads((SOLUTIONS / "teaching.toml").read_text("utf-8"))
    beliefs = {one["belief"] for lesson in teaching.values() for one in lesson["misconceptions"]}
    assert set() == beliefs - {item.belief for item in practice_items()}
    assert {item.lesson for item in practice_items()} == {lesson.name for lesson in lessons()}
    assert len(practice_items()) >= 35
    assert 5 == sum(item.transfer for item in practice_items())
    assert 4 == len({run_item(item.text(second=False, seed=11)).verdict.outcome for item in practice_items()})


def test_right_answers_come_back_later_and_later():
    """1, 3, 7, 16, 35 days, and 35 from then on; a wrong answer starts again at one day."""
    practised, day, gaps = quiz_module.NEW, TODAY, []
    for _ in range(7):
        practised = practised.after(True, day)
        gaps.append((practised.due(day) - day).days)
        assert [] == due_topics(["x"], {"x": practised}, practised.due(day) - datetime.timedelta(days=1))
        day = practised.due(day)
        assert ["x"] == due_topics(["x"], {"x": practised}, day)
    assert [*quiz_module.INTERVALS, 35, 35] == gaps
    assert 1 == (practised.after(False, day).due(day) - day).days


def test_a_clock_that_went_back_loses_nothing():
    """A date in the future counts as due, so that a clock that was once wrong does not delay items for years."""
    wrong = ReviewState(2, TODAY + datetime.timedelta(days=4000))
    assert ["x"] == due_topics(["x"], {"x": wrong}, TODAY)
    assert TODAY == quiz_module.next_day(["x"], {"x": wrong}, TODAY)
    assert [] == due_topics(["x"], {"x": wrong.after(True, TODAY)}, TODAY)


def test_the_longest_overdue_comes_first_and_five_at_most():
    """Known ideas by the day on which they were due, then new ones; what is not due is left out."""
    days = {"a": 2, "b": 9, "c": 0}
    practised = {name: ReviewState(0, TODAY - datetime.timedelta(days=days[name])) for name in days}
    assert ["b", "a", "d", "e", "f"] == due_topics("abcdefg", practised, TODAY)


def test_a_review_asks_five_items_from_lessons_passed(kept, shown, monkeypatch, capsys):
    """Reviews begin after a lesson has passed; then five items are asked, which are not due again on the same day."""
    passed: set[str] = set()
    monkeypatch.setattr(quiz_module.progress_store, "passed", lambda: passed)
    review()
    assert "you have no such lesson yet" in capsys.readouterr().out
    half = lessons()[1].exercises[: len(lessons()[1].exercises) // 2]  # of six
    passed |= {exercise.id for exercise in (*half, *lessons()[2].exercises)}
    assert {"01_leaf_in_place", "02_mutating_a_saved_tensor"} == {item.lesson for item in passed_items(passed)}
    review()
    (cards,) = shown
    assert 5 == len(cards._questions)
    assert 5 == len({question.item.belief for question in cards._questions})
    for _ in cards._questions:
        cards.choose("silently-wrong")
        cards._go_on()
    assert "To review" in cards.children[0].value
    state = PracticeStore(kept).read().review
    assert {question.item.belief for question in cards._questions} == state.keys()
    review()
    assert 1 == len(shown[1]._questions)  # the sixth idea of the two lessons, which is new
    shown[1].choose("correct")
    review()
    assert "Nothing is due today" in capsys.readouterr().out


def test_typing_takes_any_case_and_names_what_is_no_outcome(kept):
    """A typed word counts as a chosen one; another word is answered and asks again."""
    item = practice_items()[0]
    taken = []
    cards = QuestionCards(
        [PracticeQuestion(item, item.text(second=False, seed=1))],
        lambda *answer: taken.append(answer),
        lambda: "done",
        explain=False,
    )
    *_, typed, problem = cards.children
    typed.value = "maybe"
    assert "not one of the four words" in problem.value
    assert [] == taken
    typed.value = "Silently Wrong"
    assert ("silently-wrong", "correct") == taken[0][1:]
    assert "done" == cards.children[0].value


@pytest.mark.parametrize("said", ["don't know", "?", "click"])
def test_who_does_not_know_need_not_guess(kept, shown, said):
    """The answer is kept as unknown and counts as not right; the next program follows, or, in a review, the outcome without "Not so"."""
    quiz("before")
    _, _, _, row, typed, _ = shown[0].children
    if said == "click":
        next(button for button in row.children if button.description == "don't know").click()
    else:
        typed.value = said
    (answer,) = PracticeStore(kept).read().quiz["before"].values()
    assert "unknown" == answer.answer
    assert not answer.is_right
    assert "2 of" in shown[0].children[0].value
    item = practice_items()[0]
    asked = PracticeQuestion(item, item.text(second=False, seed=1))
    review_cards = QuestionCards([asked], lambda *_: None, lambda: "", explain=True)
    review_cards.choose("unknown")
    verdict = review_cards.children[1].value
    assert "It was <code>correct</code>" in verdict
    assert "Not so" not in verdict


def test_a_quiz_goes_on_where_it_stopped_and_is_counted(kept, shown, tmp_path):
    """Answer are kept one by one; at the end the lessons to look at again; the file to send holds answers and no name."""
    quiz("before")
    for _ in range(3):
        shown[0].choose("raises-backward")
    quiz("before")
    assert len(practice_items()) - 3 == len(shown[1]._questions)
    quiz("after")
    texts = [{question.item.id: question.text for question in cards._questions} for cards in shown[1:3]]
    assert all(texts[0][item] != texts[1][item] for item in texts[0])
    assert "2 of 3 predictions are right" in summary(PracticeStore(kept), "before")
    assert "Names, objects, storage" in summary(PracticeStore(kept), "before")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        quiz(export=tmp_path / "mine.json")
    exported = json.loads((tmp_path / "mine.json").read_text())
    assert {"answer": "raises-backward", "outcome": "correct"} == exported["before"]["name_rebound"]
    assert "the file contains no names" in said.getvalue()
    quiz("before", again=True)
    assert len(practice_items()) == len(shown[3]._questions)


def test_bad_input_of_a_quiz_gets_one_sentence(kept, tmp_path):
    """Another word, and an export without answers or to a place that is not writable."""
    with pytest.raises(QuizError, match="there is no quiz 'later'"):
        quiz("later")
    with pytest.raises(QuizError, match="nothing to export"):
        quiz(export=tmp_path / "mine.json")
    PracticeStore(kept).keep_answer("before", "name_rebound", QuizAnswer("correct", "correct"))
    with pytest.raises(QuizError, match="cannot be written"):
        quiz(export=tmp_path / "nowhere" / "mine.json")


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"review": {"x": {"level": "high"}}}', b"\xff\xfe"])
def test_a_broken_file_is_put_aside(tmp_path, capsys, content):
    """The file counts as empty, is reported once, and is kept under another name; the next answer is stored."""
    store = PracticeStore(tmp_path / "practice.json")
    store.file.write_bytes(content)
    assert {} == store.read().review
    assert "counts as empty" in capsys.readouterr().out
    assert content == (tmp_path / "practice.broken").read_bytes()
    store.keep_review("x", ReviewState(1, TODAY))
    assert {"x": ReviewState(1, TODAY)} == store.read().review
