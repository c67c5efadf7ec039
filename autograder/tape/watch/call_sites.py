"""Call sites in the user's files, stored as a code object and an instruction offset to save time and memory in a running job."""

from __future__ import annotations

import functools
import linecache
import os
import sys
from dataclasses import dataclass
from types import CodeType, FrameType

from autograder.tape.recording.verdict_types import Place
from autograder.tape.run.programs.source_text import is_own_file

_TYPED = ("<stdin>", "<string>")  # an interactive session, and `python -c`
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in the user's code. A code object refers to no tensor."""

    code: CodeType
    offset: int
    called: str

    @property
    def span(self) -> tuple[int, int, int, int]:
        """The first and last line of the call, its first column and the column after it.

        Columns count UTF-8 bytes, as in Python's `co_positions`.
        """
        for index, (line, end, column, end_column) in enumerate(self.code.co_positions()):
            if 2 * index == self.offset and line is not None:
                return line, end or line, column or 0, end_column or 0
        return self.code.co_firstlineno, self.code.co_firstlineno, 0, 0

    @property
    def place(self) -> Place:
        """The line that a traceback of Python would name."""
        return self.place_at(self.span[0])

    def place_at(self, line: int) -> Place:
        """Return a line of the same file."""
        file = self.code.co_filename
        return Place(_shown(file), line, linecache.getline(file, line).strip())


def _shown(file: str) -> str:
    """Return the name of a file for the reader: relative to the working folder, or "Cell In[2]" for a notebook's cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = shell.compile.format_code_name(file) if shell else None
    if cell:
        return " ".join(cell)
    relative = os.path.relpath(file) if os.path.isabs(file) else file
    return file if relative.startswith("..") else relative


class CallSites:
    """The numbers of call sites, so that a log contains only numbers."""

    def __init__(self):
        self.all: list[CallSite] = []
        self._numbers: dict[tuple[int, int], int] = {}

    def number_of(self, frame: FrameType | None, called: str) -> int:
        """Return the number of the innermost call in the user's code, from `frame` outwards, or UNKNOWN."""
        while frame is not None:
            code = frame.f_code
            if is_own(code.co_filename):
                key = id(code), frame.f_lasti
                number = self._numbers.get(key)
                if number is None:
                    number = self._numbers[key] = len(self.all)
                    self.all.append(CallSite(code, frame.f_lasti, called))
                return number
            frame = frame.f_back
        return UNKNOWN


@functools.lru_cache(maxsize=10_000)
def is_own(file: str) -> bool:
    """Return whether a file belongs to the user."""
    return file in _TYPED or is_own_file(file)


def own_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the user's code from `frame` outwards, outermost first."""
    found = []
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            found.append(frame)
        frame = frame.f_back
    return found[::-1]
