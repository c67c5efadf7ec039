"""Times of submissions as programs and platforms write them: in ISO 8601, in English, or with the names of another language."""

from __future__ import annotations

import contextlib
import datetime
import re
import unicodedata
import zoneinfo
from collections import defaultdict
from collections.abc import Iterable
from functools import cache, partial

DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.")  # day and month, in this order
CLOCK = re.compile(r"\d:\d\d|T\d\d|\d ?[ap]\.?m\b", re.IGNORECASE)
YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)")
HOUR = re.compile(r"(?<!\d)(\d{1,2})[:.](\d\d)(?::\d\d)?(?!\d)")
LONGEST_FILLER = 3  # maximum number of letters of a word to ignore, such as "de", "den", "kl", "г" and "年"
BEFORE_OFFSET = re.compile(r"\s+(?=[+-]\d\d(:?\d\d)?$)")
OTHER_DAYS = (datetime.datetime(2000, 1, 1), datetime.datetime(2001, 2, 2))  # the zone comes from the text


def read_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Return the time in a text; None if the text has no time or no day, or is ambiguous.

    Examples are "2026-03-02 23:59:00 +0100", "2026-03-02T22:59:00Z", "2026-03-02 23:59:00 Europe/Berlin",
    "March 2, 2026 11:59 PM" and "lunedì 2 marzo 2026, 23:59". `zone` applies to times without a zone; an abbreviation
    such as "CEST" is accepted if it belongs to `zone`.
    """
    text = text.strip()
    if CLOCK.search(text):  # fromisoformat reads a day alone as midnight, and dateutil 14.10 as a part of an hour
        with contextlib.suppress(ValueError):
            return _in_zone(datetime.datetime.fromisoformat(BEFORE_OFFSET.sub("", text)), zone)
        with contextlib.suppress(ValueError, OverflowError):  # another form, or another zone
            if (time := _in_english(text, zone)) is not None:
                return time
    with contextlib.suppress(ValueError):
        return _in_words(unicodedata.normalize("NFKC", text.casefold()), zone)
    return None


def _in_english(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time in a text; None if the day is missing, or is ambiguous such as 3/10, which may be in March or in October."""
    from dateutil.parser import parse  # imported here because only commands that read times need it

    written, _, last = text.rpartition(" ")
    if not last.isupper() and (named := known_zone(last)):  # "EST" and others are names of zones, too
        text, zone = written, named
    orders = [True] if DOTTED.match(text) else [False] if YEAR.match(text) else [False, True]
    zones = partial(_named_zone, zone=zone)
    readings = {parse(text, tzinfos=zones, default=day, dayfirst=order) for day in OTHER_DAYS for order in orders}
    time = readings.pop()
    return None if readings else _in_zone(time, zone)


def known_zone(name: str) -> zoneinfo.ZoneInfo | None:
    """Return the time zone with a name such as Europe/Berlin; None if there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):  # a name may also be a path, or a folder of zones
        return None


def _in_zone(time: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    return time if time.tzinfo else time.replace(tzinfo=zone)


def _named_zone(name: str | None, offset: int | None, zone: datetime.tzinfo) -> datetime.tzinfo | None:
    if offset is not None:
        return datetime.timezone(datetime.timedelta(seconds=offset))
    if name is None or name in {zone.tzname(datetime.datetime(2026, month, 1)) for month in (1, 7)}:
        return None if name is None else zone
    raise ValueError(f"another zone: {name}")


def looks_like_time(text: str) -> bool:
    """Return whether a text contains a year and a time of day, in any language."""
    return YEAR.search(text) is not None and ":" in text


def _in_words(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time in a text of any language; None if a word is unknown or the weekday does not fit."""
    clock, year = HOUR.search(text), YEAR.search(text)
    if clock is None or year is None:
        return None
    date_text, tables = f"{text[: clock.start()]} {text[clock.end() :]}", _time_words()
    numbers, words = [int(number) for number in re.findall(r"\d+", date_text)], _words(date_text)
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
