"""solutions/ -> notebooks/: the student release, made by nbgrader with the two settings of `nbgrader_release`."""

from __future__ import annotations

import difflib
import logging
import tempfile
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config, PyFileConfigLoader

from autograder.course.canonical import canonical, read, write
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS, VARIANTS, lessons
from autograder.course.teaching import page as teachers_page
from autograder.course.variants import vary
from autograder.errors import UnfinishedError


class ReleaseError(UnfinishedError):
    """nbgrader could not make a release; the message gives its reason."""


def build(destination: Path, source: Path = SOLUTIONS, seed: int | None = None) -> None:
    """Writes the release of every lesson below `source` into a folder, in canonical form, without using the gradebook.

    With a seed, the programs have different numbers and the same faults and outcomes.

    Raises:
        ReleaseError: a lesson is not a valid nbgrader source.
    """
    api = NbGraderAPI(config=_config(destination, source))
    api.log.setLevel(logging.CRITICAL)
    for lesson in sorted({path.parent.name for path in lessons(source)}):
        result = api.generate_assignment(lesson, force=True, create=True)
        if not result["success"]:
            raise ReleaseError(f"{lesson} cannot be released: {_last_words(result)}")
    for path in lessons(destination):
        write(read(path) if seed is None else vary(read(path), seed), path)


def release() -> list[str]:
    """Rebuilds notebooks/ and the teachers' page from solutions/, and returns the names of the notebooks that it wrote."""
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
    (SOLUTIONS / "README.md").write_text(teachers_page(), "utf-8")
    return [path.stem for path in fresh]


def release_variant(seed: int, folder: Path = VARIANTS) -> Path:
    """Writes a release with different numbers and returns its folder; notebooks/ is not changed."""
    destination = folder / str(seed)
    build(destination, seed=seed)
    return destination


def drift() -> list[str]:
    """Returns one line for each cell in which notebooks/ differs from what solutions/ would release now."""
    with tempfile.TemporaryDirectory(dir=ROOT, prefix=".release-") as folder:
        build(Path(folder))
        fresh = {path.relative_to(folder): read(path) for path in lessons(Path(folder))}
    stored = {path.relative_to(NOTEBOOKS): read(path) for path in lessons(NOTEBOOKS)}
    lines = [f"{path}: in notebooks/ but not in solutions/" for path in stored.keys() - fresh.keys()]
    lines += [f"{path}: not released yet" for path in fresh.keys() - stored.keys()]
    for path in sorted(fresh.keys() & stored.keys()):
        lines += [f"{path}: {cell}" for cell in _differences(fresh[path], stored[path])]
    return lines


def _differences(fresh: NotebookNode, stored: NotebookNode) -> list[str]:
    """Returns a line for each cell that was added, removed or changed in the stored notebook."""
    ours, theirs = canonical(fresh).cells, stored.cells
    matcher = difflib.SequenceMatcher(
        a=[_content(cell) for cell in ours], b=[_content(cell) for cell in theirs], autojunk=False
    )
    lines = []
    for kind, start, stop, other_start, other_stop in matcher.get_opcodes():
        if kind != "equal":
            cells = ours[start:stop] or theirs[other_start:other_stop]
            lines += [f"cell {cell.id} {'differs' if kind == 'replace' else kind + 'd'}" for cell in cells]
    return lines or ([] if fresh.metadata == stored.metadata else ["its metadata differs"])


def _content(cell: NotebookNode) -> str:
    return repr((cell.cell_type, cell.source, cell.id, cell.get("outputs"), sorted(cell.metadata.items(), key=str)))


def _config(destination: Path, source: Path) -> Config:
    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    config.CourseDirectory.root = str(ROOT)
    config.CourseDirectory.source_directory = str(source)
    config.CourseDirectory.release_directory = str(destination)
    config.GenerateAssignment.no_database = True  # together: what `nbgrader generate_assignment --no-db` sets (0.9.6)
    config.SaveCells.enabled = False
    return config


def _last_words(result: dict[str, Any]) -> str:
    text = (result.get("error") or "") + (result.get("log") or "")
    return text.strip().splitlines()[-1] if text.strip() else "nbgrader gave no reason"
