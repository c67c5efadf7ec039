"""The end of a lesson: the aims that the student has reached, exercises to repeat, and the next lesson."""

from __future__ import annotations

import html

from IPython.display import display

from autograder.check.shown_message import CARD
from autograder.course.catalogue import Lesson, beliefs, lessons
from autograder.course.learner.learner_progress import Store, has_other_lessons, lesson_link, number_of, store
from autograder.locale.translations import translated
from autograder.printable import html_with_code

OFTEN, MOST = 2, 3
"""The number of wrong predictions from which on a belief is named, and the maximum number of named beliefs."""


def can_now(lesson: str) -> None:
    """Show the lesson's aims, each checked off if the exercises that show it have passed, and the next lesson.

    Args:
        lesson: the lesson's name, or the beginning of it, such as "02".
    """
    display(LessonEnd(next(known for known in lessons() if known.name.startswith(lesson)), store))


class LessonEnd:
    """The card at a lesson's end; HTML in a notebook, text elsewhere."""

    def __init__(self, lesson: Lesson, known: Store) -> None:
        passed = known.passed()
        self.aims = [(aim.can, [one for one in aim.shown_by if one not in passed]) for aim in lesson.aims]
        self.again = sorted(known.seen() & {one.id for one in lesson.exercises})
        behind = {name for choices in lesson.predictions.values() for name in choices.values()}
        often = [name for name, times in known.beliefs().most_common() if name in behind and times >= OFTEN]
        self.beliefs = [beliefs()[name] for name in often[:MOST]]
        course = lessons()
        self.next = next(iter(course[course.index(lesson) + 1 :]), None)

    def __repr__(self) -> str:
        aims = [f"{'[ ]' if missing else '[x]'} {can}{_still(missing)}" for can, missing in self.aims]
        again = [f"{_again()} {', '.join(self.again)}"] if self.again else []
        stumbled = [_stumbled(), *(f"- {belief}" for belief in self.beliefs)] if self.beliefs else []
        onward = f"{translated('Next:')} {number_of(self.next)}, {self.next.title}. " if self.next else ""
        the_map = translated("The map of the course is in start/start.ipynb.") if has_other_lessons() else ""
        return "\n".join([*aims, *again, *stumbled, onward + the_map])

    def _repr_html_(self) -> str:
        aims = "".join(_aim(can, missing) for can, missing in self.aims)
        names = ", ".join(f"<code>{html.escape(one)}</code>" for one in self.again)
        again = f"<p>{_again()} {names}</p>" if names else ""
        items = "".join(f"<li>{html_with_code(belief)}</li>" for belief in self.beliefs)
        stumbled = f"<p>{_stumbled()}</p><ul>{items}</ul>" if items else ""
        links = [f"<b>{translated('Next:')} {lesson_link(self.next)}</b>"] if self.next else []
        if has_other_lessons():
            links.append(f'<a href="../start/start.ipynb">{translated("the map of the course")}</a>')
        onward = f"<p>{' · '.join(links)}</p>"
        return f'<div style="{CARD}"><ul style="padding-left: 0">{aims}</ul>{again}{stumbled}{onward}</div>'


def _aim(can: str, missing: list[str]) -> str:
    still = html.escape(_still(missing))
    return f'<li style="list-style: none">{"☐" if missing else "☑"} {html.escape(can)}<small>{still}</small></li>'


def _still(missing: list[str]) -> str:
    return "  " + translated("(still to pass: {names})", names=", ".join(missing)) if missing else ""


def _again() -> str:
    return translated("To practise again, because you saw the model answer first:")


def _stumbled() -> str:
    return translated("Several of your wrong predictions fit this belief:")
