"""The commands of the teacher's desk: their options, and how they reach the rooms."""

from __future__ import annotations

import argparse
import datetime
import zoneinfo
from pathlib import Path
from typing import Any

ROSTER = "roster.csv"
PLATFORMS = ("auto", "canvas", "moodle", "blackboard", "gradescope", "nbgrader")


def add_to(verbs: Any) -> None:
    """Adds the commands and their options to the parser's verbs."""
    collect = verbs.add_parser("collect", help="put a platform's download where nbgrader looks")
    collect.add_argument("download", type=Path, metavar="ZIP", help="the platform's zip, or a folder")
    _add_class(collect)
    collect.add_argument("--from", dest="platform", choices=PLATFORMS, default="auto", help="where it was downloaded")
    collect.add_argument(
        "--roster",
        type=Path,
        metavar="CSV",
        help=f"who is in the class: the platform's own file (default: {ROSTER} in the course)",
    )
    collect.add_argument("--student-column", metavar="NAME", help="the roster's column that becomes nbgrader's id")
    collect.add_argument("--timezone", type=_zone, metavar="NAME", help="of times without one, such as Europe/Berlin")
    collect.add_argument("--json", action="store_true", help="one JSON object on standard output")
    collect.set_defaults(run=_collect)


def _add_class(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("assignment", help="a lesson's name")
    verb.add_argument("--course", type=Path, metavar="DIR", help="its folder (default: class/ in a clone, else here)")


def _zone(name: str) -> datetime.tzinfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise argparse.ArgumentTypeError(f"{name!r} is no time zone; they have names such as Europe/Berlin") from None


def _collect(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.desk.collect.collect_report import print_collection
    from autograder.desk.collect.collection import as_json, collect
    from autograder.desk.roster import Roster, read_roster

    course = chosen.course or CLASS
    listed = chosen.roster or (course / ROSTER if (course / ROSTER).is_file() else None)
    roster = read_roster(listed, chosen.student_column) if listed else Roster([])
    zone = chosen.timezone or datetime.datetime.now().astimezone().tzinfo or datetime.UTC
    done = collect(chosen.download, chosen.assignment, course, roster, chosen.platform, zone)
    print(as_json(done)) if chosen.json else print_collection(done, chosen.assignment)
    return 1 if done.questions else 0
