"""When an idea comes again: after 1, 3, 7, 16 and 35 days as long as the answers are right; after a wrong one, from the start."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import msgspec

INTERVALS = (1, 3, 7, 16, 35)  # days


class Practised(msgspec.Struct, frozen=True):
    """How an idea stands.

    Attributes:
        level: how many times in a row the answer was right; at least one less than there are intervals.
        last: the day of the last answer.
    """

    level: int
    last: datetime.date

    def after(self, right: bool, today: datetime.date) -> Practised:
        """Returns how it stands after one more answer."""
        return Practised(min(self.level + 1, len(INTERVALS) - 1) if right else 0, today)

    def due(self, today: datetime.date) -> datetime.date:
        """Returns the day on which it comes again; today, if the last day lies in the future because a clock was wrong."""
        if self.last > today:
            return today
        level = min(max(self.level, 0), len(INTERVALS) - 1)
        return self.last + datetime.timedelta(days=INTERVALS[level])


NEW = Practised(-1, datetime.date.min)
"""Of an idea that was never asked for: the first right answer brings it to the first interval."""


def due_topics(
    topics: Iterable[str], practised: Mapping[str, Practised], today: datetime.date, count: int = 5
) -> list[str]:
    """Returns which ideas to ask for: those that are due, the longest overdue first, then new ones in their order."""
    topics = list(topics)
    known = [topic for topic in topics if topic in practised and practised[topic].due(today) <= today]
    known.sort(key=lambda topic: practised[topic].due(today))
    return [*known, *(topic for topic in topics if topic not in practised)][:count]


def next_day(topics: Iterable[str], practised: Mapping[str, Practised], today: datetime.date) -> datetime.date | None:
    """Returns the first day on which one of these ideas comes again; None if none was ever asked for."""
    return min((practised[topic].due(today) for topic in topics if topic in practised), default=None)
