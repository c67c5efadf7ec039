"""The column of one storage: its marks, collected from the steps of a recording, and the rows with the lines that lead to them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest

from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Recording, SavedEdge, Step, Tensor, Write
from autograder.tape.recording.verdict_types import Harm, Place
from autograder.view.playback import Playback, find_backward
from autograder.view.scene.timeline_parts import VALUES, Column, Mark, Row, short_place, values_and_version
from autograder.view.shapes import clip
from autograder.view.text.harm_sentences import WORDS, gradient_error_sentence, harm_words, harmed_tensor
from autograder.view.text.headline import headline, short_message
from autograder.view.text.naming import TensorNames, count_noun

MESSAGE = 90  # the maximum number of columns of an error message in a mark
MOST_WRITES = 4  # the maximum number of modifications of one storage that have a row: the first ones and the last
MOST_CALLERS = 5  # the maximum number of rows of callers above a row
COMPREHENSION = re.compile(r"[\[({].*\bfor\b.+\bin\b")
SAVES = 2  # the maximum number of nodes that saved one storage

MADE = {
    "parameter": translatable("{tensor} is a parameter, a leaf that requires grad"),
    "leaf": translatable("{tensor} is a leaf that requires grad"),
    "view": translatable("{tensor} is a view"),
}
"""Kind of a tensor → the statement on the line that made it, for a program that stops in forward."""
_LEAF = re.compile(r"\bgrad|\bleaf\b|differentiation")
ABOUT = {"parameter": _LEAF, "leaf": _LEAF, "view": re.compile(r"\bviews?\b(?! size)|memory location")}
"""Kind of a tensor → the messages of PyTorch (2.13) that are about it; an error of shapes, for example, is not."""
SHARED = {
    "data": translatable("{alias} shares its memory and has a version counter of its own"),
    "numpy": translatable("{alias} shares its memory and has no version counter"),
    "dlpack": translatable("{alias} shares its memory and has a version counter of its own"),
    "view": translatable("{alias} is a view: the same memory, the same version counter"),
    "": translatable("{alias} shares its memory and its version counter"),
}
"""The way in which an alias reaches the memory → the statement on the line that made it."""
UNSAVED = translatable("no node saves this memory")


class ColumnMaker:
    """Collects the marks of a recording's steps on one storage."""

    def __init__(self, recording: Recording):
        self.recording, self.verdict = recording, recording.verdict
        self.file = recording.programs[0].file
        self.edges = {edge.id: edge for edge in recording.saved}
        self.tensors = {tensor.id: tensor for tensor in recording.tensors}
        self.marks: dict[int, list[Mark]] = {}
        self.at_end: tuple[int, Mark] | None = None
        self.lit: set[int] = set()

    def of_harms(self, harms: list[Harm]) -> Column:
        """Return the column of a storage that was modified after it was saved: the making, saving, modification and reading."""
        harm = harms[0]
        edge = self.edges.get(harm.edge) if harm.edge is not None else None
        writes = list(self._writes(edge)) if edge is not None else []
        if edge is not None:
            self._mark_making(edge.storage)
            before = writes[0][0].index if writes else math.inf
            for other in harms:
                saved = self.edges.get(other.edge) if other.edge is not None else None
                marked = [mark for marks in self.marks.values() for mark in marks if mark.kind == "saved"]
                if saved is not None and len(marked) < SAVES:
                    self._mark_saving(saved, other, is_read=other is harm, before=before)
            for step, write in _few(writes):
                self._mark_write(step, write, harm, edge)
        if not writes:
            self._mark_places(harm)
        self._mark_reading(harm, edge)
        return self._column(harmed_tensor(harm), edge.storage if edge is not None else None)

    def of_error(self) -> Column:
        """Return the column of the line that raised an error, and of the leaf or view that it modifies."""
        error, index = self.verdict.error, self._error_step()
        if error is None or index is None:
            return self._column("", None)
        self.lit.add(index)
        self._add(index, Mark("raised", error.type, clip(short_message(error.message), MESSAGE)))
        for name, tensor in self._tensors_in(self.recording.steps[index]):
            made = next((step for step in self.recording.steps if tensor.id in step.tensors), None)
            kind = "view" if tensor.base is not None else tensor.kind
            if kind in MADE and ABOUT[kind].search(error.message):
                if made is not None:
                    self._add(made.index, Mark("made", translated(MADE[kind], tensor=name)))
                return self._column(name, tensor.storage)
        return self._column("", None)

    def of_harmless(self) -> Column:
        """Return the column of the first modifications that no backward call was harmed by, and of the backward call."""
        named = self._first_write()
        after = named[0].index if named else -1
        later = (visit.step for visit in self.recording.backward if visit.step is not None and visit.step > after)
        backward = next(later, find_backward(self.recording))
        if named is not None:
            first, storage, name = named[0], named[1].storage, named[2]
            self._mark_making(storage)
            until = backward if backward is not None else math.inf
            later_steps = (each for each in self.recording.steps[first.index :] if each is first or each.index < until)
            writes = [(each, write) for each in later_steps for write in each.writes if write.storage == storage]
            for step, write in _few(writes):
                self._mark_harmless(step, write, name)
        if backward is not None:
            answers = {check.oracle: check.answer for check in self.verdict.checks}
            is_compared = answers.get("copies of saved tensors") == "yes"
            words = translated("every node reads the values that it saved") if is_compared else headline(self.verdict)
            self._add(backward, Mark("fine", words))
        return self._column(named[2], named[1].storage) if named else self._column("", None)

    def _mark_harmless(self, step: Step, write: Write, name: str) -> None:
        """Mark a step that modified a storage without harm, with the values that it left, and the reason."""
        states = [state for state in step.states if self.tensors[state.tensor].storage == write.storage]
        state = next((state for state in states if state.tensor == write.tensor), next(iter(states), None))
        words = values_and_version(state.values, state.version) if state else ""
        mark = Mark("modified", words or translated("modifies {tensor}", tensor=name), self._reason(step, write))
        self._add(step.index, mark)

    def _column(self, name: str, storage: int | None) -> Column:
        """Return the rows of the marked steps, with the name and size of their storage."""
        return Column(name, self._size(storage) if storage is not None else "", tuple(self._rows()))

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
                    self._add(step.index, Mark("made", values_and_version(state.values, state.version)))
                return

    def _mark_saving(self, edge: SavedEdge, harm: Harm, is_read: bool, before: float) -> None:
        """Mark the step in which a node saved the tensor, if it is an earlier one than `before`.

        If no step did, mark the last execution of the line.
        """
        steps = self.recording.steps
        step = next((step for step in steps if edge.id in step.saved), None) or self._last_at(harm.saved_at)
        if step is None or step.index > before:
            return
        words = harm_words(harm, self.recording).saved
        self._add(step.index, Mark("saved", words, is_read=is_read))

    def _last_at(self, place: Place) -> Step | None:
        return next((step for step in reversed(self.recording.steps) if step.place == place), None)

    def _mark_places(self, harm: Harm) -> None:
        """Mark the lines of a harm whose saved tensor the recording does not contain."""
        words, modified = harm_words(harm, self.recording), self._last_at(harm.mutated_at[0])
        if modified is not None:
            self.lit.add(modified.index)
            self._add(modified.index, Mark("unseen", words.modified))
        runs = [step.index for step in self.recording.steps if step.place == harm.saved_at]
        limit = modified.index if modified is not None else math.inf
        earlier, later = [index for index in runs if index < limit], [index for index in runs if index > limit]
        computes_later = later and harm.kind == "unrecorded write"
        index = later[0] if computes_later else next(iter([*earlier[-1:], *runs]), None)
        if index is not None and words.saved:
            self._add(index, Mark("saved", words.saved, is_read=not computes_later))

    def _mark_write(self, step: Step, write: Write, harm: Harm, edge: SavedEdge) -> None:
        """Mark a step that modified the saved tensor; its version is given if the step left one."""
        self.lit.add(step.index)
        self._mark_alias(step, write, edge)
        counter = self.tensors[edge.tensor].counter if edge.tensor is not None else None
        states = [state for state in step.states if self.tensors[state.tensor].counter == counter]
        values = next((state.values for state in states if state.tensor == edge.tensor), "")
        if counter in write.counters or (counter is None and write.counters):
            version = max((state.version for state in states if state.version is not None), default=None)
            self._add(step.index, Mark("modified", values_and_version(values, version) or write.operation))
            return
        alias = harm.through or write.through or write.operation
        if alias == harmed_tensor(harm):
            alias = translated("a modification by {operation}", operation=write.operation)
        still = translated("still version {version}: {alias} is not counted", version=harm.saved_version, alias=alias)
        self._add(step.index, Mark("unseen", f"{values} · {still}" if 0 < len(values) <= VALUES else still))

    def _mark_alias(self, step: Step, write: Write, edge: SavedEdge) -> None:
        """Mark the earlier step that made the alias through which a step modified the saved tensor, if it has a name."""
        alias, known = write.through or "", self.tensors.get(write.tensor) if write.tensor is not None else None
        if known is None and write.counters:
            return
        if known is None:  # a NumPy array, of which the recording has only the name
            earlier = (each for each in reversed(self.recording.steps[: step.index]) if each.function == step.function)
            made = next((each for each in earlier if re.match(rf"{re.escape(alias)}\s*=[^=]", each.place.text)), None)
            kind = "numpy"
        else:
            made = next((each for each in self.recording.steps[: step.index] if known.id in each.tensors), None)
            kind = known.alias_of or ("view" if known.base is not None else "")
        bound = made is not None and (known is None or any(known.id == change.tensor for change in made.names))
        if made is not None and any(mark.kind == "made" for mark in self.marks.get(made.index, ())):
            return  # the row of the storage
        if made is not None and bound and alias and (known is None or known.id != edge.tensor):
            self._add(made.index, Mark("shared", translated(SHARED[kind], alias=alias)))

    def _mark_reading(self, harm: Harm, edge: SavedEdge | None) -> None:
        """Mark the step whose backward call read the modified tensor."""
        values = {"saved": harm.saved_version, "version": harm.version_now}
        if self.verdict.outcome == "raises-backward" and harm.saved_version != harm.version_now:
            words = translated("expects version {saved}, finds {version}", **values)
            mark = Mark("raised", words, translated("so backward() raises an error"))
        else:
            effect = gradient_error_sentence(self.verdict.gradients, VALUES)
            is_same = (
                harm.kind not in WORDS and harm.saved_version is not None and harm.saved_version == harm.version_now
            )
            words = translated("version {saved} = {version}: accepted", **values) if is_same else ""
            mark = Mark("accepted", words or harm_words(harm, self.recording).read, effect)
        step, last = self._reading_step(edge), max(self.marks, default=-1)
        visits = [visit.step for visit in self.recording.backward if visit.step is not None and visit.step < last]
        if step is not None:
            self._add(step, mark)
        elif visits:  # the modification ran inside a backward call, which goes on with the new values
            self.at_end = visits[-1], mark

    def _reading_step(self, edge: SavedEdge | None) -> int | None:
        """Return the index of the step whose backward call read the tensor: the first one after its modification."""
        last = max(self.marks, default=-1)
        visits = [visit for visit in self.recording.backward if visit.step is not None and visit.step >= last]
        readers = [visit for visit in visits if edge is not None and visit.node == edge.node]
        raised = [visit for visit in visits if visit.status == "raised"]
        first = next(iter([*readers, *raised]), None)
        if first is not None:
            return first.step
        if self.verdict.error:
            return self._error_step()
        later = self.recording.steps[last + 1 :]  # of which a trace may have no visits, because their number is limited
        called = (step.index for step in later if "backward(" in step.place.text or "autograd.grad(" in step.place.text)
        return next((visit.step for visit in visits), next(called, None))

    def _error_step(self) -> int | None:
        """Return the index of the last step at the line of the error."""
        error = self.verdict.error
        steps = (step.index for step in reversed(self.recording.steps) if error and error.is_at(step.place))
        return next(steps, None)

    def _tensors_in(self, step: Step) -> Iterator[tuple[str, Tensor]]:
        """Yield the variables in a line that refer to tensors when it begins, in the order of the line."""
        earlier = self.recording.steps[: step.index]
        bound = {change.name: change.tensor for each in earlier for change in each.names}
        for path in re.findall(r"[^\W\d][\w.]*", step.place.text):
            for parts in range(path.count(".") + 1, 0, -1):
                name = ".".join(path.split(".")[:parts])
                if (tensor := bound.get(name)) is not None:
                    yield name, self.tensors[tensor]

    def _first_write(self) -> tuple[Step, Write, str] | None:
        """Return the first modification of memory with a name that did no harm for a known reason, and the name.

        Modifications of saved memory come first, and those in a module's constructor are left out.
        """
        playback = Playback(self.recording)
        names, unsaved = TensorNames(playback), None
        for frame, _ in playback.play():
            step = frame.step
            if step is None or "__init__" in step.function:
                continue
            for write in step.writes:
                is_named = write.tensor is not None and names.has_name(write.tensor)
                name = names.short(write.tensor) if is_named else next(iter(names.in_storage(write.storage)), "")
                reason = self._reason(step, write)
                if not name or not reason or (is_named and write.tensor in step.tensors):
                    continue
                if reason != translated(UNSAVED):
                    return step, write, name
                unsaved = unsaved or (step, write, name)
        return unsaved

    @cached_property
    def _save_intervals(self) -> dict[int, list[tuple[SavedEdge, float, float]]]:
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
        lives = [life for life in self._save_intervals.get(write.storage, ()) if _overlaps(write, life[0])]
        if not lives:
            return translated(UNSAVED)
        # A node that saves its own result, such as that of relu_, does so after the modification in the same step.
        earlier = [
            freed for edge, saved, freed in lives
            if saved < step.index or (saved == step.index and (edge.id in write.harmed or not write.counters))
        ]  # fmt: skip
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
        marked = sorted(self.marks)
        for index, following in zip_longest(marked, marked[1:]):
            step = self.recording.steps[index]
            places = {step.place, *(each.place for each in shown)}
            callers = [caller for caller in self._callers(step) if caller.place not in places]
            if {mark.kind for mark in self.marks[index]} == {"made"}:  # a constructor's callers are far from the cause
                later = self._callers(self.recording.steps[following]) if following is not None else []
                callers = [caller for caller in callers if caller in later]
            shown = [each for each in shown if each.depth < step.depth]
            passed = sum(each not in self._exits for each in range(last + 1, index))
            between = passed - len(callers) if last >= 0 else 0
            calls = [*{caller.place: caller for caller in callers}.values()]  # a recursive call is one row
            calls = calls if len(calls) <= MOST_CALLERS else [calls[0], *calls[1 - MOST_CALLERS :]]
            folds = [self._fold(between, 0), self._fold(0, len(callers) - len(calls))]
            for number, caller in enumerate([*calls, step]):
                fold = folds[number] if number < len(folds) else ""
                shown.append(caller)
                row = self._row(caller, () if caller is not step else tuple(self.marks[index]), fold, shown)
                yield row if row.remark != remark else replace(row, remark="")
                remark = row.remark
            last = index
        if self.at_end is not None:
            index, mark = self.at_end
            yield self._row(self.recording.steps[index], (mark,), "", [])

    @cached_property
    def _exits(self) -> set[int]:
        """The indices of the steps in which Python (3.11) runs a line again that it has not left.

        It leaves a `with` block by the block's first line, and enters a comprehension and each of its iterations by its line.
        """
        entered: set[tuple[Place, int]] = set()
        exits = set()
        for before, step in zip((None, *self.recording.steps), self.recording.steps, strict=False):
            same = before is not None and (before.place, before.depth) == (step.place, step.depth)
            if same and COMPREHENSION.search(step.place.text):
                exits.add(step.index)
            if step.place.text.startswith(("with ", "async with ")) and step.place.text.endswith(":"):
                block = step.place, step.depth
                if block in entered:
                    exits.add(step.index)
                entered ^= {block}
        return exits

    def _fold(self, statements: int, calls: int) -> str:
        """Return the words on statements and calls that are left out above a row; "" without them."""
        if statements > 0 and self.recording.unlisted:
            return translated("… {count} or more statements", count=f"{statements:,}")
        parts = [
            count_noun(statements, "{count} statement", "{count} statements") if statements > 0 else "",
            count_noun(calls, "{count} more call", "{count} more calls") if calls else "",
        ]
        return f"… {''.join(parts)}" if any(parts) else ""

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
            caller = later or next(earlier, None)
            if caller is not None and caller.depth == depth and not caller.place.text.endswith(":"):
                callers.append(caller)
        return callers[::-1]

    def _row(self, step: Step, marks: tuple[Mark, ...], fold: str, shown: list[Step]) -> Row:
        """Return the row of a step; a caller has no marks."""
        times = self._times(step)
        remark = [step.function] if step.depth and step.function != "<module>" else []
        if times and marks:
            remark.append(translated("execution {number} of {count}", number=times[0], count=times[1]))
        line = short_place(step.place, self.file)
        depth = len({each.depth for each in shown if each.depth < step.depth})
        is_lit = bool(marks) and step.index in self.lit
        return Row(
            line, step.place.text, depth, " · ".join(remark), marks, fold, is_lit, step.index, bool(times and marks)
        )

    def _times(self, step: Step) -> tuple[int, int] | None:
        """Return the number of this execution of a line and of all, or None if it ran once or a part was recorded."""
        if self.verdict.excerpt is not None or self.recording.unlisted:
            return None
        began = [
            each.index for before, each in zip((None, *self.recording.steps), self.recording.steps, strict=False)
            if each.place == step.place and each.index not in self._exits
            and not (before is not None and before.depth > each.depth)
        ]  # fmt: skip
        number = sum(index <= step.index for index in began)
        return (number, len(began)) if len(began) > 1 else None


def _few(writes: list[tuple[Step, Write]]) -> list[tuple[Step, Write]]:
    """Return the modifications that have a row: the first ones and the last."""
    return writes if len(writes) <= MOST_WRITES else [*writes[: MOST_WRITES - 1], writes[-1]]


def _overlaps(write: Write, edge: SavedEdge) -> bool:
    """Return whether a modification changes bytes of a saved tensor."""
    return write.storage == edge.storage and write.start < edge.stop and edge.start < write.stop
