"""The student release: nbgrader converts solutions/ to notebooks/, with the two settings of `nbgrader_release`."""

from __future__ import annotations

import copy
import difflib
import logging
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import Config, PyFileConfigLoader

from autograder.course.author_cells import explanations_of, lesson_minutes
from autograder.course.canonical import canonical, read, write
from autograder.course.catalogue import EXPLANATIONS
from autograder.course.glossary_links import lesson_in_language, with_glossary_links
from autograder.course.paths import LANGUAGES, NOTEBOOKS, ROOT, SOLUTIONS, VARIANTS, lessons, write_files
from autograder.course.teaching import page as teachers_page
from autograder.course.variants.declared_changes import read_changes
from autograder.course.variants.variant import vary
from autograder.course.variants.variant_proof import check_numbers
from autograder.errors import UnfinishedError
from autograder.locale.translations import known_language


def build(destination: Path, source: Path = SOLUTIONS, seed: int | None = None) -> None:
    """Write the release of every lesson in `source` to a folder, in canonical form, without using the gradebook.

    With a seed, write that variant of each lesson.

    Raises:
        UnfinishedError: a lesson is not a valid nbgrader source.
        VariantError: a program of the variant has another outcome than in the lesson.
    """
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    config.CourseDirectory.root = str(ROOT)
    for lesson in sorted({path.parent.name for path in lessons(source)}):
        release_assignment(lesson, config, source, destination)
    glossary = destination / "start" / "glossary.ipynb"
    for path in lessons(destination):
        released = read(path)
        if seed is not None:
            declared = read_changes(source, path.parent.name)
            check_numbers(released, seed, declared)
            released = vary(released, seed, declared)
        write(released if path.parent.name == "start" else with_glossary_links(released, glossary), path)


def release_assignment(assignment: str, config: Config, source: Path, destination: Path) -> None:
    """Write nbgrader's release of one assignment to a folder in `destination`, without using the gradebook.

    Raises:
        UnfinishedError: the assignment is not a valid nbgrader source.
    """
    settings = copy.deepcopy(config)
    settings.CourseDirectory.source_directory = str(source)
    settings.CourseDirectory.release_directory = str(destination)
    settings.GenerateAssignment.no_database = True  # these two: `nbgrader generate_assignment --no-db` (0.9.6)
    settings.SaveCells.enabled = False
    api = NbGraderAPI(config=settings)
    api.log.setLevel(logging.CRITICAL)
    result = api.generate_assignment(assignment, force=True, create=True)
    if not result["success"]:
        raise UnfinishedError(f"{assignment} cannot be released: {_last_words(result)}")


def release() -> dict[str, int]:
    """Rebuild notebooks/ and the teachers' page from solutions/, and return the estimated minutes of each notebook by its name."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".release-") as folder:
        build(Path(folder))
        fresh = lessons(Path(folder))
        for path in fresh:
            target = NOTEBOOKS / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.replace(target)
    for path in lessons(NOTEBOOKS):
        if not (SOLUTIONS / path.relative_to(NOTEBOOKS)).exists():
            path.unlink()
    write_files(EXPLANATIONS, _explanations())
    (SOLUTIONS / "README.md").write_text(teachers_page(), "utf-8")
    return {path.stem: lesson_minutes(read(NOTEBOOKS / path.relative_to(folder))) for path in fresh}


def release_variant(seed: int, folder: Path = VARIANTS) -> Path:
    """Write one variant of every lesson and return its folder; notebooks/ is not changed."""
    destination = folder / str(seed)
    build(destination, seed=seed)
    return destination


def release_language(language_code: str) -> Path:
    """Write the release in another language and return its folder; notebooks/ is not changed.

    Raises:
        LanguageError: the course is not translated into that language.
    """
    destination = LANGUAGES / known_language(language_code)
    build(destination)
    for path in lessons(destination):
        write(lesson_in_language(read(path), destination.name), path)
    return destination


def release_differences() -> list[str]:
    """Return one line for each cell that differs between notebooks/ and a new release of solutions/."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".release-") as folder:
        build(Path(folder))
        fresh = {path.relative_to(folder): read(path) for path in lessons(Path(folder))}
    stored = {path.relative_to(NOTEBOOKS): read(path) for path in lessons(NOTEBOOKS)}
    lines = [f"{path}: in notebooks/ but not in solutions/" for path in stored.keys() - fresh.keys()]
    lines += [f"{path}: not released yet" for path in fresh.keys() - stored.keys()]
    for name, text in _explanations().items():
        path = EXPLANATIONS / name
        lines += [] if path.is_file() and path.read_bytes() == text else [f"{path.name}: its explanations differ"]
    for path in sorted(fresh.keys() & stored.keys()):
        lines += [f"{path}: {cell}" for cell in _differences(fresh[path], stored[path])]
    return lines


def _explanations() -> dict[str, bytes]:
    """Return the explanations in solutions/ as JSON, by the name of their file."""
    texts = {}
    for path in lessons(SOLUTIONS):
        phrases = [phrase for choice in read_changes(SOLUTIONS, path.stem).choices for phrase in choice.replace]
        texts[path.stem] = [
            msgspec.structs.replace(explanation, varies=any(phrase in explanation.text for phrase in phrases))
            for explanation in explanations_of(read(path))
        ]
    return {
        f"{name}.json": msgspec.json.format(msgspec.json.encode(explanation), indent=1) + b"\n"
        for name, explanation in texts.items()
        if explanation
    }


def _differences(fresh: NotebookNode, stored: NotebookNode) -> list[str]:
    """Return a line for each cell that was added, removed or changed in the stored notebook."""
    ours, theirs = canonical(fresh).cells, stored.cells
    matcher = difflib.SequenceMatcher(
        a=[_content(cell) for cell in ours], b=[_content(cell) for cell in theirs], autojunk=False
    )
    lines = []
    for kind, start, stop, other_start, other_stop in matcher.get_opcodes():
        if kind != "equal":
            cells = ours[start:stop] or theirs[other_start:other_stop]
            lines += [
                f"cell {cell.id} {'differs' if kind == 'replace' else kind.removesuffix('e') + 'ed'}" for cell in cells
            ]
    return lines or ([] if fresh.metadata == stored.metadata else ["its metadata differs"])


def _content(cell: NotebookNode) -> str:
    return repr((cell.cell_type, cell.source, cell.id, cell.get("outputs"), sorted(cell.metadata.items(), key=str)))


def _last_words(result: dict[str, Any]) -> str:
    text = (result.get("error") or "") + (result.get("log") or "")
    return text.strip().splitlines()[-1] if text.strip() else "nbgrader gave no reason"
