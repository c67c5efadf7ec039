"""The gradient panel: what each leaf got beside what is right, as numbers and as small bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from autograder.tape.recording import Gradient, Recording
from autograder.view.shapes import Drawing, Shape, box, clip, group, text

MOST = 8
"""Elements of one gradient that are drawn."""

NAME, NUMBER, BARS, ROW, HEAD = 92, 84, 130, 26, 34
WIDTH = NAME + 2 * NUMBER + BARS + 24


def flat(gradient: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (place, number) for each element of nested lists; a missing gradient is one element None."""
    if isinstance(gradient, list):
        for i, inner in enumerate(gradient):
            yield from flat(inner, f"{where}[{i}]")
    else:
        yield where, gradient


def written(number: Any) -> str:
    """Returns one element as text."""
    if number is None:
        return "none"
    if isinstance(number, int | float) and not isinstance(number, bool):
        return f"{number:.4g}"
    return clip(str(number), 12)


def length(number: Any) -> float:
    """Returns a finite number for a bar; what has no length (none, nan, inf) is 0."""
    return float(number) if isinstance(number, int | float) and math.isfinite(number) else 0.0


def same(got: Any, true: Any) -> bool:
    """Returns whether two elements say the same, to the accuracy of a float32."""
    if isinstance(got, int | float) and isinstance(true, int | float):
        return got == true or math.isclose(got, true, rel_tol=1e-4, abs_tol=1e-6) or (got != got and true != true)
    return bool(got == true)


def pairs(gradient: Gradient) -> list[tuple[str, Any, Any]]:
    """Returns (place, got, true) for each element; where only one is known the other is None."""
    got, true = dict(flat(gradient.got)), dict(flat(gradient.true))
    longer = true if gradient.got is None else got
    return [(place, got.get(place), true.get(place)) for place in longer]


def draw(recording: Recording) -> Drawing | None:
    """Returns the panel as a drawing, or None where the verdict knows no gradient."""
    rows = [(name, gradient, pairs(gradient)) for name, gradient in recording.verdict.gradients.items()]
    if not rows:
        return None
    top, shapes = float(HEAD), [_heading()]
    for name, _, elements in rows:
        wrong = [pair for pair in elements if not same(pair[1], pair[2]) and pair[2] is not None]
        shown = elements if len(elements) <= MOST else [*wrong, *(p for p in elements if p not in wrong)][:MOST]
        scale = max((abs(length(n)) for _, *numbers in shown for n in numbers), default=0) or 1.0
        signed = any(length(n) < 0 for _, *numbers in shown for n in numbers)
        for place, got, true in shown:
            zero = NAME + 2 * NUMBER + 18 + (BARS / 2 if signed else 0)
            shapes.append(_row(f"{name}.grad{place}", got, true, (zero, BARS / scale / (2 if signed else 1)), top))
            top += ROW
        if len(elements) > MOST:
            more = f"and {len(elements) - MOST} more, {max(len(wrong) - MOST, 0)} of them wrong"
            shapes.append(text(12, top + 14, more, kind="none"))
            top += ROW
    return Drawing(0, 0, WIDTH, top + 8, [group(*shapes, kind="gradients", k="end")])


def _heading() -> Shape:
    """Returns the columns' titles."""
    return group(
        text(12, 21, "gradient", kind="title"),
        text(NAME + NUMBER, 21, "got", kind="title", anchor="end"),
        text(NAME + 2 * NUMBER, 21, "right", kind="title", anchor="end"),
    )


def _row(name: str, got: Any, true: Any, axis: tuple[float, float], top: float) -> Shape:
    """Returns one element: two numbers and two bars; `axis` is where zero stands and the pixels of one."""
    zero, unit = axis
    wrong = true is not None and not same(got, true)
    return group(
        text(12, top + 14, clip(name, 16), kind="name"),
        text(NAME + NUMBER, top + 14, ("✗ " if wrong else "") + written(got), kind="got", anchor="end"),
        text(NAME + 2 * NUMBER, top + 14, "not known" if true is None else written(true), kind="right", anchor="end"),
        *_bar(zero, top + 3, length(got) * unit, "got"),
        *_bar(zero, top + 11, length(true) * unit, "right"),
        box(zero - 0.5, top + 1, 1, 18, kind="zero"),
        kind="row wrong" if wrong else "row",
    )


def _bar(zero: float, top: float, width: float, kind: str) -> list[Shape]:
    """Returns a bar of a width in pixels, to the left where that is negative; none for zero."""
    left = min(zero, zero + width)
    return [box(left, top, abs(width), 6, 1.5, kind=f"bar {kind}")] if abs(width) > 0.2 else []
