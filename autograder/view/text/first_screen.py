"""The answer on one screen: the outcome, the first harm in a sentence, the code around it, the best repair, what else to ask."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Fix, Harm, Place, note_on_change, place_of_fix
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_line
from autograder.view.text.harm_sentences import consequence, how_far_off, sentence_of_harm, where
from autograder.view.text.headline import headline, is_compared, short_message

LINES, WIDTH = 25, 100
"""What the screen has at most. Only where more lines do harm than fit is it longer: each of them is named."""

AROUND = 5
"""Lines of code that are shown at most."""

GRADIENTS = 6
"""Gradients that are listed at most."""

DIFF = 8
"""Lines of the repair that are shown at most."""

MORE = "More: --steps (every step), --html FILE (a picture), --json"
MORE_OF_REPAIR = ", --diff (the repair as a patch), --apply"
MORE_IN_PYTHON = 'More: print(found.steps), found.harms, found.fixes, found.save("out.html")'


def as_screen(recording: Recording, more: str = MORE) -> str:
    """Returns the answer in at most 25 lines of 100 columns.

    Args:
        more: the last line: how to learn more.
    """
    told = [_outcome(recording), _harm(recording), _code(recording), _kept_and_others(recording), _gradients(recording)]
    repair = _repair(recording)
    closing = [more + MORE_OF_REPAIR if more == MORE and repair else more]
    parts = [part for part in (*told, repair, closing) if part]
    room = LINES - sum(map(len, parts)) - len(parts)  # a blank line stands between two parts
    notes = _notes(recording, max(room, 4))
    if len(notes) > room:
        repair = _repair(recording, DIFF - len(notes) + room)
    shown = [part for part in (*told, notes, repair, closing) if part]
    over = sum(map(len, shown)) + len(shown) - 1 - LINES
    if notes and over > 0:
        notes = [*notes[: len(notes) - over - 1], "  … the notes in full: --steps"] if over < len(notes) else []
        closing = closing if notes else [closing[0].replace("(every step)", "(and notes)")]
    return "\n\n".join("\n".join(part) for part in (*told, notes, repair, closing) if part) + "\n"


def essence(recording: Recording) -> str:
    """Returns the first harm's sentences, with the best repair: what a page shows above its picture; "" where nothing is wrong."""
    parts = [_harm(recording), _repair(recording)]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _wrapped(text: str, most: int | None = None, indent: str = "") -> list[str]:
    """Returns a text as lines, of which no one ends between "line" and its number."""
    held = re.sub(r"\b(line) (\d)", "\\1\N{NO-BREAK SPACE}\\2", text)
    wrapped = textwrap.wrap(held, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    if most is not None and len(lines) > most:
        return [*lines[: most - 1], clip(f"{lines[most - 1]} …", WIDTH)]
    return [line if len(line) <= WIDTH else clip(line, WIDTH) for line in lines]


def _outcome(recording: Recording) -> list[str]:
    verdict = recording.verdict
    lines = [f"{verdict.outcome}: {headline(verdict)}"]
    if verdict.error:
        at = f" at line {verdict.error.line}" if verdict.error.line else ""
        lines += _wrapped(f"{verdict.error.type}{at}: {short_message(verdict.error.message)}", 2)
    return lines


def _harm(recording: Recording) -> list[str]:
    verdict = recording.verdict
    if not verdict.harms:
        return _wrapped(how_far_off(verdict.gradients)) if verdict.outcome == "silently-wrong" else []
    first = verdict.harms[0]
    told = f"{sentence_of_harm(first, recording)}. {consequence(first, verdict)}"
    return _wrapped(told.strip(), None if len(first.mutated_at) > 3 else 4)


def _code(recording: Recording) -> list[str]:
    """Returns the lines around the first write, and the one that saved, or around a line that cuts the graph."""
    verdict = recording.verdict
    if verdict.harms:
        write, saved = verdict.harms[0].mutated_at[0], verdict.harms[0].saved_at
    elif verdict.graph_faults:
        write = saved = verdict.graph_faults[0].place
    else:
        return []
    sources = {program.file: program.source.splitlines() for program in recording.programs}
    source = sources.get(write.file, [])
    near = {line for line in range(write.line - 1, write.line + 2) if 0 < line <= len(source)}
    kept = {saved.line} if saved.file == write.file and 0 < saved.line <= len(source) else set()
    return list(_numbered(source, sorted(near | kept), write, saved))[: AROUND + 1]


def _numbered(source: list[str], numbers: list[int], write: Place, saved: Place) -> Iterable[str]:
    before = numbers[0] if numbers else 0
    for number in numbers:
        if number > before + 1:
            yield "       …"
        before = number
        mark = ">" if number == write.line else "+" if number == saved.line and saved.file == write.file else " "
        yield f"{mark} {number:>4} | {_cut(source[number - 1])}"


def _cut(line: str) -> str:
    """Returns a line of code with its indentation, cut to the screen."""
    inside = line.expandtabs(4)
    depth = min(len(inside) - len(inside.lstrip()), 24)
    return " " * depth + clip(inside.strip(), WIDTH - 10 - depth)


def _kept_and_others(recording: Recording) -> list[str]:
    """Returns what the operation that saved keeps, and where the other harms are."""
    harms, file = recording.verdict.harms, recording.programs[0].file
    if not harms:
        return []
    kept = words_on_node(harms[0].saved_by) if harms[0].edge is not None else ""
    counts: dict[str, int] = {}
    for harm in harms[1:]:
        for place in harm.mutated_at:
            counts[where(place, file)] = counts.get(where(place, file), 0) + 1
    others = ", ".join(f"{line}{f' ({count})' if count > 1 else ''}" for line, count in counts.items())
    also = f"{_count(harms[1:])} more saved {'tensors are' if len(harms) > 2 else 'tensor is'} overwritten at {others}."
    return [*(_wrapped(kept, 2)), *(_wrapped(also) if others else [])]


def _count(harms: tuple[Harm, ...]) -> str:
    return f"{len(harms):,}"


def _gradients(recording: Recording) -> list[str]:
    """Returns the leaves' gradients where there is no harm to tell of, the first of many."""
    verdict = recording.verdict
    if verdict.harms or verdict.outcome in ("raises-forward", "raises-backward"):
        return []
    most = GRADIENTS // 2 if verdict.graph_faults else GRADIENTS
    lines = [gradient_line(name, one, is_compared(verdict))[:WIDTH] for name, one in verdict.gradients.items()]
    return lines if len(lines) <= most else [*lines[: most - 1], f"… {len(lines) - most + 1} more"]


def _notes(recording: Recording, most: int) -> list[str]:
    """Returns the notes, as many as fit, and how many there are more."""
    lines: list[str] = []
    told_below = {note_on_change(fix) for fix in recording.verdict.fixes}
    notes = [note for note in recording.verdict.notes if note not in told_below]
    for number, note in enumerate(notes):
        told = _wrapped(f"- {note}", 3, "  ")
        left = len(notes) - number - 1
        if len(lines) + len(told) + bool(left) > most:
            return [*lines, f"- {left + 1} more note{'s' if left else ''}."] if lines else told[:most]
        lines += told
    return lines


def _repair(recording: Recording, most: int = DIFF) -> list[str]:
    """Returns the best repair as the lines it removes and adds, at most so many, below what it does."""
    fixes = recording.verdict.fixes
    if not fixes:
        return []
    best, others = fixes[0], len(fixes) - 1
    more = f"; {others} more" if others else ""
    if best.proven:
        lines = [f"Repair at {place_of_fix(best)}, {best.kind} (run: {best.effect}{more}):"]
    else:
        none = "No change was found that keeps every loss and gradient. This one"
        lines = _wrapped(f"{none}, {best.kind}, gives right gradients of something else: {best.changes}", 3)
    changed = changed_lines(best)
    if len(changed) > most:
        changed = [*changed[: most - 1], f"… {len(changed) - most + 1} more lines"]
    return [*lines, *(f"  {line}" for line in changed)]


def changed_lines(fix: Fix) -> list[str]:
    """Returns a repair as the lines that it removes, marked -, and those that it adds, marked +; then those of further files."""
    lines = [
        f"{sign} {_cut(line)}" for sign, text in (("-", fix.before), ("+", fix.after)) for line in text.splitlines()
    ]
    return lines + [line for one in fix.more for line in (f"and at {place_of_fix(one)}:", *changed_lines(one))]
