"""Brings the PO files up to date with the texts of the course, and says how much of each language is translated.

    python -m tests.translations

New texts are added without a translation, changed ones keep the old translation marked as fuzzy, texts that are gone are
removed; the README of each language is written anew. Needs `autograder release` first, because the released notebooks are what is read.
"""

from __future__ import annotations

from pathlib import Path

from babel.messages import Catalog, Message
from babel.messages.pofile import write_po

from autograder.locale.languages import LANGUAGES, SOURCE
from autograder.locale.translations import FOLDER, read_po
from tests.translations.collect import WIDTH, templates
from tests.translations.readme import readme_file, readme_in


def main() -> None:
    """Print a line for each language."""
    fresh = templates()
    for spoken in LANGUAGES.keys() - {SOURCE}:
        folder = FOLDER / spoken.replace("-", "_")
        folder.mkdir(exist_ok=True)
        for name, template in fresh.items():
            update(folder / f"{name}.po", template, spoken)
        for old in folder.glob("*.po"):
            if old.stem not in fresh:
                old.unlink()
        readme_file(spoken).write_text(readme_in(spoken), "utf-8")
        texts = [message for file in folder.glob("*.po") for message in read_po(file) if message.id]
        fuzzy = sum(message.fuzzy for message in texts)
        done = sum(bool(message.string) and not message.fuzzy for message in texts)
        print(f"{spoken}: {len(texts)} texts, {done} translated, {fuzzy} fuzzy")


def update(file: Path, template: Catalog, spoken: str) -> None:
    """Write one PO file with the template's texts and the translations that it had."""
    catalog = (
        read_po(file) if file.exists() else Catalog(locale=spoken.replace("-", "_"), project="Autograder", fuzzy=False)
    )
    for message in template:
        _reword(catalog, message)
    catalog.update(template, update_creation_date=False)
    with file.open("wb") as stream:
        write_po(stream, catalog, width=WIDTH, ignore_obsolete=True, include_lineno=False, omit_header=False)


def _reword(catalog: Catalog, message: Message) -> None:
    """Keep the translation of a message whose English text was changed, marked as fuzzy; its id is the same."""
    old = next((one for one in catalog if message.context and one.context == message.context), None)
    if old is not None and old.id != message.id:
        catalog.delete(old.id, old.context)
        catalog.add(message.id, old.string, flags={*old.flags, "fuzzy"}, context=message.context)


if __name__ == "__main__":
    main()
