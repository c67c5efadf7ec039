"""The timeline of a run: the lines that explain the outcome, in the order in which they ran, and their effects on one storage.

A row is one execution of a line. Marks on it state that the line made the storage, that a node saved the tensor, that
the line modified it, and how backward reacted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from autograder.locale.translations import retold, translatable, translated
from autograder.tape.recording.schema import Recording, SavedEdge, Step, Tensor, Write
from autograder.tape.recording.verdict_types import Harm, Outcome, Place, place_of_fix
from autograder.view.playback import Playback, find_backward
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import is_wrong, short_values
from autograder.view.text.harm_sentences import SENTENCES, harmed_tensor, how_far_off, keeper, through, where
from autograder.view.text.headline import headline, short_message, title
from autograder.view.text.naming import TensorNames, count_noun

Kind = Literal["made", "saved", "modified", "unseen", "raised", "accepted", "fine"]

VALUES = 24
"""The maximum number of columns of values in a mark."""
MESSAGE = 90
"""The maximum number of columns of an error message in a mark."""
MOST_ROWS = 9
"""The maximum number of rows with marks; more modifications of one storage are folded."""

MADE = {
    "parameter": translatable("{tensor} is a parameter, a leaf that requires grad"),
    "leaf": translatable("{tensor} is a leaf that requires grad"),
    "view": translatable("{tensor} is a view"),
}
"""Kind of a tensor → the statement on the line that made it, for a program that stops in forward."""
UNSAVED = translatable("no node saves this memory")


@dataclass(frozen=True)
class Mark:
    """The effect of a line on the storage: its kind, a short statement, and a detail or "".

    Attributes:
        is_read: whether backward reads what this line saved.
    """

    kind: Kind
    words: str
    detail: str = ""
    is_read: bool = False


@dataclass(frozen=True)
class Row:
    """One execution of a line.

    Attributes:
        line: the line number, with the file's name if that is not the program's own.
        depth: number of calls that the line is inside of, of those that the timeline shows.
        remark: the function of an inner line, and the number of this execution if the line ran several times.
        before: number of statements that ran between the row above and this row.
        is_lit: whether the line is the cause of the outcome.
    """

    line: str
    code: str
    depth: int = 0
    remark: str = ""
    marks: tuple[Mark, ...] = ()
    before: int = 0
    is_lit: bool = False

    @property
    def fold(self) -> str:
        """The words on the statements before the row; "" if none are left out."""
        return f"… {count_noun(self.before, '{count} statement', '{count} statements')}" if self.before else ""


@dataclass(frozen=True)
class Timeline:
    """The figure as data: Python determines rows and texts, and the drawing only places them.

    Attributes:
        name, note: the name of the storage, and its size; "" if no storage explains the outcome.
        rest: sentences on the storages that are not drawn, and on the fix.
    """

    title: str
    outcome: Outcome
    name: str
    note: str
    rows: tuple[Row, ...]
    rest: tuple[str, ...] = ()


def timeline_of(recording: Recording) -> Timeline | None:
    """Return the timeline of a recording, or None if it has no steps."""
    if not recording.steps:
        return None
    return _TimelineMaker(recording).make()


class _TimelineMaker:
    """Collects the marks of a recording's steps."""

    def __init__(self, recording: Recording):
        self.recording, self.verdict = recording, recording.verdict
        self.file = recording.programs[0].file
        self.edges = {edge.id: edge for edge in recording.saved}
        self.tensors = {tensor.id: tensor for tensor in recording.tensors}
        self.marks: dict[int, list[Mark]] = {}
        self.lit: set[int] = set()

    def make(self) -> Timeline:
        """Return the timeline of the first harm, else of the error, else of the modified storages."""
        harm = next(iter(self.verdict.harms), None)
        if harm is not None:
            storage = self._mark_harm(harm)
            name = harmed_tensor(harm)
        elif self.verdict.outcome in ("raises-forward", "raises-backward"):
            storage, name = self._mark_error()
        else:
            storage, name = self._mark_harmless()
        note = self._size(storage) if storage is not None else ""
        return Timeline(
            self._title(harm), self.verdict.outcome, name, note, tuple(self._rows()), tuple(self._rest(harm))
        )

    def _title(self, harm: Harm | None) -> str:
        """Return the outcome and its cause, in one line."""
        if harm is None or harm.kind in SENTENCES:
            return title(self.verdict)
        known = {
            "line": where(harm.mutated_at[0], self.file),
            "tensor": harmed_tensor(harm),
            "through": through(harm),
            "saved": where(harm.saved_at, self.file),
        }
        wrong = [(name, gradient) for name, gradient in self.verdict.gradients.items() if is_wrong(gradient)]
        if self.verdict.outcome == "silently-wrong" and len(wrong) == 1:
            (name, gradient) = wrong[0]
            known |= {"name": name, "got": short_values(gradient.got), "right": short_values(gradient.true)}
            told = translated(
                "{name}.grad is {got} instead of {right}, because {line} modified {tensor}{through}", **known
            )
        else:
            told = translated("{line} modified {tensor}{through} after {saved} had saved it", **known)
        return f"{self.verdict.outcome}: {told}"

    def _mark_harm(self, harm: Harm) -> int | None:
        """Mark the steps of a harm: the making, the saving, the modification and the reading. Return the storage."""
        edge = self.edges.get(harm.edge) if harm.edge is not None else None
        writes = list(self._writes(edge)) if edge is not None else []
        if edge is not None:
            self._mark_making(edge.storage)
            for other in self.verdict.harms:
                saved = self.edges.get(other.edge) if other.edge is not None else None
                if saved is not None and saved.storage == edge.storage and len(self.marks) < MOST_ROWS // 2:
                    self._mark_saving(saved, other)
            for step, write in writes[: MOST_ROWS - 3]:
                self._mark_write(step, write, harm, edge)
        if not writes:
            self._mark_places(harm)
        self._mark_reading(harm, edge)
        return edge.storage if edge is not None else None

    def _writes(self, edge: SavedEdge) -> Iterator[tuple[Step, Write]]:
        """Yield the modifications of a saved tensor, from the first harmful one on, until backward frees the tensor."""
        is_harmed = False
        for step in self.recording.steps:
            for write in step.writes:
                is_harmed = is_harmed or edge.id in write.harmed
                if edge.id in write.harmed or (is_harmed and _overlaps(write, edge)):
                    yield step, write
            if edge.id in step.freed:
                return

    def _mark_making(self, storage: int) -> None:
        """Mark the step that made a storage; a parameter's is far away and has no row."""
        for step in self.recording.steps:
            made = [number for number in step.tensors if self.tensors[number].storage == storage]
            if made:
                state = next((state for state in step.states if state.tensor == made[0]), None)
                if self.tensors[made[0]].kind != "parameter" and state is not None:
                    self._add(step.index, Mark("made", _values(state.values, state.version)))
                return

    def _mark_saving(self, edge: SavedEdge, harm: Harm) -> None:
        """Mark the step in which a node saved the tensor, else the last execution of the line that did."""
        steps = self.recording.steps
        step = next((step for step in steps if edge.id in step.saved), None) or self._last_at(harm.saved_at)
        if step is None:
            return
        words = translated(
            "{node} saves {tensor}, version {version}",
            node=keeper(harm, self.recording), tensor=harmed_tensor(harm), version=edge.saved_version,
        )  # fmt: skip
        self._add(step.index, Mark("saved", words, is_read=harm is self.verdict.harms[0]))

    def _last_at(self, place: Place) -> Step | None:
        """Return the last execution of a line."""
        return next((step for step in reversed(self.recording.steps) if step.place == place), None)

    def _mark_places(self, harm: Harm) -> None:
        """Mark the last execution of each line of a harm whose modification the recording does not contain."""
        saved, modified = self._last_at(harm.saved_at), self._last_at(harm.mutated_at[0])
        if saved is not None:
            self._add(saved.index, Mark("saved", harm.saved_by))
        if modified is not None:
            self.lit.add(modified.index)
            self._add(modified.index, Mark("unseen", translated("modifies {tensor}", tensor=harmed_tensor(harm))))

    def _mark_write(self, step: Step, write: Write, harm: Harm, edge: SavedEdge) -> None:
        """Mark a step that modified the saved tensor; its version is given if the step left one."""
        self.lit.add(step.index)
        own = self.tensors[edge.tensor].counter if edge.tensor is not None else None
        states = [state for state in step.states if self.tensors[state.tensor].counter == own]
        values = next((state.values for state in states if state.tensor == edge.tensor), "")
        if own in write.counters or (own is None and write.counters):
            versions = [state.version for state in states if state.version is not None]
            self._add(step.index, Mark("modified", _values(values, max(versions, default=None)) or write.operation))
            return
        alias = harm.through or write.through or write.operation
        if alias == harmed_tensor(harm):
            alias = translated("a modification by `{operation}`", operation=write.operation)
        still = translated("still version {version}: {alias} is not counted", version=harm.saved_version, alias=alias)
        self._add(step.index, Mark("unseen", f"{values} · {still}" if 0 < len(values) <= VALUES else still))

    def _mark_reading(self, harm: Harm, edge: SavedEdge | None) -> None:
        """Mark the step whose backward call read the modified tensor."""
        known = {"saved": harm.saved_version, "version": harm.version_now}
        if self.verdict.outcome == "raises-backward" and harm.saved_version != harm.version_now:
            words = translated("expects version {saved}, finds {version}", **known)
            mark = Mark("raised", words, translated("so backward() raises an error"))
        else:
            effect = how_far_off(self.verdict.gradients, VALUES)
            is_same = harm.saved_version is not None and harm.saved_version == harm.version_now
            words = translated("version {saved} = {version}: accepted", **known) if is_same else ""
            mark = Mark("accepted", words or translated("reads the new values"), effect)
        step = self._reading_step(edge)
        if step is not None:
            self._add(step, mark)

    def _reading_step(self, edge: SavedEdge | None) -> int | None:
        """Return the index of the step whose backward call read the tensor: the first one after its modification."""
        last = max(self.marks, default=-1)
        visits = [visit for visit in self.recording.backward if visit.step is not None and visit.step >= last]
        own = [visit for visit in visits if edge is not None and visit.node == edge.node]
        raised = [visit for visit in visits if visit.status == "raised"]
        first = next(iter([*own, *raised]), None)
        if first is not None:
            return first.step
        return self._error_step() if self.verdict.error else next((visit.step for visit in visits), None)

    def _error_step(self) -> int | None:
        """Return the index of the last step at the line of the error."""
        error = self.verdict.error
        steps = (step.index for step in reversed(self.recording.steps) if error and error.is_at(step.place))
        return next(steps, None)

    def _mark_error(self) -> tuple[int | None, str]:
        """Mark the line that raised an error, and the making of the leaf or view that it modifies. Return storage and name."""
        error, index = self.verdict.error, self._error_step()
        if error is None or index is None:
            return None, ""
        self.lit.add(index)
        self._add(index, Mark("raised", error.type, clip(short_message(error.message), MESSAGE)))
        for name, tensor in self._tensors_in(self.recording.steps[index]):
            made = next((step for step in self.recording.steps if tensor.id in step.tensors), None)
            kind = "view" if tensor.base is not None else tensor.kind
            if made is not None and kind in MADE:
                self._add(made.index, Mark("made", translated(MADE[kind], tensor=name)))
                return tensor.storage, name
        return None, ""

    def _tensors_in(self, step: Step) -> Iterator[tuple[str, Tensor]]:
        """Yield the variables in a line that refer to tensors when it begins, in the order of the line."""
        bound = {
            change.name: change.tensor for earlier in self.recording.steps[: step.index] for change in earlier.names
        }
        for name in re.findall(r"[^\W\d][\w.]*", step.place.text):
            tensor = bound.get(name)
            if tensor is not None:
                yield name, self.tensors[tensor]

    def _mark_harmless(self) -> tuple[int | None, str]:
        """Mark the first modification that no backward call was harmed by, and the backward call. Return storage and name."""
        named = self._first_write()
        after = named[0].index if named else -1
        later = (visit.step for visit in self.recording.backward if visit.step is not None and visit.step > after)
        backward = next(later, find_backward(self.recording))
        if named is not None:
            step, write, name, reason = named
            self._mark_making(write.storage)
            state = next((state for state in step.states if state.tensor == write.tensor), None)
            words = _values(state.values, state.version) if state else translated("modifies {tensor}", tensor=name)
            self._add(step.index, Mark("modified", words, reason))
        if backward is not None:
            answers = {check.oracle: check.answer for check in self.verdict.checks}
            is_compared = answers.get("copies of saved tensors") == "yes"
            words = translated("every node reads the values that it saved") if is_compared else headline(self.verdict)
            self._add(backward, Mark("fine", words))
        return (named[1].storage, named[2]) if named else (None, "")

    def _first_write(self) -> tuple[Step, Write, str, str] | None:
        """Return the first modification of a named tensor that has a known reason, with the name and the reason.

        Modifications of saved memory come first, and those in a module's constructor are left out.
        """
        playback = Playback(self.recording)
        names, unsaved = TensorNames(playback), None
        for frame, _ in playback.play():
            step = frame.step
            if frame.kind != "step" or step is None or "__init__" in step.function:
                continue
            for write in step.writes:
                if write.tensor is None or write.tensor in step.tensors or not names.has_name(write.tensor):
                    continue
                reason = self._reason(step, write)
                if reason and (unsaved is None or reason != translated(UNSAVED)):
                    found = (step, write, names.short(write.tensor), reason)
                    if reason != translated(UNSAVED):
                        return found
                    unsaved = found
        return unsaved

    @cached_property
    def _lives(self) -> dict[int, list[tuple[SavedEdge, float, float]]]:
        """The saved edges of each storage, with the indices of the steps that saved and that freed them."""
        steps, never = self.recording.steps, math.inf
        saved = {edge: step.index for step in steps for edge in step.saved}
        freed = {edge: step.index for step in reversed(steps) for edge in step.freed}
        lives: dict[int, list[tuple[SavedEdge, float, float]]] = {}
        for edge in self.recording.saved:
            lives.setdefault(edge.storage, []).append((edge, saved.get(edge.id, never), freed.get(edge.id, never)))
        return lives

    def _reason(self, step: Step, write: Write) -> str:
        """Return why a modification did no harm, or "" if the recording does not show it."""
        lives = [life for life in self._lives.get(write.storage, ()) if _overlaps(write, life[0])]
        if not lives:
            return translated(UNSAVED)
        earlier = [freed for _, saved, freed in lives if saved <= step.index]
        if not earlier:
            return translated("modified before a node saved it")
        return translated("backward had already used and freed it") if max(earlier) <= step.index else ""

    def _size(self, storage: int) -> str:
        """Return the number of elements of a storage."""
        sizes = (math.prod(tensor.shape) for tensor in self.recording.tensors if tensor.storage == storage)
        count = max(sizes, default=0)
        return count_noun(count, "storage of {count} number", "storage of {count} numbers") if count else ""

    def _add(self, step: int, mark: Mark) -> None:
        """Add a mark to a step, once: `h * h` saves h twice. What a caller does after the last step is marked there."""
        marks = self.marks.setdefault(min(step, len(self.recording.steps) - 1), [])
        if all((mark.kind, mark.words) != (other.kind, other.words) for other in marks):
            marks.append(mark)

    def _rows(self) -> Iterator[Row]:
        """Yield the marked steps, each preceded by the callers that are not yet shown."""
        shown: list[Step] = []
        last, remark = -1, ""
        for index in sorted(self.marks):
            step = self.recording.steps[index]
            callers = [caller for caller in self._callers(step) if caller.place not in [each.place for each in shown]]
            shown = [each for each in shown if each.depth < step.depth]
            between = index - last - 1 - len(callers) if last >= 0 else 0
            for number, caller in enumerate([*callers, step]):
                shown.append(caller)
                marks = () if caller is not step else tuple(self.marks[index])
                row = self._row(caller, marks, max(between, 0) if number == 0 else 0, shown)
                yield row if row.remark != remark else replace(row, remark="")
                remark = row.remark
            last = index

    def _callers(self, step: Step) -> list[Step]:
        """Return the statements that called the function of a step, outermost first.

        A statement that calls functions ends after their statements, so its step is a later one. If an error ended it,
        an earlier part of it, before another call, may have been recorded.
        """
        callers: list[Step] = []
        for depth in range(step.depth - 1, -1, -1):
            below = (callers[-1] if callers else step).index
            later = next((each for each in self.recording.steps[step.index :] if each.depth <= depth), None)
            earlier = (each for each in reversed(self.recording.steps[:below]) if each.depth <= depth)
            found = later or next(earlier, None)
            if found is not None and found.depth == depth and not found.place.text.endswith(":"):
                callers.append(found)
        return callers[::-1]

    def _row(self, step: Step, marks: tuple[Mark, ...], before: int, shown: list[Step]) -> Row:
        """Return the row of a step; a caller has no marks."""
        times = self._times(step)
        remark = [step.function] if step.depth and step.function != "<module>" else []
        if times and marks:
            remark.append(translated("execution {number} of {count}", number=times[0], count=times[1]))
        line = str(step.place.line) if step.place.file == self.file else _short_place(step.place)
        depth = len({each.depth for each in shown if each.depth < step.depth})
        return Row(
            line, step.place.text, depth, " · ".join(remark), marks, before, bool(marks) and step.index in self.lit
        )

    def _times(self, step: Step) -> tuple[int, int] | None:
        """Return the number of this execution of a line and of all, or None if it ran once or a part was recorded."""
        if self.verdict.excerpt is not None:
            return None
        began = [
            each.index for before, each in zip((None, *self.recording.steps), self.recording.steps, strict=False)
            if each.place == step.place and not (before is not None and before.depth > each.depth)
        ]  # fmt: skip
        number = sum(index <= step.index for index in began)
        return (number, len(began)) if len(began) > 1 else None

    def _rest(self, harm: Harm | None) -> Iterator[str]:
        """Yield sentences on further harms and on the fix."""
        first = self.edges[harm.edge].storage if harm is not None and harm.edge is not None else None
        others = {
            self.edges[other.edge].storage
            for other in self.verdict.harms
            if other.edge is not None and self.edges[other.edge].storage != first
        }
        if others:
            yield count_noun(
                len(others), "{count} more storage was modified after it was saved.",
                "{count} more storages were modified after they were saved.",
            )  # fmt: skip
        if self.verdict.fixes:
            fix = self.verdict.fixes[0]
            yield translated("Fix in {place}: {code}", place=retold(place_of_fix(fix)), code=clip(fix.after, MESSAGE))


def _overlaps(write: Write, edge: SavedEdge) -> bool:
    """Return whether a modification changes bytes of a saved tensor."""
    return write.storage == edge.storage and write.start < edge.stop and edge.start < write.stop


def _values(values: str, version: int | None) -> str:
    """Return short values with a version, such as "4 · version 0"."""
    told = translated("version {version}", version=version) if version is not None else ""
    return " · ".join(filter(None, [values if len(values) <= VALUES else "", told]))


def _short_place(place: Place) -> str:
    """Return a line of another file, such as "layers.py:12"."""
    return f"{place.file.rpartition('/')[2]}:{place.line}"


def timeline_text(timeline: Timeline) -> str:
    """Return the timeline as text, one line for each row: for screen readers and terminals."""
    lines = [timeline.title]
    if timeline.name:
        lines.append(" · ".join(filter(None, [timeline.name, timeline.note])))
    for row in timeline.rows:
        if row.fold:
            lines.append(f"      {row.fold}")
        told = "; ".join(mark.words + (f" ({mark.detail})" if mark.detail else "") for mark in row.marks)
        code = "  " * row.depth + row.code
        lines.append(f"{row.line:>5} {code}" + (f"   ← {told}" if told else ""))
    return "\n".join([*lines, *timeline.rest])
