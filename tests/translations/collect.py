"""All translated texts of the course, by PO file."""

from __future__ import annotations

import ast
import io
import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import get_args

from babel.messages import Catalog
from babel.messages.extract import extract

from autograder.check.playground.arrangement import FormName
from autograder.course.author_cells import exercises
from autograder.course.canonical import read
from autograder.course.catalogue import BELIEFS, explanations
from autograder.course.catalogue import FOLDER as LESSON_DATA
from autograder.course.glossary_links import without_glossary_links
from autograder.course.paths import NOTEBOOKS, ROOT, SOLUTIONS, lessons
from autograder.course.practice.question_cards import practice_items
from autograder.locale.notebook_translation import WORD, markdown_texts, texts
from autograder.requirements import PACKAGE
from autograder.tape.atlas.atlas_text import load_atlas
from autograder.tape.diagnose.harms import HARM_KINDS
from autograder.view.assets import front_end_texts

MESSAGES, SENTENCES, README = "messages", "sentences", "README"
WIDTH = 140
KEYWORDS = {"translated": (1,), "translatable": (1,), "count_noun": (2, 3), "Candidate": (1,)}
"""Calls that take a text to be translated, and the numbers of the arguments that are one."""

MARKS = {*KEYWORDS, "Message", "counted_message", "of"}
MESSAGE = re.compile(r"([a-z_0-9]+(?:\.[a-z_0-9]+)+)\|(.+)", re.DOTALL)
"""The text of a `Message`: its id and its English text."""


def templates() -> dict[str, Catalog]:
    """Return a catalog without translations for each folder of lessons, and one for the texts of the package."""
    found: dict[str, Catalog] = {}
    for path in lessons(NOTEBOOKS):
        catalog = found.setdefault(path.parent.name, _empty())
        for text in texts(without_glossary_links(read(path))):
            catalog.add(text, locations=[(path.name, 0)])
    for path in lessons(SOLUTIONS):
        for text in chain.from_iterable(markdown_texts(told.text) for told in explanations(path.stem)):
            found[path.parent.name].add(text, locations=[(path.name, 0)])
        for answer in chain.from_iterable(exercise.of_kind("answer", "right") for exercise in exercises(path)):
            found[path.parent.name].add(answer.name, locations=[(path.name, 0)])
    for file in sorted(LESSON_DATA.glob("*.toml")):
        catalog = found.setdefault(file.stem, _empty())
        for text in _sentences(tomllib.loads(file.read_text("utf-8"))):
            catalog.add(text, locations=[(file.name, 0)])
    found[README] = _empty()
    for text in markdown_texts((ROOT / "README.md").read_text("utf-8")):
        found[README].add(text, locations=[("README.md", 0)])
    found[MESSAGES] = _spoken_by_the_package()
    found[SENTENCES] = _sentences_of_the_package()
    return found


def _empty() -> Catalog:
    return Catalog(project="Autograder", fuzzy=False)


def _sentences(data: object) -> Iterator[str]:
    """Yield the texts of a lesson's data: its title, and values with a space; names of exercises and lessons have none."""
    if isinstance(data, dict):
        yield from filter(None, [data.get("title", "")])
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from _sentences(item)
    elif isinstance(data, str) and " " in data.strip() and WORD.search(data):
        yield data


def _spoken_by_the_package() -> Catalog:
    catalog = _empty()
    for file in sorted(PACKAGE.rglob("*.py")):
        for text in spoken_in(file):
            catalog.add(text, locations=[(str(file.relative_to(PACKAGE.parent)), 0)])
    for file in page_templates():
        for text in spoken_in_template(file):
            catalog.add(text, locations=[(str(file.relative_to(PACKAGE.parent)), 0)])
    for text in (*front_end_texts(), *(name for name in get_args(FormName) if not name.startswith("."))):
        catalog.add(text)
    for kind in chain.from_iterable(HARM_KINDS):
        catalog.add(kind.sentence)
    for text in conditions():
        catalog.add(text, locations=[("autograder/tape/atlas", 0)])
    for text in _sentences(tomllib.loads(BELIEFS.read_text("utf-8"))):
        catalog.add(text, locations=[(BELIEFS.name, 0)])
    for text in dict.fromkeys(item.belief for item in practice_items()):
        catalog.add(text, locations=[("practice_items.toml", 0)])
    return catalog


def _sentences_of_the_package() -> Catalog:
    catalog, texts = _empty(), dict[str, str]()
    for file in sorted(PACKAGE.rglob("*.py")):
        for name, text in messages_in_file(file):
            if texts.setdefault(name, text) != text:
                raise AssertionError(f"two texts have the id {name}: {text!r} and {texts[name]!r}")
            catalog.add(text, locations=[(str(file.relative_to(PACKAGE.parent)), 0)], context=name)
    return catalog


def messages_in_file(file: Path) -> list[tuple[str, str]]:
    """Return the id and the English text of each message in a Python file."""
    nodes = (node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Constant))
    texts = sorted((node.lineno, node.value) for node in nodes if isinstance(node.value, str))
    return [(found[1], found[2]) for _, text in texts if (found := MESSAGE.fullmatch(text))]


def conditions() -> list[str]:
    """Return the conditions under which operations keep tensors, in the words of the atlas."""
    return sorted({keep.when for one in load_atlas().operations for keep in one.keeps if keep.when})


def page_templates() -> list[Path]:
    """Return the templates of all pages: of the book, of feedback and of a report."""
    return sorted([*(PACKAGE / "course" / "book" / "templates").iterdir(), *PACKAGE.rglob("*.j2")])


def spoken_in(file: Path) -> list[str]:
    """Return the texts that a Python file marks for translation, those of calls inside an f-string included.

    From the syntax tree: Babel 2.18 reads tokens, and up to Python 3.11 an f-string is one token.
    """
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Call)]
    calls = sorted((node.lineno, node.col_offset, number) for number, node in enumerate(nodes))
    return [text for _, _, number in calls for text in _texts_of(nodes[number])]


def _texts_of(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    for number in KEYWORDS.get(name, ()):
        given = call.args[number - 1] if number <= len(call.args) else None
        if isinstance(given, ast.Constant) and isinstance(given.value, str) and given.value:
            yield given.value
        elif given is not None and _unmarked(given):
            raise AssertionError(f"mark the text itself, by `translatable`: {ast.unparse(given)}")


def _unmarked(given: ast.expr) -> bool:
    """Return whether an argument contains a sentence that no call marks, so that it would not be translated."""
    calls = [node for node in ast.walk(given) if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MARKS]
    marked = {id(text) for call in calls for text in call.args}
    texts = [node for node in ast.walk(given) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return any(" " in str(text.value) and id(text) not in marked for text in texts)


def spoken_in_template(file: Path) -> list[str]:
    """Return the texts that a template of the book hands to `_`."""
    found = extract("jinja2.ext:babel_extract", io.BytesIO(file.read_bytes()), keywords={"_": None})
    return [str(text) for _, text, _, _ in found if text]
