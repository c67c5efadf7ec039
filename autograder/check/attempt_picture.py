"""The picture of a wrong answer: its own run with the check's inputs, what it gave beside what was expected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property

import msgspec

from autograder.check.expected import Expected
from autograder.check.message import Incorrect, Unfinished, Unsolved
from autograder.check.subject.subjects import Subject
from autograder.locale.translations import translated
from autograder.tape.oracle.gradient_comparison import nested
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Harm
from autograder.view import draws_here, show
from autograder.view.text.gradient_values import is_wrong


@contextlib.contextmanager
def pictured(subject: Subject, expected: Expected) -> Iterator[Attempt]:
    """A block that judges one trial of an answer; where it raises Incorrect, the verdict and the picture are shown first."""
    attempt = Attempt(subject, expected)
    try:
        yield attempt
    except Unfinished:
        raise
    except Incorrect as wrong:
        attempt.show(wrong)
        raise


class Attempt:
    """One trial of an answer, which is recorded when something of it is asked for."""

    def __init__(self, subject: Subject, expected: Expected) -> None:
        self._subject, self._expected = subject, expected

    @cached_property
    def recording(self) -> Recording | None:
        """What autograd held; None where nothing draws, or it cannot be recorded."""
        return self._subject.recording(self._expected.call) if draws_here() else None

    def harm(self) -> Harm | None:
        """Returns the first write of this run that harmed a saved tensor."""
        return next(iter(self.recording.verdict.harms), None) if self.recording else None

    def show(self, wrong: Unsolved) -> None:
        """Shows the verdict first, then the picture."""
        if self.recording is not None:
            wrong.print_first()
            show(self._beside_expected(self.recording, wrong))

    def _beside_expected(self, found: Recording, wrong: Unsolved) -> Recording:
        """Returns the recording with the check's gradients as the right ones, and the check's verdict as a note."""
        right = {name: nested(gradient) for name, gradient in self._expected.gradients.items()}
        shown = {
            name: msgspec.structs.replace(gradient, true=right.get(name, gradient.true))
            for name, gradient in found.verdict.gradients.items()
        }
        verdict = found.verdict
        # Right for what the answer computes is not right for the task.
        silent = verdict.outcome == "correct" and any(map(is_wrong, shown.values()))
        verdict = msgspec.structs.replace(
            verdict,
            outcome="silently-wrong" if silent else verdict.outcome,
            gradients=shown,
            notes=(translated("The check says: {verdict}.", verdict=wrong.verdict), *verdict.notes),
        )
        return msgspec.structs.replace(found, verdict=verdict)
