"""Programs that were written independently of each other, and copies of some that somebody tried to hide."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NAMES = ("x", "data", "values", "t", "inputs", "batch", "h", "arr", "items", "seq")
STEPS = (
    "{y} = {x}.clone()", "{y} = {x} * {n}", "{y} = {x} + {n}", "{y} = torch.sigmoid({x})", "{y} = {x}.mean()", "{y} = {x} - {x}.max()",
    "{y} = torch.stack([{x}, {x} * {n}])", "{y} = torch.cat([{x}, {x}[:{n}]])", "{y} = {x}.exp() / {x}.exp().sum()",
    "{y} = {x}.reshape(-1)[{n}:]", "{y} = torch.where({x} > {n}, {x}, -{x})", "{y} = {x}.clamp(min={n})",
    "{y} = ({x} ** {n}).sqrt()", "{y} = {x}.sort().values", "{y} = {x}.cumsum(0)", "{y} = torch.relu({x} - {n})",
    "for i in range({n}):\n        {y} = {x} * i", "if {x}.sum() > {n}:\n        {y} = {x}\n    else:\n        {y} = -{x}",
    "{y} = [one for one in {x} if one > {n}]", "{y} = dict(enumerate({x}))", "print({x}.shape, {n})\n    {y} = {x}",
    "{y} = max({x}, key=lambda one: one % {n})", "{y} = {x}.detach()\n    {y}.requires_grad_()",
    "with torch.no_grad():\n        {y} = {x} / {n}",
)  # fmt: skip
STUB = "def solve(x):\n    total = x.sum()\n    # your code here\n    return total"


def independent(chance: random.Random, steps: int = 9) -> str:
    """Return a program with the common beginning and end, and individual steps."""
    names = chance.sample(NAMES, 4)
    body = [
        step.format(x=chance.choice(names), y=chance.choice(names), n=chance.randint(2, 9))
        for step in chance.choices(STEPS, k=steps)
    ]
    return "def solve(x):\n    total = x.sum()\n    " + "\n    ".join(body) + "\n    return total"


def renamed(code: str, chance: random.Random) -> str:
    """Return the program with other names."""
    return re.sub(r"\b(" + "|".join(NAMES) + r")\b(?!\()", lambda found: f"my_{found[1]}", code).replace(
        "(my_x):", "(x):", 1
    )


def reformatted(code: str, chance: random.Random) -> str:
    """Return the program with other layout, and comments."""
    lines = [
        line.replace(" = ", "=").replace(" * ", "*") + ("  # step" if chance.random() < 0.4 else "")
        for line in code.splitlines()
    ]
    return "\n".join(line + ("\n" if chance.random() < 0.3 else "") for line in lines)


def reordered(code: str, chance: random.Random) -> str:
    """Return the program with two of its parts exchanged."""
    lines = code.splitlines()
    heads = [number for number, line in enumerate(lines) if re.match(r"    \S", line)]
    half = heads[len(heads) // 2]
    return "\n".join([*lines[:2], *lines[half:-1], *lines[2:half], lines[-1]])


DISGUISES: dict[str, Callable[[str, random.Random], str]] = {
    "as it was": lambda code, chance: code,
    "renamed": renamed,
    "reformatted": reformatted,
    "reordered": reordered,
    "all three": lambda code, chance: reordered(reformatted(renamed(code, chance), chance), chance),
}
