"""Mathematics as MathML, which browsers draw without a script."""

from __future__ import annotations

import re
from html import escape

import nh3
from latex2mathml.converter import convert

from autograder.grade.clean.harmless_text import JOINER

# fmt: off
TAGS = {
    "math", "mrow", "mi", "mn", "mo", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "mtable", "mtr", "mtd", "mtext", "mspace",
    "mover", "munder", "munderover", "mstyle", "mpadded", "mphantom", "mmultiscripts", "mprescripts", "none",
}
# fmt: on
ATTRIBUTES = {
    "math": {"display"},
    "mo": {"stretchy", "fence", "minsize", "maxsize"},
    "mi": {"mathvariant"},
    "mtable": {"columnalign"},
    "mfrac": {"linethickness"},
    "mspace": {"width"},
}
LONGEST = 5_000
# latex2mathml 3.81 knows the starred forms of these only.
SAME_AS = {
    "aligned": "align*",
    "align": "align*",
    "eqnarray": "align*",
    "equation": "",
    "equation*": "",
    "gathered": "align*",
}


def as_mathml(latex: str, *, block: bool = False) -> str:
    """Returns a formula as MathML; one that is not understood as its own text, in code."""
    latex = latex.replace(JOINER, "")
    try:
        if len(latex) > LONGEST:
            raise ValueError
        found = convert(_known_environments(latex), display="block" if block else "inline")
    except Exception:  # noqa: BLE001 - latex2mathml raises errors of many kinds for what it cannot read
        return f"<code>{escape(latex)}</code>"
    # It copies the text of a formula into its elements as it is, and makes attributes of some commands.
    return nh3.clean(found, tags=TAGS, attributes=ATTRIBUTES, clean_content_tags={"script", "style"})


def _known_environments(latex: str) -> str:
    def replace(found: re.Match[str]) -> str:
        name = SAME_AS.get(found[2], found[2])
        return f"\\{found[1]}{{{name}}}" if name else ""

    return re.sub(r"\\(begin|end)\{([a-z]+\*?)\}", replace, latex)
