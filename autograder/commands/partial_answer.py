"""An answer that a process leaves for the one that started it, in case that it is ended before it has a better one."""

from __future__ import annotations

import json
import tempfile
from types import TracebackType


class PartialAnswer:
    """A file without a name that both processes hold open; `with` closes it."""

    def __enter__(self) -> PartialAnswer:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")
        return self

    def __exit__(self, _type: type | None, _error: BaseException | None, _where: TracebackType | None) -> None:
        self._file.close()

    def leave(self, code: int, text: str) -> None:
        """Leaves an exit code and what is to be printed with it, in place of what was left before."""
        self._file.seek(0)
        self._file.truncate()
        json.dump([code, text], self._file)
        self._file.flush()

    def found(self) -> tuple[int, str] | None:
        """Returns the exit code and the text that were left; None where nothing was, or not all of it."""
        self._file.seek(0)
        try:
            code, text = json.loads(self._file.read())
        except ValueError:
            return None
        return code, text
