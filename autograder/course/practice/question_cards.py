"""Small programs to predict, with varying names, numbers and operations, and the widget that asks for their outcome."""

from __future__ import annotations

import functools
import html
import textwrap
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import ipywidgets
import msgspec

from autograder.check.prediction import outcome_named
from autograder.course.variants.declared_changes import rename_variables, replace_phrases
from autograder.course.variants.variant import redraw
from autograder.locale.translations import translatable, translated
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import OUTCOMES, Outcome
from autograder.view.notebook import widget
from autograder.view.text.headline import meaning

UNKNOWN: Literal["unknown"] = "unknown"  # the answer "I don't know", which is not right and prevents lucky guesses
Choice = Outcome | Literal["unknown"]
DONT_KNOW = translatable("don't know")
FILE = Path(__file__).parent / "practice_items.toml"
IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


class PracticeItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One program to predict, in two forms that test the same idea."""

    id: str  # its name in the files with answers
    lesson: str  # the lesson that it belongs to
    belief: str  # the misconception that leads to a wrong answer, in words
    program: str  # the body of a function that returns gradients
    names: dict[str, str]  # for each variable, its name in the second form
    replace: tuple[str, ...] = ()  # the parts of the program that differ
    by: tuple[str, ...] = ()  # the replacement of each part in the second form
    transfer: bool = False  # whether the program is larger than those of the lesson

    def text(self, *, second: bool, seed: int) -> str:
        """Return the program in one of its forms, with numbers drawn from a seed."""
        program = self.program.strip()
        if second:
            program = replace_phrases(program, dict(zip(self.replace, self.by, strict=True)))
            program = rename_variables(program, self.names)
        return f"def program():\n{textwrap.indent(redraw(program, seed, may_grow=False), '    ')}"


@functools.cache
def practice_items() -> tuple[PracticeItem, ...]:
    """Return all items, in the order of the lessons."""
    return msgspec.convert(tomllib.loads(FILE.read_text("utf-8"))["items"], tuple[PracticeItem, ...])


@functools.lru_cache(maxsize=100)
def run_item(text: str) -> Recording:
    """Return the recording of the program; its verdict is the right answer."""
    return record(IMPORTS + text, function="program")


@dataclass(frozen=True)
class PracticeQuestion:
    """An item, and the form of its program that is shown."""

    item: PracticeItem
    text: str


class QuestionCards(ipywidgets.VBox):
    """Asks the questions in order.

    Args:
        questions: at least one question.
        on_answer: called with each question, the chosen outcome (or `UNKNOWN`), and the actual outcome.
        conclusion: returns the HTML to show after the last question.
        explain: whether to show the verdict and the picture after each answer.
    """

    def __init__(
        self,
        questions: list[PracticeQuestion],
        on_answer: Callable[[PracticeQuestion, Choice, Outcome], None],
        conclusion: Callable[[], str],
        *,
        explain: bool,
    ) -> None:
        self._questions, self._on_answer, self._conclusion, self._explain = questions, on_answer, conclusion, explain
        self._number = 0
        super().__init__()
        self._ask()

    def choose(self, answer: Choice) -> None:
        """Answer the current question with one of the four outcomes, or `UNKNOWN`."""
        question = self._questions[self._number]
        recording = run_item(question.text)
        self._on_answer(question, answer, recording.verdict.outcome)
        if self._explain:
            self._show_verdict(question, answer, recording)
        else:
            self._go_on()

    def _ask(self) -> None:
        question = self._questions[self._number]
        buttons = [_button(outcome, meaning(outcome), partial(self.choose, outcome)) for outcome in OUTCOMES]
        buttons.append(
            _button(translated(DONT_KNOW), translated("continue without a guess"), partial(self.choose, UNKNOWN))
        )
        typed = ipywidgets.Text(placeholder=translated("or type the word, then Enter"), continuous_update=False)
        problem = ipywidgets.HTML()
        typed.observe(lambda change: self._type(change["new"], problem), names="value")
        words = "<br>".join(f"<code>{outcome}</code> {html.escape(meaning(outcome))}" for outcome in OUTCOMES)
        self.children: tuple[ipywidgets.Widget, ...] = (
            self._heading(),
            ipywidgets.HTML(f"<pre>{html.escape(question.text)}</pre>"),
            ipywidgets.HTML(words),
            ipywidgets.HBox(buttons, layout=WRAPPED),
            typed,
            problem,
        )

    def _type(self, text: str, problem: ipywidgets.HTML) -> None:
        choice = UNKNOWN if text.strip().lower() in ("?", "don't know", translated(DONT_KNOW)) else outcome_named(text)
        if choice is not None:
            self.choose(choice)
        elif text.strip():
            problem.value = translated("{text} is not one of the four words.", text=repr(html.escape(text[:60])))

    def _show_verdict(self, question: PracticeQuestion, answer: Choice, recording: Any) -> None:
        outcome = recording.verdict.outcome
        values = {"outcome": f"<code>{outcome}</code>", "meaning": html.escape(meaning(outcome))}
        words = translated("It was {outcome}: {meaning}.", **values)
        if answer != UNKNOWN:
            guess = f"<code>{answer}</code>"
            words = translated("You predicted {answer}. It was {outcome}: {meaning}.", answer=guess, **values)
        onward = _button(translated("Go on"), translated("the next program"), self._go_on)
        is_right = translated("Right.") if answer == outcome else translated("Not so.")
        verdict = ipywidgets.HTML(f"<p>{words}</p>" if answer == UNKNOWN else f"<p><b>{is_right}</b> {words}</p>")
        picture = widget(recording, from_start=True)
        self.children = (self._heading(), verdict, onward, picture)  # the picture contains the program

    def _go_on(self) -> None:
        self._number += 1
        if self._number < len(self._questions):
            self._ask()
        else:
            self.children = (ipywidgets.HTML(self._conclusion()),)

    def _heading(self) -> ipywidgets.HTML:
        number = translated("{number} of {count}", number=self._number + 1, count=len(self._questions))
        return ipywidgets.HTML(f"<p><b>{number}</b> · {translated('What happens?')}</p>")


WRAPPED = ipywidgets.Layout(flex_flow="row wrap")


def _button(label: str, tooltip: str, act: Callable[[], None]) -> ipywidgets.Button:
    button = ipywidgets.Button(description=label, tooltip=tooltip, layout=ipywidgets.Layout(width="auto"))
    button.on_click(lambda _: act())
    return button
