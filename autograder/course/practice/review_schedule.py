"""The schedule of reviews: after 1, 3, 7, 16 and 35 days while the answers are right; after a wrong answer, from the start."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import msgspec

INTERVALS = (1, 3, 7, 16, 35)  # in days


class Practised(msgspec.Struct, frozen=True):
    """The practice state of an idea.

    Attributes:
        level: the index of the current interval; it grows with each right answer in a row, up to the last interval.
        last: the day of the last answer.
    """

    level: int
    last: datetime.date

    def after(self, right: bool, today: datetime.date) -> Practised:
        """Return the state after one more answer."""
        return Practised(min(self.level + 1, len(INTERVALS) - 1) if right else 0, today)

    def due(self, today: datetime.date) -> datetime.date:
        """Return the day of the next review; today, if the last day is in the future because a clock was wrong."""
        if self.last > today:
            return today
        level = min(max(self.level, 0), len(INTERVALS) - 1)
        return self.last + datetime.timedelta(days=INTERVALS[level])


NEW = Practised(-1, datetime.date.min)
"""The state of a new idea; the first right answer starts the first interval."""


def due_topics(
    topics: Iterable[str], practised: Mapping[str, Practised], today: datetime.date, count: int = 5
) -> list[str]:
    """Return the ideas to ask about: those that are due, the longest overdue first, then new ones in their order."""
    topics = list(topics)
    known = [topic for topic in topics if topic in practised and practised[topic].due(today) <= today]
    known.sort(key=lambda topic: practised[topic].due(today))
    return [*known, *(topic for topic in topics if topic not in practised)][:count]


def next_day(topics: Iterable[str], practised: Mapping[str, Practised], today: datetime.date) -> datetime.date | None:
    """Return the day of the next review of any of these ideas; None if all of them are new."""
    return min((practised[topic].due(today) for topic in topics if topic in practised), default=None)
