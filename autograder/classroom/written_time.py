"""Times as platforms write them for people: with or without a zone, in English or with the names of months in another language."""

from __future__ import annotations

import contextlib
import datetime
import re
import unicodedata
import zoneinfo
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from autograder.errors import InputError
from autograder.grade.submission_time import YEAR, read_time

CLOCK = re.compile(r"(?<!\d)(\d{1,2})[:.](\d\d)(?::\d\d)?(?!\d)")
LONGEST_FILLER = 3  # maximum number of letters of a word to ignore, such as "de", "den", "kl", "г" and "年"


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
        InputError: they are two zones, or the due dates of policy.toml are in UTC and a command names another zone.
        PolicyError: policy.toml cannot be used.
    """
    from autograder.grade.policy import FILE, read_policy  # imports nbgrader

    policy, _ = read_policy(course)
    if policy is None or policy.timezone is None:
        if policy is not None and policy.has_local_times and str(named or "UTC") != "UTC":
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


def parse_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Return the time in a text, in `zone` if the text contains none; None without a time, or if the text contains another zone."""
    if (time := read_time(text, zone)) is not None:
        return time
    with contextlib.suppress(ValueError):
        return _in_words(unicodedata.normalize("NFKC", text.strip().casefold()), zone)
    return None


def looks_like_time(text: str) -> bool:
    """Return whether a text contains a year and a time of day, in any language."""
    return YEAR.search(text) is not None and ":" in text


def _in_words(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time in a text of any language; None if a word is unknown or the weekday does not fit."""
    clock, year = CLOCK.search(text), YEAR.search(text)
    if clock is None or year is None:
        return None
    rest, tables = f"{text[: clock.start()]} {text[clock.end() :]}", _time_words()
    numbers, words = [int(number) for number in re.findall(r"\d+", rest)], _words(rest)
    fillers = {word for word in words if not any(word in table for table in tables)}
    if any(len(word) > LONGEST_FILLER for word in fillers) or fillers & set(_words(text[clock.end() :])):
        return None  # a word after the hour may mean the afternoon
    months, days, later = ({number for word in words for number in table.get(word, ())} for table in tables)
    if len(numbers) == 3 and numbers[0] == int(year[0]):
        months = {numbers.pop(1)}  # the order year, month, day, as in Chinese
    numbers.remove(int(year[0]))
    if len(numbers) != 1:
        return None
    hour = int(clock[1]) % 12 + max(later) if later else int(clock[1])
    minutes = datetime.time(hour, int(clock[2]), tzinfo=zone)
    times = [datetime.datetime.combine(datetime.date(int(year[0]), month, numbers[0]), minutes) for month in months]
    fitting = [time for time in times if not days or time.weekday() in days]
    return fitting[0] if len(fitting) == 1 else None


@cache
def _time_words() -> tuple[dict[str, set[int]], dict[str, set[int]], dict[str, set[int]]]:
    """Return the words of all languages in the Unicode Consortium's tables (CLDR, read by Babel).

    The tables give the numbers of months, those of weekdays, and the hours to add: 12 for the afternoon, 0 for the
    morning. A word may have different numbers in two languages.
    """
    from babel import Locale, localedata

    months, days, afternoon = (defaultdict[str, set[int]](set) for _ in range(3))
    for language in filter(re.compile("[a-z]{2}").fullmatch, localedata.locale_identifiers()):
        locale = Locale.parse(language)
        for form in ("format", "stand-alone"):
            _add(months, locale.months[form]["wide"].items())
            _add(days, locale.days[form]["wide"].items())
        halves = locale.day_periods.get("format", {}).get("wide", {})
        _add(afternoon, [(hours, halves[half]) for half, hours in (("am", 0), ("pm", 12)) if half in halves])
    return months, days, afternoon


def _add(table: dict[str, set[int]], named: Iterable[tuple[int, str]]) -> None:
    for number, name in named:
        if len(words := _words(unicodedata.normalize("NFKC", name.casefold()))) == 1:
            table[words[0]].add(number)


def _words(text: str) -> list[str]:
    """Return the words of a text; "p. m." and "μ.μ." count as one word."""
    return re.findall(r"[^\W\d_]+(?:-[^\W\d_]+)*", re.sub(r"\b([^\W\d_])\. ?([^\W\d_])\b\.?", r"\1\2", text))
