"""Finds the front-end module and its style: in assets/ of a clone, or inside the installed package."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal

from autograder.errors import SetupError
from autograder.installation.requirements import PACKAGE
from autograder.locale.translations import in_english, translated
from autograder.printable import printable

OTHERS = ("answer.js", "board.js")
SAID = re.compile(r'\bsay\("([^"]+)"')


@cache
def read_asset(name: str) -> str:
    """Returns the text of a file in assets/.

    Raises:
        SetupError: neither the clone nor the package has it, so the installation is incomplete.
    """
    for folder in (PACKAGE.parent / "assets", PACKAGE / "assets"):
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise SetupError(
        in_english(
            "{file} is missing: expected in {folder}. Install autograder again.",
            file=name,
            folder=printable(str(PACKAGE.parent / "assets")),
        )
    )


def front_end_words() -> dict[str, str]:
    """Return the front-end module's texts in the reader's language, by the English text; an empty dictionary in English."""
    return {text: told for text in front_end_texts() if (told := translated(text)) != text}


@cache
def front_end_texts() -> list[str]:
    """Return the front-end module's texts: the arguments of its calls of `say`."""
    return list(dict.fromkeys(SAID.findall(front_end())))


@cache
def front_end() -> str:
    """Returns the front-end module with all that it can draw, joined from its files; `export default` has `initialize` and `render`.

    Each file imports those before it and shares their top level here, so a name stands in one of them only.
    """
    return "\n".join([pictures("const"), *map(_joined, OTHERS)])


@cache
def pictures(kind: Literal["const", "var"]) -> str:
    """Return declarations of the code for pictures and version counters; `var graph` is global in a classic script."""
    return "\n".join([read_asset("graph.js").replace("export default", f"{kind} graph ="), _joined("counters.js")])


def _joined(name: str) -> str:
    """Returns a file without its imports and exports of names."""
    return re.sub(r"^import .*|^export (?!default)", "", read_asset(name), flags=re.M)
