"""The commands for teachers that exchange data with platforms, and their options."""

from __future__ import annotations

import argparse
import datetime
import shlex
import zoneinfo
from pathlib import Path
from typing import Any

from autograder.classroom.roster import FILE as ROSTER
from autograder.classroom.roster import Roster, read_roster
from autograder.cli.run_command import add_course, count, course_of, positive
from autograder.errors import InputError, printable
from autograder.grade.sandbox.isolation import LEVELS
from autograder.grade.submission_time import known_zone
from autograder.locale.languages import LANGUAGES, language, use_language
from autograder.locale.translations import known_language, translated

PLATFORMS = ("auto", "canvas", "moodle", "blackboard", "gradescope", "nbgrader")


def add_to(subparsers: Any) -> None:
    """Add the commands and their options to the parser."""
    for add in (_add_collect, _add_return, _add_report, _add_similar, _add_read, _add_harness, _add_demo_class):
        add(subparsers)


def _add_collect(subparsers: Any) -> None:
    collect = subparsers.add_parser(
        "collect", help=translated("import a platform's download as submissions for nbgrader")
    )
    collect.add_argument("download", type=Path, metavar="ZIP", help="the platform's zip, or a folder")
    _add_class(collect)
    collect.add_argument("--from", dest="platform", choices=PLATFORMS, default="auto", help="platform of the download")
    collect.add_argument(
        "--roster",
        type=Path,
        metavar="CSV",
        help=f"class list, as exported by the platform (default: {ROSTER} in the course)",
    )
    collect.add_argument(
        "--student-column", metavar="NAME", help="column of the roster to use as nbgrader's student id"
    )
    collect.add_argument(
        "--timezone",
        type=_zone,
        metavar="NAME",
        help="time zone of timestamps that have none, such as Europe/Berlin (default: that of policy.toml)",
    )
    collect.add_argument("--json", action="store_true", help="one JSON object on standard output")
    collect.set_defaults(run=_collect)


def _add_return(subparsers: Any) -> None:
    back = subparsers.add_parser(
        "return", help=translated("fill grades into a platform's worksheet and zip the feedback")
    )
    _add_class(back)
    back.add_argument(
        "--to", choices=("canvas", "moodle", "blackboard", "csv"), required=True, help="platform of the worksheet"
    )
    back.add_argument(
        "--worksheet", type=Path, metavar="CSV", required=True, help="worksheet as downloaded; not modified"
    )
    back.add_argument("--out", type=Path, metavar="DIR", required=True, help="folder for grades.csv and feedback.zip")
    back.add_argument(
        "--column", metavar="NAME", help="column for the grades (default: the one named like the assignment)"
    )
    back.add_argument(
        "--scale",
        nargs="?",
        const="platform",
        type=_scale,
        metavar="N",
        help="scale the points to a maximum of N (without N: the platform's)",
    )
    back.add_argument(
        "--roster", type=Path, metavar="CSV", help=f"class list, as for `collect` (default: {ROSTER} in the course)"
    )
    back.set_defaults(run=_return)


def _add_report(subparsers: Any) -> None:
    report = subparsers.add_parser(
        "report", help=translated("write a one-page class report: misconceptions and discussion questions")
    )
    report.add_argument("assignment", help="the assignment's name, or `all` for the last one and the whole course")
    add_course(report)
    report.add_argument("--out", type=Path, metavar="PAGE.html", help="file to write the page to")
    report.add_argument("--json", action="store_true", help="one JSON object on standard output")
    report.add_argument("--language", default=language(), help=f"language of the page: {', '.join(LANGUAGES)}")
    report.set_defaults(run=_report)


def _add_similar(subparsers: Any) -> None:
    similar = subparsers.add_parser("similar", help=translated("show pairs of unusually similar answers"))
    _add_class(similar)
    similar.add_argument("--out", type=Path, metavar="PAGE.html", help="file to write the page to")
    similar.set_defaults(run=_similar)


def _add_read(subparsers: Any) -> None:
    reading = subparsers.add_parser("read", help=translated("export written answers as a table without names"))
    _add_class(reading)
    reading.add_argument("--sample", type=count, default=0, metavar="N", help="give N answers to a second reader")
    reading.set_defaults(run=_read)


def _add_harness(subparsers: Any) -> None:
    harness = subparsers.add_parser(
        "harness", help=translated("build the zip with which Gradescope grades submissions")
    )
    harness.add_argument("platform", choices=("gradescope",), help="target platform")
    _add_class(harness)
    harness.add_argument("--out", type=Path, metavar="ZIP", help="file to write (default: ASSIGNMENT-gradescope.zip)")
    harness.add_argument(
        "--isolation",
        choices=tuple(LEVELS),
        default="user",
        help="required isolation level; grade nothing if the container cannot provide it",
    )
    harness.add_argument(
        "--feedback", choices=("none", "name", "message"), default="name", help="details to show of failed hidden tests"
    )
    harness.add_argument(
        "--hidden-tests",
        choices=("visible", "after_due_date", "after_published", "hidden"),
        default="visible",
        help="when students see their total and the results of exercises with hidden tests",
    )
    harness.add_argument(
        "--requirements", type=Path, metavar="FILE", help="pip requirements of the lesson, in addition to PyTorch"
    )
    harness.set_defaults(run=_harness)


def _add_demo_class(subparsers: Any) -> None:
    demo = subparsers.add_parser(
        "demo-class", help=translated("create a demo class of 40 submissions to try these commands on")
    )
    demo.add_argument("folder", type=Path, metavar="DIR", help="folder to create; if it exists, it must be empty")
    demo.set_defaults(run=_demo_class)


def _add_class(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("assignment", help="the assignment's name")
    add_course(verb)


def _scale(words: str) -> float | str:
    return words if words == "platform" else positive(float)(words)


def _next_command(verb: str, chosen: argparse.Namespace) -> str:
    """Return a command with the assignment and the course of this one."""
    course = f" --course {shlex.quote(printable(str(chosen.course)))}" if chosen.course else ""
    return f"autograder {verb} {chosen.assignment}{course}"


def _zone(name: str) -> datetime.tzinfo:
    if zone := known_zone(name):
        return zone
    raise argparse.ArgumentTypeError(f"{name!r} is not a time zone; use a name such as Europe/Berlin")


class _NoZone(datetime.tzinfo):
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


def _course_zone(course: Path, named: datetime.tzinfo | None) -> datetime.tzinfo:
    """Return the zone of times without one: that of policy.toml, else the named one. Raise InputError if these differ."""
    from autograder.grade.policy import FILE, read_policy  # imports nbgrader

    policy, _ = read_policy(course)
    if policy.timezone is None:
        if policy.has_local_times and str(named or "UTC") != "UTC":
            raise InputError(
                f'{FILE} has due dates without a time zone, which are in UTC. Write `timezone = "{named}"` into it, and omit --timezone'
            )
        return named or _NoZone()
    if named is not None and str(named) != policy.timezone:
        raise InputError(
            f"{FILE} sets {policy.timezone}, and --timezone {named}. Omit --timezone, or change the file: a course has "
            "one time zone"
        )
    return zoneinfo.ZoneInfo(policy.timezone)


def _collect(chosen: argparse.Namespace) -> int:
    from autograder.classroom.collect.collection import as_json, collect, print_collection

    course = course_of(chosen)
    roster = _roster(course, chosen.roster, chosen.student_column)
    zone = _course_zone(course, chosen.timezone)
    done = collect(chosen.download, chosen.assignment, course, roster, chosen.platform, zone)
    print(as_json(done)) if chosen.json else print_collection(done, _next_command("grade", chosen))
    return 1 if done.questions else 0


def _return(chosen: argparse.Namespace) -> int:
    from autograder.classroom.return_grades import return_grades

    course = course_of(chosen)
    roster = _roster(course, chosen.roster, None)
    words = (chosen.assignment, course, chosen.to, chosen.worksheet, chosen.out, roster, chosen.column, chosen.scale)
    done = return_grades(*words)
    print(f"{done.graded} grades in {done.files[0]}, feedback of {done.with_feedback} students in {done.files[1]}")
    print("".join(f"{remark}\n" for remark in done.remarks), end="")
    return 0


def _report(chosen: argparse.Namespace) -> int:
    from autograder.classroom.report.report_page import write_report

    with use_language(known_language(chosen.language)):
        print(write_report(chosen.assignment, course_of(chosen), chosen.out, as_json=chosen.json))
    return 0


def _similar(chosen: argparse.Namespace) -> int:
    from autograder.classroom.similar_report import similar_html, similar_report
    from autograder.course.paths import write_results

    report = similar_report(chosen.assignment, course_of(chosen))
    target = chosen.out or Path(f"similar-{chosen.assignment}.html")
    write_results(target, {target: similar_html(report).encode()})
    others = f", {len(report.variants)} with the variant of another student" if report.variants else ""
    pairs = f"{len(report.pairs)} pair{'' if len(report.pairs) == 1 else 's'}"
    print(f"{report.students} submissions, {pairs}{others}; the page is {target}")
    return 0


def _read(chosen: argparse.Namespace) -> int:
    from autograder.classroom.reading import read_answers

    done = read_answers(chosen.assignment, course_of(chosen), chosen.sample)
    print(f"Imported new entries for {done.taken} of {done.answers} answers; {done.waiting} have no points yet")
    if done.second:
        print(
            f"A second reader gave {done.second.same} of {done.second.answers} answers the same points; "
            f"the mean difference is {done.second.mean_difference:.2g}"
        )
    print(f"Fill in points and comments in {done.table}, then run the same command again")
    return 0


def _harness(chosen: argparse.Namespace) -> int:
    from autograder.classroom.harness_zip import write_harness
    from autograder.course.paths import CLASS, ROOT
    from autograder.grade.validation.validate import report_lines, shown_steps

    target = chosen.out or Path(f"{chosen.assignment}-gradescope.zip")
    with shown_steps() as on_step:
        reports = write_harness(
            target,
            chosen.assignment,
            chosen.course or (CLASS if CLASS.is_dir() else ROOT),  # a lesson of the clone does not need a class
            isolation=chosen.isolation,
            hidden_tests=chosen.feedback,
            visibility=chosen.hidden_tests,
            requirements=chosen.requirements,
            on_step=on_step,
        )
    print(
        "".join(f"{line}\n" for line in [*report_lines(reports, "notes"), *report_lines(reports, "findings")]), end=""
    )
    print(f"Upload {target} to Gradescope under “Configure Autograder”")
    return 0


def _demo_class(chosen: argparse.Namespace) -> int:
    from autograder.classroom.demo_class import make_demo_class

    make_demo_class(chosen.folder)
    there = shlex.quote(printable(str(chosen.folder)))
    print(f"Created a class in {there}. Next: cd {there}, then run the commands in README.txt")
    return 0


def _roster(course: Path, named: Path | None, student_column: str | None) -> Roster:
    listed = named or (course / ROSTER if (course / ROSTER).is_file() else None)
    return read_roster(listed, student_column) if listed else Roster([])
