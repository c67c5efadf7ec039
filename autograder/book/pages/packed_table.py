"""The script of a table of arrangements: what the reader can change in a program, and what each change does."""

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
"""Bytes of JSON from which a part that occurs twice is stored once."""


def table_script(name: str, table: PlayTable) -> str:
    """Returns the script, whose scenes share their equal parts."""
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
    """Returns `value` as {"parts": […], "value": …}, where {"$": n} stands for the part n; a part may hold earlier ones."""
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
    """Yields the JSON of every container in a value that is worth sharing."""
    if isinstance(value, dict | list):
        text = _text(value)
        if len(text) >= WORTH_SHARING:
            yield text
            for item in value.values() if isinstance(value, dict) else value:
                yield from _texts(item)


def _text(value: Any) -> bytes:
    return msgspec.json.encode(value)
