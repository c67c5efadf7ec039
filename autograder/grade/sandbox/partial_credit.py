"""The points that the value of a test's last line gives, by the same rule wherever the test runs."""

from __future__ import annotations

import math
from typing import Any


def points_of(value: Any) -> float | None:
    """Return the points for the value of a test's last expression; None if the value says nothing, and the test gets all.

    A number is partial credit, as in nbgrader. nbgrader 0.9.6 (`nbgrader.utils.determine_grade`) gives full points for nan,
    negative numbers and False; here these give none.
    """
    if value is None or isinstance(value, (str, bytes)) or value is True:
        return None
    if value is False:
        return 0.0
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - its `__float__` may be the student's; or an integer of any size
        return None
    return 0.0 if math.isnan(number) or number < 0 else number
