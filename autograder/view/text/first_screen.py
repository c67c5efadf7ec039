"""The answer on one screen: the outcome, the first harm in a sentence, the code around it, the best fix, further options."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher

from autograder.locale.line_breaks import columns, wrap_text
from autograder.locale.messages import id_of
from autograder.locale.translations import join_sentences, localized, restored, translatable, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import (
    Fix,
    GraphFault,
    Place,
    Verdict,
    kind_of_fix,
    note_on_change,
    place_of_fix,
)
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_line
from autograder.view.text.harm_sentences import (
    consequence,
    gradient_error_sentence,
    line_labels,
    sentence_of_harm,
    where,
    words_on_saves,
)
from autograder.view.text.headline import is_compared, short_message, title, words_on_runs
from autograder.view.text.naming import count_noun
from autograder.view.text.report import also_fixed, error_line


def first_answer(recording: Recording) -> str:
    """Return the outcome and the responsible line, such as "silently-wrong, line 12: h.data.mul_(2)"."""
    verdict, file = recording.verdict, recording.programs[0].file
    places = [place for harm in verdict.harms for place in harm.mutated_at]
    raised = verdict.error.place(file) if verdict.error else None
    if places:
        place = translated("{where}: {text}", where=where(places[0], file), text=places[0].text)
    elif raised:
        place = where(raised, file)
    else:
        return verdict.outcome
    return translated("{outcome}, {where}", outcome=verdict.outcome, where=place)


LINES, WIDTH = 25, 100
"""The maximum size of the screen. It is longer only if more lines than fit do harm, because each of them is named."""

AROUND = 5  # the maximum number of code lines
GRADIENTS = 6  # the maximum number of gradients
DIFF = 8  # the maximum number of lines of the fix
LEAST = 4  # the number of lines of a long fix that are always shown
ON_STEPS = {"note.skipped", "note.first"}  # notes on the list that `--steps` prints

MORE = translatable("More: --steps (every step), --html FILE (a picture), --json")
MORE_OF_REPAIR = translatable(", --diff (the fix as a patch), --apply")
# By kind of a graph fault, the place of its change with the intention that the program does not show.
INTENDED = {
    "gradient that no optimizer uses": translatable("{line}, if it is to be trained"),
    "gradient of another loss": translatable("{line}, if the sum is not intended"),
}
MORE_IN_PYTHON = translatable('More: print(answer.steps), answer.harms, answer.fixes, answer.save("out.html")')


def as_screen(recording: Recording, more: str = MORE) -> str:
    """Return the answer in at most 25 lines of 100 columns.

    Args:
        recording: the recording.
        more: the last line, which lists further options.
    """
    harms = recording.verdict.harms
    kept = [*_wrapped(words_on_saves(harms[0], recording) if harms else "", 2), *_others(recording)]
    screen: Screen = {
        "outcome": _outcome(recording), "harm": _harm(recording), "code": _code(recording), "kept": kept,
        "gradients": _gradients(recording), "notes": [], "repair": _repair(recording),
        "closing": [*words_on_runs(recording), translated(more)],
    }  # fmt: skip
    if more == MORE and recording.verdict.fixes:
        screen["closing"][-1] += translated(MORE_OF_REPAIR)
    lines_left = -_over(screen) - 1  # an empty line precedes the notes
    screen["notes"] = _notes(recording, max(lines_left, 4))
    if len(screen["notes"]) > lines_left:
        screen["repair"] = _repair(recording, DIFF - len(screen["notes"]) + lines_left)
    _shorten(screen, recording)
    return "\n\n".join("\n".join(part) for part in screen.values() if part) + "\n"


Screen = dict[str, list[str]]  # part of the answer → its lines, in order; an empty part is not shown


def _over(screen: Screen) -> int:
    """Return the number of excess lines, including an empty line between two parts."""
    parts = [part for part in screen.values() if part]
    return sum(map(len, parts)) + len(parts) - 1 - LINES


def _shorten(screen: Screen, recording: Recording) -> None:
    """Remove the least important parts, one after another, while there are excess lines."""
    notes, code, closing = screen["notes"], screen["code"], screen["closing"]
    if notes and (over := _over(screen)) > 0:
        if over < len(notes):
            screen["notes"] = [*notes[: len(notes) - over - 1], translated("  … the notes in full: --steps")]
        else:
            screen["notes"] = []
            closing[-1] = closing[-1].replace(translated("(every step)"), translated("(and notes)"))
    if (over := _over(screen)) > 0:
        # lines that neither write nor save, the last ones first
        spare = [number for number, line in enumerate(code) if line[0] == " " and "|" in line][::-1][:over]
        screen["code"] = [line for number, line in enumerate(code) if number not in spare]
    if (over := _over(screen)) > 0:
        screen["repair"] = _repair(recording, max(DIFF - over, LEAST))
    if _over(screen) > 0:
        screen["kept"] = _others(recording)


def _wrapped(text: str, most: int | None = None, indent: str = "") -> list[str]:
    """Return a text as wrapped lines, without a line break between "line" and its number."""
    held = re.sub(r"\b(line) (\d)", "\\1\N{NO-BREAK SPACE}\\2", text)
    wrapped = wrap_text(held, WIDTH, rest=indent)
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped]
    if most is not None and len(lines) > most:
        last = f"{lines[most - 1].removeprefix(indent)} …"
        return [*lines[: most - 1], f"{indent}{clip(last, WIDTH - len(indent))}"]
    return lines


def _outcome(recording: Recording) -> list[str]:
    verdict, file = recording.verdict, recording.programs[0].file if recording.programs else ""
    lines = [title(verdict, file)]
    if verdict.error:
        lines += _wrapped(error_line(verdict.error, file, short_message(verdict.error.message)), 2)
    return lines


def _harm(recording: Recording) -> list[str]:
    verdict = recording.verdict
    if not verdict.harms:
        return _wrapped(gradient_error_sentence(verdict.gradients)) if verdict.outcome == "silently-wrong" else []
    first = verdict.harms[0]
    text = translated("{sentence}.", sentence=sentence_of_harm(first, recording))
    most = None if len(first.mutated_at) > 3 else 4
    whole, short = (join_sentences([text, consequence(first, verdict, limit)]) for limit in (None, 0))
    is_long = most is not None and len(_wrapped(whole)) > most
    return _wrapped(short if is_long else whole, most)


def _code(recording: Recording) -> list[str]:
    """Return the lines around the first write and the saving line, or around a line that stops or cuts the graph."""
    verdict = recording.verdict
    if verdict.harms:
        write, saved = verdict.harms[0].mutated_at[0], verdict.harms[0].saved_at
    elif verdict.graph_faults:
        write = saved = verdict.graph_faults[0].place
    else:
        at = verdict.error.place(recording.programs[0].file) if verdict.error else None
        if not at:
            return []
        write = saved = at
    sources = {program.file: program.source.splitlines() for program in recording.programs}
    source = sources.get(write.file, [])
    near = {line for line in range(write.line - 1, write.line + 2) if 0 < line <= len(source)}
    context = {saved.line} if saved.file == write.file and 0 < saved.line <= len(source) else set()
    return list(_numbered(source, sorted(near | context), write, saved))[: AROUND + 1]


def _numbered(source: list[str], numbers: list[int], write: Place, saved: Place) -> Iterable[str]:
    before = numbers[0] if numbers else 0
    for number in numbers:
        if number > before + 1:
            yield "       …"
        before = number
        mark = ">" if number == write.line else "+" if number == saved.line and saved.file == write.file else " "
        yield f"{mark} {number:>4} | {_cut(source[number - 1])}"


def _cut(line: str) -> str:
    """Return a line of code with its indentation, cut to the screen."""
    inside = line.expandtabs(4)
    depth = min(len(inside) - len(inside.lstrip()), 24)
    return " " * depth + clip(inside.strip(), WIDTH - 10 - depth)


def _others(recording: Recording) -> list[str]:
    """Return the places of the harms after the first."""
    # An unrecorded write concerns no saved tensor, and the notes list it.
    harms = [harm for harm in recording.verdict.harms[1:] if harm.kind != "unrecorded write"]
    file = recording.programs[0].file
    counts = Counter((place.file, place.line) for harm in harms for place in harm.mutated_at)
    lines = line_labels((Place(*place, "") for place in counts), file)
    others = translated(", ").join(
        line + (translated(" ({parts})", parts=count) if count > 1 and len(counts) > 1 else "")
        for line, count in zip(lines, counts.values(), strict=True)
    )
    also = translated("1 more saved tensor is overwritten at {lines}.", lines=others)
    if len(harms) > 1:
        more = f"{len(harms):,}"
        also = translated("{count} more saved tensors are overwritten at {lines}.", count=more, lines=others)
    return _wrapped(also) if others else []


def _gradients(recording: Recording) -> list[str]:
    """Return the first gradients of the leaves, if there is no harm to show."""
    verdict = recording.verdict
    if verdict.harms or verdict.outcome in ("raises-forward", "raises-backward"):
        return []
    most = GRADIENTS // 2 if verdict.graph_faults else GRADIENTS
    lines = [gradient_line(name, gradient, is_compared(verdict), WIDTH) for name, gradient in verdict.gradients.items()]
    more = translated("… {count} more", count=len(lines) - most + 1)
    return lines if len(lines) <= most else [*lines[: most - 1], more]


def _notes(recording: Recording, most: int) -> list[str]:
    """Return as many notes as fit, and the number of the others."""
    lines: list[str] = []
    verdict = recording.verdict
    shown_below = {note_on_change(fix) for fix in verdict.fixes}
    notes = [restored(note, verdict.messages) for note in verdict.notes if note not in shown_below]
    notes = [localized(note) for note in notes if id_of(note) not in ON_STEPS]
    for number, note in enumerate(notes):
        note_lines = _wrapped(f"- {note}", 3, "  ")
        left = len(notes) - number - 1
        if len(lines) + len(note_lines) + bool(left) > most:
            more = translated("{count} more notes.", count=left + 1) if left else translated("1 more note.")
            return [*lines, f"- {more}"] if lines else note_lines[:most]
        lines += note_lines
    return lines


def _repair(recording: Recording, most: int = DIFF) -> list[str]:
    """Return the best fix as its removed and added lines, at most `most`, below its description.

    A change that makes the first graph fault disappear is better than a fix that computes something else.
    """
    best, fault = next(iter(recording.verdict.fixes), None), next(iter(recording.verdict.graph_faults), None)
    if best is None or (not best.proven and fault is not None and fault.was_run and fault.diff != best.diff):
        return _change_of_fault(recording, most)
    changed = changed_lines(best)
    if len(changed) > most:
        shown = changed[: most - 1] if changed[most - 2] != "…" else changed[: most - 2]
        changed = [*shown, count_noun(len(changed) - len(shown), "… {count} more line", "… {count} more lines")]
    return [*_repair_title(recording.verdict), *(f"  {line}" for line in changed)]


def _change_of_fault(recording: Recording, most: int) -> list[str]:
    """Return the change of the first graph fault that has one, as its removed and added lines."""
    fault = next((fault for fault in recording.verdict.graph_faults if fault.diff), None)
    if fault is None:
        return []
    title = translatable("Suggestion for {line} (not tested):")
    if fault.was_run:
        title = translatable("Change for {line} (tested: this fault is gone):")
    hunks = "".join(
        f"{line}\n" for line in (fault.code or fault.diff).splitlines() if line[:3] not in ("+++", "---", "@@ ")
    )
    if not re.search("(?m)^-", hunks):  # added lines alone do not show their place
        hunks = _with_neighbours(hunks)
    around = re.sub(r"\A(?: .*\n)+|(?m:^)(?: .*\n)+\Z", "", hunks)
    # One line between the two places of a moved line shows where it was moved to.
    changed = re.sub(r"(?m)^ .*\n(?: .*\n)+", "…\n", around).splitlines()
    line = _with_line_of_change(fault, recording.programs[0].file)
    return [
        translated(title, line=translated(INTENDED.get(fault.kind, "{line}"), line=line)),
        *(f"  {line[0].replace('=', ' ')} {_cut(line[1:])}".rstrip() for line in changed[:most]),
    ]


def _with_line_of_change(fault: GraphFault, file: str) -> str:
    """Return the line of a fault, with the line at which its change begins if the two are not next to each other."""
    line, changed = where(fault.place, file), re.search(r"(?m)^\+\+\+ b/(.*)$", fault.diff)
    hunks = re.findall(r"(?m)^@@ -(\d+).*\n((?: .*\n)*)", fault.diff)
    if fault.code or changed is None or not hunks:  # a notebook's diff counts lines of JSON, and not those of cells
        return line
    # The diff names its file as seen from the current folder.
    is_same = fault.place.file.endswith(changed[1]) or changed[1].endswith(fault.place.file)
    lines = [int(first) + same.count("\n") for first, same in hunks]
    if is_same and any(abs(number - fault.place.line) <= 1 for number in lines):
        return line
    place = Place(fault.place.file if is_same else changed[1], lines[0], "")
    return translated("{line}, at {place}", line=line, place=where(place, fault.place.file))


def _with_neighbours(hunks: str) -> str:
    """Mark the line below each group of added lines with "=", or the line above if only that is in the same block."""
    lines = hunks.splitlines(keepends=True)
    for at in [at for at, line in enumerate(lines[:-1]) if line[0] == "+" != lines[at + 1][0]]:
        first = next((at - back for back, line in enumerate(lines[at::-1]) if line[0] != "+"), at + 1)
        block = _indent(lines[at])
        kept = first if _indent(lines[at + 1]) != block == _indent(lines[first]) else at + 1
        lines[kept] = f"={lines[kept][1:]}"
    return "".join(lines)


def _indent(line: str) -> int:
    return len(line) - len(line[1:].lstrip())


def _repair_title(verdict: Verdict) -> list[str]:
    """Return the lines above the best fix: its place and the result of its run, or how its computation differs."""
    best, others = verdict.fixes[0], len(verdict.fixes) - 1
    kind = localized(kind_of_fix(best))
    if not best.proven:
        none = translated(
            "No change that was tried is known to keep every loss and gradient. This one at {place}, {kind}, runs with "
            "correct gradients, but: {changes}",
            place=localized(place_of_fix(best)), kind=kind, changes=localized(best.changes, verdict.messages),
        )  # fmt: skip
        return _wrapped(none, 3)
    values = {"place": localized(place_of_fix(best)), "kind": kind, "effect": translated(best.effect), "count": others}
    if not others:
        return _wrapped(translated("Fix for {place}: {kind} (tested: {effect}):", **values))
    return _wrapped(translated("Fix for {place}: {kind} (tested: {effect}; {count} more):", **values))


def changed_lines(fix: Fix) -> list[str]:
    """Return a fix as its removed lines, marked -, and its added lines, marked +; then those of further files.

    Unchanged lines between two changes are shown as one line, "…".
    """
    before, after = fix.before.splitlines(), fix.after.splitlines()
    lines: list[str] = []
    for kind, *places in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        start, stop, new_start, new_stop = places
        if kind == "equal":
            lines.append("…")
        else:
            lines += _removed_and_added(before[start:stop], after[new_start:new_stop])
    return lines + [line for part in fix.more for line in (also_fixed(part), *changed_lines(part))]


def _removed_and_added(removed: list[str], added: list[str]) -> list[str]:
    """Return lines of code, each with its mark; if they are too long, their common beginning is omitted."""
    begin = os.path.commonprefix([*removed, *added])
    alike = begin.rfind(" ") + 1
    if removed and begin[:alike].strip() and any(columns(line) > WIDTH - 10 for line in added):
        removed, added = ([f"… {line[alike:]}" for line in lines] for lines in (removed, added))
    return [f"- {_cut(line)}" for line in removed] + [f"+ {_cut(line)}" for line in added]
