"""Predictions and named lines, compared with the behavior of PyTorch when the check runs, never with a stored key; pictures of programs."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import tokenize
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import torch

from autograder.check.demonstrations import demonstration
from autograder.check.events import current_run, notify, record_wrong_prediction, show_passed
from autograder.check.expected import BrokenExercise
from autograder.check.learner import LearnerNames, current_names, find
from autograder.check.message import VALIDATING, Incorrect, NotAnOutcome, NotAttempted
from autograder.check.plan import Plan, plan_or_decorate, require_known_names
from autograder.check.shown_message import is_learners_notebook, show_first
from autograder.check.subject.learner_code import source_of
from autograder.locale.translations import translatable, translated
from autograder.tape import record
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import OUTCOMES, Harm, Outcome
from autograder.view.notebook import draws_here, show, show_choices
from autograder.view.text.headline import meaning

_last_run: ContextVar[int | None] = ContextVar("last_run", default=None)
"""The execution count of the last run of a cell that showed a program."""


def record_program(program: Callable[[], Any]) -> Recording:
    """Return the recording of a test cell's own program."""
    recording = record(program)
    if recording.verdict.error is not None:
        require_known_names(recording.verdict.error.type, recording.verdict.error.message)
    return recording


def show_program(
    recording: Recording, program: Callable[[], Any], from_start: bool = False, graph_first: bool = False
) -> None:
    """Show a recording of `program`, which can be edited in a live picture if its source is known.

    The pictures of the second program and those after it in one run of a cell are folded. A live picture opens at the
    first step with `from_start`; the graph is open below the timeline then, or with `graph_first`.
    """
    run = current_run()
    title = program.__name__ if run is not None and run == _last_run.get() else ""
    _last_run.set(run)
    show(recording, False, from_start, lambda: _playground(program), title=title, graph_first=graph_first)


def _playground(program: Callable[[], Any]) -> Callable[[Any], None] | None:
    """Return a function that attaches the editor to a live picture; None if the lines cannot be moved or have no source."""
    # In the process that runs submissions, the playground cannot be imported, but a lesson must still load there.
    with contextlib.suppress(OSError, TypeError, ModuleNotFoundError):
        from autograder.check.playground.playground import playground_of

        made = playground_of(program, source_of(program))
        return made.attach if made else None
    return None


def predicted(name: str, program: Callable[[], Any] | None = None) -> Any:
    """Run and show a program, and check the predicted outcome.

    Args:
        name: the student's variable that contains one of the four outcomes. While it is `...`, nothing is run or shown,
            so that the student predicts first.
        program: a function without arguments; if it is missing, a decorator for such a function is returned.

    Raises:
        NotAttempted: the prediction is still `...`.
        Incorrect: the outcome is another one, or the prediction is not one of the four words.
        Missing: the variable is not defined.
    """
    return plan_or_decorate(lambda program: OutcomePrediction(name, program), program)


def predicted_value(name: str, program: Callable[[], Any] | None = None) -> Any:
    """Run a program, compare its return value with the prediction, and show the picture.

    Args:
        name: the student's variable: a number, a word, None, or a list of them; a number may be off by 1 %, or by
            0.005.
        program: a function without arguments; if it is missing, a decorator for such a function is returned.

    Raises:
        NotAttempted: the prediction still contains `...`; the program is not run.
        Incorrect: the program returns another value.
        Missing: the variable is not defined.
    """
    return plan_or_decorate(lambda program: ValuePrediction(name, program), program)


def culprit(name: str, program: Callable[[], Any] | None = None) -> Any:
    """Record a program, check the named line, and show the picture.

    Before a line is named, the program does not run, and its lines can be clicked. After a wrong line, the picture omits
    the summary that would give the answer away. The answer is never a stored key: every line that modified a saved
    tensor before a backward used it, according to the recording, is right.

    Args:
        name: the student's variable, which contains one line of the program as text; whitespace does not matter.
        program: a function without arguments; if it is missing, a decorator for such a function is returned.

    Raises:
        NotAttempted: no line has been named yet.
        Incorrect: the text is not a line of the program, or that line did not modify a saved tensor.
        Missing: the variable is not defined.
        BrokenExercise: the program does not modify any saved tensor.
    """
    return plan_or_decorate(lambda program: CulpritPlan(name, program), program)


@dataclass(frozen=True)
class _Prediction(Plan):
    """A program, and the name of the student's variable that predicts its behavior."""

    name: str
    program: Callable[[], Any]

    asks: ClassVar = "value"

    @functools.cached_property
    def recording(self) -> Recording:
        return record_program(self.program)

    def _show_right(self, outcome: str) -> None:
        show_passed(self.name, translated(", it is {outcome}, as you predicted", outcome=outcome))
        show_program(self.recording, self.program, from_start=True)

    def _refuse(self, wrong: Incorrect, guess: str) -> None:
        """Show the message, then the picture; raise the message, except for a student and in *Validate*."""
        show_first(wrong, mark="≠")
        notify("failed", self.name, guess)
        show_program(self.recording, self.program, from_start=True)
        notify("demonstrated", self.name)
        # While nbgrader grades, it raises, because nbgrader gives full points to a cell that does not.
        if not (is_learners_notebook() or (VALIDATING in os.environ and draws_here())):
            raise wrong
        record_wrong_prediction(self.name)


class OutcomePrediction(_Prediction):
    """A call of `predicted`: the student's outcome is compared with the program's."""

    def compare(self, names: LearnerNames) -> None:
        """Compare the predicted outcome with that of the program, and show the picture."""
        name, guess = self.name, self._guess(names)
        outcome = self.recording.verdict.outcome
        if guess == outcome:
            self._show_right(outcome)
            return
        values = {"name": name, "guess": guess, "outcome": outcome}
        wrong = Incorrect.of(
            translated("{name}: something else happened. You predicted {guess}. It was {outcome}.", **values),
            saw=meaning(outcome),
            expected=translated("by your prediction: {meaning}", meaning=meaning(guess)),
            look_at=translated("the picture of the run: go on step by step until it surprises you"),
        )
        self._refuse(wrong, guess)

    def _guess(self, names: LearnerNames) -> Outcome:
        name, guess = self.name, find(names.value, self.name)
        if guess is ... or guess == "...":
            show_choices(
                name, translated("What will this program do?"), [(outcome, meaning(outcome)) for outcome in OUTCOMES]
            )
            raise NotAttempted.of(
                translated("{name}: predict first, then run", name=name),
                saw=translated("no prediction yet"),
                expected=translated("one of {outcomes}", outcomes=", ".join(OUTCOMES)),
                look_at=translated("the cell above: write the word between the quotes, and run it"),
            )
        outcome = outcome_named(guess)
        if outcome is None:
            raise NotAnOutcome.of(
                translated("{name}: this is not one of the four outcomes", name=name),
                saw=repr(guess)[:60],
                expected=translated(
                    "one of {outcomes}", outcomes="; ".join(f"{outcome} ({meaning(outcome)})" for outcome in OUTCOMES)
                ),
                look_at=translated("the spelling of the word"),
            )
        return outcome


class ValuePrediction(_Prediction):
    """A call of `predicted_value`: the student's value is compared with the program's."""

    @functools.cached_property
    def value(self) -> Any:
        """The return value of the program."""
        return self.program()

    def compare(self, names: LearnerNames) -> None:
        """Compare the predicted value with that of the program, and show the picture."""
        guess, value = self._guess(names), self.value
        if _agree(guess, value):
            self._show_right(_shown(value))
            return
        look_at = translated("the picture of the run: go on step by step until it surprises you")
        if not _has_form(guess, value):
            look_at = translated("the number of values and their brackets: your prediction has others")
        wrong = Incorrect.of(
            translated("{name}: something else happened", name=self.name),
            saw=translated("you predicted {guess}", guess=_shown(guess)),
            expected=translated("{value}, the value of this program", value=_shown(value)),
            look_at=look_at,
        )
        self._refuse(wrong, _shown(guess))

    def _guess(self, names: LearnerNames) -> Any:
        guess = _plain(find(names.value, self.name))
        if "..." in (items := _flat(guess)) or ... in items:
            raise NotAttempted.of(
                translated("{name}: predict first, then run", name=self.name),
                saw=translated("no prediction yet") if len(items) == 1 else translated("a prediction with a gap"),
                expected=translated("your own value in place of each ..."),
                look_at=translated("the cell above: write it, and run that cell"),
            )
        return guess


def _has_form(guess: Any, value: Any) -> bool:
    """Return whether a prediction has the lists of a value; None may stand for a list, as a missing gradient."""
    if isinstance(guess, list | tuple) and isinstance(value, list | tuple):
        return len(guess) == len(value) and all(map(_has_form, guess, value))
    return guess is None or not (isinstance(guess, list | tuple) or isinstance(value, list | tuple))


class CulpritPlan(_Prediction):
    """A call of `culprit`: the student's line is compared with the one that modified a saved tensor."""

    @functools.cached_property
    def recording(self) -> Recording:
        """The recording of the program; raises BrokenExercise if no line modified a saved tensor."""
        recording = record_program(self.program)
        if not recording.verdict.harms:
            raise BrokenExercise(
                f"the program of {self.name} does not write into a saved tensor, so no line is the culprit"
            )
        return recording

    @functools.cached_property
    def lines(self) -> dict[str, str]:
        """The lines of the program, by their normal form."""
        return {_normalize(line): line.strip() for line in source_of(self.program).splitlines()}

    def compare(self, names: LearnerNames) -> None:
        """Compare the named line with those that modified a saved tensor, and show the picture."""
        guess = find(names.value, self.name)
        _require_guess(self.name, guess, self.lines)
        recording = self.recording
        try:
            if not isinstance(guess, str) or _normalize(guess) not in set(self.lines) - {""}:
                raise Incorrect.of(
                    translated("{name}: this is not a line of the program", name=self.name),
                    saw=repr(guess)[:120],
                    expected=translated("one whole line, exactly as in the program"),
                    look_at=translated("the spelling; copying the line is safest"),
                )
            _require_harm(self.name, self.lines[_normalize(guess)], recording.verdict.harms)
        except Incorrect as wrong:
            show_first(wrong)
            verdict = msgspec.structs.replace(recording.verdict, harms=(), notes=(), fixes=())
            show(msgspec.structs.replace(recording, verdict=verdict))
            raise
        show_passed(self.name, translated(", this line wrote into a saved tensor"))
        show(recording)


def _require_harm(name: str, line: str, harms: tuple[Harm, ...]) -> None:
    if _normalize(line) in {_normalize(place.text) for harm in harms for place in harm.mutated_at}:
        return
    saw = translatable("{line}, which did not write into a tensor that backward still needed")
    if _normalize(line) in {_normalize(harm.saved_at.text) for harm in harms}:
        saw = translatable("{line}, which made the node that saved the tensor, and did not write into it")
    raise Incorrect.of(
        translated("{name}: not this line", name=name),
        saw=translated(saw, line=line),
        expected=translated("the line that wrote into a saved tensor after it was saved"),
        look_at=translated("memory that a node keeps: which line changed it?"),
    )


def _require_guess(name: str, guess: Any, lines: dict[str, str]) -> None:
    """Show the lines to click and raise NotAttempted if no line has been named yet."""
    if guess is ... or guess == "...":
        body = [line for line in lines.values() if line and not line.startswith(("def ", "return ", "@"))]
        question = translated("Which line wrote into a tensor that backward still needed?")
        show_choices(name, question, [(line, "") for line in body])
        raise NotAttempted.of(
            translated("{name}: name a line first, then run", name=name),
            saw=translated("no line yet"),
            expected=translated("the text of one line of the program above"),
            look_at=translated("the answer's cell: copy the line between the quotes, and run it"),
        )


def _normalize(line: str) -> str:
    """Return the tokens of a line of code without its comment, separated by single spaces; for other text, its words."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return " ".join(line.partition("#")[0].split())
    return " ".join(token.string for token in tokens if token.type != tokenize.COMMENT and token.string.strip())


def observed(
    program: Callable[[], Any] | None = None, *, after: str = "", picture: bool = True, graph: bool = False
) -> Any:
    """Run the decorated program once, show its picture, and return it unchanged, without a check.

    Args:
        program: the decorated function without arguments; if it is missing, a decorator is returned.
        after: a prediction whose answer the program would show; while it has no answer, the program does not run.
        picture: whether to record the program and show its picture; otherwise only its own output is shown.
        graph: whether the graph is open below the timeline.
    """
    if program is None:
        return functools.partial(observed, after=after, picture=picture, graph=graph)
    if after and "NBGRADER_EXECUTION" not in os.environ and not is_answered(after, current_names()):
        print(translated("Answer {name} first, then run this cell.", name=after))
        return program
    if picture:
        show_program(demonstration(program), program, graph_first=graph)
    else:
        program()
    notify("demonstrated", program.__name__)
    return program


def versions_hidden(program: Callable[[], Any]) -> Callable[[], Any]:
    """Run the decorated program once, show a picture in which the student sets the version counters, and return it unchanged."""
    show(demonstration(program), counters=True)
    return program


def is_answered(name: str, names: LearnerNames) -> bool:
    """Return whether the student's variable exists and contains no `...`."""
    try:
        items = _flat(_plain(names.value(name)))
    except KeyError:
        return False
    return not ("..." in items or ... in items)


def outcome_named(guess: Any) -> Outcome | None:
    """Return the outcome that a student's text names, ignoring case and hyphens; None if it does not name an outcome."""
    words = str(guess).lower().replace("-", " ").split()
    return next((outcome for outcome in OUTCOMES if outcome.split("-") == words), None)


def _plain(guess: Any) -> Any:
    """Return a prediction with its tensors converted to lists and numbers, because a gradient may be written as a tensor."""
    if isinstance(guess, list | tuple):
        return [_plain(item) for item in guess]
    return guess.tolist() if isinstance(guess, torch.Tensor) else guess


def _flat(value: Any) -> list[Any]:
    return [part for item in value for part in _flat(item)] if isinstance(value, list | tuple) else [value]


def _agree(guess: Any, value: Any) -> bool:
    """Return whether a prediction agrees with a value: numbers within 1 % or 0.005, lists by items, words in any case."""
    if isinstance(value, list | tuple):
        same_length = isinstance(guess, list | tuple) and len(guess) == len(value)
        return same_length and all(map(_agree, guess, value))
    if isinstance(value, str) or value is None or isinstance(guess, bool) or not isinstance(guess, int | float):
        return str(guess).strip().lower() == str(value).lower()
    return math.isclose(guess, value, rel_tol=0.01, abs_tol=0.005)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)[:60]
