"""Reads the data that the book's pages receive, as book.js and play_table.js do."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def unpacked(script: str) -> dict[str, Any]:
    """Return the content of what `packed_script` wrote."""
    packed = json.loads("[" + script.partition("(")[2].rpartition(")")[0] + "]")[1]
    return dict(json.loads(zlib.decompress(base64.b64decode(packed))))


def unshared(packed: dict[str, Any]) -> Any:
    """Return the value that `share` was given."""
    parts: list[Any] = []

    def whole(one: Any) -> Any:
        if isinstance(one, list):
            return [whole(item) for item in one]
        if isinstance(one, dict):
            return parts[one["$"]] if one.keys() == {"$"} else {key: whole(item) for key, item in one.items()}
        return one

    for part in packed["parts"]:
        parts.append(whole(part))
    return whole(packed["value"])
