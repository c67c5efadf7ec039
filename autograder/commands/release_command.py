"""The command `release`: build the lessons' notebooks from their sources, or a variant for each student."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.locale.translations import translated

if TYPE_CHECKING:
    from autograder.course.variants.handout import Handout


def add_to(verbs: Any) -> None:
    """Add the command and its options to the parser."""
    release = verbs.add_parser(
        "release", help=translated("build notebooks/ from solutions/, or a notebook for each student")
    )
    release.add_argument(
        "--check", action="store_true", help="list the cells of notebooks/ that are out of date; write nothing"
    )
    release.add_argument("--seed", type=int, help="write this variant of the lessons to class/variants/SEED instead")
    release.add_argument("--language", help="write a translation, such as zh-CN, to class/languages/LANGUAGE instead")
    release.add_argument("assignment", nargs="?", help="with --for-each: a lesson's name")
    release.add_argument(
        "--for-each",
        type=Path,
        metavar="CSV",
        help="class list: write COURSE/handouts/STUDENT/ASSIGNMENT, a different variant for each student",
    )
    release.add_argument(
        "--course",
        type=Path,
        metavar="DIR",
        help="with --for-each: the class's folder (default: class/ in a clone, else here)",
    )
    release.add_argument(
        "--replace",
        action="store_true",
        help="with --for-each: replace the notebooks of students who already have another one",
    )
    release.set_defaults(run=_release)


def _release(chosen: argparse.Namespace) -> int:
    from autograder.course.release import drift, release, release_language, release_variant

    if chosen.for_each is not None:
        return _for_each(chosen)
    if chosen.assignment is not None or chosen.course is not None:
        from autograder.errors import InputError

        raise InputError("an assignment or --course requires --for-each ROSTER.csv, the list of students")
    if chosen.seed is not None:
        print(f"released to {release_variant(chosen.seed)}")
        return 0
    if chosen.language is not None:
        print(f"released to {release_language(chosen.language)}")
        return 0
    if not chosen.check:
        print("\n".join(f"released {name}" for name in release()))
        return 0
    lines = drift()
    if lines:
        print("\n".join(lines))
        print("notebooks/ is generated; edit solutions/ instead, run `autograder release` and commit both.")
    return 1 if lines else 0


def _for_each(chosen: argparse.Namespace) -> int:
    from autograder.course.paths import CLASS
    from autograder.course.variants.handout import hand_out
    from autograder.desk.roster import read_roster
    from autograder.errors import InputError
    from autograder.grade.batch.classroom import open_class

    if chosen.assignment is None:
        raise InputError("--for-each requires an assignment: write its folder's name before the option")
    if chosen.check or chosen.seed is not None or chosen.language is not None:
        raise InputError("--check, --seed and --language cannot be combined with --for-each")
    people = {person.student: person.group or person.student for person in read_roster(chosen.for_each).people}
    course = chosen.course or CLASS
    if chosen.course is None:
        course.mkdir(exist_ok=True)
    classroom = open_class(course, chosen.assignment, before_hand_in=True)
    done = hand_out(
        chosen.assignment,
        classroom.sources,
        classroom.folder,
        people,
        classroom.settings(),
        submitted=classroom.students(),
        replace=chosen.replace,
    )
    _print_handout(done, chosen.assignment)
    return 0


def _print_handout(done: Handout, assignment: str) -> None:
    variants = len(set(done.students.values()))
    print(f"{done.folder}/STUDENT/{assignment}/: {len(done.students)} students, {variants} variants")
    print(f"Ran the answers to all {done.exercises} exercises of every variant; each has the expected verdict.")
    if done.shared.pairs:
        (programs, fitting), (words, same) = done.shared.programs, done.shared.predictions
        print(
            f"One student's answers in another's notebook, {done.shared.pairs} pairs tried: {fitting} of {programs} programs "
            f"pass, {same} of {words} predictions."
        )
    print("Grade with `autograder grade`, which reads each student's variant from variants.json.")
