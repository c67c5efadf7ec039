"""Where the course lies: in a clone its own folders, by the names that the README uses; else the current folder and this package."""

from __future__ import annotations

from pathlib import Path

from autograder.installation.requirements import CLONE, PACKAGE

# Settings and progress; where the package is installed, the folder's name says what it belongs to.
OWN = ".home" if CLONE else ".autograder"
HANDED_OUT = Path(OWN) / "handed_out.json"


def find_folder(start: Path) -> Path:
    """Returns the folder that keeps a learner's copies where the package was installed.

    It is the nearest one, from `start` upwards, to which `lab` has handed out the lessons, so that a notebook and a command
    find it from inside `work/` too; `start` itself where there is none.
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
    """Returns the notebooks of all lessons below a folder, in the course's order."""
    return sorted(path for path in folder.glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)
