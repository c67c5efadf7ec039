"""A student's progress: the passed exercises, stored only in the clone."""

from __future__ import annotations

import contextlib
import html
import os
from collections import Counter
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from IPython.display import display

from autograder.check.events import listen
from autograder.check.shown_message import CARD, show_card
from autograder.course.catalogue import Lesson, beliefs, lessons, misconception_of
from autograder.course.paths import HOME, replace_file
from autograder.errors import html_with_code
from autograder.graded import EXECUTION
from autograder.locale.translations import translatable, translated

Content = TypeVar("Content")


class LocalFile(Generic[Content]):
    """A JSON file on the student's machine. An error on reading or writing is reported once."""

    def __init__(self, file: Path, kind: type[Content], complaint: str) -> None:
        """`kind` is the type of the contents; `complaint` is printed if the file cannot be written."""
        self.file, self._kind, self._complaint = file, kind, complaint
        self._complained = False

    def read(self) -> Content:
        """Return the contents, which are empty if the file is missing or damaged; a damaged file is renamed."""
        try:
            data = self.file.read_bytes()
            with contextlib.suppress(msgspec.MsgspecError):
                return msgspec.json.decode(data, type=self._kind)
            aside = self.file.replace(self.file.with_suffix(".broken"))
            message = translatable("{file} cannot be read, so it counts as empty; it is now called {aside}.")
            self._warn_once(translated(message, file=self.file.name, aside=aside.name))
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            message = translatable("{file} cannot be read ({reason}), so it counts as empty.")
            self._warn_once(translated(message, file=self.file, reason=error.strerror))
        return self._kind()

    def write(self, content: Content) -> None:
        """Replace the contents."""
        try:
            replace_file(self.file, msgspec.json.encode(content))
        except OSError as error:
            self._warn_once(translated(self._complaint, file=self.file, reason=error.strerror))

    def _warn_once(self, sentence: str) -> None:
        if not self._complained:
            print(sentence)
        self._complained = True


class Store(LocalFile[dict[str, list[str]]]):
    """The file with the passed exercises."""

    def __init__(self, file: Path) -> None:
        complaint = translatable(
            "Progress cannot be saved: {file} cannot be written ({reason}). The lesson still works."
        )
        super().__init__(file, dict[str, list[str]], complaint)

    def passed(self) -> set[str]:
        """Return the ids of all exercises that have passed."""
        return set(self.read().get("passed", []))

    def add(self, exercise: str) -> None:
        """Record that the exercise passed."""
        passed = self.passed()
        if exercise not in passed:
            self._keep("passed", sorted(passed | {exercise}))

    def seen(self) -> set[str]:
        """Return the ids of the exercises whose model answer was shown before they passed."""
        return set(self.read().get("seen", []))

    def mark_seen(self, exercise: str) -> None:
        """Record that the model answer was shown before the exercise passed."""
        self._keep("seen", sorted(self.seen() | {exercise}))

    def beliefs(self) -> Counter[str]:
        """Return how often each belief has led to a wrong prediction."""
        return Counter(self.read().get("beliefs", []))

    def add_misconception(self, belief: str) -> None:
        """Record that a wrong prediction pointed to this belief; it stays on the student's machine."""
        self._keep("beliefs", [*self.read().get("beliefs", []), belief])

    def first_wrong(self) -> set[str]:
        """Return the predictions whose first answer was wrong."""
        return {name for name, _, choice in (row.partition("=") for row in self.read().get("first", [])) if choice}

    def keep_first(self, prediction: str, choice: str) -> None:
        """Record the first answer to a prediction, which stays on the student's machine; "" stands for the right one."""
        rows = self.read().get("first", [])
        if not any(row.startswith(f"{prediction}=") for row in rows):
            self._keep("first", [*rows, f"{prediction}={choice}"])

    def clear(self) -> None:
        """Delete all recorded progress."""
        self.write({"passed": []})

    def _keep(self, key: str, rows: list[str]) -> None:
        """Store the rows of a key; has no effect under nbgrader, where the file would be the teacher's."""
        if EXECUTION not in os.environ:
            self.write(self.read() | {key: rows})


# The tests run whole lessons, some in their own kernels; those passes must not count for the student.
store = Store(Path(os.environ.get("AUTOGRADER_PROGRESS", HOME / "progress.json")))

wrong_answers: Counter[str] = Counter()  # the number of wrong answers to each exercise in this kernel


def keep_progress() -> None:
    """Record every exercise that passes from now on, and count wrong answers; further calls have no effect."""
    # Load the lessons now rather than at the first wrong prediction: msgspec compiles their annotations on first use, and
    # during the test of a submission the grader rejects the compilation of any text that is not the teacher's.
    lessons()
    beliefs()
    listen("passed", store.add, _keep_first)
    listen("failed", _keep_first, _count, show_misconception)


def _keep_first(exercise: str, choice: str = "") -> None:
    if any(exercise in lesson.predictions for lesson in lessons()):
        store.keep_first(exercise, choice)


def _count(exercise: str, choice: str) -> None:
    wrong_answers[exercise] += 1


def show_misconception(prediction: str, choice: str) -> None:
    """Print and count the belief that often leads to this wrong prediction; has no effect for other exercises."""
    belief = misconception_of(prediction, choice)
    if belief is not None:
        words = beliefs()[belief]
        show_card(words, f'<div style="{CARD}">{html_with_code(words)}</div>')
        store.add_misconception(belief)


class CourseMap:
    """A map of the course with a bar for each lesson; HTML in a notebook, text elsewhere."""

    def __init__(self, passed: set[str]) -> None:
        self.rows = [(lesson, sum(exercise.id in passed for exercise in lesson.exercises)) for lesson in lessons()]

    def __repr__(self) -> str:
        return "\n".join(f"{number_of(lesson)}  {lesson.title:34} {_bar(lesson, done)}" for lesson, done in self.rows)

    def _repr_html_(self) -> str:
        rows = "".join(_row(lesson, done) for lesson, done in self.rows)
        needs, passed = translated("you need"), translated("exercises passed")
        titles = (translated("lesson"), "", translated("minutes"), needs, passed)
        head = "<tr>" + "".join(f'<th style="text-align:left">{title}</th>' for title in titles) + "</tr>"
        return f"<table>{head}{rows}</table>"


def progress(*, reset: bool = False) -> None:
    """Show the course's map: each lesson, its time and prerequisites, and the number of passed exercises.

    Args:
        reset: delete the recorded progress first; the notebooks are not changed.
    """
    if reset:
        store.clear()
    display(CourseMap(store.passed()))


def has_other_lessons() -> bool:
    """Return whether links to the other lessons work: what `release --to` hands out contains only the glossary."""
    start = Path.cwd().parent / "start"
    return not start.is_dir() or (start / "start.ipynb").exists()


def lesson_link(lesson: Lesson) -> str:
    """Return a link to a lesson from another one, by its title; only the title if the lesson was not handed out."""
    if not has_other_lessons():
        return html.escape(lesson.title)
    return f'<a href="../{lesson.name}/{lesson.name}.ipynb">{html.escape(lesson.title)}</a>'


def number_of(lesson: Lesson) -> int:
    """Return the number by which the lessons refer to each other, as in "lesson 3"."""
    return int(lesson.name[:2])


def _bar(lesson: Lesson, done: int) -> str:
    count = translated("{number} of {count}", number=done, count=len(lesson.exercises))
    return f"{'■' * done}{'□' * (len(lesson.exercises) - done)} {count}"


def _row(lesson: Lesson, done: int) -> str:
    needs, bar = html.escape(lesson.needs), _bar(lesson, done)
    cells = (str(number_of(lesson)), lesson_link(lesson), str(lesson.minutes), needs, bar)
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
