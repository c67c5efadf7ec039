"""Outputs of the package that are stored under tests/stored: a change of one is a difference that a person reads before it is committed.

`AUTOGRADER_STORE=1 python -m pytest FILE` writes the present outputs (of the corpus: in one process). `AUTOGRADER_STORE=new` also
stores what tests print and write that are not compared yet. Some outputs differ from run to run: their tests are not stored.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from difflib import unified_diff
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from string import ascii_lowercase

import pytest

FOLDER = Path(__file__).parent / "stored"
STORES = os.environ.get("AUTOGRADER_STORE", "")
RELEASES = {"torch": "2.13.0", "nbgrader": "0.9.6", "ipython": "9.18.1"}
IS_COMPARED = sys.version_info[:2] == (3, 11) and all(
    version(name).startswith(release) for name, release in RELEASES.items()
)
"""The outputs are those with Python 3.11 and these releases: others have messages of their own."""

CHANGING = re.compile(
    r"(?<![\w.])-?\d+\.(?:\d+|(?=[,\])]))(?:e[+-]?\d+)?j?(?![\w.])"  # decimal numbers: the last digits depend on the processor
    rf"|(?:/tmp|{re.escape(tempfile.gettempdir())})/[\w.+-]+(?:/[\w.+-]+)*"
    r'|"id": "[0-9a-f]{8}"'  # of a notebook's cell
)
SUFFIXES, MOST_BYTES = (".csv", ".html", ".json", ".md", ".py", ".svg", ".toml", ".txt", ".ipynb"), 1_000_000
"""The files that are compared: texts of less than this size."""

MOST_LINES = 16
"""The number of printed lines that are stored; the others are compared by their digest."""


def steady(text: str) -> str:
    """Return the text without decimal numbers, temporary folders, ids of cells, and the spaces that align them."""
    return re.sub(r" +", " ", CHANGING.sub("#", text))


def digest(*texts: str) -> str:
    """Return six letters that differ for different texts (once in 300 million they do not)."""
    number = int(hashlib.sha256(steady("\n".join(texts)).encode()).hexdigest(), 16)
    return "".join(ascii_lowercase[number // 26**place % 26] for place in range(6))


@cache
def _sections(file: Path) -> dict[str, str]:
    """Return the stored texts of one file by their names."""
    parts = re.split(r"^=== (.*)\n", file.read_text(encoding="utf-8") if file.exists() else "", flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def assert_stored(file: str, name: str, text: str) -> None:
    """Assert that the text is the stored one, but for numbers with decimals, temporary folders and ids of cells."""
    if not IS_COMPARED:
        return
    stored, text = _sections(FOLDER / file), steady(text).strip("\n") + "\n"
    if STORES and stored.get(name) != text:
        stored[name] = text
        (FOLDER / file).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / file).write_text("".join(f"=== {key}\n{stored[key]}" for key in sorted(stored)), encoding="utf-8")
    change = "\n".join(unified_diff(stored.get(name, "").splitlines(), text.splitlines(), "stored", "now", lineterm=""))
    assert not change, f"{name} differs from tests/stored/{file}:\n{change}"


@pytest.fixture(autouse=True)
def outputs_are_the_stored_ones(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare the text that a test prints, and the files that it writes to `tmp_path`, with the stored ones."""
    path, _, name = request.node.nodeid.removeprefix("tests/").partition("::")
    file = path.replace(".py", ".txt")
    if not shutil.which("bwrap") or (STORES != "new" and name not in _sections(FOLDER / file)):
        yield
        return
    printed: list[str] = []
    folder = request.getfixturevalue("tmp_path") if "tmp_path" in request.fixturenames else None
    capture = request.getfixturevalue("capsys") if "capsys" in request.fixturenames else None
    if capture is not None:
        read = capture.readouterr
        capture.readouterr = lambda: (result := read(), printed.extend(result))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")  # instead of the terminal's width
        yield
    if capture is not None:
        capture.readouterr()
    lines = steady("\n".join(printed)).strip().splitlines()
    shown = lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], f"{len(lines)} lines {digest(*lines)}"]
    if text := "\n".join([*shown, *(digests(folder) if folder else ())]):
        assert_stored(file, name, text)


def digests(folder: Path) -> Iterator[str]:
    """Return a line for each folder at most two levels deep, with the number of its texts and their digest."""
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in SUFFIXES and not path.is_symlink()]
    files = [path.relative_to(folder) for path in paths if path.is_file() and path.stat().st_size < MOST_BYTES]
    for place, inside in groupby(files, lambda file: file.parent.parts[:2]):
        each = [f"{file}\n{(folder / file).read_text('utf-8', 'replace')}" for file in inside]
        yield f"{Path(*place)}: {len(each)} {digest(*each)}"
