"""The answers in quizzes and reviews, in one file on the student's machine, and the day on which a program is due again."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from autograder.course.learner.learner_progress import LocalFile, store
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
    known = [topic for topic in topics if topic in practised and practised[topic].due(today) <= today]
    known.sort(key=lambda topic: practised[topic].due(today))
    return [*known, *(topic for topic in topics if topic not in practised)][:5]


def next_day(topics: Iterable[str], practised: Mapping[str, ReviewState], today: datetime.date) -> datetime.date | None:
    """Return the day of the next review of any of these ideas; None if all of them are new."""
    return min((practised[topic].due(today) for topic in topics if topic in practised), default=None)


UNKNOWN: Literal["unknown"] = "unknown"  # the answer "I don't know", which is not right and prevents lucky guesses

Choice = Outcome | Literal["unknown"]


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


class PracticeStore(LocalFile):
    """The file, which is renamed if it cannot be read."""

    def __init__(self, file: Path | None = None) -> None:
        super().__init__(file or store.file.with_name("practice.json"))

    def read(self) -> PracticeResults:
        """Return the stored answers; empty if the file is missing or damaged."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=PracticeResults)
        except (FileNotFoundError, NotADirectoryError):
            return PracticeResults()
        except msgspec.MsgspecError:
            aside = self.file.with_suffix(".broken")
            try:
                self.file.replace(aside)
                message = translatable("{file} cannot be read, so it counts as empty; it is now called {aside}.")
                self._warn_once(translated(message, file=self.file.name, aside=aside.name))
            except OSError:
                self._warn_once(translated("{file} cannot be read, so it counts as empty.", file=self.file))
        except OSError as error:
            message = translatable("{file} cannot be read ({reason}), so it counts as empty.")
            self._warn_once(translated(message, file=self.file, reason=error.strerror))
        return PracticeResults()

    def keep_answer(self, quiz: str, item: str, answer: QuizAnswer) -> None:
        """Store one answer to a quiz."""
        results = self.read()
        answers = results.quiz.get(quiz, {}) | {item: answer}
        self._write(msgspec.structs.replace(results, quiz=results.quiz | {quiz: answers}))

    def keep_review(self, topic: str, practised: ReviewState) -> None:
        """Store the practice state of an idea."""
        results = self.read()
        self._write(msgspec.structs.replace(results, review=results.review | {topic: practised}))

    def forget_quiz(self, quiz: str) -> None:
        """Delete the answers to a quiz."""
        results = self.read()
        self._write(
            msgspec.structs.replace(results, quiz={name: kept for name, kept in results.quiz.items() if name != quiz})
        )

    def _write(self, results: PracticeResults) -> None:
        complaint = translatable("Answers cannot be kept: {file} cannot be written ({reason}).")
        self._replace(msgspec.json.encode(results), complaint)
