"""A learner's progress: which exercises have passed, stored in the clone and nowhere else."""

from __future__ import annotations

import html
import json
import os
from collections import Counter
from pathlib import Path

import msgspec
from IPython.display import display

from autograder.check.events import on_fail, on_pass
from autograder.course.catalogue import Lesson, lessons
from autograder.course.paths import HOME


class Store:
    """The file with the passed exercises; a file that cannot be read or written is reported once."""

    def __init__(self, file: Path | None = None) -> None:
        # The tests run whole lessons, also in kernels of their own; those passes must not count for the learner.
        self.file = file or Path(os.environ.get("AUTOGRADER_PROGRESS", HOME / "progress.json"))
        self._complained = False

    def passed(self) -> set[str]:
        """Returns the ids of all exercises that have passed."""
        return set(self._read().get("passed", []))

    def add(self, exercise: str) -> None:
        """Records that the exercise passed; does nothing under nbgrader, where the file would be the teacher's."""
        known = self.passed()
        if exercise not in known and "NBGRADER_EXECUTION" not in os.environ:
            self._write({**self._read(), "passed": sorted(known | {exercise})})

    def seen(self) -> set[str]:
        """Returns the ids of the exercises whose model answer was shown before they passed."""
        return set(self._read().get("seen", []))

    def mark_seen(self, exercise: str) -> None:
        """Records that the model answer was shown before the exercise passed."""
        if "NBGRADER_EXECUTION" not in os.environ:
            self._write({**self._read(), "seen": sorted(self.seen() | {exercise})})

    def clear(self) -> None:
        """Forgets everything."""
        self._write({"passed": []})

    def _read(self) -> dict[str, list[str]]:
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=dict[str, list[str]])
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, msgspec.MsgspecError):
            self._complain(
                f"The progress file {self.file} cannot be read, so it counts as empty. Delete it to start over."
            )
            return {}

    def _write(self, content: dict[str, list[str]]) -> None:
        temporary = self.file.with_suffix(".writing")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(content), "utf-8")
            temporary.replace(self.file)
        except OSError as error:
            self._complain(
                f"Progress cannot be saved: {self.file} cannot be written ({error.strerror}). The lesson still works."
            )

    def _complain(self, sentence: str) -> None:
        if not self._complained:
            print(sentence)
        self._complained = True


store = Store()

wrong_answers: Counter[str] = Counter()
"""How many wrong answers to each exercise this kernel has refused."""


def keep_progress() -> None:
    """Adds every exercise that passes from now on to the progress file, and counts wrong answers; calling it again changes nothing."""
    on_pass(store.add)
    on_fail(_count)


def _count(exercise: str) -> None:
    wrong_answers[exercise] += 1


class CourseMap:
    """A map of the course with a bar for each lesson; HTML in a notebook, text elsewhere."""

    def __init__(self, passed: set[str]) -> None:
        self.rows = [(lesson, sum(exercise.id in passed for exercise in lesson.exercises)) for lesson in lessons()]

    def __repr__(self) -> str:
        return "\n".join(f"{_number(lesson)}  {lesson.title:34} {_bar(lesson, done)}" for lesson, done in self.rows)

    def _repr_html_(self) -> str:
        rows = "".join(_row(lesson, done) for lesson, done in self.rows)
        titles = ("lesson", "", "minutes", "you need", "exercises passed")
        head = "<tr>" + "".join(f'<th style="text-align:left">{title}</th>' for title in titles) + "</tr>"
        return f"<table>{head}{rows}</table>"


def progress(*, reset: bool = False) -> None:
    """Shows the course's map: each lesson, its time and prerequisites, and how many of its exercises have passed.

    Args:
        reset: forget what has passed so far; the notebooks are not changed.
    """
    if reset:
        store.clear()
    display(CourseMap(store.passed()))


def can_now(lesson: str) -> None:
    """Prints the aims of the lesson, each checked off only if the exercises that show it have passed.

    Args:
        lesson: the lesson's name, or the beginning of it, such as "02".
    """
    found = next(known for known in lessons() if known.name.startswith(lesson))
    passed = store.passed()
    for aim in found.aims:
        missing = [exercise for exercise in aim.shown_by if exercise not in passed]
        print(
            f"{'[ ]' if missing else '[x]'} {aim.can}" + (f"  (still to pass: {', '.join(missing)})" if missing else "")
        )
    if again := sorted(store.seen() & {exercise for aim in found.aims for exercise in aim.shown_by}):
        print(f"To practise again, because you saw the model answer first: {', '.join(again)}")
    display(WayOnward(found))


class WayOnward:
    """Where to go after a lesson: the next one, and the map."""

    def __init__(self, lesson: Lesson) -> None:
        known = lessons()
        self.next = next(iter(known[known.index(lesson) + 1 :]), None)

    def __repr__(self) -> str:
        onward = f"Next: {_number(self.next)}, {self.next.title}. " if self.next else ""
        return f"{onward}The map of the course is in start/start.ipynb."

    def _repr_html_(self) -> str:
        onward = f"Next: {_link(self.next)} · " if self.next else ""
        return f'<p>{onward}<a href="../start/start.ipynb">the map of the course</a></p>'


def _link(lesson: Lesson) -> str:
    return f'<a href="../{lesson.name}/{lesson.name}.ipynb">{html.escape(lesson.title)}</a>'


def _number(lesson: Lesson) -> int:
    """Returns the number that the lessons use for each other, as in "lesson 3"."""
    return int(lesson.name[:2])


def _bar(lesson: Lesson, done: int) -> str:
    return f"{'■' * done}{'□' * (len(lesson.exercises) - done)} {done} of {len(lesson.exercises)}"


def _row(lesson: Lesson, done: int) -> str:
    cells = (str(_number(lesson)), _link(lesson), str(lesson.minutes), html.escape(lesson.needs), _bar(lesson, done))
    return "<tr>" + "".join(f'<td style="text-align:left">{cell}</td>' for cell in cells) + "</tr>"
