"""Times of submissions as programs write them: in ISO 8601 with an offset, or in English with the name of a zone."""

from __future__ import annotations

import contextlib
import datetime
import re
import zoneinfo
from functools import partial

DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.")  # day and month, in this order
CLOCK = re.compile(r"\d:\d\d|T\d\d|\d ?[ap]\.?m\b", re.IGNORECASE)
YEAR = re.compile(r"(?<!\d)20\d\d(?!\d)")
BEFORE_OFFSET = re.compile(r"\s+(?=[+-]\d\d(:?\d\d)?$)")
OTHER_DAYS = (datetime.datetime(2000, 1, 1), datetime.datetime(2001, 2, 2))  # the zone comes from the text


def read_time(text: str, zone: datetime.tzinfo = datetime.UTC) -> datetime.datetime | None:
    """Return the time in a text; None if the text has no time or no day, or is ambiguous.

    Examples are "2026-03-02 23:59:00 +0100", "2026-03-02T22:59:00Z", "2026-03-02 23:59:00 Europe/Berlin" and
    "March 2, 2026 11:59 PM". `zone` applies to times without a zone; an abbreviation such as "CEST" is accepted if it
    belongs to `zone`.
    """
    text = text.strip()
    if not CLOCK.search(text):  # fromisoformat reads a day alone as midnight, and dateutil 14.10 as a part of an hour
        return None
    with contextlib.suppress(ValueError):
        return _in_zone(datetime.datetime.fromisoformat(BEFORE_OFFSET.sub("", text)), zone)
    try:
        return _in_english(text, zone)
    except (ValueError, OverflowError):  # another form, or another zone
        return None


def _in_english(text: str, zone: datetime.tzinfo) -> datetime.datetime | None:
    """Return the time in a text; None if the day is missing, or is ambiguous such as 3/10, which may be in March or in October."""
    from dateutil.parser import parse  # imported here because only commands that read times need it

    written, _, last = text.rpartition(" ")
    with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        text, zone = written, zoneinfo.ZoneInfo(last)
    orders = [True] if DOTTED.match(text) else [False] if YEAR.match(text) else [False, True]
    zones = partial(_named_zone, zone=zone)
    readings = {parse(text, tzinfos=zones, default=day, dayfirst=order) for day in OTHER_DAYS for order in orders}
    time = readings.pop()
    return None if readings else _in_zone(time, zone)


def _in_zone(time: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    return time if time.tzinfo else time.replace(tzinfo=zone)


def _named_zone(name: str | None, offset: int | None, zone: datetime.tzinfo) -> datetime.tzinfo | None:
    if offset is not None:
        return datetime.timezone(datetime.timedelta(seconds=offset))
    if name is None or name in {zone.tzname(datetime.datetime(2026, month, 1)) for month in (1, 7)}:
        return None if name is None else zone
    raise ValueError(f"another zone: {name}")
