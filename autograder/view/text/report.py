"""A Recording as text: the whole verdict, and the sentences of each step."""

from __future__ import annotations

from autograder.tape.atlas.answers import words_on_node
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Fix, Harm, place_of_fix
from autograder.view.playback import Playback
from autograder.view.shapes import clip
from autograder.view.text.gradient_values import gradient_line
from autograder.view.text.harm_sentences import where
from autograder.view.text.headline import headline, is_compared, short_message
from autograder.view.text.sentences import FORECAST, Sentences

WIDTH = 100
"""Columns of a value or of a line of code, beyond which it is cut."""


def as_text(recording: Recording, most: int | None = None) -> str:
    """Returns the verdict with harms, gradients and repairs, then each step with its sentences and the forecast of backward.

    Args:
        most: how many steps to print of a longer run, half of them from its start and half from its end; None for all.
    """
    steps = _steps(recording)
    if most is not None and len(steps) > most:
        gap = f"     … {len(steps) - 2 * (most // 2)} more steps …"
        steps = [*steps[: most // 2], [gap], *steps[-(most // 2) :]]
    lines = [line for step in steps for line in step]
    return "\n".join([*_head(recording), *_tail(recording), "", "step by step:", *lines]) + "\n"


def verdict_text(recording: Recording) -> str:
    """Returns the verdict without the steps: outcome, error, harms, gradients, notes, repairs."""
    return "\n".join([*_head(recording), *_tail(recording)]) + "\n"


def _head(recording: Recording) -> list[str]:
    """Returns the outcome and the error."""
    verdict = recording.verdict
    lines = [f"{verdict.outcome}: {headline(verdict)}"]
    if verdict.error:
        where = f" at line {verdict.error.line}" if verdict.error.line else ""
        lines.append(f"  {verdict.error.type}{where}: {clip(short_message(verdict.error.message), 4 * WIDTH)}")
    return lines


def _steps(recording: Recording) -> list[list[str]]:
    """Returns the lines of each frame: the code, what happened, the forecast."""
    playback = Playback(recording)
    words, steps = Sentences(playback), []
    for frame, _ in playback.play():
        if frame.kind == "end":
            continue
        code = [f"{frame.number:>3}  {clip(frame.place.text, WIDTH)}"] if frame.kind == "step" and frame.place else []
        sentences = f"     {' '.join(filter(None, [words.describe(frame), words.describe_effect(frame)]))}"
        forecast = frame.step.forecast if frame.kind == "step" and frame.step else None
        then = [f"     If you call backward now: {FORECAST[forecast.outcome]}."] if forecast else []
        steps.append([*code, sentences, *then])
    return steps


def _tail(recording: Recording) -> list[str]:
    """Returns the harms, the gradients, the notes and the repairs, each under a heading."""
    verdict = recording.verdict
    parts = [
        ("harmed", _harms(verdict.harms, recording.programs[0].file)),
        (
            "gradients",
            [gradient_line(name, gradient, is_compared(verdict)) for name, gradient in verdict.gradients.items()],
        ),
        ("notes", list(verdict.notes)),
        ("repairs", [_fix(fix) for fix in verdict.fixes]),
    ]
    return [line for title, lines in parts if lines for line in ["", f"{title}:", *(f"  {line}" for line in lines)]]


def _harms(harms: tuple[Harm, ...], file: str) -> list[str]:
    """Returns each harm on a line, then what each kind among them means, and what the operations that saved keep.

    Recordings of release 0.1.0 have no kinds.
    """
    explanations = dict.fromkeys(harm.explanation for harm in harms if harm.explanation)
    kept = dict.fromkeys(words_on_node(harm.saved_by) for harm in harms if harm.edge is not None)
    return [*dict.fromkeys(_harm(harm, file) for harm in harms), *explanations, *filter(None, kept)]


def _harm(harm: Harm, file: str) -> str:
    """Returns one harm as one line."""
    lines = ", ".join(dict.fromkeys(f"{where(place, file)}: {place.text}" for place in harm.mutated_at))
    through = f" through {harm.through}" if harm.through and harm.through != harm.tensor else ""
    changed = "its bytes changed" if harm.bytes_changed else "its bytes did not change"
    what = f"{harm.tensor}, {_holder(harm)} ({where(harm.saved_at, file)}), was written{through} at {lines}"
    return "; ".join(filter(None, [what, _versions(harm), changed]))


def _holder(harm: Harm) -> str:
    """Returns what relied on the old values: the node that saved them, or something that autograd does not know of."""
    others = {"AccumulateGrad": "filled by AccumulateGrad", "checkpoint": "read again by the checkpoint"}
    return others.get(harm.saved_by) or f"{'used' if harm.edge is None else 'kept'} by {harm.saved_by}"


def _versions(harm: Harm) -> str:
    """Returns the versions when saved and now; "" where they are not known."""
    if harm.saved_version is None:
        return ""
    if harm.saved_version == harm.version_now:
        return "no version counter moved"
    return f"saved at version {harm.saved_version}, now at {harm.version_now}"


def _fix(fix: Fix) -> str:
    """Returns one repair as a diff: the lines that it removes, marked -, and those that it adds, marked +."""
    told = [f"{place_of_fix(fix)}, {fix.kind} (run: {fix.effect})", *_lines(fix)]
    return "\n      ".join(told + [line for one in fix.more for line in (f"and at {place_of_fix(one)}:", *_lines(one))])


def _lines(fix: Fix) -> list[str]:
    """Returns the lines that the change of one file removes and adds."""
    return [f"- {line}" for line in fix.before.splitlines()] + [f"+ {line}" for line in fix.after.splitlines()]
