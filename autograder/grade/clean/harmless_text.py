"""Text of a submission, without terminal commands and without the paths of the machine that graded it."""

from __future__ import annotations

import re
import site
import sys
import sysconfig
from functools import cache
from pathlib import Path

from autograder.requirements import PACKAGE

# Colors (CSI … m) are kept. Hyperlinks (OSC 8), other commands, control characters and changes of the writing direction
# are removed.
CONTROL = re.compile(
    r"(\x1b\[[0-9;]*m)|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-9;?]*[A-Za-ln-z]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
TEX_COMMAND = re.compile(r"\\([A-Za-z]+)")
FORMULA = re.compile(r"[$&]|\\(?:[(\[]|begin)")
"""The beginning of a formula for MathJax, also in the notations of HTML."""

NUMBERED = {"label", "ref", "eqref", "textbackslash", "ensuremath"}
ACTING = {"href", "class", "style", "unicode", "def", "newcommand", "newenvironment", "DeclareMathOperator", "verb"}
"""Commands that create links, set attributes, or rename other commands; latex2mathml (3.81) supports some of them."""

MOST_COLOURED = 10**9
"""Maximum of characters times colors: nbconvert (7.17, `ansi2html`) copies the rest of a text at each change of color."""

JOINER = "\u2060"
"""U+2060, word joiner: it has no width, and markup that contains it is not recognized."""


def harmless_text(text: str) -> str:
    """Return text without control characters, except for colors, and without the paths of this machine."""
    colours = text.count("\x1b[") * len(text) <= MOST_COLOURED
    text = CONTROL.sub(lambda match: (match[1] or "") if colours else "", text)
    return _known_paths().sub(lambda path: _names()[path[0]], text)


def harmless_tex(text: str) -> str:
    """Return text in whose formulas TeX commands that only show something are kept; MathJax shows other commands by name."""
    if not FORMULA.search(text):
        return text
    return TEX_COMMAND.sub(
        lambda command: command[0] if command[1] in _shown_commands() else f"\\{JOINER}{command[1]}", text
    )


@cache
def _shown_commands() -> frozenset[str]:
    """Return the names of the commands that latex2mathml converts, without those in `ACTING`."""
    from latex2mathml import commands  # a tenth of a second, for which the start of a run need not wait
    from latex2mathml.symbols_parser import SYMBOLS

    constants = [value for name, value in vars(commands).items() if name.isupper()]
    texts = [text for value in constants for text in ([value] if isinstance(value, str) else value)]
    names = {text.removeprefix("\\") for text in (*texts, *SYMBOLS) if isinstance(text, str)}
    return frozenset(names | NUMBERED) - ACTING


@cache
def _known_paths() -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(map(re.escape, sorted(_names(), key=len, reverse=True)))})(?![\\w.-])")


@cache
def _names() -> dict[str, str]:
    """Return the replacement of each folder of this machine that a traceback may name."""
    folders = {
        str(Path.cwd()): ".",
        str(Path.home()): "~",
        sys.base_prefix: "python",
        sys.prefix: "python",
        str(PACKAGE.parent): "…",
        str(PACKAGE): "autograder",
        sysconfig.get_path("stdlib"): "python",
    }
    folders |= {path: "site-packages" for path in [*site.getsitepackages(), site.getusersitepackages()]}
    # Also the resolved paths, and the form in which IPython shortens a path (`~/…`).
    every = {form: name for path, name in folders.items() if path not in ("/", "") for form in _forms(path)}
    return {form: name for form, name in every.items() if len(form) > len("/usr")}


def _forms(path: str) -> set[str]:
    home, paths = str(Path.home()), {path, str(Path(path).resolve())}
    return paths | {"~" + form.removeprefix(home) for form in paths if form.startswith(home + "/")}
