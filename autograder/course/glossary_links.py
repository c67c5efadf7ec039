"""Links from a lesson's words to the glossary: each term leads to its entry where a section uses it first.

The headings of the glossary's notebook are the only list of terms; in another language, their translations are. The links are
made when a lesson is released, so that nobody writes them, and made again after a lesson is translated. A link's title, which a
pointer at rest shows, is the first sentence of the entry: JupyterLab 4.6 opens the glossary at its top the first time, because
it looks for the heading before the cells are there.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import NamedTuple

from nbformat import NotebookNode

from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS
from autograder.locale.languages import METADATA, SOURCE, speaking
from autograder.locale.notebook_translation import in_language
from autograder.locale.translations import translated

OWN_GLOSSARY = NOTEBOOKS / "start" / "glossary.ipynb"
GLOSSARY = "../start/glossary.ipynb"

OTHER_FORMS = {
    "Alias": r"alias(?:es)?",
    "Backward": r"backward pass(?:es)?",
    "Base": r"(?:its|the|their) base",
    "Forward": r"forward pass(?:es)?",
    "In-place operation": r"in-place (?:operation|write)s?",
    "Leaf": r"leaf|leaves",
    "Rebasing the history": r"rebas(?:es|ed|ing) (?:the|its) history|history is rebased",
    "Rebinding": r"rebind(?:s|ing)?",
}
"""The forms that a text gives to a term, where it is not the heading, with or without an s."""

COMMON = {"Detach", "Index", "Select and slice"}
"""Terms whose name is also an everyday word of the lessons; only their code is linked."""

OTHER_SENSES = (
    r"leaves (?:a|behind|in|it|its|no|the)\b|(?:your|own) version|versions? of PyTorch|in view"
    r"|你的版本|更早的版本|这个版本"
)
"""Phrases in which the word of a term means something else."""

CALLS = {"Backward", "Clone", "Detach"}
"""Terms that are also the name of a method; of the others, code is linked where the heading is code."""

HEADING = r"(?P<heading>^#.*$)"
TARGET = r"""\((?:[^)"]|"[^"]*")*\)"""
OPAQUE = rf"(?P<opaque>(?s:```.*?```)|<[^>]*>|\$[^$]*\$|!?\[[^\]]*\]{TARGET})"
CODE = r"`(?P<code>[^`\n]+)`"
LINK = re.compile(rf"\[([^\]]+)\](?=\({re.escape(GLOSSARY)}#){TARGET}")
STRESSED = re.compile(rf"{OPAQUE}|{CODE}|(?P<stress>\*\*?)(?P<inside>[^*\s][^*\n]*)(?P=stress)", re.MULTILINE)


class Term(NamedTuple):
    """One entry of the glossary.

    Attributes:
        anchor: what JupyterLab makes of its heading.
        code: its name in code, such as "no_grad"; None where it has none.
        words: a pattern for it in a text; "" where only its code is linked.
        sentence: the first one of its entry, as plain text; "" where there is none.
    """

    anchor: str
    code: str | None
    words: str
    sentence: str

    @property
    def target(self) -> str:
        """Where a link to it leads, with the title, as Markdown."""
        title = f' "{self.sentence}"' if self.sentence else ""
        return f"({GLOSSARY}#{self.anchor}{title})"


class GlossaryLinks:
    """The links of one text, which is read from its beginning."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        longest_first = sorted((term for term in terms if term.words), key=lambda term: -len(term.words))
        groups = {f"term{number}": term for number, term in enumerate(longest_first)}
        words = [f"(?P<{group}>{term.words})" for group, term in groups.items()]
        self._terms = groups
        self._terms_of_code = {term.code: term for term in terms if term.code}
        self._pattern = re.compile(
            "|".join((HEADING, OPAQUE, OTHER_SENSES, CODE, *words)), re.MULTILINE | re.IGNORECASE
        )
        self._seen: set[str] = set()

    def linked(self, source: str) -> str:
        """Returns the next Markdown cell with its links.

        Asterisks stand inside a link: beside a Chinese letter and before a bracket they would open nothing (CommonMark 0.31, 6.2).
        """
        return STRESSED.sub(_stress_inside, self._pattern.sub(self._link, source))

    def _link(self, found: re.Match[str]) -> str:
        if found["heading"]:
            self._seen.clear()
        term = self._terms_of_code.get(code_name(found["code"] or "")) or self._terms.get(found.lastgroup or "")
        if term is None or term.anchor in self._seen:
            return found[0]
        self._seen.add(term.anchor)
        return f"[{found[0]}]{term.target}"


def _stress_inside(found: re.Match[str]) -> str:
    """Returns stressed words that begin or end with a link as one link around the stressed words; any other text as it is."""
    inside = found["inside"] or ""
    targets = re.findall(rf"\]({TARGET})", inside)
    if len(targets) != 1 or not (inside.startswith("[") or inside.endswith(")")) or not LINK.search(inside):
        return found[0]
    stress, words = found["stress"], LINK.sub(r"\1", inside)
    return f"[{stress}{words}{stress}]{targets[0]}"


def with_glossary_links(notebook: NotebookNode, glossary: Path = OWN_GLOSSARY) -> NotebookNode:
    """Returns a copy in which each section's first use of a term is a link; headings, code and other links stay as they are.

    Args:
        notebook: a lesson, in any of the course's languages.
        glossary: the notebook with the terms, in English; where it is missing, nothing is linked.
    """
    linked = copy.deepcopy(notebook)
    links = GlossaryLinks(glossary_terms(notebook.metadata.get(METADATA, SOURCE), glossary))
    for cell in linked.cells:
        if (
            cell.cell_type == "markdown" and "nbgrader" not in cell.metadata
        ):  # nbgrader compares those with their checksum
            cell.source = links.linked(cell.source)
    return linked


def without_glossary_links(notebook: NotebookNode) -> NotebookNode:
    """Returns a copy with the words alone, as their author and a translator have them."""
    plain = copy.deepcopy(notebook)
    for cell in plain.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
    return plain


def lesson_in_language(notebook: NotebookNode, spoken: str) -> NotebookNode:
    """Returns a released page in one of the course's languages, its links to the glossary's entries in that language."""
    plain = without_glossary_links(notebook)
    translation = in_language(plain, spoken)
    return translation if plain == notebook else with_glossary_links(translation)


def glossary_terms(spoken: str, glossary: Path = OWN_GLOSSARY) -> tuple[Term, ...]:
    """Returns the entries of the glossary in one of the course's languages."""
    cells = read(glossary).cells if glossary.exists() else []
    entries = [cell.source.partition("\n\n") for cell in cells if cell.source.startswith("## ")]
    with speaking(spoken):
        return tuple(_term(heading[3:], translated(heading)[3:], translated(body)) for heading, _, body in entries)


def code_name(code: str) -> str:
    """Returns what a piece of code in a text is about: `torch.no_grad()` is no_grad, and `.data` is data."""
    return re.sub(r"^(torch)?\.|\(\)$|=(True|False)$", "", code).lower()


def _term(title: str, heading: str, body: str) -> Term:
    """Returns the entry with this English title, this heading, and the text below it."""
    if title.startswith("`") or title in COMMON:
        words = ""
    elif heading == title:
        words = rf"\b(?:{OTHER_FORMS.get(title, re.escape(title.lower()) + 's?')})\b"
    else:
        words = re.escape(re.split("[（(]", heading)[0].lower())
    code = title.strip("`.").lower() if title.startswith("`") or title in CALLS else None
    sentence = re.sub(r"[`*]|^More:.*", "", body.partition("\n")[0]).replace('"', "'")
    return Term(re.sub(r"\s+", "-", heading.replace("`", "")), code, words, sentence)
