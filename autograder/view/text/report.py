"""A Recording as text: the whole verdict, the sentences of each step, and the descriptions of fixes."""

from __future__ import annotations

from autograder.locale.translations import join_sentences, localized, translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Fix, Harm, Problem, kind_of_fix, place_of_fix
from autograder.view.playback import Playback
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_line
from autograder.view.text.harm_sentences import harmed_tensor, through, where, words_on_saves
from autograder.view.text.headline import about_refused, is_compared, is_refused, short_message, title, words_on_runs
from autograder.view.text.sentences import Sentences, forecast_word


def also_fixed(fix: Fix) -> str:
    """Return the line above the change of a fix in a further file."""
    return translated("and at {place}:", place=localized(place_of_fix(fix)))


WIDTH = 100  # the maximum number of columns of a value or of a line of code


def as_text(recording: Recording, most: int | None = None) -> str:
    """Return the verdict with harms, gradients and fixes, then each step with its sentences and the forecast of backward.

    Args:
        recording: the recording.
        most: the maximum number of steps to print, half of them from the start and half from the end; None for all.
    """
    steps = _steps(recording)
    if most is not None and len(steps) > most:
        gap = "     " + translated("… {count} more steps …", count=len(steps) - 2 * (most // 2))
        steps = [*steps[: most // 2], [gap], *steps[len(steps) - most // 2 :]]
    lines = [line for step in steps for line in step]
    story = ["", translated("step by step:"), *lines] if lines else []
    return "\n".join([*_head(recording), *_tail(recording), *story]) + "\n"


def _head(recording: Recording) -> list[str]:
    """Return the outcome, or the check's message, and the error."""
    verdict, file = recording.verdict, recording.programs[0].file if recording.programs else ""
    lines = [title(verdict, file)]
    if is_refused(verdict):
        lines.append(f"  {about_refused(verdict)}")
    elif verdict.refusal:
        lines.append("  " + translated("Result of the check: {verdict}.", verdict=verdict.refusal))
    if verdict.error:
        message = clip(short_message(verdict.error.message), 4 * WIDTH)
        lines.append(f"  {error_line(verdict.error, file, message)}")
    return lines


def error_line(error: Problem, file: str, message: str) -> str:
    """Return an error's type, its line if it is known, and its message; `file`, the program's own, is not named."""
    place = error.place(file)
    if place is None:
        return f"{error.type}: {message}"
    return translated("{type} at {place}: {message}", type=error.type, place=where(place, file), message=message)


def _steps(recording: Recording) -> list[list[str]]:
    """Return the lines of each frame: the code, the sentences, the forecast."""
    playback = Playback(recording)
    words, steps = Sentences(playback), []
    for frame, _ in playback.play():
        if frame.kind == "end":
            continue
        lines = [f"{frame.number:>3}  {clip(frame.step.place.text, WIDTH)}"] if frame.step else []
        lines.append(f"     {join_sentences([words.describe(frame), *words.effects(frame)])}")
        if frame.step and frame.step.forecast:
            word = forecast_word(frame.step.forecast.outcome)
            lines.append("     " + translated("If you call backward now: {forecast}.", forecast=word))
        steps.append(lines)
    return steps


def _tail(recording: Recording) -> list[str]:
    """Return the harms, the gradients, the notes, the fixes and the number of runs, each under a heading."""
    verdict = recording.verdict
    gradients = [gradient_line(name, gradient, is_compared(verdict)) for name, gradient in verdict.gradients.items()]
    parts = [
        (translated("affected tensors"), _harms(recording)),
        (translated("gradients"), gradients),
        (translated("notes"), [localized(note, verdict.messages) for note in verdict.notes]),
        (translated("fixes"), [_fix(fix) for fix in verdict.fixes]),
        (translated("runs"), list(words_on_runs(recording))),
    ]
    headed = [(translated("{label}:", label=title), lines) for title, lines in parts if lines]
    return [line for heading, lines in headed for line in ["", heading, *(f"  {line}" for line in lines)]]


def _harms(recording: Recording) -> list[str]:
    """Return each harm on a line, then the explanation of each kind of harm, and the tensors that the saving operations keep.

    Recordings of release 0.1.0 do not contain kinds.
    """
    harms, file = recording.verdict.harms, recording.programs[0].file
    compares_bytes = bool(recording.steps)  # a watch does not
    explanations = dict.fromkeys(translated(harm.explanation) for harm in harms if harm.explanation)
    reasons = dict.fromkeys(words_on_saves(harm, recording) for harm in harms)
    return [*dict.fromkeys(_harm(harm, file, compares_bytes) for harm in harms), *explanations, *filter(None, reasons)]


def _harm(harm: Harm, file: str, compares_bytes: bool) -> str:
    writes = (translated("{where}: {text}", where=where(place, file), text=place.text) for place in harm.mutated_at)
    lines = ", ".join(dict.fromkeys(writes))
    changed = translated("its bytes changed") if harm.bytes_changed else translated("its bytes did not change")
    what = translated(
        "{tensor}, {holder} ({saved}), was written{through} at {lines}",
        tensor=harmed_tensor(harm), holder=_holder(harm), saved=where(harm.saved_at, file), through=through(harm), lines=lines,
    )  # fmt: skip
    return translated("; ").join(filter(None, [what, _versions(harm), changed if compares_bytes else ""]))


def _holder(harm: Harm) -> str:
    """Return the holder of the old values: the node that saved them, or code that autograd does not know of."""
    if harm.saved_by == "checkpoint":
        return translated("read again by the checkpoint")
    if harm.saved_by == "AccumulateGrad":
        return translated("filled by {node}", node=harm.saved_by)
    if harm.edge is None:
        return translated("used by {node}", node=harm.saved_by)
    return translated("kept by {node}", node=harm.saved_by)


def _versions(harm: Harm) -> str:
    """Return the versions when saved and now; "" if they are unknown."""
    if harm.saved_version is None:
        return ""
    if harm.saved_version == harm.version_now:
        return translated("no version counter changed")
    return translated("saved at version {saved}, now at {version}", saved=harm.saved_version, version=harm.version_now)


def _fix(fix: Fix) -> str:
    """Return one fix as a diff: its removed lines, marked -, and its added lines, marked +."""
    place, kind = localized(place_of_fix(fix)), localized(kind_of_fix(fix))
    effect = translated(fix.effect)
    lines = [translated("{place}: {kind} (tested: {effect})", place=place, kind=kind, effect=effect), *_lines(fix)]
    return "\n      ".join(lines + [line for part in fix.more for line in (also_fixed(part), *_lines(part))])


def _lines(fix: Fix) -> list[str]:
    """Return the lines that the change of one file removes and adds."""
    return [f"- {line}" for line in fix.before.splitlines()] + [f"+ {line}" for line in fix.after.splitlines()]
