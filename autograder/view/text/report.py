"""A Recording as text: the whole verdict and every step's sentence. The first drawing, and the test surface."""

from __future__ import annotations

from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Fix, Gradient, Harm
from autograder.view.playback import Playback
from autograder.view.shapes import clip
from autograder.view.text.gradient_rows import is_wrong
from autograder.view.text.sentences import FORECAST, MEANING, Sentences

WIDTH = 100
"""Columns that a value or a message may take before it is cut."""


def as_text(recording: Recording, most: int | None = None) -> str:
    """Returns the verdict with harms, gradients and repairs, then each step with its sentence and the forecast.

    Args:
        most: how many steps to tell of a longer run, the first and the last of them; None for all.
    """
    steps = _steps(recording)
    if most is not None and len(steps) > most:
        gap = f"     … {len(steps) - 2 * (most // 2)} more steps …"
        steps = [*steps[: most // 2], [gap], *steps[-(most // 2) :]]
    lines = [line for step in steps for line in step]
    return "\n".join([*_head(recording), *_tail(recording), "", "step by step:", *lines]) + "\n"


def verdict_text(recording: Recording) -> str:
    """Returns the verdict alone: outcome, error, harms, gradients, repairs."""
    return "\n".join([*_head(recording), *_tail(recording)]) + "\n"


def _head(recording: Recording) -> list[str]:
    """Returns the outcome and the error."""
    verdict = recording.verdict
    lines = [f"{verdict.outcome}: {MEANING[verdict.outcome]}"]
    if verdict.error:
        where = f" at line {verdict.error.line}" if verdict.error.line else ""
        lines.append(f"  {verdict.error.type}{where}: {clip(_short(verdict.error.message), 4 * WIDTH)}")
    return lines


def _short(message: str) -> str:
    """Returns PyTorch's message without its hint at anomaly mode, which names the line that saved and not the one that wrote."""
    return message.partition(" Hint: ")[0]


def _steps(recording: Recording) -> list[list[str]]:
    """Returns each frame's line of code and sentence."""
    playback = Playback(recording)
    words, steps = Sentences(playback), []
    for frame, _ in playback.play():
        if frame.kind == "end":
            continue
        code = [f"{frame.number:>3}  {clip(frame.place.text, WIDTH)}"] if frame.kind == "step" and frame.place else []
        told = f"     {' '.join(filter(None, [words.fact(frame), words.effect(frame)]))}"
        forecast = frame.step.forecast if frame.kind == "step" and frame.step else None
        then = [f"     If you call backward now: {FORECAST[forecast.outcome]}."] if forecast else []
        steps.append([*code, told, *then])
    return steps


def _tail(recording: Recording) -> list[str]:
    """Returns what was harmed, the gradients, the notes and the repairs, each under its heading."""
    verdict = recording.verdict
    parts = [
        ("harmed", _harms(verdict.harms)),
        ("gradients", [_gradient(name, gradient) for name, gradient in verdict.gradients.items()]),
        ("notes", list(verdict.notes)),
        ("repairs", [_fix(fix) for fix in verdict.fixes]),
    ]
    return [line for title, lines in parts if lines for line in ["", f"{title}:", *(f"  {line}" for line in lines)]]


def _harms(harms: tuple[Harm, ...]) -> list[str]:
    """Returns each harm on a line, then what each kind among them means; recordings of release 0.1.0 have no kinds."""
    explanations = dict.fromkeys(harm.explanation for harm in harms if harm.explanation)
    return [*dict.fromkeys(_harm(harm) for harm in harms), *explanations]


def _harm(harm: Harm) -> str:
    """Returns one harm on a line."""
    lines = ", ".join(dict.fromkeys(f"line {place.line}: {place.text}" for place in harm.mutated_at))
    through = f" through {harm.through}" if harm.through and harm.through != harm.tensor else ""
    changed = "its bytes changed" if harm.bytes_changed else "its bytes did not change"
    said = f"{harm.tensor}, {_holder(harm)} (line {harm.saved_at.line}), was written{through} at {lines}"
    return "; ".join(filter(None, [said, _versions(harm), changed]))


def _holder(harm: Harm) -> str:
    """Returns who counted on the old values: the node that keeps them, or whoever uses them without autograd's knowing."""
    others = {"AccumulateGrad": "filled by AccumulateGrad", "checkpoint": "read again by the checkpoint"}
    return others.get(harm.saved_by) or f"{'used' if harm.edge is None else 'kept'} by {harm.saved_by}"


def _versions(harm: Harm) -> str:
    """Returns what the counter said; "" where nobody noted it."""
    if harm.saved_version is None:
        return ""
    moved = harm.saved_version != harm.version_now
    return f"version {harm.saved_version}, {'now' if moved else 'and still'} {harm.version_now}"


def _gradient(name: str, gradient: Gradient) -> str:
    """Returns one leaf's gradient beside the right one."""
    if gradient.unlisted:
        return f"{name}.grad  has {gradient.unlisted:,} numbers, too many to list here"
    got, true = ("none" if g is None else clip(str(g), WIDTH) for g in (gradient.got, gradient.true))
    if gradient.true is None:
        return f"{name}.grad  got {got}"
    return f"{name}.grad  got {got}  right {true}" + ("  <- differs" if is_wrong(gradient) else "")


def _fix(fix: Fix) -> str:
    """Returns one repair: the lines that go, marked -, and those that take their place, marked +."""
    proof = "run and proven" if fix.proven else "not proven"
    changed = [f"- {line}" for line in fix.before.splitlines()] + [f"+ {line}" for line in fix.after.splitlines()]
    return "\n      ".join([f"line {fix.line}, {fix.kind} ({proof})", *changed])
