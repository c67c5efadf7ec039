"""Reads `broken.txt`: for each kind of repair, a broken program and the gradients of a correct one, computed by hand.

A program is below `# %% module.kind`, followed by lines with known facts (see `Broken`); ⏎ represents a line break.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from pathlib import Path

from autograder.tape.repair.broken_program import Kind

FACT = re.compile(r"^# (after|gradients|says|free|function)(?:: (.*))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Broken:
    """A broken program.

    Attributes:
        kind: the only repair that is tried on it; `after` is a part of the text that the repair must insert.
        gradients: the gradient of each leaf after the repair, from the formula.
        says: words of the sentence about the changes of the repair; None if every value is kept.
        free: whether the leaf is given a new value on purpose, or cut off, so that finite differences from its creation
            differ.
        function: the function that is run and returns the gradients; None if the text runs from top to bottom.
    """

    name: str
    kind: Kind
    source: str
    after: str
    gradients: dict[str, list[float]]
    says: str | None
    free: bool
    function: str | None


def cells_of(file: str) -> list[list[str]]:
    """Return the name and the text of each cell in the order of the file."""
    text = (Path(__file__).parent / file).read_text(encoding="utf-8")
    return [cell.split("\n", 1) for cell in re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]]


def texts_of(file: str) -> dict[str, str]:
    """Return the text of each cell by its name, with an empty first line."""
    return {name: "\n" + text.rstrip("\n") + "\n" for name, text in cells_of(file)}


def broken(name: str, body: str) -> Broken:
    """Return one program from its cell."""
    facts = {key: value.replace(" ⏎ ", "\n") for key, value in FACT.findall(body)}
    module, function = name.split(".")
    kind = getattr(importlib.import_module(f"autograder.tape.repair.kinds.{module}"), function)
    numbers = [one.split() for one in facts["gradients"].split(", ")]
    return Broken(
        name=f"{name}: {facts['after']}",
        kind=kind,
        source=FACT.sub("", body).strip("\n") + "\n",
        after=facts["after"],
        gradients={leaf: [float(number) for number in some] for leaf, *some in numbers},
        says=facts.get("says"),
        free="free" in facts,
        function=facts.get("function"),
    )


BROKEN = [broken(*cell) for cell in cells_of("broken.txt")]
