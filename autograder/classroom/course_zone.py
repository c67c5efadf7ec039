"""The time zone of times without one in a course."""

from __future__ import annotations

import datetime
import zoneinfo
from pathlib import Path

from autograder.errors import InputError


class NoZone(datetime.tzinfo):
    """The zone of times without one in a course that has none: such a time cannot be converted."""

    def utcoffset(self, time: datetime.datetime | None) -> datetime.timedelta:
        """Raise InputError with the time."""
        raise InputError(
            f'the time {time and time.replace(tzinfo=None)} has no time zone. Write `timezone = "Europe/Berlin"`, or the name of '
            f"yours, into policy.toml, or add --timezone Europe/Berlin"
        )

    dst = utcoffset

    def tzname(self, time: datetime.datetime | None) -> str:
        """Return an empty name."""
        return ""

    __str__ = __repr__ = lambda self: ""


def course_zone(course: Path, named: datetime.tzinfo | None) -> datetime.tzinfo:
    """Return the zone of times without one: that of the course's policy.toml, else the one that a command names.

    Raises:
        InputError: they are two zones, or the due dates of policy.toml are in UTC and a command names another zone, or policy.toml
            cannot be used.
    """
    from autograder.grade.policy import FILE, read_policy  # imports nbgrader

    policy, _ = read_policy(course)
    if policy.timezone is None:
        if policy.has_local_times and str(named or "UTC") != "UTC":
            raise InputError(
                f'{FILE} has due dates without a time zone, which are in UTC. Write `timezone = "{named}"` into it, and omit --timezone'
            )
        return named or NoZone()
    if named is not None and str(named) != policy.timezone:
        raise InputError(
            f"{FILE} sets {policy.timezone}, and --timezone {named}. Omit --timezone, or change the file: a course has "
            "one time zone"
        )
    return zoneinfo.ZoneInfo(policy.timezone)
