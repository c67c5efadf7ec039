"""The files of the front end: from assets/ of a clone, or from the installed package."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from autograder.errors import SetupError, printable
from autograder.locale.translations import translated
from autograder.requirements import PACKAGE

OTHERS = ("answer.js", "board.js")
SAID = re.compile(r'\bsay\("([^"]+)"')


@cache
def read_asset(name: str) -> str:
    """Return the text of a file in assets/.

    Raises:
        SetupError: neither the clone nor the package contains it, so the installation is incomplete.
    """
    for folder in (PACKAGE.parent / "assets", PACKAGE / "assets"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise SetupError.of(
        "assets.missing|{file} is missing: expected in {folder}. Install autograder again.",
        file=name,
        folder=printable(str(PACKAGE.parent / "assets")),
    )


def front_end_words() -> dict[str, str]:
    """Return the front-end module's texts in the reader's language, by the English text; an empty dictionary in English."""
    return {text: word for text in front_end_texts() if (word := translated(text)) != text}


@cache
def front_end_texts() -> list[str]:
    """Return the front-end module's texts: the arguments of its calls of `say`."""
    return list(dict.fromkeys(SAID.findall(front_end())))


@cache
def front_end() -> str:
    """Return the complete front-end module, joined from its files; its default export has `initialize` and `render`.

    Each file imports the previous ones. Here they share one top level, so a name may be defined in only one of them.
    """
    return "\n".join([pictures("const"), *map(_joined, OTHERS)])


@cache
def pictures(kind: Literal["const", "var"]) -> str:
    """Return declarations of the code for pictures and version counters; `var graph` is global in a classic script."""
    module = read_asset("graph.js").replace("export default", f"{kind} graph =")
    return "\n".join([module, _joined("counters.js"), _joined("timeline.js")])


def _joined(name: str) -> str:
    """Return a file without its imports and without its exports of names."""
    return re.sub(r"^import .*|^export (?!default)", "", read_asset(name), flags=re.M)
