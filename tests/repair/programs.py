"""Reads `broken.txt`: for each kind of repair a broken program, and the gradients that a correct one has, by hand.

A program stands under `# %% module.kind`, followed by lines for what is known of it (see `Broken`); ⏎ stands for a line break.
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
        kind: the one repair that is tried on it, `after` a part of what it must put in the source.
        gradients: what each leaf gets after the repair, from the formula.
        says: words of the sentence on what the repair changes; None where every value is kept.
        free: the leaf is given a new value on purpose, or cut off, so finite differences from its creation say something else.
        function: what is run and returns the gradients, None where the text runs from top to bottom.
    """

    name: str
    kind: Kind
    source: str
    after: str
    gradients: dict[str, list[float]]
    says: str | None
    free: bool
    function: str | None


def broken_programs() -> list[Broken]:
    """Return the programs in the order of the file."""
    text = (Path(__file__).parent / "broken.txt").read_text(encoding="utf-8")
    return [broken(*cell.split("\n", 1)) for cell in re.split(r"^# %% ", text, flags=re.MULTILINE)[1:]]


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


BROKEN = broken_programs()
