"""`autograder harness gradescope LESSON`: the zip from which Gradescope builds a container that grades as `grade` does.

The zip contains this package, the versions of its dependencies, the assignment's sources, and the grading plans.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder.classroom.worksheet import zip_of
from autograder.course.paths import write_results
from autograder.errors import InputError, printable
from autograder.grade.batch.assignment import validate_assignment
from autograder.grade.batch.course_folders import CONFIG, AssignmentFolders, limits_of, open_class
from autograder.grade.sandbox.isolation import LEVELS, STRONGEST
from autograder.grade.submission.teacher.source import GradingPlan
from autograder.grade.validation.validate import OnStep, SourceReport, ignore_step
from autograder.grade.wire.limits import Limits
from autograder.requirements import PACKAGE

FILE = "terms.json"


class HarnessTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of grading."""

    assignment: str  # the name of its folder among the sources
    isolation: str  # the weakest level at which submissions are graded
    hidden_tests: str  # the information about a failed hidden test that a student gets: "none", "name" or "message"
    # when a student sees the result of a test with a hidden part, in Gradescope's terms, such as "after_due_date"
    visibility: str
    limits: Limits  # the resource limits of one submission
    plans: dict[str, GradingPlan]  # the grading plan of each notebook, from validation


def read_terms(folder: Path) -> HarnessTerms:
    """Return the terms in the folder of the unpacked zip."""
    return msgspec.json.decode((folder / FILE).read_bytes(), type=HarnessTerms)


DISTRIBUTION = "autograd-er"
TEMPLATES = Path(__file__).parent / "template"
PROGRAMS = ("setup.sh", "run_autograder")


def write_harness(
    target: Path,
    assignment: str,
    course: Path,
    *,
    isolation: str,
    hidden_tests: str,
    visibility: str,
    requirements: Path | None = None,
    on_step: OnStep = ignore_step,
) -> list[SourceReport]:
    """Write the zip for an assignment, and return the reports on its sources, validated at this machine's strongest level.

    `isolation`, `hidden_tests` and `visibility` are those of `HarnessTerms`. `requirements` is a file in pip's format
    with the packages, other than PyTorch, that the assignment imports.

    Raises:
        IsolationError: this machine does not reach any level, so the sources cannot be validated.
        InputError: the course or the assignment does not exist, the requirements cannot be read, or the zip cannot be written.
    """
    more = _requirements_in(requirements) if requirements else ""
    folders = open_class(course, assignment, without_submissions=True)
    here = next((level.name for level in LEVELS.values() if not level.obstacle), STRONGEST)
    reports = [report for report, _ in validate_assignment(assignment, course, here, on_step=on_step)]
    terms = HarnessTerms(
        assignment=assignment,
        isolation=isolation,
        hidden_tests=hidden_tests,
        visibility=visibility,
        limits=limits_of(folders.settings(), {}),
        plans={
            report.notebook: msgspec.structs.replace(report.plan, any_prediction=folders.any_prediction())
            for report in reports
        },
    )
    write_results(target, {target: zip_of(dict(_files(folders, terms, more)), PROGRAMS)})
    return reports


def _requirements_in(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise InputError(f"{printable(str(path))} cannot be read ({reason}). Name a pip requirements file") from None


def locked_requirements(
    extra: str = "grade", *, systems: Sequence[Mapping[str, str]] = ({},), leaves: tuple[str, ...] = ("torch",)
) -> dict[str, str]:
    """Return the direct and indirect dependencies of this package with an extra, as installed, with their versions.

    `systems` contains the values of markers, by name, on each system to consider; by default, on this one. The own
    dependencies of `leaves` are not included.
    """
    versions: dict[str, str] = {}
    waiting = [(DISTRIBUTION, {"", extra})]
    while waiting:
        name, extras = waiting.pop()
        for line in importlib.metadata.requires(name) or ():
            needed = Requirement(line)
            cases = [{"extra": extra, **system} for extra in extras for system in systems]
            if needed.marker and not any(map(needed.marker.evaluate, cases)):
                continue
            package = canonicalize_name(needed.name)
            if package not in versions or needed.extras:
                versions[package] = _installed_version(package)
                waiting += [(package, {"", *needed.extras})] if package not in leaves and versions[package] else []
    versions.pop(DISTRIBUTION, None)
    return dict(sorted(versions.items()))


def _installed_version(name: str) -> str:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:  # needed on another system
        return ""


def _files(folders: AssignmentFolders, terms: HarnessTerms, more: str) -> Iterator[tuple[str, bytes]]:
    locked = locked_requirements()
    setup = (TEMPLATES / "setup.sh").read_text("utf-8").replace("{torch}", f"torch=={locked.pop('torch')}")
    yield "setup.sh", setup.encode()
    yield "run_autograder", (TEMPLATES / "run_autograder").read_bytes()
    yield "requirements.txt", "".join(f"{name}=={version}\n" for name, version in locked.items()).encode()
    yield "more_requirements.txt", more.encode()
    yield FILE, msgspec.json.format(msgspec.json.encode(terms, order="deterministic"))
    yield from files_below(PACKAGE, "package/autograder")
    yield from files_below(PACKAGE.parent / "assets", "package/autograder/assets", ("*.js", "*.css"))
    yield from files_below(folders.sources / terms.assignment, f"course/source/{terms.assignment}")
    if (folders.folder / CONFIG).is_file():
        yield f"course/{CONFIG}", (folders.folder / CONFIG).read_bytes()


def files_below(folder: Path, place: str, patterns: tuple[str, ...] = ("**/*",)) -> Iterator[tuple[str, bytes]]:
    """Yield the files in a folder that match a pattern, each by its path below `place`; caches are left out."""
    for path in sorted(path for pattern in patterns for path in folder.glob(pattern)):
        parts = path.relative_to(folder).parts
        if path.is_file() and "__pycache__" not in parts and ".ipynb_checkpoints" not in parts:
            yield "/".join([place, *parts]), path.read_bytes()
