"""The gradient panel: what each leaf got beside what is right, as numbers and as small bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Gradient
from autograder.view.shapes import MONO, Drawing, Shape, box, clip, columns, group, text

MOST = 12
"""Rows that the panel has in all."""

NUMBER, BARS, ROW, HEAD, LONGEST = 78, 130, 24, 34, 30


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


def is_wrong(gradient: Gradient) -> bool:
    """Returns whether a leaf got another gradient than the right one; False where the right one is not known."""
    return gradient.true is not None and any(not same(got, true) for _, got, true in pairs(gradient))


def draw(recording: Recording) -> Drawing | None:
    """Returns the panel as a drawing, or None where the verdict knows no gradient; wrong gradients come first."""
    leaves = sorted(recording.verdict.gradients.items(), key=lambda item: not is_wrong(item[1]))
    if not leaves:
        return None
    shown = [(name, *_chosen(gradient, max(1, MOST // len(leaves)))) for name, gradient in leaves[:MOST]]
    names = [f"{name}.grad{place}" for name, elements, _ in shown for place, _, _ in elements]
    right = 24 + max(columns(clip(name, LONGEST)) for name in names) * MONO
    top, shapes = float(HEAD), [_heading(right)]
    for name, elements, rest in shown:
        axis = _axis(elements, right)
        for place, got, true in elements:
            shapes.append(_row(f"{name}.grad{place}", got, true, axis, right, top))
            top += ROW
        if rest:
            shapes.append(text(12, top + 12, rest, kind="none"))
            top += ROW
    if len(leaves) > MOST:
        shapes.append(text(12, top + 12, f"and {len(leaves) - MOST} more leaves", kind="none"))
        top += ROW
    return Drawing(0, 0, right + 2 * NUMBER + BARS + 28, top + 8, [group(*shapes, kind="gradients", k="end")])


def _chosen(gradient: Gradient, most: int) -> tuple[list[tuple[str, Any, Any]], str]:
    """Returns at most `most` elements, the wrong ones first, and a word about the rest."""
    elements = pairs(gradient)
    wrong = [pair for pair in elements if pair[2] is not None and not same(pair[1], pair[2])]
    if len(elements) <= most:
        return elements, ""
    chosen = (wrong + elements)[:most] if wrong else elements[:most]
    rest = len(elements) - len(chosen)
    return chosen, f"and {rest} more, {max(len(wrong) - most, 0) or 'none'} of them wrong"


def _axis(elements: list[tuple[str, Any, Any]], right: float) -> tuple[float, float]:
    """Returns where zero stands, and the pixels of one, for the bars of one leaf."""
    lengths = [length(number) for _, *numbers in elements for number in numbers]
    scale = max(map(abs, lengths), default=0) or 1.0
    signed = min(lengths, default=0) < 0
    return right + 2 * NUMBER + 18 + (BARS / 2 if signed else 0), BARS / scale / (2 if signed else 1)


def _heading(right: float) -> Shape:
    """Returns the columns' titles."""
    return group(
        text(12, 21, "gradient", kind="title"),
        text(right + NUMBER, 21, "got", kind="title", anchor="end"),
        text(right + 2 * NUMBER, 21, "right", kind="title", anchor="end"),
    )


def _row(name: str, got: Any, true: Any, axis: tuple[float, float], right: float, top: float) -> Shape:
    """Returns one element: two numbers and two bars; `axis` is where zero stands and the pixels of one."""
    zero, unit = axis
    wrong = true is not None and not same(got, true)
    return group(
        text(12, top + 14, clip(name, LONGEST), kind="name"),
        text(right + NUMBER, top + 14, ("✗ " if wrong else "") + written(got), kind="got"),
        text(
            right + 2 * NUMBER,
            top + 14,
            written(true) if true is not None else "not recorded" if got is None else "not known",
            kind="right",
            anchor="end",
        ),
        *_bar(zero, top + 3, length(got) * unit, "got"),
        *_bar(zero, top + 11, length(true) * unit, "right"),
        box(zero - 0.5, top + 1, 1, 18, kind="zero"),
        kind="row wrong" if wrong else "row",
    )


def _bar(zero: float, top: float, width: float, kind: str) -> list[Shape]:
    """Returns a bar of a width in pixels, to the left where that is negative; none for zero."""
    left = min(zero, zero + width)
    return [box(left, top, abs(width), 6, 1.5, kind=f"bar {kind}")] if abs(width) > 0.2 else []
