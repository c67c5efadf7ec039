"""`policy.toml` in a course's folder: due dates, extensions, late penalties, excused students, what is dropped.

Where it is silent, nbgrader's own due dates, extensions and late plugin count.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import tomllib
import zoneinfo
from pathlib import Path
from typing import Any, Literal

import msgspec

from autograder.errors import InputError
from autograder.printable import printable

FILE = "policy.toml"
DAY = 86_400.0
SPAN = re.compile(r"(\d+(?:\.\d+)?) (days?|hours?)")


class PolicyError(InputError):
    """policy.toml cannot be used; the message names the line or the setting."""


class LateStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work that is late by more than `hours` loses `percent`, until the next step."""

    hours: float
    percent: float


class LateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much late work loses.

    Attributes:
        percent_a_day: for each day that has begun since the due date.
        steps: instead of that, a percentage for each time.
        grace_minutes: work that is not later than this is not late.
        most_percent: the most that is taken off.
        of: what the percentage is of: the points that were earned, or the points that could be.
    """

    percent_a_day: float = 0.0
    steps: tuple[LateStep, ...] = ()
    grace_minutes: float = 0.0
    most_percent: float = 100.0
    of: Literal["earned", "maximum"] = "earned"

    def percent(self, seconds: float) -> float:
        """Returns the percentage that work loses which is so many seconds late."""
        if seconds <= 60 * self.grace_minutes:
            return 0.0
        passed = [
            step.percent for step in sorted(self.steps, key=lambda step: step.hours) if seconds > 3600 * step.hours
        ]
        lost = (passed[-1] if passed else 0.0) if self.steps else self.percent_a_day * math.ceil(seconds / DAY)
        return min(lost, self.most_percent)


class AssignmentPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one assignment.

    Attributes:
        due: when it has to be handed in; None leaves nbgrader's own due date.
        extensions: by student: a later due date, or a span such as "3 days".
        excused: students for whom it does not count.
        late: instead of the course's rule.
    """

    due: datetime.datetime | None = None
    extensions: dict[str, Any] = {}  # msgspec knows no union of times and texts; `_check` sees to it
    excused: tuple[str, ...] = ()
    late: LateRule | None = None


class DropLowest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of these assignments, so many with the lowest share of points do not count."""

    assignments: tuple[str, ...]
    count: int = 1


class CoursePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a course.

    Attributes:
        timezone: of times that name none.
        late: the rule for late work; None leaves it to nbgrader's plugin.
        assignments: by name.
        drop_lowest: which assignments may be dropped.
    """

    timezone: str = "UTC"
    late: LateRule | None = None
    assignments: dict[str, AssignmentPolicy] = {}
    drop_lowest: tuple[DropLowest, ...] = ()

    def rule(self, assignment: str) -> LateRule | None:
        """Returns the rule for late work on an assignment; None if there is none here."""
        own = self.of(assignment).late
        return own if own is not None else self.late

    def of(self, assignment: str) -> AssignmentPolicy:
        """Returns what is said of an assignment."""
        return self.assignments.get(assignment, AssignmentPolicy())

    def due(self, assignment: str) -> datetime.datetime | None:
        """Returns the due date as nbgrader stores it, in UTC without a zone; None if there is none here."""
        due = self.of(assignment).due
        return None if due is None else self._stored(due)

    def extension(self, assignment: str, student: str, due: datetime.datetime) -> datetime.timedelta | None:
        """Returns how much later than the due date a student may hand in; None for not at all."""
        given = self.of(assignment).extensions.get(student)
        if given is None:
            return None
        span = _span(given) if isinstance(given, str) else self._stored(given) - due
        return max(span, datetime.timedelta()) or None

    def _stored(self, time: datetime.datetime) -> datetime.datetime:
        aware = time if time.tzinfo else time.replace(tzinfo=zoneinfo.ZoneInfo(self.timezone))
        return aware.astimezone(datetime.UTC).replace(tzinfo=None)


def read_policy(course: Path) -> tuple[CoursePolicy | None, str]:
    """Returns what a course's policy.toml says, and the file's SHA-256; None and "" if there is none.

    Raises:
        PolicyError: it is no TOML, a setting means nothing, or a value is none that it can have.
    """
    path = course / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        raise PolicyError(f"{printable(str(path))} cannot be read ({error.strerror})") from None
    try:
        policy = msgspec.convert(tomllib.loads(data.decode("utf-8-sig")), CoursePolicy)
        _check(policy)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        reason = str(error).replace("\n", " ").replace("Object contains", "it contains")
        raise PolicyError(f"{printable(str(path))}: {reason}. docs/teaching.md has an example") from None
    return policy, hashlib.sha256(data).hexdigest()


def _check(policy: CoursePolicy) -> None:
    """Raises ValueError with the setting that cannot be."""
    try:
        zoneinfo.ZoneInfo(policy.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, OSError):
        raise ValueError(
            f"timezone: {policy.timezone!r} is no time zone; they have names such as Europe/Berlin"
        ) from None
    rules = {"late": policy.late} | {f"assignments.{name}.late": one.late for name, one in policy.assignments.items()}
    for name, rule in rules.items():
        if rule is not None:
            _check_rule(name, rule)
    for group in policy.drop_lowest:
        if not 0 <= group.count < len(set(group.assignments)):
            raise ValueError(
                f"drop_lowest: count = {group.count} of {len(set(group.assignments))} assignments leaves none, or is negative"
            )
    for name, one in policy.assignments.items():
        for student, given in one.extensions.items():
            if not isinstance(given, datetime.datetime) and not (isinstance(given, str) and SPAN.fullmatch(given)):
                raise ValueError(
                    f"assignments.{name}.extensions.{student}: {given!r} is neither a time nor a span such as '3 days'"
                )


def _check_rule(name: str, rule: LateRule) -> None:
    if rule.steps and rule.percent_a_day:
        raise ValueError(f"{name}: give percent_a_day or steps, not both")
    percents = (rule.percent_a_day, rule.most_percent, *(step.percent for step in rule.steps))
    spans = (rule.grace_minutes, *(step.hours for step in rule.steps))
    if not all(0 <= number <= 100 for number in percents) or not all(0 <= number < math.inf for number in spans):
        raise ValueError(f"{name}: percentages are from 0 to 100, hours and minutes are not negative")


def _span(text: str) -> datetime.timedelta:
    number, unit = text.split(" ")
    return datetime.timedelta(**{unit.removesuffix("s") + "s": float(number)})
