"""The texts below a check: for a passed exercise the author's reason and a second solution, for a question its explanation."""

from __future__ import annotations

import ast
import html
import os

from IPython.display import display

from autograder.check.events import listen
from autograder.check.learner import current_names, find
from autograder.check.message import VALIDATING
from autograder.check.prediction import is_answered
from autograder.check.shown_message import CARD, is_learners_notebook, show_card
from autograder.check.subject.learner_code import normal_form, normal_form_of
from autograder.course.author_cells import Answer, AuthorExercise, Explanation, exercises_of, explanations_of
from autograder.course.catalogue import Lesson, beliefs, explanations, lessons
from autograder.course.learner.hints import as_handed_out, notebook_of
from autograder.course.learner.learner_progress import Store, has_other_lessons, lesson_link, number_of, store
from autograder.course.paths import SOLUTIONS
from autograder.course.variants.variant import own_variant
from autograder.errors import InputError, html_with_code
from autograder.graded import is_graded
from autograder.locale.languages import SOURCE, language
from autograder.locale.translations import localized, translatable, translated

AGAIN = translatable("To practise again, because you saw the model answer first:")
STUMBLED = translatable("Beliefs that fit several of your wrong predictions:")


def explain_passes() -> None:
    """Show the author's reason and explanations of questions after checks from now on; further calls have no effect."""
    listen("passed", show_reason, show_explanation)
    listen("demonstrated", show_explanation)


def show_explanation(name: str) -> None:
    """Show the explanations of a question or demonstration of which all other questions have also been answered."""
    if "NBGRADER_EXECUTION" in os.environ or VALIDATING in os.environ:
        return
    for lesson in lessons():
        for explanation in explanations(lesson.name):
            if name not in explanation.about:
                continue
            text = _as_handed_out(explanation, lesson)
            if text and all(is_answered(asked, current_names()) for asked in explanation.about if asked != name):
                words = _in_language(text)
                show_card(words, f'<div style="{CARD}">\n\n{words}\n\n</div>', "text/markdown")


def _as_handed_out(explanation: Explanation, lesson: Lesson) -> str:
    """Return an explanation of the variant that this student got; "" if it differs and the sources are missing."""
    exercise = lesson.exercises[0].id
    variant, source = own_variant(exercise), notebook_of(SOLUTIONS, lesson)
    if variant is None:
        return explanation.text
    if source.exists():
        return next(each.text for each in explanations_of(as_handed_out(source, exercise)) if each.id == explanation.id)
    return "" if explanation.varies else variant.in_words(explanation.text)


def show_reason(exercise: str) -> None:
    """Show the author's reason in a student's notebook, unless the exercise is a prediction or the sources are missing."""
    # While nbgrader executes a notebook or the book is built, the feedback or the page would contain an answer.
    if not is_learners_notebook():
        return
    sources = (
        notebook_of(SOLUTIONS, lesson) for lesson in lessons() if exercise in {task.id for task in lesson.exercises}
    )
    source = next(sources, None)
    if source is None or not source.exists():
        return
    [task] = [task for task in exercises_of(as_handed_out(source, exercise)) if task.id == exercise]
    # A second way to make a program silently wrong would answer an exercise of the next lesson, and predictions have one answer.
    has_second = "\ncheck(" in task.check
    second = second_way(task, normal_form(find(current_names().value, exercise))) if has_second else None
    show_card(*reason_card(task.of_kind("answer")[0].name, second))


def second_way(exercise: AuthorExercise, form: str | None) -> Answer | None:
    """Return the author's first right answer whose normal form differs from that of the student's program."""
    return next((answer for answer in exercise.of_kind("right", "answer") if _form(answer, exercise.id) != form), None)


def _in_language(text: str) -> str:
    """Return an English explanation in the reader's language."""
    if language() == SOURCE:
        return text
    from autograder.locale.notebook_translation import markdown_in_language  # loads nbgrader

    return markdown_in_language(text, language())


def reason_card(reason: str, other: Answer | None) -> tuple[str, str]:
    """Return the reason why the model answer is right, and another right answer if there is one, as text and as HTML."""
    why = translated("The author's reason: {reason}.", reason=translated(reason))
    text, rich = why, f"<p>{html_with_code(why)}</p>"
    if other is not None:
        how = translated("A second way: {way}", way=translated(other.name))
        code = other.source.partition("\n")[2].strip()
        text += f"\n\n{how}\n{code}"
        rich += f"<details><summary>{html_with_code(how)}</summary><pre>{html.escape(code)}</pre></details>"
    return text, f'<div style="{CARD}">{rich}</div>'


def _form(answer: Answer, name: str) -> str | None:
    definitions = [node for node in ast.parse(answer.source).body if getattr(node, "name", None) == name]
    return normal_form_of(definitions[0]) if definitions else None


def play(name: str = "") -> None:
    """Show a program as cards that can be moved, switched and edited; the verdict and the picture are updated immediately.

    While a submission is graded, nothing is shown.

    Args:
        name: the id of an exercise or a prediction, as in its check cell.
    """
    if is_graded():
        return
    # Imported here because the playground uses the search for fixes, which must not be importable while a submission is graded.
    from autograder.check.playground.playground import Playground, open_playground
    from autograder.course.learner.exercise_programs import find_program

    try:
        program = find_program(name)
    except InputError as error:
        print(localized(str(error)))
        return
    open_playground(Playground(program))


OFTEN, MOST = 2, 3
"""The number of wrong predictions from which on a belief is named, and the maximum number of named beliefs."""


def can_now(lesson: str) -> None:
    """Show the lesson's aims, each checked off if the exercises that show it have passed, and the next lesson.

    Args:
        lesson: the lesson's name, or the beginning of it, such as "02".
    """
    display(LessonEnd(next(each for each in lessons() if each.name.startswith(lesson)), store))


class LessonEnd:
    """The card at a lesson's end; HTML in a notebook, text elsewhere."""

    def __init__(self, lesson: Lesson, progress: Store) -> None:
        passed = progress.passed()
        self.aims = [(aim.can, [name for name in aim.shown_by if name not in passed]) for aim in lesson.aims]
        self.again = sorted(progress.seen() & {exercise.id for exercise in lesson.exercises})
        behind = {name for choices in lesson.predictions.values() for name in choices.values()}
        often = [name for name, times in progress.beliefs().most_common() if name in behind and times >= OFTEN]
        self.beliefs = [beliefs()[name] for name in often[:MOST]]
        course = lessons()
        self.next = next(iter(course[course.index(lesson) + 1 :]), None)

    def __repr__(self) -> str:
        aims = [f"{'[ ]' if missing else '[x]'} {can}{_still(missing)}" for can, missing in self.aims]
        again = [f"{translated(AGAIN)} {', '.join(self.again)}"] if self.again else []
        stumbled = [translated(STUMBLED), *(f"- {belief}" for belief in self.beliefs)] if self.beliefs else []
        onward = f"{translated('Next:')} {number_of(self.next)}, {self.next.title}. " if self.next else ""
        the_map = translated("The map of the course is in start/start.ipynb.") if has_other_lessons() else ""
        return "\n".join([*aims, *again, *stumbled, onward + the_map])

    def _repr_html_(self) -> str:
        aims = "".join(_aim(can, missing) for can, missing in self.aims)
        names = ", ".join(f"<code>{html.escape(name)}</code>" for name in self.again)
        again = f"<p>{translated(AGAIN)} {names}</p>" if names else ""
        items = "".join(f"<li>{html_with_code(belief)}</li>" for belief in self.beliefs)
        stumbled = f"<p>{translated(STUMBLED)}</p><ul>{items}</ul>" if items else ""
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
