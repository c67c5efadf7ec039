"""Times as Moodle, nbgrader and people write them."""

import datetime
import zoneinfo

import pytest
from babel.dates import format_datetime

from autograder.classroom.written_time import parse_time

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
TIME = datetime.datetime(2026, 10, 3, 13, 50, tzinfo=BERLIN)


@pytest.mark.parametrize(
    "text",
    [
        "Saturday, 3 October 2026, 1:50 PM",  # Moodle's, by its language packs: strftimedaydatetime
        "Samstag, 3. Oktober 2026, 13:50",
        "samedi 3 octobre 2026, 13:50",
        "sábado, 3 de octubre de 2026, 13:50",
        "sábado, 3 de octubre de 2026, 1:50 p. m.",
        "sobota, 3 października 2026, 13:50",
        "суббота, 3 октября 2026, 13:50",
        "2026年10月3日 星期六 13:50",
        "2026년 10월 3일(토요일), 01:50 오후",
        "2026-10-03 13:50:00 CEST",  # nbgrader's, by `Exchange.timezone`
        "2026-10-03 11:50:00 UTC",
        "2026-10-03 07:50:00 -04:00",
        "2026-10-03 13:50",
        "2026-10-03 13.50",
        "3.10.2026 13:50",
        "Oct 3, 2026 1:50 pm",
    ],
)
def test_one_time_in_many_forms(text):
    """All of them say ten to two in Berlin."""
    assert TIME == parse_time(text, BERLIN)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Sonntag, 3. Oktober 2026, 13:50", id="another day of the week"),
        pytest.param("السبت، 3 أكتوبر 2026، 1:50 م", id="a half of the day that is not known"),
        pytest.param("2026-10-03 13:50 PST", id="a zone of several countries"),
        pytest.param("Submitted - Extension granted until: Saturday, 3 October 2026, 1:50 PM", id="a sentence"),
        pytest.param("Verlängert bis Samstag, 3. Oktober 2026, 13:50", id="a sentence in German"),
        pytest.param("31. Februar 2026, 13:50", id="no such day"),
        pytest.param("3 2026, 13:50", id="no day"),
        pytest.param("14:10", id="no day at all"),
        pytest.param("3/10/2026 13:50", id="March or October"),
        pytest.param("2026-10-03", id="a day alone, which is not midnight"),
        pytest.param("-", id="none"),
        pytest.param("", id="nothing"),
    ],
)
def test_what_may_be_another_time_is_none(text):
    """Rather no time than a wrong one."""
    assert parse_time(text, BERLIN) is None


LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "sv", "fi", "pl", "cs", "hr", "hu", "ru", "uk", "el", "tr", "zh", "ja")  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_month_of_a_language(language):
    """Babel writes each month's 3rd, with its day of the week; the same day is read."""
    for month in range(1, 13):
        time = datetime.datetime(2026, month, 3, 13, 50, tzinfo=BERLIN)
        form = "y年M月d日 EEEE H:mm" if language in ("zh", "ja", "ko") else "EEEE, d MMMM y, H:mm"
        assert time == parse_time(format_datetime(time, form, locale=language), BERLIN)
