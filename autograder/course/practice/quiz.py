"""`quiz("before")` and `quiz("after")`: the same ideas in two forms, to measure one's progress. Answers stay on this machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec
from IPython.display import display

from autograder.course.catalogue import Lesson, lessons
from autograder.course.learner.learner_progress import lesson_link
from autograder.course.practice.practice_store import PracticeStore, QuizAnswer
from autograder.course.practice.question_cards import practice_items
from autograder.errors import InputError
from autograder.locale.translations import in_english, translated

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
        raise QuizError(
            in_english('there is no quiz {which}. Write quiz("before") or quiz("after")', which=repr(which))
        )
    store = PracticeStore()
    if export is not None:
        _export(store, Path(export))
        return
    if again:
        store.forget_quiz(which)
    answered = store.read().quiz.get(which, {})
    left = [item for item in practice_items() if item.id not in answered]
    if not left:
        from IPython.display import HTML

        display(HTML(summary(store, which)))
        return
    from autograder.course.practice.question_cards import PracticeQuestion, QuestionCards

    questions = [PracticeQuestion(item, item.text(second=which == "after", seed=SEEDS[which])) for item in left]
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
    rows = "".join(_to_look_at(lesson, counts[lesson.name]) for lesson in lessons() if counts[lesson.name])
    right = translated(
        "{right} of {count} as predicted; of the {larger} larger programs {larger_right}.",
        right=len(items) - len(wrong),
        count=len(items),
        larger=len(transfer),
        larger_right=sum(item not in wrong for item in transfer),
    )
    again = f"<ul>{rows}</ul>" if rows else f"<p>{translated('Nothing to review.')}</p>"
    kept = translated(
        "The answers are kept on this machine only. {command} writes them to a file that you can send.",
        command="<code>quiz(export=&quot;quiz.json&quot;)</code>",
    )
    return f"<p><b>{right}</b></p>{again}<p>{kept}</p>"


def _to_look_at(lesson: Lesson, count: int) -> str:
    return f"<li>{translated('{lesson}: {count} to review', lesson=lesson_link(lesson), count=count)}</li>"


def _export(store: PracticeStore, target: Path) -> None:
    answers = store.read().quiz
    if not answers:
        raise QuizError(in_english("no quiz was answered yet, so there is nothing to export"))
    try:
        target.write_bytes(msgspec.json.format(msgspec.json.encode(answers), indent=1) + b"\n")
    except OSError as error:
        raise QuizError(
            in_english("{target} cannot be written ({reason}). Name another file", target=target, reason=error.strerror)
        ) from None
    print(
        translated(
            "{target}: the answers to {count} of 2 quizzes, by item; the file contains no names.",
            target=target,
            count=len(answers),
        )
    )
