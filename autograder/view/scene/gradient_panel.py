"""The gradient panel: the program's gradient of each leaf next to the right one, as numbers and as bars."""

from __future__ import annotations

from typing import NamedTuple

from autograder.locale.line_breaks import columns
from autograder.locale.translations import translated
from autograder.tape.recording.schema import Recording
from autograder.tape.recording.verdict_types import Gradient
from autograder.view.shapes import MONO, Drawing, Shape, box, clip, group, text
from autograder.view.text.gradient_values import GradientElement, finite, format_number, is_wrong, list_elements
from autograder.view.text.headline import is_refused
from autograder.view.text.naming import count_noun

MOST = 12
"""The maximum number of elements in the panel, for all leaves together."""

NUMBER, BARS, ROW, HEAD, LONGEST = 94, 130, 24, 34, 30
"""In pixels, the width of a column of numbers, the width of the bars, the height of a row and of the heading; columns of a name."""


class Axis(NamedTuple):
    """The axis of one leaf's bars: the x of zero in pixels, and pixels per unit of the gradient."""

    zero: float
    unit: float


def draw_gradients(recording: Recording) -> Drawing | None:
    """Return the panel, leaves with a wrong gradient first; None if the verdict does not contain gradients.

    Return None also if a check rejected the program for another reason, because "right" would equal the program's
    gradients.
    """
    if is_refused(recording.verdict):
        return None
    leaves = sorted(recording.verdict.gradients.items(), key=lambda item: not is_wrong(item[1]))
    if not leaves:
        return None
    shown = [(name, *_choose(gradient, max(1, MOST // len(leaves)))) for name, gradient in leaves[:MOST]]
    names = [f"{name}.grad{element.position}" for name, elements, _ in shown for element in elements]
    right = 24 + max(columns(clip(name, LONGEST)) for name in names) * MONO
    top, shapes = float(HEAD), [_heading(right)]
    for name, elements, rest in shown:
        axis = _axis(elements, right)
        for element in elements:
            shapes.append(_row(f"{name}.grad{element.position}", element, axis, right, top))
            top += ROW
        if rest:
            shapes.append(text(12, top + 12, rest, kind="none"))
            top += ROW
    if len(leaves) > MOST:
        shapes.append(
            text(
                12,
                top + 12,
                count_noun(len(leaves) - MOST, "and {count} more leaf", "and {count} more leaves"),
                kind="none",
            )
        )
        top += ROW
    return Drawing(0, 0, right + 2 * NUMBER + BARS + 28, top + 8, [group(*shapes, kind="gradients")])


def _choose(gradient: Gradient, most: int) -> tuple[list[GradientElement], str]:
    """Return at most `most` elements, the wrong ones first, and the number of wrong ones among the others."""
    elements = list_elements(gradient)
    if len(elements) <= most:
        return elements, ""
    wrong = [element for element in elements if element.is_wrong]
    right = [element for element in elements if not element.is_wrong]
    hidden = max(len(wrong) - most, 0) or translated("none")
    rest = translated("and {count} more, {wrong} of them wrong", count=len(elements) - most, wrong=hidden)
    return (wrong + right)[:most], rest


def _axis(elements: list[GradientElement], right: float) -> Axis:
    """Return the axis of one leaf's bars: the longest fills the width, and zero is in the middle if some are negative."""
    lengths = [finite(number) for element in elements for number in (element.got, element.true)]
    scale = max(map(abs, lengths), default=0) or 1.0
    signed = min(lengths, default=0) < 0
    return Axis(right + 2 * NUMBER + 18 + (BARS / 2 if signed else 0), BARS / scale / (2 if signed else 1))


def _heading(right: float) -> Shape:
    """Return the titles of the columns; `right` is the end of the names."""
    return group(
        text(12, 21, translated("gradient"), kind="title"),
        text(right + NUMBER, 21, translated("got"), kind="title end"),
        text(right + 2 * NUMBER, 21, translated("right"), kind="title end"),
    )


def _row(name: str, element: GradientElement, axis: Axis, right: float, top: float) -> Shape:
    """Return one element: two numbers and two bars."""
    got, true = element.got, element.true
    unknown = translated("not recorded") if got is None else translated("not known")
    right_number = unknown if true is None else format_number(true)
    return group(
        text(12, top + 14, clip(name, LONGEST), kind="name"),
        text(right + NUMBER, top + 14, ("✗ " if element.is_wrong else "") + format_number(got), kind="got end"),
        text(right + 2 * NUMBER, top + 14, right_number, kind="right end"),
        *_bar(axis, top + 3, finite(got), "got"),
        *_bar(axis, top + 11, finite(true), "right"),
        box(axis.zero - 0.5, top + 1, 1, 18, kind="zero"),
        kind="row wrong" if element.is_wrong else "row",
    )


def _bar(axis: Axis, top: float, value: float, kind: str) -> list[Shape]:
    """Return the bar of a value, to the left of zero if it is negative; an empty list if it is too short to be visible."""
    width = value * axis.unit
    left = min(axis.zero, axis.zero + width)
    return [box(left, top, abs(width), 6, 1.5, kind=f"bar {kind}")] if abs(width) > 0.2 else []
