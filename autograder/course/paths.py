"""The folders of the course: in a clone, its own; otherwise the current folder and this package."""

from __future__ import annotations

from pathlib import Path

from autograder.requirements import CLONE, PACKAGE

# Settings and progress. Outside of a clone, the name of the folder shows that it belongs to this package.
OWN = ".home" if CLONE else ".autograder"
HANDED_OUT = Path(OWN) / "handed_out.json"


def find_folder(start: Path) -> Path:
    """Return the folder with a student's copies if the package was installed.

    This is the nearest folder, from `start` upwards, into which `lab` has copied the lessons, so that a notebook and a
    command also find it from inside `work/`; if there is no such folder, `start`.
    """
    return next((folder for folder in (start, *start.parents) if (folder / HANDED_OUT).is_file()), start)


ROOT = CLONE or find_folder(Path.cwd())
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = CLONE / "notebooks" if CLONE else PACKAGE / "course" / "notebooks"
WORK = ROOT / "work"
CLASS = CLONE / "class" if CLONE else Path.cwd()
VARIANTS = ROOT / "class" / "variants"
LANGUAGES = ROOT / "class" / "languages"
HOME = ROOT / OWN


def lessons(folder: Path = NOTEBOOKS) -> list[Path]:
    """Return the notebooks of all lessons in a folder, in the course's order."""
    return sorted(path for path in folder.glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)
