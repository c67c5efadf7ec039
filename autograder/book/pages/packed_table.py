"""The script of a table of arrangements: the changes that a reader can make to a program, and the result of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from autograder.book.pages.packed_pictures import packed_script
from autograder.book.pages.verdict_text import verdict_html
from autograder.book.record.lesson_blocks import PlayTable
from autograder.locale.translations import translated
from autograder.view.scene.composition import build_scene

WORTH_SHARING = 60
"""Bytes of JSON from which on a repeated part is stored only once."""


def table_script(name: str, table: PlayTable) -> str:
    """Return the script, in which the scenes share equal parts."""
    scenes = [build_scene(one.recording) for one in table.tried]
    tried = [
        {
            "key": one.key, "outcome": one.recording.verdict.outcome, "sentence": one.sentence, "scene": scene,
            "passes": one.passes, "said": verdict_html(one.said),
        }
        for one, scene in zip(table.tried, scenes, strict=True)
    ]  # fmt: skip
    cards = [
        {"id": card.id, "fixed": card.is_fixed, "forms": [[translated(form.name), form.text] for form in card.forms]}
        for card in table.program.cards
    ]
    given = {"given": table.program.as_given.key, "header": table.program.header, "spare": list(table.program.spare)}
    return packed_script(name, {"cards": cards} | given | share(msgspec.to_builtins(tried)))


def share(value: Any) -> dict[str, Any]:
    """Return `value` as {"parts": […], "value": …}, where {"$": n} refers to the part n; a part may refer to earlier ones."""
    often = {text for text, times in Counter(_texts(value)).items() if times > 1}
    parts: dict[bytes, int] = {}
    kept: list[Any] = []

    def shared(one: Any) -> Any:
        if not isinstance(one, dict | list):
            return one
        text = _text(one)
        if text in parts:
            return {"$": parts[text]}
        made = [shared(item) for item in one] if isinstance(one, list) else {k: shared(v) for k, v in one.items()}
        if text not in often:
            return made
        parts[text] = len(kept)
        kept.append(made)
        return {"$": parts[text]}

    return {"value": shared(value), "parts": kept}


def _texts(value: Any) -> Iterator[bytes]:
    """Yield the JSON of every container in a value that is large enough to share."""
    if isinstance(value, dict | list):
        text = _text(value)
        if len(text) >= WORTH_SHARING:
            yield text
            for item in value.values() if isinstance(value, dict) else value:
                yield from _texts(item)


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value)
