"""Files that are written as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file so that a reader finds the old one or the new one, and never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.writing")
    fresh.write_bytes(data)
    os.replace(fresh, path)
