"""The commands `grade` and `validate-source` with their options; with `--python`, they restart in another Python."""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.cli.run_command import add_course, count, course_of, positive
from autograder.errors import InputError, SetupError
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST, require_level
from autograder.grade.wire.limits import SETTINGS
from autograder.locale.translations import translated
from autograder.requirements import CLONE, loading, require

if TYPE_CHECKING:
    from autograder.grade.backends.grading_job import OpenBackend
    from autograder.grade.batch.assignment import Options, ProgressCallbacks
    from autograder.grade.batch.course_folders import AssignmentFolders
    from autograder.grade.validation.validate import SourceReport

OLDEST = (3, 11)
START = "import sys; from autograder.cli import main; sys.exit(main())"
# Checks the other Python, in syntax that old versions understand, and prints the problem.
EXAMINATION = f"""
import sys
if sys.version_info < {OLDEST}:
    print("is Python %d.%d; autograder needs {OLDEST[0]}.{OLDEST[1]} or later" % sys.version_info[:2])
    sys.exit(3)
try:
    from autograder.requirements import require
    require(sys.argv[1])
except ImportError:
    print("does not have this package. Install it there with `pip install \\"autograd-er[grade]\\"`")
    sys.exit(3)
except Exception as error:
    print("cannot be used: %s" % error)
    sys.exit(3)
print("ready")
"""


def continue_in(python: str, words: Sequence[str]) -> None:
    """Replace this process with the same command in another Python; return if this is that Python.

    Args:
        python: its path, or its name in PATH, such as "python3.12".
        words: the command line, without the program.

    Raises:
        SetupError: it cannot be started, is too old, or lacks a package.
    """
    program = shutil.which(python)
    if program is None:
        raise SetupError(
            f"--python {python!r}: there is no such program. Specify a Python interpreter, such as course/.venv/bin/python"
        )
    # not resolved: an environment's `python` is often a link to the Python that created it
    path = os.path.abspath(program)
    if path == sys.executable:
        return
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if CLONE:  # the folder of an installed package is not added, because it contains other packages too
        environment["PYTHONPATH"] = str(CLONE)
    _examine(path, words[0], environment)
    sys.stdout.flush()
    os.execve(path, [path, "-P", "-c", START, *words], environment)


def _examine(path: str, verb: str, environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            [path, "-c", EXAMINATION, verb], env=environment, capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"--python {path}: it cannot be started ({error})") from None
    if done.stdout.strip() != "ready":
        reason = done.stdout.strip() if done.returncode == 3 else "is not a Python interpreter, or exits immediately"
        raise SetupError(f"{path} {reason}")


def add_validate_source(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    validate = subparsers.add_parser(
        "validate-source",
        aliases=["rehearse"],
        help=translated("grade a source's model answers, and report how each test is judged"),
    )
    validate.add_argument("assignment", help="the assignment's name")
    add_course(validate, "course folder with source/ASSIGNMENT")
    validate.add_argument(
        "--jobs", type=count, default=0, help="number of notebooks to grade in parallel (default: one per core)"
    )
    validate.add_argument(
        "--isolation", choices=tuple(LEVELS), default=STRONGEST, help="isolation level, as for `grade`"
    )
    validate.add_argument(
        "--two-processes",
        action="store_true",
        help="never run a test in the submission's process; a person has to grade a test that needs it",
    )
    validate.add_argument(
        "--mutants",
        type=count,
        metavar="N",
        default=40,
        help="also grade N mutants of the model answers, trivial answers, and cells tagged right or wrong (default: 40; 0: none)",
    )
    validate.set_defaults(run=_validate)


def _validate(chosen: argparse.Namespace) -> int:
    from autograder.grade.batch.assignment import validate_assignment
    from autograder.grade.validation.validate import print_report, shown_steps

    with shown_steps() as on_step:
        reports = validate_assignment(
            chosen.assignment,
            course_of(chosen),
            chosen.isolation,
            chosen.jobs,
            two_processes=chosen.two_processes,
            mutants=chosen.mutants,
            on_step=on_step,
        )
    for report, mutation in reports:
        print_report(report, mutation.lines if mutation else ())
    weak = any(mutation and (mutation.paid or mutation.misjudged) for _, mutation in reports)
    return 1 if weak or any(report.findings for report, _ in reports) else 0


LIMIT_OPTIONS = {name: setting for name, setting in SETTINGS.items() if setting.is_option}


def add_to(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    grade = subparsers.add_parser(
        "grade", help=translated("grade a class in isolation, and write nbgrader's gradebook")
    )
    grade.add_argument("assignment", help="the assignment's name")
    add_course(grade, "course folder with submitted/STUDENT/ASSIGNMENT")
    grade.add_argument(
        "--jobs",
        type=positive(int),
        default=0,
        help="number of submissions to grade in parallel (default: one per core)",
    )
    grade.add_argument(
        "--isolation",
        choices=tuple(LEVELS),
        default=STRONGEST,
        help="required isolation level; grade nothing if this machine cannot provide it",
    )
    grade.add_argument(
        "--cluster",
        metavar="WHERE",
        help="grade on a Dask cluster: a scheduler's address, a file (docs/cluster.md), or local:N; --jobs is per worker",
    )
    grade.add_argument(
        "--certificates",
        type=Path,
        metavar="DIR",
        help="for --cluster: folder with ca.pem, cert.pem, key.pem (default: Dask's configuration)",
    )
    _add_choices(grade)
    grade.set_defaults(run=_grade)


def _add_choices(grade: argparse.ArgumentParser) -> None:
    grade.add_argument("--resume", action="store_true", help="continue an interrupted run")
    grade.add_argument("--force", action="store_true", help="grade unchanged submissions again")
    grade.add_argument(
        "--accept-source",
        action="store_true",
        help="update the gradebook if the source gained or lost cells after the class was graded",
    )
    grade.add_argument(
        "--dry-run", action="store_true", help="show which grades would change, by how much and why; write nothing"
    )
    grade.add_argument(
        "--one-process", action="store_true", help="run tests in the process of the answers, as nbgrader does"
    )
    grade.add_argument(
        "--two-processes",
        action="store_true",
        help="never run a test in the submission's process; a person has to grade a test that needs it",
    )
    grade.add_argument(
        "--feedback",
        choices=("off", "none", "name", "message"),
        default="name",
        help="details to show of failed hidden tests",
    )
    for name, setting in LIMIT_OPTIONS.items():
        said = f"{setting.help} (default: the course's nbgrader_config.py)"
        grade.add_argument(f"--{name.replace('_', '-')}", type=positive(setting.kind), help=said)
    grade.add_argument("--python", metavar="PATH", help="grade with the packages of another Python")
    grade.add_argument("--all", action="store_true", help="print a line for each submission, even if it did not change")
    grade.add_argument("--json", action="store_true", help="one JSON object on standard output")


def has_pending_work(course: Path, assignment: str) -> bool:
    """Return whether a student's submission was never graded or is newer than its grade.

    This only decides whether the host process starts early, while the grader is being imported. The grader itself
    compares the contents of the files.
    """
    return any(_is_pending(folder) for folder in course.glob(f"submitted/*/{glob.escape(assignment)}"))


def _is_pending(submitted: Path) -> bool:
    student, assignment = submitted.parent.name, submitted.name
    graded = submitted.parents[2] / "autograded" / student / assignment
    try:
        graded_at = graded.stat().st_mtime
        return any(path.lstat().st_mtime > graded_at for path in (submitted, *submitted.rglob("*")))
    except OSError:
        return True


def _grade(chosen: argparse.Namespace) -> int:
    from autograder.grade.sandbox.launch import HostProcess, parallel_jobs

    if chosen.python:
        continue_in(chosen.python, chosen.words)
    course = course_of(chosen)
    if chosen.cluster is not None:
        return _grade_on_cluster(chosen, course)
    if chosen.certificates:
        raise InputError("--certificates requires --cluster")
    level = require_level(chosen.isolation)
    with contextlib.closing(HostProcess(level)) as host:
        if chosen.force or has_pending_work(course, chosen.assignment):
            host.start()  # the host imports PyTorch while this process imports nbgrader
        _known_class(course, chosen.assignment)
        from autograder.grade.backends.local_processes import LocalBackend

        return _grade_class(chosen, course, partial(LocalBackend, count=parallel_jobs(chosen.jobs), host=host))


def _grade_on_cluster(chosen: argparse.Namespace, course: Path) -> int:
    require("grade --cluster")
    from autograder.grade.backends.dask_cluster import choose_cluster

    # Check the assignment's name and lock before a cluster's machines are started.
    folders = _known_class(course, chosen.assignment)
    from autograder.grade.batch.gradebook import exclusive_lock

    with contextlib.nullcontext() if chosen.dry_run else exclusive_lock(folders.gradebook, chosen.assignment):
        pass
    with choose_cluster(chosen.cluster, course, chosen.certificates, chosen.isolation, chosen.jobs) as cluster:
        return _grade_class(chosen, course, cluster.prepared)


def _known_class(course: Path, assignment: str) -> AssignmentFolders:
    """Return the class, after checking the names in its policy.toml."""
    with loading():
        from autograder.grade.sandbox.warmup import import_nbformat

        import_nbformat()  # must precede nbgrader, which imports nbformat too
        from autograder.classroom.policy_names import checked_policy
        from autograder.grade.batch.course_folders import open_class
    folders = open_class(course, assignment)
    checked_policy(folders)
    return folders


@contextlib.contextmanager
def _shown(announced: list[str]) -> Iterator[ProgressCallbacks]:
    """Yield the callbacks that show the steps of validation, its findings, and the class; append the findings to `announced`."""
    from autograder.grade.batch.assignment import ProgressCallbacks
    from autograder.grade.batch.student_rows import progress_bar
    from autograder.grade.validation.validate import report_lines, shown_steps

    draw: list[Callable[[int, int], None]] = []
    with contextlib.ExitStack() as bar, contextlib.ExitStack() as steps:

        def announce(reports: list[SourceReport]) -> None:
            steps.close()  # one progress bar at a time
            announced.extend(report_lines(reports, "findings"))
            print(
                "".join(f"{line}\n" for line in [*report_lines(reports, "notes"), *announced]),
                end="",
                file=sys.stderr,
                flush=True,
            )
            draw.append(bar.enter_context(progress_bar()))

        yield ProgressCallbacks(lambda done, total: draw[0](done, total), announce, steps.enter_context(shown_steps()))


def _grade_class(chosen: argparse.Namespace, course: Path, open_backend: OpenBackend) -> int:
    with loading():
        from autograder.classroom.policy_names import fill_names, listed_students, untimed_students
        from autograder.grade.batch.assignment import grade_assignment
        from autograder.grade.batch.course_folders import open_class
        from autograder.grade.batch.dry_run import dry_run
        from autograder.grade.batch.student_rows import as_json, print_moved, print_report, with_names

    announced: list[str] = []
    options = _options(chosen)
    if chosen.dry_run:
        with _shown(announced) as shown:
            moved = dry_run(chosen.assignment, course, options, shown, open_backend)
        print(as_json(moved=moved)) if chosen.json else print_moved(moved)
        return 1 if moved else 0
    folders = open_class(course, chosen.assignment)
    people = listed_students(folders)  # a list that cannot be read stops the command before it grades
    with _shown(announced) as shown:
        rows = grade_assignment(chosen.assignment, course, options, shown, open_backend)
    rows = with_names(rows, fill_names(folders, people), untimed_students(folders))
    print(as_json(students=rows)) if chosen.json else print_report(rows, everyone=chosen.all)
    return 1 if announced or any(row.problems for row in rows) else 0


def _options(chosen: argparse.Namespace) -> Options:
    import msgspec

    from autograder.grade.batch.assignment import Options

    limits = {name: value for name in LIMIT_OPTIONS if (value := getattr(chosen, name)) is not None}
    options = msgspec.convert(vars(chosen), Options)  # the options have the same names
    return msgspec.structs.replace(options, resume=chosen.resume and not chosen.dry_run, chosen_limits=limits)
