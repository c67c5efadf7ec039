"""`quiz` and `review`: programs to predict, in two forms or when they are due. The answers stay in one file on this machine."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from IPython.display import HTML, display

from autograder.course.catalogue import lessons
from autograder.course.learner.learner_progress import LocalFile, lesson_link
from autograder.course.learner.learner_progress import store as progress_store
from autograder.course.practice.question_cards import (
    Choice,
    PracticeItem,
    PracticeQuestion,
    QuestionCards,
    practice_items,
)
from autograder.errors import InputError, html_with_code
from autograder.locale.translations import translatable, translated
from autograder.tape.recording.verdict_types import Outcome

INTERVALS = (1, 3, 7, 16, 35)  # in days


class ReviewState(msgspec.Struct, frozen=True):
    """The practice state of an idea."""

    level: int  # the index of the current interval; it grows with each right answer in a row, up to the last interval
    last: datetime.date  # the day of the last answer

    def after(self, right: bool, today: datetime.date) -> ReviewState:
        """Return the state after one more answer."""
        return ReviewState(min(self.level + 1, len(INTERVALS) - 1) if right else 0, today)

    def due(self, today: datetime.date) -> datetime.date:
        """Return the day of the next review; today, if the last day is in the future because a clock was wrong."""
        if self.last > today:
            return today
        level = min(max(self.level, 0), len(INTERVALS) - 1)
        return self.last + datetime.timedelta(days=INTERVALS[level])


NEW = ReviewState(-1, datetime.date.min)  # the state of a new idea; the first right answer starts the first interval


def due_topics(topics: Iterable[str], practised: Mapping[str, ReviewState], today: datetime.date) -> list[str]:
    """Return at most 5 ideas to ask about: those that are due, the longest overdue first, then new ones in their order."""
    topics = list(topics)
    due = [topic for topic in topics if topic in practised and practised[topic].due(today) <= today]
    due.sort(key=lambda topic: practised[topic].due(today))
    return [*due, *(topic for topic in topics if topic not in practised)][:5]


def next_day(topics: Iterable[str], practised: Mapping[str, ReviewState], today: datetime.date) -> datetime.date | None:
    """Return the day of the next review of any of these ideas; None if all of them are new."""
    return min((practised[topic].due(today) for topic in topics if topic in practised), default=None)


class QuizAnswer(msgspec.Struct, frozen=True):
    """One answer: the chosen outcome, or `UNKNOWN`, and the actual outcome."""

    answer: str
    outcome: str

    @property
    def is_right(self) -> bool:
        """Whether the chosen outcome is the actual one."""
        return self.answer == self.outcome


class PracticeResults(msgspec.Struct, frozen=True):
    """The contents of the file."""

    quiz: dict[str, dict[str, QuizAnswer]] = {}  # the answers to each quiz, "before" and "after", by item
    review: dict[str, ReviewState] = {}  # the practice state of each idea


class PracticeStore(LocalFile[PracticeResults]):
    """The file with the answers to quizzes and reviews."""

    def __init__(self, file: Path | None = None) -> None:
        complaint = translatable("Answers cannot be kept: {file} cannot be written ({reason}).")
        super().__init__(file or progress_store.file.with_name("practice.json"), PracticeResults, complaint)

    def keep_answer(self, quiz: str, item: str, answer: QuizAnswer) -> None:
        """Store one answer to a quiz."""
        results = self.read()
        answers = results.quiz.get(quiz, {}) | {item: answer}
        self.write(msgspec.structs.replace(results, quiz=results.quiz | {quiz: answers}))

    def keep_review(self, topic: str, practised: ReviewState) -> None:
        """Store the practice state of an idea."""
        results = self.read()
        self.write(msgspec.structs.replace(results, review=results.review | {topic: practised}))

    def forget_quiz(self, quiz: str) -> None:
        """Delete the answers to a quiz."""
        results = self.read()
        self.write(
            msgspec.structs.replace(results, quiz={name: kept for name, kept in results.quiz.items() if name != quiz})
        )


SEEDS = {"before": 11, "after": 23}  # fixed, so that all students get the same questions


class QuizError(InputError):
    """The quiz does not exist, or its answers cannot be exported."""


def quiz(
    which: Literal["before", "after"] = "before", *, export: str | Path | None = None, again: bool = False
) -> None:
    """Ask for the outcome of small programs about every idea of the course; an unfinished quiz is continued.

    The answer "don't know" is stored as "unknown", and its lesson is listed as one to look at again.

    Args:
        which: "before" or "after" the lessons; the second has other names, numbers and operations.
        export: the name of a file to write the answers to, without asking questions.
        again: delete the answers to this quiz, and start again.

    Raises:
        QuizError: the quiz does not exist, or there are no answers to export.
    """
    if which not in SEEDS:
        raise QuizError.of(
            'quiz.unknown|there is no quiz {which}. Write quiz("before") or quiz("after")', which=repr(which)
        )
    store = PracticeStore()
    if export is not None:
        _export(store, Path(export))
        return
    if again:
        store.forget_quiz(which)
    answered = store.read().quiz.get(which, {})
    unanswered = [item for item in practice_items() if item.id not in answered]
    if not unanswered:
        display(HTML(summary(store, which)))
        return
    questions = [PracticeQuestion(item, item.text(second=which == "after", seed=SEEDS[which])) for item in unanswered]
    display(
        QuestionCards(
            questions,
            lambda question, answer, outcome: store.keep_answer(which, question.item.id, QuizAnswer(answer, outcome)),
            lambda: summary(store, which),
            explain=False,
        )
    )


def summary(store: PracticeStore, which: str) -> str:
    """Return as HTML the number of right answers in a quiz, and the lessons to look at again."""
    answers = store.read().quiz.get(which, {})
    items = [item for item in practice_items() if item.id in answers]
    wrong = [item for item in items if not answers[item.id].is_right]
    transfer = [item for item in items if item.transfer]
    counts = Counter(item.lesson for item in wrong)
    rows = "".join(
        f"<li>{translated('{lesson}: {count} to review', lesson=lesson_link(lesson), count=counts[lesson.name])}</li>"
        for lesson in lessons()
        if counts[lesson.name]
    )
    right = translated(
        "{right} of {count} predictions are right; for the larger programs, {larger_right} of {larger}.",
        right=len(items) - len(wrong),
        count=len(items),
        larger=len(transfer),
        larger_right=sum(item not in wrong for item in transfer),
    )
    again = f"<ul>{rows}</ul>" if rows else f"<p>{translated('Nothing to review.')}</p>"
    privacy = translated(
        "The answers are kept on this machine only. {command} writes them to a file that you can send.",
        command="<code>quiz(export=&quot;quiz.json&quot;)</code>",
    )
    return f"<p><b>{right}</b></p>{again}<p>{privacy}</p>"


def _export(store: PracticeStore, target: Path) -> None:
    answers = store.read().quiz
    if not answers:
        raise QuizError.of("quiz.no_answers|no quiz was answered yet, so there is nothing to export")
    try:
        target.write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")
    except OSError as error:
        raise QuizError.of(
            "quiz.not_written|{target} cannot be written ({reason}). Name another file",
            target=target,
            reason=error.strerror,
        ) from None
    print(
        translated(
            "{target}: the answers to {count} of 2 quizzes, by item; the file contains no names.",
            target=target,
            count=len(answers),
        )
    )


PASSED = 0.5  # the share of a lesson's exercises that must have passed before the review includes the lesson


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
        # The choice among the items about an idea depends on the day.
        about = {topic: [item for item in items if item.belief == topic] for topic in due}
        _ask(store, [random.Random(f"{today} {topic}").choice(about[topic]) for topic in due], today)


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


def _ask(store: PracticeStore, items: list[PracticeItem], today: datetime.date) -> None:
    wrong: list[PracticeItem] = []

    def keep(question: PracticeQuestion, answer: Choice, outcome: Outcome) -> None:
        topic = question.item.belief
        state = store.read().review.get(topic, NEW)
        store.keep_review(topic, state.after(answer == outcome, today))
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
    by_name = {lesson.name: lesson for lesson in lessons()}
    text = translatable("{lesson}. A common reason for this answer: “{belief}”")
    rows = ""
    for item in wrong:
        belief = html_with_code(translated(item.belief))
        rows += f"<li>{translated(text, lesson=lesson_link(by_name[item.lesson]), belief=belief)}</li>"
    again = translated(
        "{right} of {count}. To review (these questions return tomorrow):", right=asked - len(wrong), count=asked
    )
    return f"<p>{again}</p><ul>{rows}</ul>"
