"""What a watch remembers of a job: numbers only, about thirty bytes for a call that made a node or wrote in place.

No tensor and no frame is held, not even weakly. A saved tensor keeps its storage alive, so the writes that were noted for the
number of that storage since the save are writes into it, and nothing need be forgotten when memory is given out again.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.tape.watch.call_sites import UNKNOWN

MOST = 1 << 20
"""Rows of one table; beyond it the older half is forgotten."""


@dataclass(frozen=True, slots=True)
class NotedWrite:
    """A write in place, or a call that let others write.

    Attributes:
        site: the number of its call site.
        version: the version that it left; None where it moved no counter.
        exposes: whether it only gave the memory to NumPy and the like, which may have written later.
    """

    site: int
    version: int | None
    exposes: bool


_UNCOUNTED, _EXPOSED = -1, -2  # in place of a version


class NodeLog:
    """Which call of one thread made the nodes with which sequence numbers."""

    def __init__(self, begins: int):
        self.ends = array("q", [begins])
        self.sites = array("l", [UNKNOWN])
        self.clocks = array("q", [0])

    def note(self, before: int, after: int, site: int, clock: int) -> None:
        """Notes that a call made the nodes from number `before` up to `after`; what came since the last note, nobody heard."""
        if before > self.ends[-1]:
            self._append(before, UNKNOWN, clock)
        self._append(after, site, clock)

    def _append(self, end: int, site: int, clock: int) -> None:
        self.ends.append(end)
        self.sites.append(site)
        self.clocks.append(clock)
        if len(self.ends) > MOST:
            for column in (self.ends, self.sites, self.clocks):
                del column[: MOST // 2]

    def find(self, sequence: int) -> tuple[int, int] | None:
        """Returns the site of the call that made a node, and how many writes had been noted then; None where it is too old."""
        row = bisect_right(self.ends, sequence)
        return (self.sites[row], self.clocks[row]) if 0 < row < len(self.ends) else None


class WriteLog:
    """The writes in place, in order; its `clock` says how many there were."""

    def __init__(self):
        self.storages, self.versions, self.sites = array("Q"), array("q"), array("l")
        self._forgotten = 0

    @property
    def clock(self) -> int:
        """How many writes were noted."""
        return self._forgotten + len(self.storages)

    def note(self, storage: int, version: int | None, site: int, *, exposes: bool = False) -> None:
        """Notes a write into the storage of that number, or that it was given away."""
        self.storages.append(storage)
        self.versions.append(_EXPOSED if exposes else _UNCOUNTED if version is None else version)
        self.sites.append(site)
        if len(self.storages) > MOST:
            self._forgotten += MOST // 2
            for column in (self.storages, self.versions, self.sites):
                del column[: MOST // 2]

    def since(self, clock: int, storage: int | None = None) -> Iterator[tuple[int, NotedWrite]]:
        """Yields the storage and the write for each write since `clock`, oldest first; of one storage, or of all."""
        for row in range(max(clock - self._forgotten, 0), len(self.storages)):
            if storage is None or self.storages[row] == storage:
                version = self.versions[row]
                yield (
                    self.storages[row],
                    NotedWrite(self.sites[row], None if version < 0 else version, version == _EXPOSED),
                )
