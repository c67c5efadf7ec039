"""The report of `collect` for a teacher, as lines of text."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.classroom.collect.collection import Collection
from autograder.printable import printable

LONGEST_LIST = 20


def print_collection(collection: Collection, command: str) -> None:
    """Print a table of the submissions, the students without one, and the open questions or else the next command."""
    console = Console()
    console.print(_table(collection), highlight=False)
    for line in _lines(collection, command):
        console.print(Text(line), highlight=False, soft_wrap=True)


def _table(collection: Collection) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("student", "name", "", "remarks"):
        table.add_column(heading, overflow="fold")
    for line in collection.lines:
        cells = (line.student, line.name, line.placing, "; ".join(line.remarks))
        table.add_row(*(Text(printable(cell) if cell else "") for cell in cells))
    return table


def _lines(collection: Collection, command: str) -> list[str]:
    counted = Counter(line.placing for line in collection.lines)
    placed = ", ".join(f"{count} {placing}" for placing, count in counted.items())
    lines = [f"\n{len(collection.lines)} students have a submission ({collection.platform}): {placed}"]
    if collection.missing:
        names = _listed([one.student for one in collection.missing])
        lines.append(f"{len(collection.missing)} without a submission: {names}")
    if collection.earlier:
        names = _listed([one.student for one in collection.earlier])
        lines.append(f"{len(collection.earlier)} submitted before and are not in this download: {names}")
    if collection.zone:
        lines.append(f"Times without a zone were read as {collection.zone}.")
    lines += [printable(note) for note in collection.notes[:LONGEST_LIST]]
    if len(collection.notes) > LONGEST_LIST:
        lines.append(f"{len(collection.notes) - LONGEST_LIST} more files were left out")
    lines += [_question(one.hand_in, one.person, one.file, one.why) for one in collection.questions[:LONGEST_LIST]]
    if collection.table:
        count = len(collection.questions)
        open_questions = f"{count} open question{'' if count == 1 else 's'}"
        lines.append(f"{open_questions}: fill in {collection.table}, then run the same command again")
    else:
        lines.append(f"Everything was matched. Next: {command}")
    return lines


def _question(key: str, person: str, file: str, why: str) -> str:
    return "? " + ", ".join(printable(part) for part in (person, key if key != person else "", file, why) if part)


def _listed(names: list[str]) -> str:
    shown = [printable(name) for name in names[:LONGEST_LIST]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
