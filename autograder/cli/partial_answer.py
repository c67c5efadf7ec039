"""A preliminary answer that a process stores for its parent, in case it is killed before the final one."""

from __future__ import annotations

import json
import tempfile
from types import TracebackType


class PartialAnswer:
    """A temporary file that both processes share; use it in a `with` block."""

    def __enter__(self) -> PartialAnswer:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")
        return self

    def __exit__(self, _type: type | None, _error: BaseException | None, _where: TracebackType | None) -> None:
        self._file.close()

    def leave(self, code: int, text: str) -> None:
        """Replace the stored answer by an exit code and the text to print."""
        self._file.seek(0)
        self._file.truncate()
        json.dump([code, text], self._file)
        self._file.flush()

    def found(self) -> tuple[int, str] | None:
        """Return the stored exit code and text; None if they are missing or incomplete."""
        self._file.seek(0)
        try:
            code, text = json.loads(self._file.read())
        except ValueError:
            return None
        return code, text
