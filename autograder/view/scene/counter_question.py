"""A question about version counters, which are hidden at a frame of the picture until the reader sets them."""

from __future__ import annotations

from itertools import islice

import msgspec

from autograder.locale.translations import translatable, translated
from autograder.tape.recording.schema import Recording, Step, Write
from autograder.tape.recording.verdict_types import Place
from autograder.view.playback import Playback
from autograder.view.text.naming import TensorNames

MAX_ROWS = 8  # the maximum number of tensors in the question; the first named ones are used

HIDDEN = {".version": "?", ".versions": "?", ".note": ""}
"""The end of a key's text → the placeholder while the reader has not answered."""


class CounterHint(msgspec.Struct):
    """The hint for a wrong version: a sentence, and the 0-based frame that shows the reason."""

    frame: int
    sentence: str


class CounterRow(msgspec.Struct):
    """One tensor whose version is asked for."""

    name: str  # the name of the tensor
    version: int  # the number of in-place writes that its counter has counted
    too_few: list[CounterHint]  # for each smaller number, from 0, the hint about the first write that it omits
    too_many: CounterHint  # the hint for any larger number


class CounterQuestion(msgspec.Struct):
    """The question, with all data that a front end needs to check the answer without a kernel."""

    question: str  # the text of the question
    rows: list[CounterRow]  # the tensors
    hidden: dict[str, str]  # the key of each text that contains a version → its placeholder
    facts: list[str]  # the sentence of each frame before the question, without versions


class _Counts:
    """Collects the writes that increment each counter, and those into each storage, and makes the hints about them."""

    def __init__(self, recording: Recording):
        self.recording, self.playback = recording, Playback(recording)
        # counter → the first frame with this counter, and its count there
        self.first: dict[int, tuple[int, int]] = {}
        # counter → the frame and the step of each later increment
        self.moved: dict[int, list[tuple[int, Step]]] = {}
        # storage → the frame, the step and the write
        self.writes: dict[int, list[tuple[int, Step, Write]]] = {}

    def add(self, number: int, step: Step) -> None:
        """Add the effects of the last played step on the counters."""
        for counter, count in self.playback.versions.items():
            if count is None:
                continue
            start = self.first.setdefault(counter, (number, count))[1]
            known = self.moved.setdefault(counter, [])
            known += [(number, step)] * (count - start - len(known))
        for write in step.writes:
            self.writes.setdefault(write.storage, []).append((number, step, write))

    def row(self, name: str, tensor: int) -> CounterRow:
        """Return the version of a tensor, and the hints for other numbers."""
        counter = self.playback.tensors[tensor].counter
        made, start = self.first[counter]
        before = CounterHint(
            made, translated("{name} was at version {count} when it was created.", name=name, count=start)
        )
        moved = [self._missed(name, tensor, number, step) for number, step in self.moved.get(counter, [])]
        return CounterRow(name, start + len(moved), [before] * start + moved, self._too_many(name, tensor))

    def _missed(self, name: str, tensor: int, number: int, step: Step) -> CounterHint:
        """Return the hint for a number that omits a write which the counter counted."""
        counter = self.playback.tensors[tensor].counter
        write = next((write for write in step.writes if counter in write.counters), None)
        values = {"name": name, "line": self._line(step.place)}
        text = translatable("The version of {name} is higher: {line} writes into it.")
        if write is not None and write.tensor != tensor:
            values["other"] = self._through(write)
            text = translatable(
                "The version of {name} is higher: {line} writes through {other}, which shares memory and version counter with {name}."
            )
        return CounterHint(number, translated(text, **values))

    def _too_many(self, name: str, tensor: int) -> CounterHint:
        """Return the hint for a number that is too large: the write that another counter counted, if any."""
        counter = self.playback.tensors[tensor].counter
        writes = self.writes.get(self.playback.tensors[tensor].storage, [])
        unseen = next((write for write in writes if counter not in write[2].counters), None)
        if unseen is not None:
            number, step, write = unseen
            said = translated(
                "The version of {name} is lower: {line} writes into its memory, but through {other}, which has its own counter.",
                name=name, line=self._line(step.place), other=self._through(write),
            )  # fmt: skip
            return CounterHint(number, said)
        if any(counter in write.counters for _, _, write in writes):
            text = translated("The version of {name} is lower: no other line writes into it.", name=name)
            return CounterHint(writes[-1][0], text)
        text = translated("The version of {name} must be lower: no line writes into its memory.", name=name)
        return CounterHint(self.first[counter][0], text)

    def _through(self, write: Write) -> str:
        """Return the name that a write went through."""
        return write.through or TensorNames(self.playback).short(write.tensor)

    def _line(self, place: Place) -> str:
        """Return a line with its number: "line 6, row.mul_(2),"."""
        program = next(program for program in self.recording.programs if program.file == place.file)
        text = program.source.splitlines()[place.line - 1].strip()
        return translated("line {line}, {text},", line=place.line, text=text)


def ask_versions(recording: Recording, end: int, keys: set[str]) -> CounterQuestion:
    """Return the question about the versions after the first `end` frames; `keys` are those of all texts in the picture."""
    counts, facts, last = _Counts(recording), [], 0
    for number, (frame, _) in enumerate(islice(counts.playback.play(), end)):
        facts.append(translated("Line {line} runs.", line=frame.place.line) if frame.place else "")
        if frame.step:
            last = frame.step.place.line
            counts.add(number, frame.step)
    versions, tensors = counts.playback.versions, counts.playback.tensors
    named = counts.playback.names.items()
    asked = [(name, tensor) for name, tensor in named if versions.get(tensors[tensor].counter) is not None]
    return CounterQuestion(
        question=translated(
            "Which version is each tensor at after line {line}? Set them all, then compare.", line=last
        ),
        rows=[counts.row(*pair) for pair in asked[:MAX_ROWS]],
        hidden={key: words for key in sorted(keys) for label, words in HIDDEN.items() if key.endswith(label)},
        facts=facts,
    )
