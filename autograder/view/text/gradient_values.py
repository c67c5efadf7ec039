"""The elements of gradients: listed with their positions, compared, written as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from autograder.locale.translations import translated
from autograder.tape.recording.verdict_types import Gradient
from autograder.view.shapes import clip


class GradientElement(NamedTuple):
    """One element of a leaf's gradient.

    Attributes:
        position: "[0][2]"; "" for a scalar, or where the whole gradient is missing.
        got: as the run left it, a number or None; `true`: the right one, None where it is not known.
    """

    position: str
    got: Any
    true: Any

    @property
    def is_wrong(self) -> bool:
        """Whether it differs from the right one; False where that is not known."""
        return self.true is not None and not is_close(self.got, self.true)


def list_elements(gradient: Gradient) -> list[GradientElement]:
    """Return each element of a gradient; of the right one if the run left no gradient."""
    got, true = dict(_flatten(gradient.got)), dict(_flatten(gradient.true))
    known = true if gradient.got is None else got
    return [GradientElement(position, got.get(position), true.get(position)) for position in known]


def _flatten(gradient: Any, position: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (position, number) for each element of nested lists; a missing gradient is one element None."""
    if isinstance(gradient, list):
        for i, inner in enumerate(gradient):
            yield from _flatten(inner, f"{position}[{i}]")
    else:
        yield position, gradient


def is_close(got: Any, true: Any) -> bool:
    """Returns whether two elements agree: to a relative 1e-4, or an absolute 1e-6; NaN agrees with NaN."""
    if isinstance(got, int | float) and isinstance(true, int | float):
        return got == true or math.isclose(got, true, rel_tol=1e-4, abs_tol=1e-6) or (got != got and true != true)
    return bool(got == true)


def is_wrong(gradient: Gradient) -> bool:
    """Returns whether a leaf's gradient differs from the right one; False where that is not known."""
    return gradient.true is not None and any(not is_close(got, true) for _, got, true in list_elements(gradient))


def finite(number: Any) -> float:
    """Returns the length of a bar for an element: its value, and 0 for none, NaN and infinity."""
    return float(number) if isinstance(number, int | float) and math.isfinite(number) else 0.0


SHOWN = 4
"""Numbers of a gradient that a line of text shows at most."""


def short_values(values: Any) -> str:
    """Returns a gradient in a few characters: all of a small one, else its first numbers and how many there are more."""
    numbers = [number for _, number in _flatten(values)]
    if not isinstance(values, list) or len(numbers) > SHOWN:
        first = ", ".join(map(format_number, numbers[: SHOWN - 1]))
        return (
            first
            if not isinstance(values, list)
            else translated("[{first}, … {count} more]", first=first, count=len(numbers) - SHOWN + 1)
        )
    return f"[{', '.join(map(short_values, values))}]"


def format_number(number: Any) -> str:
    """Returns one element as text of at most 12 characters."""
    if number is None:
        return translated("none")
    if isinstance(number, int | float) and not isinstance(number, bool):
        return f"{number:.4g}"
    return clip(str(number), 12)


def percent(part: float) -> str:
    """Returns a part of one as a percentage of two or three digits."""
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def gradient_line(name: str, gradient: Gradient, compared: bool = True) -> str:
    """Returns one leaf's gradient, beside the right one where they were `compared`."""
    if gradient.unlisted:
        count = f"{gradient.unlisted:,}"
        return translated("{name}.grad  has {count} numbers, too many to list here", name=name, count=count)
    got = translated("nothing") if gradient.got is None else short_values(gradient.got)
    if gradient.true is None or not compared:
        return translated("{name}.grad  got {got}", name=name, got=got)
    line = translated("{name}.grad  got {got}  right {right}", name=name, got=got, right=short_values(gradient.true))
    if gradient.got is None or not is_wrong(gradient):
        return line
    off = translated("off by {percent}", percent=percent(gradient.off)) if gradient.off else translated("differs")
    return f"{line}  <- {off}"
