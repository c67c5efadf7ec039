"""The picture of a wrong answer: its own run with the check's inputs, what it gave beside what was expected."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property

import msgspec

from autograder.check.blame import describe, describe_unrecorded
from autograder.check.expected import Expected
from autograder.check.lost_paths import describe_fault, find_cut
from autograder.check.message import Incorrect, Unfinished
from autograder.check.subject.subjects import Subject
from autograder.tape.oracle.gradient_comparison import nested
from autograder.tape.recording.schema import Forecast, Recording, Step
from autograder.tape.recording.unrecorded_writes import unrecorded_writes
from autograder.tape.recording.verdict_types import GraphFault
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
        self._fault: GraphFault | None = None
        self._knows_gradients = False

    @cached_property
    def recording(self) -> Recording | None:
        """What autograd held; None where nothing draws, it cannot be recorded, or no tensor was there to draw."""
        found = self._subject.recording(self._expected.call, self._knows_gradients) if draws_here() else None
        return found if found and any(step.tensors or step.nodes or step.writes for step in found.steps) else None

    def blame(self, leaf: str = "", is_missing: bool = False) -> str:
        """Describes the line to look at, "" for none: a write, and where no write can be the reason, a fault of the graph.

        Args:
            leaf: whose gradient is wrong, as the check calls it; "" where a value is, or an error was raised.
            is_missing: no gradient arrived at the leaf; then it is no write's doing.
        """
        self._knows_gradients = bool(leaf)
        if self.recording is None:
            return ""
        return ("" if is_missing else self._write(self.recording)) or self._graph(self.recording, leaf, is_missing)

    def _write(self, recording: Recording) -> str:
        """Describes the first write of this run that harmed a saved tensor, else the last one that its history does not tell of."""
        if recording.verdict.harms:
            return describe(recording.verdict.harms[0])
        missing = list(unrecorded_writes(recording))
        return describe_unrecorded(missing[-1].place) if missing else ""

    def _graph(self, recording: Recording, leaf: str, is_missing: bool) -> str:
        """Describes the line at which what depends on a leaf leaves the graph, without a leaf the first fault; the picture opens there."""
        faults = recording.verdict.graph_faults
        self._fault = find_cut(recording, leaf, is_missing=is_missing) if leaf else next(iter(faults), None)
        return describe_fault(self._fault) if self._fault else ""

    def show(self, wrong: Incorrect) -> None:
        """Shows the verdict first, then the picture."""
        if self.recording is not None:
            wrong.print_first()
            shown = self._beside_expected(self.recording) if wrong.judges_gradients else self.recording
            verdict = msgspec.structs.replace(shown.verdict, refusal=wrong.verdict)
            verdict = msgspec.structs.replace(verdict, graph_faults=(self._fault,) if self._fault else ())
            show(msgspec.structs.replace(shown, verdict=verdict))

    def _beside_expected(self, found: Recording) -> Recording:
        """Returns the recording with the check's gradients as the right ones."""
        right = {name: nested(gradient) for name, gradient in self._expected.gradients.items()}
        shown = {
            name: msgspec.structs.replace(gradient, true=right.get(name, gradient.true))
            for name, gradient in found.verdict.gradients.items()
        }
        verdict = msgspec.structs.replace(found.verdict, gradients=shown)
        if verdict.outcome != "correct" or not any(map(is_wrong, shown.values())):
            return msgspec.structs.replace(found, verdict=verdict)
        # Right for what the answer computes is not right for the task.
        verdict = msgspec.structs.replace(verdict, outcome="silently-wrong")
        return msgspec.structs.replace(found, verdict=verdict, steps=_forecast_of_task(found))


def _forecast_of_task(found: Recording) -> tuple[Step, ...]:
    """Returns the steps without the forecast that backward will be right, from the first write on that its history does not tell of."""
    missing = set(unrecorded_writes(found))
    first = next((step.index for step in found.steps if missing.intersection(step.writes)), len(found.steps))
    wrong = Forecast("silently-wrong")
    return tuple(
        msgspec.structs.replace(step, forecast=wrong) if step.forecast and step.index >= first else step
        for step in found.steps
    )
