"""Where the course lies: the clone's folders, by the names that the README uses."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOLUTIONS = ROOT / "solutions"
NOTEBOOKS = ROOT / "notebooks"
WORK = ROOT / "work"
VARIANTS = ROOT / "class" / "variants"
HOME = ROOT / ".home"


def lessons(folder: Path = NOTEBOOKS) -> list[Path]:
    """Returns the notebooks of all lessons below a folder, in the course's order."""
    return sorted(path for path in folder.glob("*/*.ipynb") if ".ipynb_checkpoints" not in path.parts)
