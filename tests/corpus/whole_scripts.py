"""Reads the whole scripts of the corpus: training programs of 60 lines and more, each broken one with its repaired twin.

A file in `scripts/` is a script; a folder there is a program in several files, started by its `train.py`, or by its
`__main__.py` as `python -m FOLDER`. Declarations and marks are those of `tests/corpus/programs.py`; the variant `fixed` is
the twin. Beside what is declared there:

    # fixed: correct, effect=changes      the twin trains another thing (a shorter history), so it cannot be called the same
    # arguments: --steps 3                the words that the program is started with
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.corpus.programs import DECLARATION, take

FOLDER = Path(__file__).parent / "scripts"
ARGUMENTS = re.compile(r"^# arguments: (.+)$", re.MULTILINE)

Place = tuple[str, int]
"""A file's name, and a 1-based line in it."""


@dataclass(frozen=True)
class Script:
    """One variant of a script.

    Attributes:
        name: such as "tbptt_language", or "tbptt_language[fixed]" for the twin.
        main: the file that is started.
        files: the text of each file under its name, without marks.
        arguments: the words after the script's name.
        outcome: one of the four words.
        harm, saves: the places that are marked; none in a program that is right.
        twin: the repaired variant, or None in a program that is right.
        changes: whether the twin trains another thing than the broken program meant to.
    """

    name: str
    main: str
    files: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    outcome: str
    harm: frozenset[Place]
    saves: frozenset[Place]
    twin: Script | None
    changes: bool = False

    @property
    def module(self) -> str | None:
        """The name for `python -m`, or None for a program that is started by its file."""
        return self.name.partition("[")[0] if self.main == "__main__.py" else None

    def write(self, folder: Path) -> Path:
        """Writes the files below `folder`, and returns the one that is started."""
        home = folder / self.module if self.module else folder
        home.mkdir(parents=True, exist_ok=True)
        for name, text in self.files:
            (home / name).write_text(text)
        return home / self.main


@cache
def scripts() -> tuple[Script, ...]:
    """Returns every script, as it is broken or, where it has no fault, as it is right; sorted by name."""
    paths = sorted(path for path in FOLDER.iterdir() if path.suffix == ".py" or path.is_dir())
    return tuple(script_of(path) for path in paths if path.name != "__pycache__")


def script_of(path: Path) -> Script:
    """Returns the script that lies in a file, or in a folder of files."""
    texts = {file.name: file.read_text() for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])}
    main = path.name if path.name in texts else next(name for name in ("__main__.py", "train.py") if name in texts)
    if not list(declarations(texts[main])):
        raise ValueError(f"{path.name} declares no outcome; write a line such as '# correct' below its docstring.")
    made: dict[str | None, Script] = {}
    for match in sorted(declarations(texts[main]), key=lambda match: match["outcome"] != "correct"):
        made[match["variant"]] = variant_of(path.stem, main, texts, match, made.get("fixed"))
    return made.get("bug") or made[None]


def declarations(text: str):
    """Yields the declaration of each variant."""
    return (match for line in text.splitlines() if (match := DECLARATION.match(line)))


def variant_of(name: str, main: str, texts: dict[str, str], match: re.Match, twin: Script | None) -> Script:
    """Returns one variant: its own lines of every file, and the places of its marks."""
    variant, right = match["variant"], match["outcome"] == "correct"
    taken = {file: take(text, variant, {"bug", "fixed"}) for file, text in texts.items()}
    marks = {
        mark: frozenset((file, line) for file, (_, found) in taken.items() if not right for line in found[mark])
        for mark in ("harm", "saves")
    }
    words = ARGUMENTS.search(texts[main])
    return Script(
        name=f"{name}[{variant}]" if variant == "fixed" else name,
        main=main,
        files=tuple((file, ARGUMENTS.sub("", text)) for file, (text, _) in taken.items()),
        arguments=tuple(shlex.split(words[1])) if words else (),
        outcome=match["outcome"],
        twin=twin,
        changes="effect=changes" in match["options"] or bool(twin and twin.changes),
        **marks,
    )
