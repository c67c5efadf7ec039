"""`quiz("before")` and `quiz("after")`: the same ideas in two forms, for comparing oneself. The answers stay on this machine."""

from __future__ import annotations

import html
from collections import Counter
from pathlib import Path
from typing import Literal

import msgspec
from IPython.display import display

from autograder.course.catalogue import lessons
from autograder.course.practice.practice_item import practice_items
from autograder.course.practice.practice_store import PracticeStore, QuizAnswer
from autograder.errors import InputError
from autograder.locale.translations import in_english

SEEDS = {"before": 11, "after": 23}  # fixed, so that everybody is asked the same


class QuizError(InputError):
    """The quiz that was asked for does not exist, or its answers cannot be exported."""


def quiz(
    which: Literal["before", "after"] = "before", *, export: str | Path | None = None, again: bool = False
) -> None:
    """Asks for the outcome of small programs, over every idea of the course; an unfinished quiz is continued.

    Args:
        which: "before" the lessons, or "after" them, with other names, numbers and operations.
        export: the name of a file to write the answers to, for sending; nothing is asked then.
        again: forget the answers to this quiz, and begin again.

    Raises:
        QuizError: there is no such quiz, or nothing to export.
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
    """Returns as HTML how many answers of a quiz were right, and which lessons have what to look at again."""
    answers = store.read().quiz.get(which, {})
    items = [item for item in practice_items() if item.id in answers]
    wrong = [item for item in items if not answers[item.id].is_right]
    transfer = [item for item in items if item.transfer]
    lines = [
        f"<p><b>{len(items) - len(wrong)} of {len(items)}</b> as predicted; of the {len(transfer)} larger programs "
    ]
    lines.append(f"{sum(item not in wrong for item in transfer)}.</p>")
    counts = Counter(item.lesson for item in wrong)
    rows = [
        f'<li><a href="../{lesson.name}/{lesson.name}.ipynb">{html.escape(lesson.title)}</a>: {counts[lesson.name]} to look at again</li>'
        for lesson in lessons()
        if counts[lesson.name]
    ]
    lines.append(f"<ul>{''.join(rows)}</ul>" if rows else "<p>Nothing to look at again.</p>")
    lines.append(
        "<p>The answers are kept on this machine only. <code>quiz(export=&quot;quiz.json&quot;)</code> writes them to a "
    )
    lines.append("file that you can send.</p>")
    return "".join(lines)


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
    print(f"{target}: the answers to {len(answers)} of 2 quizzes, by item; no name is in it.")
