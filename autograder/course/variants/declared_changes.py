"""What may differ between two students' notebooks: `variants.toml` beside the sources, edited by hand."""

from __future__ import annotations

import builtins
import hashlib
import keyword
import random
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from autograder.errors import InputError

if TYPE_CHECKING:
    from nbformat import NotebookNode

FILE = "variants.toml"
WORDS = {"a", "A", "i", "I"}  # a name that is a word of English as well cannot be told from it in a comment
STRING_PREFIXES = {"b", "f", "r", "u"}
CODE_IN_TEXT = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


class VariantError(InputError):
    """A variant cannot be made or is not what it should be; the message names the assignment, the exercise and the seed."""


class ExerciseChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that differs in the section of an exercise: where the fault is, what happens, which numbers or words stand there.

    Attributes:
        exercise: the exercise's id; all cells below its heading may change.
        differs: what differs, in words for the teacher.
        replace: texts of the section.
        by: for each alternative, what stands there instead of each of these texts. The texts themselves are one more.
    """

    exercise: str
    differs: str
    replace: tuple[str, ...]
    by: tuple[tuple[str, ...], ...]


class DeclaredChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What may differ in one assignment.

    Attributes:
        names: for each variable, the names that it may have instead, everywhere in the assignment.
        choices: what differs in single exercises.
    """

    names: dict[str, tuple[str, ...]] = {}
    choices: tuple[ExerciseChoice, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of all of it."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


NOTHING = DeclaredChanges()


def read_changes(sources: Path) -> dict[str, DeclaredChanges]:
    """Returns what may differ in each assignment below a folder of sources; without the file, nothing.

    Raises:
        VariantError: the file is no TOML, or has another form.
    """
    path = sources / FILE
    try:
        found = tomllib.loads(path.read_text("utf-8"))
        changes = msgspec.convert(found, dict[str, DeclaredChanges])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise VariantError(f"{path} cannot be used: {error}. Correct that line, or take the file away") from None
    for assignment, one in changes.items():
        for choice in one.choices:
            if any(len(option) != len(choice.replace) for option in choice.by):
                raise VariantError(
                    f"{path}: {assignment}, {choice.exercise}: every list in `by` has to be as long as `replace`, "
                    f"which has {len(choice.replace)} texts"
                )
    return changes


def choose(notebook: NotebookNode, changes: DeclaredChanges, seed: int) -> None:
    """Replaces the texts of each choice by those of one alternative, which depends on the seed and the exercise."""
    for number, choice in enumerate(changes.choices):
        options = [choice.replace, *choice.by]
        option = random.Random(f"{seed} {choice.exercise} {number}").choice(options)
        for cell in section_of(notebook, choice.exercise):
            cell.source = replace_phrases(cell.source, dict(zip(choice.replace, option, strict=True)))


def chosen_names(changes: DeclaredChanges, seed: int) -> dict[str, str]:
    """Returns each variable's name in the variant with this seed."""
    return {old: random.Random(f"{seed} {old}").choice((old, *new)) for old, new in changes.names.items()}


def rename(notebook: NotebookNode, changes: DeclaredChanges, seed: int) -> None:
    """Gives each variable one of its names: in code everywhere, in text where it stands as code."""
    names = chosen_names(changes, seed)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = rename_variables(cell.source, names)
        else:
            cell.source = CODE_IN_TEXT.sub(lambda code: rename_variables(code[0], names), cell.source)


def section_of(notebook: NotebookNode, exercise: str) -> list[NotebookNode]:
    """Returns the cells from the heading above an exercise's check to the next heading; none if there is no such exercise."""
    section: list[NotebookNode] = []
    found = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            if found:
                break
            section = []
        section.append(cell)
        found = found or cell.metadata.get("nbgrader", {}).get("grade_id") == exercise
    return section if found else []


def check_changes(assignment: str, notebook: NotebookNode, changes: DeclaredChanges) -> None:
    """Compares what is declared with the source.

    Raises:
        VariantError: a text or an exercise is not there, or a new name means something else already.
    """
    for choice in changes.choices:
        text = "\n".join(cell.source for cell in section_of(notebook, choice.exercise))
        for wanted in choice.replace:
            if not re.search(_phrase(wanted), text):
                raise VariantError(
                    f"{assignment}, {choice.exercise}: {FILE} replaces {wanted!r}, which is not in its section (any more). "
                    "Correct the text there"
                )
    used = set(re.findall(r"\w+", "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")))
    for old, new in changes.names.items():
        for name in (old, *new):
            if reason := _obstacle(name, used - {old} if name != old else set()):
                raise VariantError(f"{assignment}: {FILE} cannot call {old!r} {name!r}: {reason}. Take another name")


def _obstacle(name: str, used: Iterable[str]) -> str:
    if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
        return "Python has a meaning for it, or it is no name"
    if name in WORDS:
        return "in comments it is a word of English"
    return "the notebook uses it already" if name in used else ""


def replace_phrases(text: str, by: Mapping[str, str]) -> str:
    """Returns the text with all of these phrases replaced at once, where they are no part of a longer word."""
    return _replaced(text, by, _phrase)


def rename_variables(code: str, names: Mapping[str, str]) -> str:
    """Returns the code with other names for its variables; an attribute is not the variable of its name."""
    return _replaced(code, names, _variable)


def _replaced(text: str, by: Mapping[str, str], pattern: Callable[[str], str]) -> str:
    """Returns the text with all of these replaced at once."""
    if not by:
        return text
    longest_first = sorted(by, key=len, reverse=True)
    return re.sub("|".join(map(pattern, longest_first)), lambda found: by[found[0]], text)


def _phrase(text: str) -> str:
    """Returns a pattern for the text where it is not a part of a longer word."""
    start = r"(?<!\w)" if re.match(r"\w", text) else ""
    return start + re.escape(text) + (r"(?!\w)" if re.search(r"\w$", text) else "")


def _variable(name: str) -> str:
    """Returns a pattern for a variable; an attribute is not the variable of its name, nor is the end of "caller's"."""
    name = re.escape(name)
    if name.lower() in STRING_PREFIXES:
        return rf"(?<=[\"']){name}(?=[\"'])|(?<![\w.]){name}(?![\w\"'])"
    return rf"(?<![\w.])(?<!\w['’]){name}(?!\w)"
