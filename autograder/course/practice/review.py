"""`review()`: five programs from passed lessons, at growing intervals, each time with other names and numbers."""

from __future__ import annotations

import datetime
import random

from IPython.display import display

from autograder.course.catalogue import Lesson, lessons
from autograder.course.learner.learner_progress import lesson_link
from autograder.course.learner.learner_progress import store as progress_store
from autograder.course.practice.practice_store import NEW, Choice, PracticeStore, due_topics, next_day
from autograder.course.practice.question_cards import PracticeItem, practice_items
from autograder.errors import html_with_code
from autograder.locale.translations import translated
from autograder.tape.recording.verdict_types import Outcome

PASSED = 0.5
"""The share of a lesson's exercises that must have passed before the review includes the lesson."""


def review() -> None:
    """Ask for the outcome of up to five programs from passed lessons, and list the lessons to look at again."""
    today = datetime.date.today()
    store = PracticeStore()
    items = passed_items(progress_store.passed())
    topics = list(dict.fromkeys(item.belief for item in items))
    practised = store.read().review
    due = due_topics(topics, practised, today)
    if not topics:
        print(
            translated(
                "review() asks about lessons of which you have passed at least half the exercises; you have no such lesson yet."
            )
        )
    elif not due:
        day = next_day(topics, practised, today)
        print(translated("Nothing is due today. The next day to review is {day}.", day=day))
    else:
        _ask(store, [item for topic in due for item in _one_of(topic, items, today)], today)


def passed_items(passed: set[str]) -> list[PracticeItem]:
    """Return the items of the lessons in which enough exercises have passed; first, those with most wrong first predictions."""
    names = {
        lesson.name
        for lesson in lessons()
        if sum(exercise.id in passed for exercise in lesson.exercises) >= PASSED * len(lesson.exercises)
    }
    missed = progress_store.first_wrong()
    wrong = {lesson.name: sum(name in missed for name in lesson.predictions) for lesson in lessons()}
    return sorted((item for item in practice_items() if item.lesson in names), key=lambda item: -wrong[item.lesson])


def _one_of(topic: str, items: list[PracticeItem], today: datetime.date) -> list[PracticeItem]:
    """Return one of the items about an idea; the choice depends on the day."""
    about = [item for item in items if item.belief == topic]
    return [random.Random(f"{today} {topic}").choice(about)]


def _ask(store: PracticeStore, items: list[PracticeItem], today: datetime.date) -> None:
    from autograder.course.practice.question_cards import PracticeQuestion, QuestionCards

    wrong: list[PracticeItem] = []

    def keep(question: PracticeQuestion, answer: Choice, outcome: Outcome) -> None:
        topic = question.item.belief
        known = store.read().review.get(topic, NEW)
        store.keep_review(topic, known.after(answer == outcome, today))
        if answer != outcome:
            wrong.append(question.item)

    chance = random.Random(str(today))
    questions = [
        PracticeQuestion(item, item.text(second=chance.random() < 0.5, seed=chance.randrange(10**6))) for item in items
    ]
    display(QuestionCards(questions, keep, lambda: _conclusion(wrong, len(items)), explain=True))


def _conclusion(wrong: list[PracticeItem], asked: int) -> str:
    if not wrong:
        later = translated("{count} of {count}. These ideas return later, at growing intervals.", count=asked)
        return f"<p>{later}</p>"
    known = {lesson.name: lesson for lesson in lessons()}
    rows = "".join(_to_look_at(item, known[item.lesson]) for item in wrong)
    again = translated(
        "{right} of {count}. To review (these questions return tomorrow):", right=asked - len(wrong), count=asked
    )
    return f"<p>{again}</p><ul>{rows}</ul>"


def _to_look_at(item: PracticeItem, lesson: Lesson) -> str:
    told = translated(
        "{lesson}. A common reason for this answer: “{belief}”",
        lesson=lesson_link(lesson),
        belief=html_with_code(translated(item.belief)),
    )
    return f"<li>{told}</li>"
