"""The declared differences between two students' notebooks, from `variants.toml` next to the sources."""

from __future__ import annotations

import builtins
import copy
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
WORDS = {"a", "A", "i", "I"}  # in a comment, such a name cannot be distinguished from an English word
STRING_PREFIXES = {"b", "f", "r", "u"}
CODE_IN_TEXT = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


class VariantError(InputError):
    """A variant cannot be created or is invalid; the message names the assignment, the exercise and the seed."""


class ExerciseChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One difference in the section of an exercise: the place of the fault, the outcome, numbers or words."""

    exercise: str  # the exercise's id; all cells below its heading may change
    differs: str  # a description of the difference for the teacher
    replace: tuple[str, ...]  # the texts of the section to replace
    # for each alternative, a list of replacements for these texts. The original texts are a further alternative
    by: tuple[tuple[str, ...], ...]


class DeclaredChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The differences between variants of one assignment."""

    names: dict[str, tuple[str, ...]] = {}  # for each variable, its alternative names in the whole assignment
    choices: tuple[ExerciseChoice, ...] = ()  # the differences in single exercises

    @property
    def digest(self) -> str:
        """The SHA-256 digest of all differences."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


NOTHING = DeclaredChanges()


def read_changes(sources: Path, assignment: str) -> DeclaredChanges:
    """Return the differences for an assignment in a folder of sources; `NOTHING` if none are declared.

    Raises:
        VariantError: the file is not valid TOML, or does not have this structure.
    """
    path = sources / FILE
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        changes = msgspec.convert(table, dict[str, DeclaredChanges])
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError) as error:
        raise VariantError(f"{path} cannot be used: {error}. Correct that line, or remove the file") from None
    for name, declared in changes.items():
        for choice in declared.choices:
            if any(len(option) != len(choice.replace) for option in choice.by):
                raise VariantError(
                    f"{path}: {name}, {choice.exercise}: every list in `by` has to be as long as `replace`, "
                    f"which has {len(choice.replace)} texts"
                )
    return changes.get(assignment, NOTHING)


def with_choices(notebook: NotebookNode, changes: DeclaredChanges, seed: int) -> NotebookNode:
    """Return a copy with one alternative for the texts of each choice, which depends on the seed and the exercise."""
    chosen = copy.deepcopy(notebook)
    for number, choice in enumerate(changes.choices):
        options = [choice.replace, *choice.by]
        option = random.Random(f"{seed} {choice.exercise} {number}").choice(options)
        for cell in section_of(chosen, choice.exercise):
            cell.source = replace_phrases(cell.source, dict(zip(choice.replace, option, strict=True)))
    return chosen


def chosen_names(changes: DeclaredChanges, seed: int) -> dict[str, str]:
    """Return each variable's name in the variant with this seed."""
    return {old: random.Random(f"{seed} {old}").choice((old, *new)) for old, new in changes.names.items()}


def rename(notebook: NotebookNode, changes: DeclaredChanges, seed: int) -> None:
    """Replace each variable's name, in all code and in text marked as code."""
    names = chosen_names(changes, seed)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = rename_variables(cell.source, names)
        else:
            cell.source = CODE_IN_TEXT.sub(lambda code: rename_variables(code[0], names), cell.source)


def section_of(notebook: NotebookNode, exercise: str) -> list[NotebookNode]:
    """Return the cells from the heading above an exercise's check to the next heading; empty if the exercise does not exist."""
    section: list[NotebookNode] = []
    is_replaced = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("#"):
            if is_replaced:
                break
            section = []
        section.append(cell)
        is_replaced = is_replaced or cell.metadata.get("nbgrader", {}).get("grade_id") == exercise
    return section if is_replaced else []


def check_changes(assignment: str, notebook: NotebookNode, changes: DeclaredChanges) -> None:
    """Compare the declared differences with the source.

    Raises:
        VariantError: a text or an exercise does not exist, or a new name already has another meaning.
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
                raise VariantError(
                    f"{assignment}: {FILE} cannot rename {old!r} to {name!r}: {reason}. Choose another name"
                )


def _obstacle(name: str, used: Iterable[str]) -> str:
    if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name):
        return "it is a Python keyword or builtin, or not a valid name"
    if name in WORDS:
        return "it is an English word that comments may contain"
    return "the notebook uses it already" if name in used else ""


def replace_phrases(text: str, by: Mapping[str, str]) -> str:
    """Return the text with all of these phrases replaced simultaneously, except where they are part of a longer word."""
    return _replaced(text, by, _phrase)


def rename_variables(code: str, names: Mapping[str, str]) -> str:
    """Return the code with other names for its variables; attributes of the same name are unchanged."""
    return _replaced(code, names, _variable)


def _replaced(text: str, by: Mapping[str, str], pattern: Callable[[str], str]) -> str:
    """Return the text with all matches replaced simultaneously."""
    if not by:
        return text
    longest_first = sorted(by, key=len, reverse=True)
    return re.sub("|".join(map(pattern, longest_first)), lambda match: by[match[0]], text)


def _phrase(text: str) -> str:
    """Return a pattern for the text that does not match parts of a longer word."""
    start = r"(?<!\w)" if re.match(r"\w", text) else ""
    return start + re.escape(text) + (r"(?!\w)" if re.search(r"\w$", text) else "")


def _variable(name: str) -> str:
    """Return a pattern for a variable that matches neither an attribute nor the end of "caller's"."""
    name = re.escape(name)
    if name.lower() in STRING_PREFIXES:
        return rf"(?<=[\"']){name}(?=[\"'])|(?<![\w.]){name}(?![\w\"'])"
    return rf"(?<![\w.])(?<!\w['’]){name}(?!\w)"
