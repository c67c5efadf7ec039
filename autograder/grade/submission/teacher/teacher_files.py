"""The files that lie beside a source notebook: data, pictures and helper modules, as nbgrader releases them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from autograder.grade.submission.submitted_files import UnreadableSubmission, plain_file, reason_of
from autograder.printable import printable

IGNORED = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.ipynb"]  # nbgrader's own, and the sources themselves
LARGEST_FILE = 2**30  # bytes


def files_beside(folder: Path) -> tuple[dict[str, bytes], list[str]]:
    """Returns the files that a teacher hands out beside the notebooks, and a note for each that is left out."""
    from nbgrader.utils import find_all_files  # imports all of nbgrader

    found: dict[str, bytes] = {}
    notes = []
    for path in map(Path, sorted(find_all_files(str(folder), IGNORED))):
        name = str(path.relative_to(folder))
        try:
            name.encode()
            found[name] = plain_file(path.resolve(), LARGEST_FILE)
        except (OSError, UnicodeEncodeError, UnreadableSubmission) as error:
            notes.append(f"{printable(name)}, beside the source, was left out: {reason_of(error)}")
    return found, notes


def write_files(files: dict[str, bytes], folder: Path) -> None:
    """Writes files into a folder that exists."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def files_digest(files: dict[str, bytes]) -> str:
    """Returns a hash of the files' names and contents."""
    whole = [(name, hashlib.sha256(data).hexdigest()) for name, data in sorted(files.items())]
    return hashlib.sha256(repr(whole).encode()).hexdigest()
