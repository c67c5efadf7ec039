"""Columns of a timeline for verdicts whose lines are known without steps: of a watch, and of graph faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from autograder.locale.translations import retold, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import FaultyTensor, GraphFault, Place
from autograder.view.scene.timeline_parts import Column, Mark, Row, short_place
from autograder.view.shapes import clip
from autograder.view.text.harm_sentences import harmed_tensor, keeper, through
from autograder.view.text.headline import short_message
from autograder.view.text.naming import count_noun, join_few

LINES, MESSAGE = 4, 90
"""The maximum number of modifications of one tensor, and of columns of an error message."""


def watched_column(recording: Recording) -> Iterator[Column]:
    """Yield the column of the first harm, else of the error, from its lines alone; nothing without both."""
    verdict, harm = recording.verdict, next(iter(recording.verdict.harms), None)
    error = verdict.error.place(recording.programs[0].file) if verdict.error else None
    if harm is None:
        if verdict.error is not None and error is not None:
            message = clip(short_message(verdict.error.message), MESSAGE)
            rows = _rows(recording, [(error, Mark("raised", verdict.error.type, message))], error)
            yield Column("", "", tuple(rows))
        return
    saved = translated("{node} saves {tensor}", node=keeper(harm, recording), tensor=harmed_tensor(harm))
    if harm.saved_version is not None:
        saved = translated("{words}, version {version}", words=saved, version=harm.saved_version)
    is_counted = harm.saved_version != harm.version_now
    changes = translated("modifies {tensor}{through}", tensor=harmed_tensor(harm), through=through(harm))
    marked: list[tuple[Place, Mark]] = [(harm.saved_at, Mark("saved", saved, is_read=True))]
    for place in harm.mutated_at[:LINES]:
        marked.append((place, Mark("modified" if is_counted else "unseen", changes)))
    if error is not None and is_counted:
        known = {"saved": harm.saved_version, "version": harm.version_now}
        marked.append((error, Mark("raised", translated("expects version {saved}, finds {version}", **known))))
    yield Column(harmed_tensor(harm), "", tuple(_rows(recording, marked)))


def fault_columns(recording: Recording) -> Iterator[Column]:
    """Yield a column for each graph fault and each path: from the line that made the tensors to the one that loses them."""
    for fault in recording.verdict.graph_faults:
        paths: dict[tuple[Place | None, Place | None], list[FaultyTensor]] = {}
        for tensor in fault.tensors:
            paths.setdefault((tensor.lost, tensor.read), []).append(tensor)
        for (lost, read), tensors in (paths or {(None, None): []}).items():
            yield _path(recording, fault, tensors, lost, read)


def _path(
    recording: Recording, fault: GraphFault, tensors: list[FaultyTensor], lost: Place | None, read: Place | None
) -> Column:
    """Return the column of the tensors that the same lines lose and read."""
    names = [tensor.name for tensor in tensors]
    made = {tensor.made: tensor.name for tensor in reversed(tensors) if tensor.made is not None}
    marked = [(place, Mark("made", translated("makes {tensor}", tensor=name))) for place, name in made.items()]
    effect, _, detail = retold(fault.sentence).partition(". ")
    marked.append((lost or fault.place, Mark("lost", effect.removesuffix("."), detail)))
    if lost is not None and lost != fault.place:
        marked.append((fault.place, Mark("lost", translated("here"))))
    if read is not None:
        words = translated("backward does not reach {tensors}", tensors=join_few(names))
        marked.append((read, Mark("accepted", words)))
    note = count_noun(len(names), "{count} tensor", "{count} tensors") if len(names) > 1 else ""
    return Column(join_few(names), note, tuple(_rows(recording, marked, fault.place)))


def _rows(recording: Recording, marked: Iterable[tuple[Place, Mark]], lit: Place | None = None) -> Iterator[Row]:
    """Yield a row for each place, in the order given; marks of one place share a row."""
    rows: dict[Place, list[Mark]] = {}
    for place, mark in marked:
        rows.setdefault(place, []).append(mark)
    file = recording.programs[0].file
    for place, marks in rows.items():
        is_lit = place == lit if lit is not None else any(mark.kind in ("modified", "unseen") for mark in marks)
        last = next((step.index for step in reversed(recording.steps) if step.place == place), None)
        code = place.text or _code(recording, place)
        yield Row(short_place(place, file), code, marks=tuple(marks), is_lit=is_lit, step=last)


def _code(recording: Recording, place: Place) -> str:
    """Return the text of a line, without its indentation; "" if the recording does not contain the file."""
    sources = (program.source for program in recording.programs if program.file == place.file)
    lines = next(sources, "").splitlines()
    return lines[place.line - 1].strip() if place.line <= len(lines) else ""
