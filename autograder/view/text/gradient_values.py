"""The elements of gradients: listed with their positions, compared, and formatted as text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from autograder.locale.translations import translated
from autograder.tape.recording.verdict_types import Gradient
from autograder.view.shapes import clip


@dataclass(frozen=True)
class GradientElement:
    """An element of a leaf's gradient, next to the right one."""

    position: str  # "[0][2]"; "" for a scalar, or if the whole gradient is missing
    got: Any  # the element in the run's gradient, a number or None
    true: Any  # the right one, None if it is unknown

    @property
    def is_wrong(self) -> bool:
        """Whether it differs from the right one; False if that is unknown."""
        return self.true is not None and not is_close(self.got, self.true)


def list_elements(gradient: Gradient) -> list[GradientElement]:
    """Return each element of a gradient; of the right one if the run left no gradient."""
    got, true = dict(_flatten(gradient.got)), dict(_flatten(gradient.true))
    shown = true if gradient.got is None else got
    return [GradientElement(position, got.get(position), true.get(position)) for position in shown]


def _flatten(gradient: Any, position: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (position, number) for each element of nested lists; a missing gradient is a single element None."""
    if isinstance(gradient, list):
        for i, inner in enumerate(gradient):
            yield from _flatten(inner, f"{position}[{i}]")
    else:
        yield position, gradient


def is_close(got: Any, true: Any) -> bool:
    """Return whether two elements agree within a relative error of 1e-4 or an absolute one of 1e-6; NaN agrees with NaN."""
    if isinstance(got, int | float) and isinstance(true, int | float):
        return got == true or math.isclose(got, true, rel_tol=1e-4, abs_tol=1e-6) or (got != got and true != true)
    return bool(got == true)


def is_wrong(gradient: Gradient) -> bool:
    """Return whether a leaf's gradient differs from the right one; False if that is unknown."""
    return gradient.true is not None and any(
        not is_close(element.got, element.true) for element in list_elements(gradient)
    )


def is_finite(gradient: Gradient) -> bool:
    """Return whether no element of the run's gradient is NaN or infinite. JSON has None in their place."""
    numbers = [number for position, number in _flatten(gradient.got) if position or number is not None]
    return not any(number is None or (isinstance(number, float) and not math.isfinite(number)) for number in numbers)


def bar_length(number: Any) -> float:
    """Return the length of the bar for an element: its value, or 0 for None, NaN and infinity."""
    return float(number) if isinstance(number, int | float) and math.isfinite(number) else 0.0


SHOWN = 4  # the maximum number of elements of a gradient in a line of text


def short_values(values: Any, shown: int = SHOWN) -> str:
    """Return a gradient in a few characters: all of a small one, else its first numbers and the count of the others."""
    numbers = [number for _, number in _flatten(values)]
    if not isinstance(values, list):
        return format_number(values)
    if len(numbers) > shown:
        first = ", ".join(map(format_number, numbers[: shown - 1]))
        return translated("[{first}, … {count} more]", first=first, count=len(numbers) - shown + 1)
    return f"[{', '.join(short_values(value, shown) for value in values)}]"


def format_number(number: Any) -> str:
    """Return one element as text of at most 12 characters."""
    if number is None:
        return translated("none")
    if isinstance(number, int | float) and not isinstance(number, bool):
        return f"{number:.4g}"
    return clip(str(number), 12)


def percent(part: float) -> str:
    """Return a fraction between 0 and 1 as a percentage: whole from 10 % on, below that with at most two digits."""
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def gradient_line(name: str, gradient: Gradient, compared: bool = True, width: int | None = None) -> str:
    """Return one leaf's gradient, with the correct one if they were `compared`, and with fewer numbers in a narrow line."""
    line = ""
    for shown in range(SHOWN, 1, -1):
        line = _values_line(name, gradient, compared, shown)
        if gradient.rounds is not UNSET:
            line = translated("{line}  (made {count} times)", line=line, count=f"{gradient.rounds:,}")
        if width is None or len(line) <= width:
            return line
    return clip(line, width or len(line))


def gradient_name(name: str, gradient: Gradient, position: str = "") -> str:
    """Return the text for a leaf's gradient or an element of it: `w.grad`, unless `autograd.grad` returned it."""
    if gradient.returned is UNSET:
        return f"{name}.grad{position}"
    return translated("The gradient of {name}", name=name + position)


def _values_line(name: str, gradient: Gradient, compared: bool, shown: int) -> str:
    leaf = gradient_name(name, gradient)
    if gradient.unlisted:
        count = f"{gradient.unlisted:,}"
        return translated("{leaf}  has {count} numbers, too many to list here", leaf=leaf, count=count)
    got = translated("nothing") if gradient.got is None else short_values(gradient.got, shown)
    if gradient.true is None or not compared:
        return translated("{leaf}  got {got}", leaf=leaf, got=got)
    right = short_values(gradient.true, shown)
    line = translated("{leaf}  got {got}  right {right}", leaf=leaf, got=got, right=right)
    if gradient.got is None or not is_wrong(gradient):
        return line
    off = translated("off by {percent}", percent=percent(gradient.off)) if gradient.off else translated("differs")
    return f"{line}  <- {off}"
