"""The command `grade`: its options, and how they reach the grader."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autograder.commands.number_options import positive
from autograder.errors import InputError
from autograder.grade.sandbox.isolation.levels import LEVELS, STRONGEST
from autograder.installation.another_python import continue_in
from autograder.installation.requirements import require
from autograder.loading import loading
from autograder.locale.translations import translated

if TYPE_CHECKING:
    from autograder.grade.batch.assignment import BatchProgress, Options
    from autograder.grade.batch.course.classroom import Classroom
    from autograder.grade.rehearsal.rehearsal import Rehearsal
    from autograder.grade.rehearsal.rehearsal_steps import OnStep
    from autograder.grade.where.grading_job import GradingPlace

# Option of `grade`, its form, and what it limits for one submission; each has the name of a setting c.Autograder in
# nbgrader_config.py.
LIMIT_OPTIONS = (
    ("--cell-seconds", positive(float), "seconds for one cell"),
    ("--submission-seconds", positive(float), "seconds for all cells together"),
    ("--memory-mib", positive(int), "MiB of memory"),
    ("--processes", positive(int), "processes and threads at once"),
)


def add_to(verbs: Any) -> None:
    """Adds the command and its options to the parser's verbs."""
    grade = verbs.add_parser("grade", help=translated("grade a class: isolated, into nbgrader's gradebook"))
    grade.add_argument("assignment", help="a lesson's name")
    grade.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help="holds submitted/STUDENT/ASSIGNMENT (default: class/ in a clone, else here)",
    )
    grade.add_argument("--jobs", type=positive(int), default=0, help="submissions at once (default: one for each core)")
    grade.add_argument(
        "--isolation", choices=tuple(LEVELS), default=STRONGEST, help="grade nothing if this machine does not reach it"
    )
    grade.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on a Dask cluster: a scheduler's address or file, a table of cluster.toml, or local:N; --jobs is per worker",
    )
    grade.add_argument(
        "--certificates", type=Path, metavar="DIR", help="for --cluster tls://…: ca.pem, cert.pem, key.pem"
    )
    grade.add_argument("--resume", action="store_true", help="continue an interrupted run")
    grade.add_argument("--force", action="store_true", help="grade unchanged submissions again")
    grade.add_argument("--dry-run", action="store_true", help="only say whose marks would move, by how much and why")
    grade.add_argument("--one-process", action="store_true", help="run tests beside the answers, as nbgrader does")
    grade.add_argument(
        "--two-processes",
        action="store_true",
        help="a test that cannot be judged from outside the submission marks nobody",
    )
    grade.add_argument(
        "--feedback", choices=("off", "none", "name", "message"), default="name", help="what to show of hidden tests"
    )
    for option, form, limited in LIMIT_OPTIONS:
        grade.add_argument(option, type=form, help=f"{limited} (default: the course's nbgrader_config.py)")
    grade.add_argument("--python", metavar="PATH", help="grade with the packages of another Python")
    grade.add_argument("--json", action="store_true", help="one JSON object on standard output")
    grade.set_defaults(run=_grade)


def _grade(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.grade.batch.pending import has_pending_work
    from autograder.grade.sandbox.isolation.levels import require_level
    from autograder.grade.sandbox.launch import parallel_jobs

    if chosen.python:
        continue_in(chosen.python, chosen.words)
    course = chosen.course or CLASS
    if chosen.cluster is not None:
        return _grade_on_cluster(chosen, course)
    if chosen.certificates:
        raise InputError("--certificates goes with --cluster tls://HOST:PORT")
    from autograder.grade.where.this_machine import ThisMachine

    with ThisMachine(require_level(chosen.isolation), parallel_jobs(chosen.jobs)) as machine:
        if chosen.force or has_pending_work(course, chosen.assignment):
            machine.start()  # its servers import PyTorch while this process does
        _known_class(course, chosen.assignment)
        return _grade_class(chosen, course, machine)


def _grade_on_cluster(chosen: argparse.Namespace, course: Path) -> int:
    require("grade --cluster")
    from autograder.grade.where.cluster.cluster_choice import choose_cluster

    chosen_cluster = choose_cluster(chosen.cluster, course, chosen.certificates, chosen.isolation, chosen.jobs)
    # A misspelt assignment, or one that another client grades, must not start a cluster's machines first.
    classroom = _known_class(course, chosen.assignment)
    from autograder.grade.batch.records.grading_lock import only_client

    with contextlib.nullcontext() if chosen.dry_run else only_client(classroom.gradebook, chosen.assignment):
        pass
    with chosen_cluster as cluster:
        return _grade_class(chosen, course, cluster)


def _known_class(course: Path, assignment: str) -> Classroom:
    """Returns the class; its policy.toml was read, and names nobody who is not known."""
    with loading():
        from autograder.grade.sandbox.warmup import import_nbformat

        import_nbformat()  # before nbgrader, which imports it as it is
        from autograder.desk.policy_names import checked_policy
        from autograder.grade.batch.course.classroom import open_class
    classroom = open_class(course, assignment)
    checked_policy(classroom)
    return classroom


class _Shown(NamedTuple):
    """What a run shows while it goes on."""

    draw: Callable[[BatchProgress], None]
    announce: Callable[[list[Rehearsal]], None]
    on_step: OnStep


@contextlib.contextmanager
def _shown(announced: list[str]) -> Iterator[_Shown]:
    """Yields what shows a rehearsal's steps, then what it found, then the class; adds the lines that it found to a list."""
    from autograder.grade.batch.report_lines import progress_bar
    from autograder.grade.rehearsal.rehearsal_report import announcement
    from autograder.grade.rehearsal.rehearsal_steps import shown_steps

    draw: list[Callable[[BatchProgress], None]] = []
    with contextlib.ExitStack() as bar, contextlib.ExitStack() as steps:

        def announce(rehearsals: list[Rehearsal]) -> None:
            steps.close()  # one bar at a time
            announced.extend(announcement(rehearsals))
            print("".join(f"{line}\n" for line in announced), end="", file=sys.stderr, flush=True)
            draw.append(bar.enter_context(progress_bar()))

        yield _Shown(lambda done: draw[0](done), announce, steps.enter_context(shown_steps()))


def _grade_class(chosen: argparse.Namespace, course: Path, place: GradingPlace) -> int:
    with loading():
        from autograder.grade.batch.assignment import grade_assignment
        from autograder.grade.batch.dry_run import dry_run
        from autograder.grade.batch.report_lines import as_json, moved_as_json, print_moved, print_report

    announced: list[str] = []
    options = _options(chosen)
    if chosen.dry_run:
        with _shown(announced) as shown:
            moved = dry_run(chosen.assignment, course, options, shown.draw, place, shown.announce, shown.on_step)
        print(moved_as_json(moved)) if chosen.json else print_moved(moved)
        return 1 if moved else 0
    with _shown(announced) as shown:
        rows = grade_assignment(chosen.assignment, course, options, shown.draw, place, shown.announce, shown.on_step)
    print(as_json(rows)) if chosen.json else print_report(rows)
    return 1 if announced or any(row.problems for row in rows) else 0


def _options(chosen: argparse.Namespace) -> Options:
    from autograder.grade.batch.assignment import Options

    return Options(
        jobs=chosen.jobs,
        isolation=chosen.isolation,
        resume=chosen.resume and not chosen.dry_run,
        force=chosen.force,
        one_process=chosen.one_process,
        two_processes=chosen.two_processes,
        feedback=chosen.feedback,
        chosen_limits=_chosen_limits(chosen),
    )


def _chosen_limits(chosen: argparse.Namespace) -> dict[str, float]:
    names = [option.removeprefix("--").replace("-", "_") for option, _, _ in LIMIT_OPTIONS]
    return {name: value for name in names if (value := getattr(chosen, name)) is not None}
