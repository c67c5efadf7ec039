"""The picture of a wrong answer: its recording for the check's inputs, with the computed and the expected gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import msgspec

from autograder.check.answer_lines import AnswerLines
from autograder.check.expected import Expected, find_other_values, find_wrong_return
from autograder.check.message import Incorrect, Unfinished
from autograder.check.named_lines import describe as describe_line
from autograder.check.named_lines import (
    find_cut,
    find_detached,
    find_kept_history,
    find_wrong_backward,
    line_of_memory,
    line_of_value,
    line_that_freed,
)
from autograder.check.shown_message import show_first
from autograder.check.subject.call_report import CallProblem
from autograder.check.subject.subjects import Subject
from autograder.locale.messages import Message
from autograder.locale.translations import restored, translatable, translated
from autograder.tape.atlas.atlas_text import words_on_node
from autograder.tape.oracle.gradient_comparison import nested
from autograder.tape.recording.schema import Forecast, Recording, Step, last_unrecorded, unrecorded_writes
from autograder.tape.recording.verdict_types import Harm, NamedLine, Place
from autograder.view import draws_here, show
from autograder.view.text.gradient_values import is_wrong
from autograder.view.text.harm_sentences import harmed_tensor


@contextlib.contextmanager
def picture_on_failure(
    subject: Subject,
    expected: Expected,
    asked: Callable[[], Recording] | None = None,
    smaller: Callable[[Incorrect], tuple[Incorrect, RecordedTrial] | None] = lambda _: None,
) -> Iterator[RecordedTrial]:
    """Judge one trial of an answer inside the block; if it raises Incorrect, show the verdict and the picture first.

    If the answer contains no tensor, the picture shows the recording that `asked` returns, of the program that a
    question is about, with its version counters hidden. `smaller` returns the same verdict for inputs that are easier
    to read, and that trial; None without such inputs.
    """
    attempt = RecordedTrial(subject, expected, asked)
    try:
        yield attempt
    except Unfinished:
        raise
    except Incorrect as wrong:
        shown, attempt = smaller(wrong) or (wrong, attempt)
        attempt.show(shown)
        raise shown from None


def without_inserted(recording: Recording) -> Recording:
    """Return the recording without the leaf and the clone from which the check made a `result(...)` argument.

    The argument remains, as the result of a node called "argument". The check's own statements have no text.
    """
    clones = {
        node.id: node.inputs
        for node in recording.nodes
        if node.name == "CloneBackward0" and node.place and not node.place.text
    }
    inserted = {source for inputs in clones.values() for source in inputs}
    leaves = {node.tensor for node in recording.nodes if node.id in inserted}
    replace = msgspec.structs.replace
    return replace(
        recording,
        nodes=tuple(
            replace(node, name="argument", inputs=(), place=None) if node.id in clones else node
            for node in recording.nodes
        ),
        backward=tuple(visit for visit in recording.backward if visit.node not in inserted),
        steps=tuple(
            replace(
                step,
                nodes=tuple(node for node in step.nodes if node not in inserted),
                tensors=tuple(tensor for tensor in step.tensors if tensor not in leaves),
                states=tuple(state for state in step.states if state.tensor not in leaves),
            )
            for step in recording.steps
        ),
    )


class RecordedTrial:
    """One trial of an answer, which is recorded on first use."""

    def __init__(self, subject: Subject, expected: Expected, asked: Callable[[], Recording] | None = None) -> None:
        self._subject, self._expected, self._asked = subject, expected, asked
        self._named: tuple[NamedLine, ...] = ()
        self._knows_gradients = bool(expected.gradients)

    @cached_property
    def _recorded(self) -> Recording | None:
        return self._subject.recording(self._expected.call, self._knows_gradients) if draws_here() else None

    @cached_property
    def recording(self) -> Recording | None:
        """The recording of the answer; None if nothing is drawn here, recording fails, or it contains no tensor."""
        steps = self._recorded.steps if self._recorded else ()
        return self._recorded if any(step.tensors or step.nodes or step.writes for step in steps) else None

    @cached_property
    def _lines(self) -> AnswerLines | None:
        """The lines of the answer, also of one without tensors."""
        expected = self._expected
        return AnswerLines(self._recorded, expected.lines, expected.written) if self._recorded else None

    def describe_cause(self, leaf: str = "", is_missing: bool = False) -> str:
        """Return a description of the line to look at, or "": an in-place modification, else a fault of the autograd graph.

        `leaf` is the leaf whose gradient is wrong, or missing, which an in-place modification cannot cause; "" if a
        value is wrong or an error was raised.
        """
        if self.recording is None:
            return ""
        sentence = ("" if is_missing else self._write(self.recording)) or self._graph(self.recording, leaf, is_missing)
        last = unrecorded_line(None, last_unrecorded(self.recording)) if is_missing else None
        return sentence or self._name(last) or (self.name_changed() if leaf else "")

    def name_value(self, name: str) -> str:
        """Return a description of the line that gave a value wrong numbers, or ""; the picture opens there."""
        if self.recording is None or self._lines is None:
            return ""
        original, right = self._expected.original(), self._expected.values.outputs.get(name)
        swapped = find_wrong_return(self.recording, name, right) if right else None
        if swapped is not None:
            return self._name(swapped)
        value = find_other_values(self.recording, original) if original else None
        value = value or self._lines.other_return(name) or line_of_value(self.recording, name)
        mistimed = self._lines.mistimed_write(value.place.line) if value else None
        return self._name(mistimed, alone=True) or self._name(value) or self.name_changed()

    def name_changed(self) -> str:
        """Return a description of the last line that the original does not have, or ""; also for an answer without tensors."""
        return self._name(self._lines.last_changed() if self._lines else None)

    def name_raised(self, problem: CallProblem) -> str:
        """Return a description of the line that made a later one raise an error, or ""; the picture opens there."""
        if self.recording is None or self._lines is None or not problem.line:
            return ""
        freed = line_that_freed(self.recording, problem.line) if "second time" in problem.message else None
        others = set(self._lines.changed) - {problem.line}
        if freed is not None and (freed.place.line in others or not others):
            return self._name(freed, alone=True)
        return self._name(self._lines.before(problem.line), alone=True)

    def name_line(self, find: Callable[[Recording, str], NamedLine | None], name: str) -> str:
        """Return a description of the line that `find` returns for a value, argument or leaf, or ""; the picture opens there."""
        return (self._name(find(self.recording, name)) or self.name_changed()) if self.recording else ""

    def changed_first(self, lines: dict[int, str]) -> dict[int, str]:
        """Return the lines with those first that the original program does not have; one of these, if none is among them."""
        changed = self._lines.changed if self._lines else ()
        first = {line: self._lines.texts[line] for line in changed if self._lines and line in lines}
        first = dict(sorted(first.items(), key=lambda item: ".clone()" not in item[1]))
        if changed and not first and self._lines:
            first = {changed[-1]: self._lines.texts[changed[-1]]}
        return first | lines

    def name_memory(self, name: str) -> str:
        """Return a description of the line because of which an argument's memory has other values, or ""."""
        if self.recording is None or self._lines is None:
            return ""
        return self._name(line_of_memory(self.recording, name) or self._lines.replaced_write()) or self.name_changed()

    def name_lines(self, lines: Iterable[int], sentence: str) -> None:
        """Mark these lines in the picture, which opens at the last one; `sentence` describes them, in English."""
        places = {step.place.line: step.place for step in self.recording.steps} if self.recording else {}
        self._named = tuple(NamedLine(places[line], sentence) for line in lines if line in places)

    def _name(self, named: NamedLine | None, alone: bool = False) -> str:
        """Describe a line; before it, unless it is named alone, the changed line to which the student has to return."""
        changed = self._lines.before(named.place.line) if named and self._lines and not alone else None
        self._named = tuple(line for line in (named, changed) if line)
        return translated("; ").join(map(describe_line, reversed(self._named)))

    def _write(self, recording: Recording) -> str:
        """Describe the first modification that broke a saved tensor, else the last one that autograd did not record."""
        harm = next(iter(recording.verdict.harms), None)
        named = unrecorded_line(harm, last_unrecorded(recording))
        if named:
            return self._name(named)
        changed = self._lines.cause_of(harm) if self._lines and harm and harm.mutated_at else None
        if changed is None:
            return describe(harm)
        self._named = (changed,)
        return translated("{line}; {told}", line=describe_line(changed), told=describe(harm))

    def _graph(self, recording: Recording, leaf: str, is_missing: bool) -> str:
        """Describe the line where a leaf's path leaves the graph or joins it twice; without a leaf, the first graph fault."""
        if leaf:
            cut = find_cut(recording, leaf, is_missing=is_missing)
            return self._name(cut or find_kept_history(recording, leaf) or find_wrong_backward(recording, leaf))
        fault, known = next(iter(recording.verdict.graph_faults), None), recording.verdict.messages
        detached = None if fault else find_detached(recording)
        return self._name(NamedLine(fault.place, restored(fault.sentence, known), "lost") if fault else detached)

    def show(self, wrong: Incorrect) -> None:
        """Show the picture of a wrong answer, if it was recorded; otherwise the picture of the given program, if there is one."""
        if self.recording is not None:
            show_first(wrong)
            shown = self._with_expected(self.recording) if wrong.judges_gradients else self.recording
            if shown.verdict.outcome == "silently-wrong" and self._named:
                shown = msgspec.structs.replace(shown, steps=self._forecast_of_task(shown))
            verdict = msgspec.structs.replace(shown.verdict, refusal=wrong.verdict, named=self._named, graph_faults=())
            show(without_inserted(msgspec.structs.replace(shown, verdict=verdict)))
        elif self._asked is not None and draws_here():
            show_first(wrong)
            show(self._asked(), counters=True)

    def show_right(self) -> None:
        """Show the picture of a passed answer, with the expected gradients next to its own."""
        self._knows_gradients = True
        if self.recording is not None and self.recording.verdict.outcome == "correct":
            show(without_inserted(self._with_expected(self.recording)))

    def _with_expected(self, recording: Recording) -> Recording:
        """Return the recording with the check's gradients as the right ones."""
        right = {name: nested(gradient) for name, gradient in self._expected.gradients.items()}
        shown = {
            name: msgspec.structs.replace(gradient, true=right.get(name, gradient.true))
            for name, gradient in recording.verdict.gradients.items()
        }
        verdict = msgspec.structs.replace(recording.verdict, gradients=shown)
        if verdict.outcome == "correct" and any(map(is_wrong, shown.values())):
            # The gradients belong to the values that the answer computes, but these are not the values of the task.
            verdict = msgspec.structs.replace(verdict, outcome="silently-wrong")
        steps = self._forecast_of_task(recording) if verdict.outcome == "silently-wrong" else recording.steps
        return msgspec.structs.replace(recording, verdict=verdict, steps=steps)

    def _forecast_of_task(self, recording: Recording) -> tuple[Step, ...]:
        """Return the steps; from the first named line on, the forecast is that backward will be silently wrong."""
        missing = {write.place for write in unrecorded_writes(recording)}
        places = {named.place for named in self._named} or missing
        first = next((step.index for step in recording.steps if step.place in places), len(recording.steps))
        wrong = Forecast("silently-wrong")
        return tuple(
            msgspec.structs.replace(step, forecast=wrong) if step.forecast and step.index >= first else step
            for step in recording.steps
        )


_OVERWRITES = translatable("line {line}: {text} writes into the memory of {tensor}, which {node} keeps for backward")


def describe(harm: Harm | None) -> str:
    """Return the modification that broke a saved tensor and the reason why it was saved; "" without a modification."""
    if harm is None or not harm.mutated_at:
        return ""
    place = harm.mutated_at[0]
    text = translated(_OVERWRITES, line=place.line, text=place.text, tensor=harmed_tensor(harm), node=harm.saved_by)
    # Advice on what to write instead would give the answer away.
    reason = words_on_node(harm.saved_by, advice=False) if harm.edge is not None else ""
    return text + translated(" ({parts})", parts=reason) if reason else text


def unrecorded_line(harm: Harm | None, missing: Place | None) -> NamedLine | None:
    """Return the line of a modification that autograd did not record: that of the first harm, if it is one, else `missing`.

    Return None if a saved tensor was modified or every write was recorded. `missing` may not be the cause; the reader
    has to judge that.
    """
    if harm is not None and harm.mutated_at:
        place = harm.mutated_at[0]
        if harm.kind == "unrecorded write":
            message = Message(
                "attempt.unrecorded_write|writes into {tensor} and autograd does not record it; {node} computes with the new values",
                tensor=harm.tensor,
                node=harm.saved_by,
            )
            return NamedLine(place, message, "unseen")
        # Nodes that the check creates to start backward from the returned values have no line of the answer.
        missing = place if harm.edge is None and not harm.saved_at.text else None
    message = Message(
        "attempt.history_unchanged|changes values whose history stays as it was: autograd does not know where the new ones come from"
    )
    return NamedLine(missing, message, "unseen") if missing else None
