"""The policy.toml of a course: due dates, extensions, late penalties, excused students, dropped assignments.

For assignments without an entry, nbgrader's own due dates, extensions and late plugin apply.
"""

from __future__ import annotations

import datetime
import hashlib
import math
import re
import tomllib
import zoneinfo
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from nbgrader.api import SubmittedAssignment, SubmittedNotebook
from traitlets import TraitError
from traitlets.config import Config

from autograder.errors import InputError, printable
from autograder.grade.nbgrader_adapter import late_plugin, seconds_late
from autograder.grade.submission_time import known_zone

FILE = "policy.toml"
DAY = 86_400.0
# The expected values of settings, for msgspec's messages, which name only the wrong one.
EXPECTED = {
    "missing": 'use "zero" or "blank"',
    "counts": 'use "last", "last-in-time" or "best"',
    "predictions": 'use "outcome" or "completion"',
    "of": 'use "earned" or "maximum"',
    "due": "write a day and a time, such as 2026-10-03T23:59:00",
}
SPAN = re.compile(r"(\d+(?:\.\d+)?) (days?|hours?)")


class LateStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step of a late penalty: work that is late by more than `hours` loses `percent`, until the next step."""

    hours: float
    percent: float


class LateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The penalty for late work."""

    percent_a_day: float = 0.0  # for each started day after the due date
    steps: tuple[LateStep, ...] = ()  # percentages by lateness, instead of `percent_a_day`
    grace_minutes: float = 0.0  # work that is late by at most this time is not late
    most_percent: float = 100.0  # upper limit of the penalty
    of: Literal["earned", "maximum"] = "earned"  # the points to which the percentage applies

    def percent(self, seconds: float) -> float:
        """Return the percentage that work loses if it is late by this number of seconds."""
        if seconds <= 60 * self.grace_minutes:
            return 0.0
        passed = [(step.hours, step.percent) for step in self.steps if seconds > 3600 * step.hours]
        lost = max(passed, default=(0.0, 0.0))[1] if self.steps else self.percent_a_day * math.ceil(seconds / DAY)
        return min(lost, self.most_percent)


class AssignmentPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of one assignment."""

    due: datetime.datetime | None = None  # None keeps nbgrader's own due date
    extensions: dict[str, Any] = {}  # by student: a later due date, or a span such as "3 days"; checked by `_check`
    excused: tuple[str, ...] = ()  # students for whom it does not count
    late: LateRule | None = None  # instead of the course's rule
    predictions: Literal["outcome", "completion"] = "outcome"  # "completion" gives points for any prediction


class DropLowest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule by which the `count` assignments with the lowest share of points, among those listed, do not count."""

    assignments: tuple[str, ...]
    count: int = 1


class CoursePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rules of a course."""

    timezone: str | None = None  # of times without a zone; None means UTC for the times in this file
    late: LateRule | None = None  # None leaves late work to nbgrader's plugin
    assignments: dict[str, AssignmentPolicy] = {}
    drop_lowest: tuple[DropLowest, ...] = ()
    left: tuple[str, ...] = ()  # students who have left the course: excused from all assignments, and in no list
    # Without a submission: "zero" is also 0 points on the platform; "blank" does not count in the course's table either.
    missing: Literal["zero", "blank"] | None = None
    # Which of several submissions counts: `collect` takes the last one, or the last one in time if there is one; `grade`
    # compares all of them and takes the one with the most points after its late penalty.
    counts: Literal["last", "last-in-time", "best"] = "last"

    def rule(self, assignment: str) -> LateRule | None:
        """Return the rule for late work on an assignment; None if nbgrader's plugin decides."""
        return self.of(assignment).late or self.late

    def of(self, assignment: str) -> AssignmentPolicy:
        """Return the rules of an assignment."""
        return self.assignments.get(assignment, AssignmentPolicy())

    def excluded(self, assignment: str) -> set[str]:
        """Return the students for whom an assignment does not count: the excused ones, and those who have left the course."""
        return {*self.of(assignment).excused, *self.left}

    def due(self, assignment: str) -> datetime.datetime | None:
        """Return the due date as nbgrader stores it, in UTC without a zone; None if nbgrader's own due date applies."""
        due = self.of(assignment).due
        return None if due is None else self._stored(due)

    def extension(self, assignment: str, student: str, due: datetime.datetime) -> datetime.timedelta | None:
        """Return the time after the due date within which a student may submit; None without an extension."""
        extension = self.of(assignment).extensions.get(student)
        if extension is None:
            return None
        until = self._stored(self._after(due, extension) if isinstance(extension, str) else extension)
        return max(until - due, datetime.timedelta()) or None

    def is_in_time(self, assignment: str, student: str, time: datetime.datetime) -> bool:
        """Return whether work that was submitted at a time, with its zone, is not late by the due date of this file."""
        due, rule = self.due(assignment), self.rule(assignment)
        if due is None:
            return True
        more = self.extension(assignment, student, due) or datetime.timedelta()
        grace = datetime.timedelta(minutes=rule.grace_minutes if rule else 0)
        return time.astimezone(datetime.UTC).replace(tzinfo=None) <= due + more + grace

    def _stored(self, time: datetime.datetime) -> datetime.datetime:
        aware = time if time.tzinfo else time.replace(tzinfo=self.zone)
        return aware.astimezone(datetime.UTC).replace(tzinfo=None)

    def _after(self, due: datetime.datetime, span: str) -> datetime.datetime:
        """Return the time a span after a due date in UTC; days end at the same time of day, also if the clocks change."""
        number, unit = span.split(" ")
        begin = due.replace(tzinfo=datetime.UTC)
        if unit.startswith("day"):
            return begin.astimezone(self.zone) + datetime.timedelta(days=float(number))
        return begin + datetime.timedelta(hours=float(number))

    @property
    def has_local_times(self) -> bool:
        """Whether a due date or an extension has no time zone."""
        times = [time for rules in self.assignments.values() for time in (rules.due, *rules.extensions.values())]
        return any(isinstance(time, datetime.datetime) and time.tzinfo is None for time in times)

    @property
    def zone(self) -> zoneinfo.ZoneInfo:
        """The time zone of times without one."""
        return zoneinfo.ZoneInfo(self.timezone or "UTC")


def read_policy(course: Path) -> tuple[CoursePolicy, str]:
    """Return a course's policy.toml and the file's SHA-256 digest, "" without a file. Raise InputError if it is unusable."""
    path = course / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return CoursePolicy(), ""
    except OSError as error:
        raise InputError(f"{printable(str(path))} cannot be read ({error.strerror})") from None
    try:
        policy = msgspec.convert(tomllib.loads(data.decode("utf-8-sig")), CoursePolicy)
        _check(policy)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, ValueError) as error:
        reason = str(error).replace("\n", " ").replace("Object contains", "it contains")
        setting = reason.rpartition(".")[2].rstrip("`")
        reason += f" ({EXPECTED[setting]})" if setting in EXPECTED else ""
        raise InputError(f"{printable(str(path))}: {reason}. docs/classroom.md has an example") from None
    return policy, hashlib.sha256(data).hexdigest()


def _check(policy: CoursePolicy) -> None:
    """Raise ValueError, with the name of the setting, if a setting is impossible."""
    if known_zone(policy.timezone or "UTC") is None:
        raise ValueError(f"timezone: {policy.timezone!r} is not a time zone; use a name such as Europe/Berlin")
    rules = {"late": policy.late} | {
        f"assignments.{name}.late": rules.late for name, rules in policy.assignments.items()
    }
    for name, rule in rules.items():
        if rule is not None:
            _check_rule(name, rule)
    for group in policy.drop_lowest:
        if not 0 <= group.count < (total := len(set(group.assignments))):
            raise ValueError(f"drop_lowest: count = {group.count} of {total} assignments leaves none, or is negative")
    for name, assignment in policy.assignments.items():
        for student, given in assignment.extensions.items():
            if not isinstance(given, datetime.datetime) and not (isinstance(given, str) and SPAN.fullmatch(given)):
                raise ValueError(
                    f"assignments.{name}.extensions.{student}: {str(given)!r} is neither a time nor a span such as '3 days'"
                )


def _check_rule(name: str, rule: LateRule) -> None:
    if rule.steps and rule.percent_a_day:
        raise ValueError(f"{name}: give percent_a_day or steps, not both")
    percents = (rule.percent_a_day, rule.most_percent, *(step.percent for step in rule.steps))
    spans = (rule.grace_minutes, *(step.hours for step in rule.steps))
    if not all(0 <= number <= 100 for number in percents) or not all(0 <= number < math.inf for number in spans):
        raise ValueError(f"{name}: percentages must be from 0 to 100, and hours and minutes must not be negative")


def course_total(
    policy: CoursePolicy, student: str, scores: Mapping[str, tuple[float, float]]
) -> tuple[float, float, tuple[str, ...]]:
    """Return a student's points, the maximum of the assignments that count, and the assignments that do not count.

    `scores` contains the points (0 without a submission) and the maximum of each assignment.
    """
    counting = {name: score for name, score in scores.items() if student not in policy.excluded(name)}
    dropped: list[str] = []
    for rule in policy.drop_lowest:
        listed = [name for name in rule.assignments if name in counting]
        shares = {name: points / most if most else 1.0 for name, (points, most) in counting.items()}
        lowest = sorted(listed, key=lambda name: (shares[name], name))
        dropped += lowest[: min(rule.count, len(listed) - 1)]  # keep one, or the student would have no points at all
    counted = [score for name, score in counting.items() if name not in dropped]
    return sum(points for points, _ in counted), sum(most for _, most in counted), tuple(dropped)


class LatePolicy:
    """Due dates, extensions and late penalties, from a course's policy.toml or else from nbgrader's configuration."""

    def __init__(self, settings: Config) -> None:
        """Read both. Raise InputError if policy.toml cannot be used, or the configured plugin cannot be loaded."""
        root = settings.CourseDirectory.get("root", "")
        self._policy, self.digest = read_policy(Path(root)) if root else (CoursePolicy(), "")
        try:
            self._plugin = late_plugin(settings)
        except (TraitError, ImportError) as error:
            raise InputError(
                f"nbgrader_config.py: the late policy cannot be used ({error}). Correct c.AssignLatePenalties.plugin_class"
            ) from None

    def penalise(self, submission: SubmittedAssignment) -> None:
        """Set the due date, the extension, and the penalty of each notebook; remove the penalty of work that is no longer late."""
        self._set_dates(submission)
        late = seconds_late(submission)
        if not late and not submission.late_submission_penalty:
            return
        for notebook in submission.notebooks:
            notebook.late_submission_penalty = None
            penalty = self._penalty(submission, notebook, late) if late else None
            if penalty is not None:
                notebook.late_submission_penalty = min(max(penalty, 0), notebook.score)

    def _set_dates(self, submission: SubmittedAssignment) -> None:
        assignment = submission.assignment
        if (due := self._policy.due(assignment.name)) is not None and assignment.duedate != due:
            assignment.duedate = due
        if assignment.name in self._policy.assignments:  # then only the extensions of the file apply
            due = assignment.duedate
            extension = self._policy.extension(assignment.name, submission.student_id, due) if due else None
            if submission.extension != extension:
                submission.extension = extension

    def _penalty(self, submission: SubmittedAssignment, notebook: SubmittedNotebook, late: float) -> float | None:
        rule = self._policy.rule(submission.assignment.name)
        if rule is None:
            return self._plugin.late_submission_penalty(submission.student_id, notebook.score, late)
        points = notebook.score if rule.of == "earned" else notebook.max_score
        return round(points * rule.percent(late) / 100, 2)
