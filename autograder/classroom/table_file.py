"""A platform's CSV file: read as rows of text, and written back with single cells changed and all other bytes unchanged."""

from __future__ import annotations

import codecs
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.errors import InputError, printable

LARGEST = 64 * 2**20
DELIMITERS = ",;\t"
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True)
class Cell:
    """A cell of a CSV file, with its position in the file's text."""

    start: int  # the position of its first character
    end: int  # the position after its last character, quotes included
    text: str  # the contents without quotes
    is_closed: bool  # whether a quoted text in it ends
    missing: int = 0  # the number of delimiters to write before it, because a row may omit empty cells at its end


class TableFile:
    """A CSV file whose first row contains the names of the columns.

    Attributes:
        path: the path of the file.
        delimiter: the delimiter between cells: a comma, a semicolon or a tab.

    Raises:
        InputError: the file is not UTF-8 or UTF-16, does not contain a table, or a row is cut off or has more cells
            than the first.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self._mark, self._encoding = next(
            ((mark, name) for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark)), (b"", "utf-8")
        )
        try:
            self._text = data.removeprefix(self._mark).decode(self._encoding)
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.name} is not UTF-8 (byte {error.start}). Download it again, or save it as “CSV UTF-8”"
            ) from None
        self.delimiter = _delimiter(self._text)
        rows = [row for row in _rows(self._text, self.delimiter) if len(row) > 1 or row[0].text.strip()]
        if not rows or len(rows[0]) < 2:
            raise InputError(f"{self.name} contains no table: one line of column names, then a line for each student")
        self._cells = [self._of_width(len(rows[0]), row, number) for number, row in enumerate(rows, 1)]

    @property
    def name(self) -> str:
        """The file's name, made printable."""
        return printable(self.path.name)

    @cached_property
    def header(self) -> list[str]:
        """The names of the columns, stripped."""
        return [cell.text.strip() for cell in self._cells[0]]

    @cached_property
    def rows(self) -> list[list[str]]:
        """The rows below the header; row i of the file, counted from 0, is `rows[i - 1]`."""
        return [[cell.text for cell in row] for row in self._cells[1:]]

    def column(self, *names: str) -> int | None:
        """Return the index of the first column with one of these names, ignoring case; None if they are missing."""
        wanted_names = {name.casefold() for name in names}
        return next((number for number, name in enumerate(self.header) if name.casefold() in wanted_names), None)

    def with_cells(self, changes: Mapping[tuple[int, int], str]) -> bytes:
        """Return the file with new texts in these cells (row, from 0 below the header; column); all other bytes stay the same."""
        pieces, begun = [], 0
        delimiters: dict[int, int] = defaultdict(int)  # written at the end of each row
        for (row, column), text in sorted(changes.items()):
            cell = self._cells[row + 1][column]
            missing = max(cell.missing - delimiters[row], 0)
            pieces += [self._text[begun : cell.start], missing * self.delimiter, self._quoted(text)]
            begun, delimiters[row] = cell.end, cell.missing
        return self._mark + "".join([*pieces, self._text[begun:]]).encode(self._encoding)

    def _quoted(self, text: str) -> str:
        if not re.search(rf'["\r\n{re.escape(self.delimiter)}]', text):
            return text
        return '"{}"'.format(text.replace('"', '""'))

    def _of_width(self, width: int, row: list[Cell], number: int) -> list[Cell]:
        """Return a row with as many cells as the first: spreadsheets omit empty cells at the end, and Canvas adds some."""
        end = row[-1].end
        is_cut_off = len(row) < width and end == len(self._text)
        if is_cut_off or any(cell.text.strip() for cell in row[width:]):
            raise InputError(f"{self.name}: row {number} has {len(row)} cells, the first has {width}")
        if any(not cell.is_closed for cell in row):
            raise InputError(f"{self.name}: the quote that begins in row {number} is not closed")
        return row[:width] + [Cell(end, end, "", True, missing) for missing in range(1, width - len(row) + 1)]


def read_table(path: Path) -> TableFile:
    """Return the CSV file at a path. Raise InputError if it cannot be read, or is not a table."""
    try:
        if path.stat().st_size > LARGEST:
            raise InputError(f"{printable(path.name)} has more than {LARGEST // 2**20} MiB, too many for a class list")
        return TableFile(path, path.read_bytes())
    except OSError as error:
        raise InputError(f"{printable(str(path))} cannot be read ({error.strerror})") from None


def _delimiter(text: str) -> str:
    """Return the header's delimiter, ignoring quoted text."""
    first = re.match(r"[^\r\n]*", re.sub(r'"(?:[^"]|"")*"', "", text).lstrip("\r\n"))
    counted = Counter(letter for letter in first[0] if letter in DELIMITERS) if first else Counter()
    return max(DELIMITERS, key=lambda letter: counted[letter])


def _rows(text: str, delimiter: str) -> Iterator[list[Cell]]:
    # Python's csv module does not report the positions of cells.
    stop = re.escape(delimiter)
    pattern = re.compile(rf'("(?:[^"]|"")*"[^{stop}\r\n]*|[^{stop}\r\n]*)({stop}|\r\n|\n|\r|\Z)')
    row: list[Cell] = []
    for match in pattern.finditer(text):
        row.append(_cell(match.start(1), match[1]))
        if match[2] != delimiter:
            yield row
            row = []


def _cell(start: int, raw: str) -> Cell:
    end = start + len(raw)
    if not raw.startswith('"'):
        return Cell(start, end, raw, True)
    quoted = re.match(r'"((?:[^"]|"")*)"', raw)
    if quoted is None:
        return Cell(start, end, raw, False)
    return Cell(start, end, quoted[1].replace('""', '"') + raw[quoted.end() :], True)
