"""The exercises and the first code of the source notebooks, each read once in a run."""

from functools import cache
from pathlib import Path

from autograder.course import author_cells, canonical

exercises = cache(author_cells.exercises)


@cache
def setup(path: Path) -> str:
    """Return the code before the first exercise of the source notebook."""
    return author_cells.setup_of(canonical.read(path))
