"""The command `release`: build the lessons' notebooks from their sources, a variant for each student, or files to hand out."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.cli.run_command import add_course, course_of
from autograder.errors import InputError
from autograder.locale.translations import translated

if TYPE_CHECKING:
    from autograder.classroom.handout_package import HandoutTerms
    from autograder.course.variants.handout import Handout
    from autograder.grade.batch.course_folders import AssignmentFolders

PLATFORMS = ("canvas", "moodle", "folder")


def add_to(subparsers: Any) -> None:
    """Add the command and its options to the parser."""
    release = subparsers.add_parser(
        "release", help=translated("build notebooks/ from solutions/, or a notebook for each student")
    )
    release.add_argument(
        "--check", action="store_true", help="list the cells of notebooks/ that are out of date; write nothing"
    )
    release.add_argument("--seed", type=int, help="write this variant of the lessons to class/variants/SEED instead")
    release.add_argument("--language", help="write a translation, such as zh-CN, to class/languages/LANGUAGE instead")
    release.add_argument("assignment", nargs="?", help="with --for-each or --to: the assignment's name")
    release.add_argument(
        "--to",
        choices=PLATFORMS,
        help="write a zip with everything that a student needs: notebook, glossary, package, versions, instructions; "
        "`folder` writes the same files without a zip",
    )
    release.add_argument(
        "--out", type=Path, metavar="DIR", help="with --to: folder for the zip, which must not contain other files"
    )
    release.add_argument(
        "--for-each",
        type=Path,
        metavar="CSV",
        help="class list: write COURSE/handouts/STUDENT/ASSIGNMENT, a different variant for each student",
    )
    add_course(release, "with --for-each or --to: the class's folder")
    release.add_argument(
        "--for-credit",
        action="store_true",
        help="with --for-each or --to: leave out the third hint and the model answer; deters, and does not prevent",
    )
    release.add_argument(
        "--replace",
        action="store_true",
        help="with --for-each: replace the notebooks of students who already have another one",
    )
    release.set_defaults(run=_release)


def _release(chosen: argparse.Namespace) -> int:
    from autograder.course.release import release, release_differences, release_language, release_variant

    _check_options(chosen)
    if chosen.for_each is not None or chosen.to is not None:
        return _hand_out(chosen)
    if chosen.seed is not None:
        print(f"released to {release_variant(chosen.seed)}")
    elif chosen.language is not None:
        print(f"released to {release_language(chosen.language)}")
    elif not chosen.check:
        print("\n".join(f"released {name}, about {minutes} minutes" for name, minutes in release().items()))
    elif lines := release_differences():
        print("\n".join(lines))
        print("notebooks/ is generated; edit solutions/ instead, run `autograder release` and commit both.")
        return 1
    return 0


def _check_options(chosen: argparse.Namespace) -> None:
    """Raise InputError if the options contradict each other, or one is missing."""
    modes = {
        "--check": chosen.check or None,
        "--seed": chosen.seed,
        "--language": chosen.language,
        "--for-each": chosen.for_each,
        "--to": chosen.to,
    }
    chosen_modes = [option for option, value in modes.items() if value is not None]
    if len(chosen_modes) > 1 and chosen_modes != ["--for-each", "--to"]:
        raise InputError(f"{chosen_modes[0]} cannot be combined with {chosen_modes[-1]}")
    if chosen.replace and chosen.for_each is None:
        raise InputError("--replace requires --for-each ROSTER.csv, the list of students")
    if chosen.for_each is None and chosen.to is None:
        if chosen.assignment is not None or chosen.course is not None or chosen.for_credit or chosen.out is not None:
            raise InputError(
                "an assignment, --course, --for-credit or --out requires --for-each ROSTER.csv, the list of students, or --to PLATFORM"
            )
    elif chosen.assignment is None:
        raise InputError(f"{chosen_modes[0]} requires an assignment: write its folder's name before the option")
    elif (chosen.to is None) != (chosen.out is None):
        raise InputError("--to and --out require each other: name the platform, and the folder for the zip")


def _hand_out(chosen: argparse.Namespace) -> int:
    from autograder.classroom.handout_package import HandoutTerms, check_target
    from autograder.course.variants.handout import release_for_all
    from autograder.grade.batch.course_folders import open_class

    course = course_of(chosen)
    if chosen.course is None:
        course.mkdir(exist_ok=True)
    folders = open_class(course, chosen.assignment, without_submissions=True)
    terms = HandoutTerms(chosen.assignment, chosen.to or "", chosen.for_credit, folders.any_prediction())
    if chosen.out is not None:
        check_target(chosen.out, terms)
    with tempfile.TemporaryDirectory(prefix="autograder-") as folder:
        if chosen.for_each:
            handouts = _for_each(chosen, folders)
        else:
            about = (chosen.assignment, folders.sources, folders.settings(), Path(folder))
            handouts = {"": release_for_all(*about, for_credit=chosen.for_credit)}
        if chosen.out is not None:
            _write_packages(chosen.out, terms, handouts, folders)
    if chosen.for_each:
        print("Grade with `autograder grade`, which reads each student's variant from variants.json.")
    return 0


def _for_each(chosen: argparse.Namespace, folders: AssignmentFolders) -> dict[str, Path]:
    """Hand out a variant to each student, and return the students' folders."""
    from autograder.classroom.roster import read_roster
    from autograder.course.variants.handout import hand_out

    people = {person.student: person.group or person.student for person in read_roster(chosen.for_each).people}
    done = hand_out(
        chosen.assignment,
        folders.sources,
        folders.folder,
        people,
        folders.settings(),
        submitted=folders.students(),
        replace=chosen.replace,
        for_credit=chosen.for_credit,
    )
    _print_handout(done, chosen.assignment, with_exercises=chosen.for_credit)
    return {student: done.folder / student / chosen.assignment for student in done.students}


def _write_packages(out: Path, terms: HandoutTerms, handouts: dict[str, Path], folders: AssignmentFolders) -> None:
    from autograder.classroom.handout_package import write_packages

    names = write_packages(out, terms, handouts, folders.sources / "start" / "glossary.ipynb")
    print(f"{out / names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "") + ": ready to hand out")
    if terms.for_credit and "" in handouts:
        print("All students get the same notebook. --for-each ROSTER.csv gives each student a variant.")


def _print_handout(done: Handout, assignment: str, *, with_exercises: bool) -> None:
    variants = len(set(done.students.values()))
    print(f"{done.folder}/STUDENT/{assignment}/: {len(done.students)} students, {variants} variants")
    print(f"Ran the answers to all {done.exercises} exercises of every variant; each has the expected verdict.")
    if done.shared.pairs:
        (programs, fitting), (words, same) = done.shared.programs, done.shared.predictions
        print(
            f"One student's answers in another's notebook, {done.shared.pairs} pairs tried: {fitting} of {programs} programs "
            f"pass, {same} of {words} predictions."
        )
    if with_exercises and done.shared.pairs:
        width = max(map(len, done.shared.exercises))
        print(f"{'exercise':{width}}  passes in another's notebook")
        for name, (tried, passed) in done.shared.exercises.items():
            print(f"{name:{width}}  {passed} of {tried}")
