"""One notebook for each student: created, validated, recorded, and written to the course's folder."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import msgspec
import nbformat
import torch
from nbformat import NotebookNode
from traitlets.config import Config

from autograder.course.author_cells import exercises_of
from autograder.course.canonical import read
from autograder.course.glossary_links import with_glossary_links
from autograder.course.release import release_assignment
from autograder.course.stored_notebook import mark_for_credit
from autograder.course.variants.declared_changes import (
    NOTHING,
    DeclaredChanges,
    VariantError,
    check_changes,
    chosen_names,
    read_changes,
)
from autograder.course.variants.variant import METADATA, TAG, OwnVariant, vary
from autograder.course.variants.variant_proof import ProvenVariant, VariantProof, check_numbers, names_after, verdict_on
from autograder.course.variants.variant_record import read_record
from autograder.errors import printable_list

PAIRS = 12


class SharedAnswers(msgspec.Struct, frozen=True):
    """The number of answers of one variant that pass the check of another."""

    pairs: int  # the number of ordered pairs of variants that were tried
    programs: tuple[int, int]  # the number of answers that are programs, and the number of these that pass
    predictions: tuple[int, int]  # the same for predictions, whose answer is a word, a number or a line
    exercises: dict[str, tuple[int, int]] = {}  # the same for each exercise, by its id


def count_shared_answers(proven: Mapping[int, list[ProvenVariant]], pairs: int = PAIRS) -> SharedAnswers:
    """Run the model answers of some variants, by their seeds, in the checks of others, unchanged.

    The same seeds give the same ordered pairs, of which there are at most `pairs`.
    """
    every = list(itertools.permutations(sorted(proven), 2))
    tried = random.Random(0).sample(every, min(pairs, len(every)))
    shared = [
        (taken.id, taken.is_prediction, verdict_on(given.answers[0], taken.check, names, taker) is None)
        for giver, taker in tried
        for program, other in zip(proven[giver], proven[taker], strict=True)
        for names in [names_after(other.setup)]
        for given, taken in zip(program.exercises, other.exercises, strict=True)
    ]
    exercises = {name: _count(fits for other, _, fits in shared if other == name) for name, _, _ in shared}
    programs, predictions = (_count(fits for _, kind, fits in shared if kind is each) for each in (False, True))
    return SharedAnswers(len(tried), programs, predictions, exercises)


def _count(fits: Iterable[bool]) -> tuple[int, int]:
    """Return the number of answers, and of those that pass."""
    counts = Counter(fits)
    return counts.total(), counts[True]


FOLDER = "handouts"
PROCESSES = 2
LONGEST_LIST = 10


class Handout(msgspec.Struct, frozen=True):
    """The result of `hand_out`."""

    folder: Path  # contains STUDENT/ASSIGNMENT/ for each student, with the notebook and its files
    students: dict[str, int]  # the seed of each student
    exercises: int  # the number of exercises in each notebook; all their answers were run
    shared: SharedAnswers  # how many answers of one student pass another's check


def hand_out(
    assignment: str,
    sources: Path,
    course: Path,
    people: Mapping[str, str],
    config: Config,
    *,
    submitted: Collection[str] = (),
    replace: bool = False,
    for_credit: bool = False,
) -> Handout:
    """Write COURSE/handouts/STUDENT/ASSIGNMENT/ for each student, and record the variants in COURSE/variants.json.

    The files are written only after every answer to every variant was run. The teacher's notebooks are in `sources`,
    with variants.toml. `people` contains for each student the group that shares a variant, or the student again;
    `submitted` are the students with a submission. With `replace`, a student may get a notebook instead of another one;
    with `for_credit`, the notebooks are marked as counting for a grade.

    Raises:
        VariantError: there are no differences, a notebook would be replaced without `replace`, or an answer to a variant has
            another verdict than the author declared.
        UnfinishedError: nbgrader rejects the source.
    """
    changes = read_changes(sources, assignment)
    notebooks = {path.name: read(path) for path in sorted((sources / assignment).glob("*.ipynb"))}
    _check_that_it_varies(assignment, notebooks, changes)
    record = read_record(course)
    students = {student: record.seed_of(group) for student, group in people.items()}
    replaced = record.replaced(assignment, students, submitted)
    if replaced and not replace:
        raise VariantError(_refusal(assignment, list(replaced), submitted))
    record = record.with_students(assignment, changes, students, replaced)
    exercises, shared = _prove_all(sources / assignment, notebooks, changes, sorted(set(students.values())))
    with tempfile.TemporaryDirectory(dir=course, prefix=".handouts-") as folder:
        release_assignment(assignment, config, sources, Path(folder, "release"))
        released, glossary = Path(folder, "release", assignment), sources / "start" / "glossary.ipynb"
        for student, seed in students.items():
            student_folder = Path(folder, FOLDER, student, assignment)
            shutil.copytree(released, student_folder)
            for path in student_folder.glob("*.ipynb"):
                varied = with_glossary_links(vary(read(path), seed, changes), glossary)
                mark_variant(varied, seed, changes)
                _write(varied, path, for_credit)
        record.write(course)
        for student in students:
            target = course / FOLDER / student / assignment
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                shutil.rmtree(target)
            Path(folder, FOLDER, student, assignment).replace(target)
    return Handout(course / FOLDER, students, exercises, shared)


def _refusal(assignment: str, students: list[str], submitted: Collection[str]) -> str:
    names = printable_list(students, LONGEST_LIST)
    return (
        f"{len(students)} students of the list have another notebook of {assignment} already ({names}), and "
        f"{sum(student in submitted for student in students)} of them have submitted it. Remove these students from the list, or "
        "add --replace: submissions of the earlier notebook are then still graded by it"
    )


def _check_that_it_varies(assignment: str, notebooks: Mapping[str, NotebookNode], changes: DeclaredChanges) -> None:
    if not notebooks:
        raise VariantError(f"there is no source of {assignment!r}. Name an assignment's folder")
    tags = {tag for notebook in notebooks.values() for cell in notebook.cells for tag in cell.metadata.get("tags", [])}
    if changes == NOTHING and TAG not in tags:
        raise VariantError(
            f"{assignment} has no part that varies, so every student would get the same notebook. List the permitted "
            f"changes in variants.toml, next to the sources, or give cells the tag {TAG!r}"
        )
    for notebook in notebooks.values():
        check_changes(assignment, notebook, changes)


def _prove_all(
    folder: Path, notebooks: Mapping[str, NotebookNode], changes: DeclaredChanges, seeds: list[int]
) -> tuple[int, SharedAnswers]:
    """Run every answer to every variant in worker processes; return the number of exercises and the shared answers."""
    jobs = [(folder.name, list(notebooks.values()), changes, seed) for seed in seeds]
    with multiprocessing.get_context("fork").Pool(min(PROCESSES, len(jobs)), _begin, (folder,)) as pool:
        proven = dict(zip(seeds, pool.starmap(_prove, jobs), strict=True))
        shared = pool.apply(count_shared_answers, (proven,))
    return sum(len(notebook.exercises) for notebook in proven[seeds[0]]), shared


def _begin(folder: Path) -> None:
    torch.set_num_threads(1)
    os.chdir(folder)  # the cells' data files are in this folder
    os.environ["NBGRADER_EXECUTION"] = "validate"  # these are not a student's answers, so do not record progress


def _prove(assignment: str, notebooks: list[NotebookNode], changes: DeclaredChanges, seed: int) -> list[ProvenVariant]:
    for notebook in notebooks:
        check_numbers(notebook, seed, changes)
    varied = [vary(notebook, seed, changes) for notebook in notebooks]
    return [VariantProof(assignment, notebook, seed).prove() for notebook in varied]


def release_for_all(assignment: str, sources: Path, config: Config, folder: Path, *, for_credit: bool = False) -> Path:
    """Write the notebooks that all students get to FOLDER/ASSIGNMENT/, and return that folder.

    The arguments are those of `hand_out`.

    Raises:
        UnfinishedError: nbgrader rejects the source.
    """
    release_assignment(assignment, config, sources, folder)
    for path in (folder / assignment).glob("*.ipynb"):
        _write(with_glossary_links(read(path), sources / "start" / "glossary.ipynb"), path, for_credit)
    return folder / assignment


def _write(notebook: NotebookNode, path: Path, for_credit: bool) -> None:
    if for_credit:
        mark_for_credit(notebook)
    nbformat.write(notebook, path)


def mark_variant(notebook: NotebookNode, seed: int, changes: DeclaredChanges) -> None:
    """Write the seed and the names of a variant into its metadata, for `hint`, `reset` and `model_answer`."""
    stubs = {exercise.id: exercise.stub for exercise in exercises_of(notebook)}
    notebook.metadata[METADATA] = msgspec.to_builtins(OwnVariant(seed, stubs, chosen_names(changes, seed)))
