"""The timeline of a run: the lines that explain the outcome, in the order in which they ran, and their effects on a storage.

A row is one execution of a line. Marks on it state that the line made the storage, that a node saved the tensor, that
the line modified it, and how backward reacted. Each storage that explains the outcome is a column with rows of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from msgspec import structs

from autograder.locale.translations import join_names, localized, translatable, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import FaultyTensor, Fix, GraphFault, Harm, Place, place_of_fix
from autograder.view.scene.timeline_columns import ColumnMaker
from autograder.view.scene.timeline_parts import VALUES, Column, Kind, Mark, Row, Timeline, short_place
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_name, is_wrong, percent, short_values
from autograder.view.text.harm_sentences import WORDS, harm_words, harmed_tensor, through, where
from autograder.view.text.headline import is_refused, short_message, title
from autograder.view.text.naming import count_noun, join_few

COLUMNS, MAX_STORAGES_SEARCHED = 4, 40
"""The maximum number of columns, and of modified storages that are looked at to make them."""
NAMES, CODE = 5, 90  # the maximum number of names of tensors that were not modified, and of columns of the fix
LINES, MESSAGE = 4, 90
"""The maximum number of modifications of one tensor without steps, and of columns of an error message."""

RULES = {
    re.compile(r"^a view of a leaf Variable"): translatable(
        "{line} modifies {name}, a view of a leaf that requires grad, in place"
    ),
    re.compile(r"^a leaf Variable"): translatable("{line} modifies {name}, a leaf that requires grad, in place"),
    re.compile(r"is a view and is being modified inplace.*multiple views", re.S): translatable(
        "{line} modifies {name}, one of several views that one call returned, in place"
    ),
}
"""PyTorch's message (2.13) → the rule of autograd that the line breaks."""
STOPS = translatable("{line} stops with {error}")


def timeline_of(recording: Recording) -> Timeline | None:
    """Return the timeline of a recording; None without a row, or if the verdict hides the line because the reader looks for it."""
    if not recording.programs or is_withheld(recording):
        return None
    columns, more = _columns(recording)
    if not columns:
        return None
    fix = next(iter(recording.verdict.fixes), None)
    change = _change(fix) if fix else ""
    names = _unmodified(recording, columns) if recording.verdict.harms else []
    rest = tuple(_rest(recording, names, more))
    many = tuple(names) if len(names) > NAMES else ()
    drawn, refused = _title(recording, columns[0]), is_refused(recording.verdict)
    return Timeline(drawn, recording.verdict.outcome, tuple(columns), change, rest, many, refused)


def is_withheld(recording: Recording) -> bool:
    """Return whether the verdict hides the harms because the reader has to find the line; a picture must not show it."""
    harmed = any(write.harmed for step in recording.steps for write in step.writes)
    failed = recording.verdict.outcome in ("raises-backward", "silently-wrong")
    return failed and harmed and not recording.verdict.harms and not recording.verdict.refusal


def _columns(recording: Recording) -> tuple[list[Column], int]:
    """Return the columns and the number of modified storages that have no column."""
    verdict = recording.verdict
    if not recording.steps:
        return list(_watched_column(recording)), 0
    if verdict.harms:
        return _harmed_columns(recording)
    paths = [*_fault_columns(recording)][:COLUMNS] if verdict.outcome != "raises-forward" else []
    if not paths and verdict.outcome in ("raises-forward", "raises-backward"):
        return [ColumnMaker(recording).of_error()], 0
    return paths or [*_named_column(recording)] or [ColumnMaker(recording).of_harmless()], 0


def _named_column(recording: Recording) -> Iterator[Column]:
    """Yield the column of the lines that a check names for a rejected program; nothing if it names none."""
    named = recording.verdict.named
    kinds: dict[str, Kind] = {"lost": "lost", "unseen": "unseen", "named": "made"}
    sentences = {line.place: localized(line.sentence, recording.verdict.messages).rstrip(".。") for line in named}
    marks = {line.place: Mark(kinds[line.mark], sentences[line.place]) for line in named}
    marked = [(place, marks[place]) for place in _in_order(recording, marks)]
    if marked:
        yield Column("", "", tuple(_rows_of(recording, marked, named[0].place)))


def _harmed_columns(recording: Recording) -> tuple[list[Column], int]:
    """Return a column for each storage that was modified after it was saved; storages with the same lines share one."""
    storage_of = {edge.id: edge.storage for edge in recording.saved}
    harms: dict[object, list[Harm]] = {}
    seen: dict[object, object] = {}  # a modification may be found in two ways
    for harm in recording.verdict.harms:
        place = (harm.tensor, harm.mutated_at[:1])
        key = storage_of.get(harm.edge, place) if harm.edge is not None else seen.get(place, place)
        seen.setdefault(place, key)
        harms.setdefault(key, []).append(harm)
    columns: dict[object, tuple[Column, list[str]]] = {}
    for same in [*harms.values()][:MAX_STORAGES_SEARCHED]:
        column = ColumnMaker(recording).of_harms(same)
        lines = tuple((row.line, row.code, tuple(mark.kind for mark in row.marks)) for row in column.rows)
        columns.setdefault(lines, (column, []))[1].append(column.name)
    shown = [_joined(column, names) for column, names in [*columns.values()][:COLUMNS]]
    drawn = sum(len(names) for _, names in [*columns.values()][:COLUMNS])
    return shown, len(harms) - drawn


def _joined(column: Column, names: list[str]) -> Column:
    """Return a column with the names of all storages that have its rows."""
    if len(names) < 2:
        return column
    joined = join_few([*dict.fromkeys(names)])
    return replace(column, name=joined, note=count_noun(len(names), "{count} storage", "{count} storages"))


def _title(recording: Recording, column: Column) -> str:
    """Return the outcome and its cause, in one line."""
    verdict, file = recording.verdict, recording.programs[0].file
    harm = next(iter(verdict.harms), None)
    if harm is not None:
        return f"{verdict.outcome}: {_cause(recording, harm, column.name)}"
    if verdict.error is not None and (place := verdict.error.place(file)) is not None:
        rules = (words for pattern, words in RULES.items() if pattern.search(verdict.error.message))
        known = {"line": where(place, file), "name": column.name or translated("a tensor"), "error": verdict.error.type}
        rule = translated(next(rules, STOPS), **known)
        faults = [fault.place for fault in verdict.graph_faults if verdict.outcome == "raises-backward"]
        if faults and faults[0].line != place.line:
            rule = translated("{rule}, because of {line}", rule=rule, line=where(faults[0], file))
        return f"{verdict.outcome}: {rule}"
    return title(verdict, file)


def _cause(recording: Recording, harm: Harm, storages: str) -> str:
    """Return the wrong gradient, if there is one, and the cause of a harm; `storages` names all that its line modified."""
    harm = _with_counted_write(recording, harm)
    cause = harm_words(harm, recording).cause
    wrong = [(name, gradient) for name, gradient in recording.verdict.gradients.items() if is_wrong(gradient)]
    if recording.verdict.outcome != "silently-wrong" or len(wrong) != 1:
        return cause
    (name, gradient) = wrong[0]
    if harm.kind not in WORDS:  # a row names the node that saved the tensor
        line = where(harm.mutated_at[0], recording.programs[0].file)
        known = {"line": line, "tensor": storages or harmed_tensor(harm), "through": through(harm)}
        cause = translated("{line} modified {tensor}{through}", **known)
    known = {"got": short_values(gradient.got), "right": short_values(gradient.true), "cause": cause}
    known["gradient"] = gradient_name(name, gradient)
    if gradient.off and max(len(known["got"]), len(known["right"])) > VALUES:
        return translated("{gradient} is off by {off}, because {cause}", off=percent(gradient.off), **known)
    return translated("{gradient} is {got} instead of {right}, because {cause}", **known)


def _with_counted_write(recording: Recording, harm: Harm) -> Harm:
    """Return the harm with the modification that a version counter counted as its first line, if backward raises."""
    if recording.verdict.outcome != "raises-backward" or harm.edge is None:
        return harm
    saved = next((edge.tensor for edge in recording.saved if edge.id == harm.edge), None)
    counter = next((tensor.counter for tensor in recording.tensors if tensor.id == saved), None)
    writes = [write for step in recording.steps for write in step.writes if harm.edge in write.harmed]
    counted = next((write for write in writes if counter in write.counters), None)
    if counted is None or counted.place == harm.mutated_at[0]:
        return harm
    return structs.replace(harm, mutated_at=(counted.place,), through=counted.through)


def _change(fix: Fix) -> str:
    """Return the place and the new code of a fix, of several lines the first one that differs."""
    before, after = fix.before.splitlines(), fix.after.splitlines() or [""]
    first = next((line for line in after if line not in before), after[0])
    code = _first_and_count(first, len(after))
    return translated("Fix in {place}: {code}", place=localized(place_of_fix(fix)), code=code)


def _first_and_count(line: str, count: int) -> str:
    """Return the first line of changed code, and the number of the others."""
    more = count_noun(count - 1, " (and {count} more line)", " (and {count} more lines)") if count > 1 else ""
    return f"{clip(line.strip(), CODE)}{more}"


def _rest(recording: Recording, names: list[str], more: int) -> Iterator[str]:
    """Yield sentences on the storages that have no column, and on graph faults."""
    if more:
        yield count_noun(
            more, "{count} more storage was modified after it was saved.",
            "{count} more storages were modified after they were saved.",
        )  # fmt: skip
    if names:
        text = join_names(names) if len(names) <= NAMES else count_noun(len(names), "{count} tensor", "{count} tensors")
        yield translated("Not modified: {names}.", names=text)
    if recording.verdict.graph_faults and not (recording.verdict.harms or recording.verdict.fixes):
        fault = recording.verdict.graph_faults[0]
        change = localized(fault.change, recording.verdict.messages).rstrip(".。")
        text = translated("This change was run: {change}.", change=change)
        yield text if fault.was_run else translated("Suggested change, not tested: {change}.", change=change)
        code = [line[1:] for line in (fault.code or fault.diff).splitlines() if re.match(r"\+(?!\+\+)", line)]
        if code:
            yield translated("New code: {code}", code=_first_and_count(code[0], len(code)))


def _unmodified(recording: Recording, columns: list[Column]) -> list[str]:
    """Return the main program's variables whose tensors were not modified, by line, without those that have the name of a column."""
    modified = {write.storage for step in recording.steps for write in step.writes}
    storage_of = {tensor.id: tensor.storage for tensor in recording.tensors}
    bound = {
        change.name: change.tensor
        for step in recording.steps if step.depth == 0
        for change in step.names if "." not in change.name and "[" not in change.name
    }  # fmt: skip
    shown = {column.name for column in columns}
    return [
        name for name, tensor in bound.items()
        if tensor is not None and storage_of[tensor] not in modified and name not in shown
    ]  # fmt: skip


def _watched_column(recording: Recording) -> Iterator[Column]:
    """Yield the column of the first harm, else of the error, from its lines alone; nothing without both."""
    verdict, harm = recording.verdict, next(iter(recording.verdict.harms), None)
    error = verdict.error.place(recording.programs[0].file) if verdict.error else None
    if harm is None:
        if verdict.error is not None and error is not None:
            message = clip(short_message(verdict.error.message), MESSAGE)
            rows = _rows_of(recording, [(error, Mark("raised", verdict.error.type, message))], error)
            yield Column("", "", tuple(rows))
        return
    words, is_counted = harm_words(harm, recording), harm.saved_version != harm.version_now
    saved = Mark("saved", words.saved, is_read=True)
    marked: list[tuple[Place, Mark]] = [(harm.saved_at, saved)] if words.saved else []
    for place in harm.mutated_at[:LINES]:
        marked.append((place, Mark("modified" if is_counted else "unseen", words.modified + through(harm))))
    if error is not None and is_counted:
        values = {"saved": harm.saved_version, "version": harm.version_now}
        marked.append((error, Mark("raised", translated("expects version {saved}, finds {version}", **values))))
    yield Column(harmed_tensor(harm), "", tuple(_rows_of(recording, marked)))


def _fault_columns(recording: Recording) -> Iterator[Column]:
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
    marked = [
        (place, Mark("made", translated("makes {tensor}", tensor=made[place]))) for place in _in_order(recording, made)
    ]
    effect, _, detail = localized(fault.sentence, recording.verdict.messages).partition(". ")
    kind: Kind = "lost" if fault.kind != "graph used again" else "made"
    marked.append((lost or fault.place, Mark(kind, effect.removesuffix("."), detail)))
    if lost is not None and lost != fault.place:
        marked.append((fault.place, Mark("lost", translated("here"))))
    error = recording.verdict.error
    unreached = translated("backward does not reach {tensors}", tensors=join_few(names))
    if error is not None and (place := error.place(recording.programs[0].file)) is not None:
        message = clip(short_message(error.message), MESSAGE)
        marked.append((place, Mark("raised", unreached if read and read.line == place.line else error.type, message)))
    elif read is not None:
        marked.append((read, Mark("accepted", unreached)))
    note = count_noun(len(names), "{count} tensor", "{count} tensors") if len(names) > 1 else ""
    return Column(join_few(names), note, tuple(_rows_of(recording, marked, fault.place)))


def _in_order(recording: Recording, places: Iterable[Place]) -> list[Place]:
    """Return the places in the order in which they first ran, then those that did not run, by line."""
    began = {step.place: step.index for step in reversed(recording.steps)}
    return sorted(places, key=lambda place: (began.get(place, len(recording.steps)), place.line))


def _rows_of(recording: Recording, marked: Iterable[tuple[Place, Mark]], lit: Place | None = None) -> Iterator[Row]:
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


def timeline_text(timeline: Timeline) -> str:
    """Return the timeline as text, one line for each row: for screen readers and terminals."""
    lines = [timeline.title]
    for column in timeline.columns:
        if column.name:
            lines.append(" · ".join(filter(None, [column.name, column.note])))
        for row in column.rows:
            if row.fold:
                lines.append(f"      {row.fold}")
            lines.append(f"{row.line:>5} {'  ' * row.depth}{row.code}" + (f"   ← {row.words}" if row.words else ""))
    return "\n".join([*lines, *filter(None, [timeline.change]), *timeline.rest])
