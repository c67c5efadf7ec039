"""Links to the glossary: in each lesson, the first use of a term links to its entry.

The headings of the glossary's notebook, or their translations, define the terms. The links are added when a lesson is
released, so that authors do not write them, and again after a lesson is translated.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode

from autograder.course.canonical import read
from autograder.course.paths import NOTEBOOKS
from autograder.locale.languages import METADATA, SOURCE, use_language
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
"""The patterns of terms whose forms in a text are more than the heading with an optional s."""

COMMON = {"Detach", "Index", "Select and slice"}
"""Terms whose name is also an everyday word of the lessons; only their code is linked."""

OTHER_SENSES = (
    r"leaves (?:a|behind|in|it|its|no|the)\b|(?:your|own) version|versions? of PyTorch|in view"
    r"|你的版本|更早的版本|这个版本"
)
"""Phrases in which the word of a term has another meaning."""

CALLS = {"Backward", "Clone", "Detach"}
"""Terms that are also the name of a method. For other terms, code is linked only if the heading is code."""

HEADING = r"^#.*$"
TARGET = r"""\((?:[^)"]|"[^"]*")*\)"""
OPAQUE = rf"(?P<opaque>(?s:```.*?```)|<[^>]*>|\$[^$]*\$|!?\[[^\]]*\]{TARGET})"
CODE = r"`(?P<code>[^`\n]+)`"
LINK = re.compile(rf"\[([^\]]+)\](?=\({re.escape(GLOSSARY)}#){TARGET}")
EMPHASIS = re.compile(rf"{OPAQUE}|{CODE}|(?P<stress>\*\*?)(?P<inside>[^*\s][^*\n]*)(?P=stress)", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    """A glossary entry, with the pattern that finds its term in a lesson."""

    anchor: str  # the anchor that JupyterLab generates for its heading
    code: str | None  # its name in code, such as "no_grad"; None if it has none in code
    words: str  # a pattern for the term in a text; "" if only its code is linked


class GlossaryLinks:
    """The links of one text, which is processed from its beginning."""

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
        """Return the next Markdown cell with its links.

        Asterisks are moved inside a link, because they are not parsed as emphasis next to a Chinese letter and before a
        bracket (CommonMark 0.31, 6.2).
        """
        return EMPHASIS.sub(_stress_inside, self._pattern.sub(self._link, source))

    def _link(self, match: re.Match[str]) -> str:
        term = self._terms_of_code.get(code_name(match["code"] or "")) or self._terms.get(match.lastgroup or "")
        if term is None or term.anchor in self._seen:
            return match[0]
        self._seen.add(term.anchor)
        return f"[{match[0]}]({GLOSSARY}#{term.anchor})"


def _stress_inside(match: re.Match[str]) -> str:
    """Return emphasized words that begin or end with a link as one link around the emphasized words; other text unchanged."""
    inside = match["inside"] or ""
    targets = re.findall(rf"\]({TARGET})", inside)
    if len(targets) != 1 or not (inside.startswith("[") or inside.endswith(")")) or not LINK.search(inside):
        return match[0]
    marks, words = match["stress"], LINK.sub(r"\1", inside)
    return f"[{marks}{words}{marks}]{targets[0]}"


def with_glossary_links(notebook: NotebookNode, glossary: Path = OWN_GLOSSARY) -> NotebookNode:
    """Return a copy in which the lesson's first use of a term is a link; headings, code and other links are unchanged.

    The lesson may be in any of the course's languages. If the English notebook with the terms is missing, the copy has
    no links.
    """
    linked = copy.deepcopy(notebook)
    links = GlossaryLinks(glossary_terms(notebook.metadata.get(METADATA, SOURCE), glossary))
    for cell in linked.cells:
        if (
            cell.cell_type == "markdown" and "nbgrader" not in cell.metadata
        ):  # nbgrader compares such a cell with its checksum
            cell.source = links.linked(cell.source)
    return linked


def without_glossary_links(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without the links, as authors and translators edit it."""
    plain = copy.deepcopy(notebook)
    for cell in plain.cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"\1", cell.source)
    return plain


def lesson_in_language(notebook: NotebookNode, language_code: str) -> NotebookNode:
    """Return a released page in one of the course's languages, with links to the glossary in that language."""
    plain = without_glossary_links(notebook)
    translation = in_language(plain, language_code)
    return translation if plain == notebook else with_glossary_links(translation)


def glossary_terms(language_code: str, glossary: Path = OWN_GLOSSARY) -> tuple[Term, ...]:
    """Return the entries of the glossary in one of the course's languages."""
    cells = read(glossary).cells if glossary.exists() else []
    headings = [cell.source.partition("\n")[0] for cell in cells if cell.source.startswith("## ")]
    with use_language(language_code):
        return tuple(_term(heading[3:], translated(heading)[3:]) for heading in headings)


def code_name(code: str) -> str:
    """Return the name in a piece of code: no_grad for `torch.no_grad()`, and data for `.data`."""
    return re.sub(r"^(torch)?\.|\(\)$|=(True|False)$", "", code).lower()


def _term(title: str, heading: str) -> Term:
    """Return the entry with this English title and this heading."""
    if title.startswith("`") or title in COMMON:
        words = ""
    elif heading == title:
        words = rf"\b(?:{OTHER_FORMS.get(title, re.escape(title.lower()) + 's?')})\b"
    else:
        words = re.escape(re.split("[（(]", heading)[0].lower())
    code = title.strip("`.").lower() if title.startswith("`") or title in CALLS else None
    return Term(re.sub(r"\s+", "-", heading.replace("`", "")), code, words)
