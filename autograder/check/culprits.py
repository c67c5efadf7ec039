"""Exercises in which a student reads the picture of a failing program and names the line that broke backward."""

from __future__ import annotations

import functools
import io
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from autograder.check.events import show_passed
from autograder.check.expected import BrokenExercise
from autograder.check.learner import LearnerNames, find
from autograder.check.message import Incorrect, NotAttempted
from autograder.check.plan import Plan, plan_or_decorate
from autograder.check.prediction import record_program
from autograder.check.shown_message import show_first
from autograder.check.subject.learner_code import source_of
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Harm
from autograder.view import show
from autograder.view.notebook import show_choices


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
class CulpritPlan(Plan):
    """One use of `culprit`: a program, and the name of the variable that contains a line of it."""

    name: str
    program: Callable[[], Any]

    asks: ClassVar = "value"

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
    raise Incorrect.of(
        translated("{name}: not this line", name=name),
        saw=_describe_line(line, harms),
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


def _describe_line(line: str, harms: tuple[Harm, ...]) -> str:
    if _normalize(line) in {_normalize(harm.saved_at.text) for harm in harms}:
        return translated("{line}, which made the node that saved the tensor, and did not write into it", line=line)
    return translated("{line}, which did not write into a tensor that backward still needed", line=line)


def _normalize(line: str) -> str:
    """Return the tokens of a line of code without its comment, separated by single spaces; for other text, its words."""
    try:
        found = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return " ".join(line.partition("#")[0].split())
    return " ".join(token.string for token in found if token.type != tokenize.COMMENT and token.string.strip())
