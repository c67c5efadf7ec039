"""The logs of a watch: numbers only, about thirty bytes for each call that created a node or modified a tensor in place.

The logs refer to no tensors or frames, not even weakly. A saved tensor keeps its storage alive, so all later
modifications logged for the number of that storage modified the saved tensor, and rows stay valid when PyTorch reuses
freed memory.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.tape.watch.call_sites import UNKNOWN

MOST = 1 << 20
"""Maximum number of rows in a table. The older half is deleted when it is exceeded."""


@dataclass(frozen=True, slots=True)
class NotedWrite:
    """An in-place modification, or a call that exposed memory to other libraries.

    Attributes:
        site: number of the call site.
        version: version counter after the modification; None if it did not change.
        exposes: whether the call only gave other libraries, such as NumPy, access to the memory; they may have modified
            it later.
    """

    site: int
    version: int | None
    exposes: bool


_UNCOUNTED, _EXPOSED = -1, -2  # placeholders for a version


class NodeLog:
    """The nodes of a thread: ranges of sequence numbers, with the call that created them."""

    def __init__(self, begins: int):
        self.ends = array("q", [begins])
        self.sites = array("l", [UNKNOWN])
        self.clocks = array("q", [0])

    def note(self, before: int, after: int, site: int, clock: int) -> None:
        """Log that a call created the nodes with numbers from `before` to `after`.

        Earlier unlogged nodes get an unknown site.
        """
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
        """Return the site of the call that created a node, and the number of modifications logged before.

        Return None if the row was deleted.
        """
        row = bisect_right(self.ends, sequence)
        return (self.sites[row], self.clocks[row]) if 0 < row < len(self.ends) else None


class WriteLog:
    """The in-place modifications in order. `clock` is their number."""

    def __init__(self):
        self.storages, self.versions, self.sites = array("Q"), array("q"), array("l")
        self._forgotten = 0

    @property
    def clock(self) -> int:
        """The number of logged modifications."""
        return self._forgotten + len(self.storages)

    def note(self, storage: int, version: int | None, site: int, *, exposes: bool = False) -> None:
        """Log that a storage was modified, or exposed to another library."""
        self.storages.append(storage)
        self.versions.append(_EXPOSED if exposes else _UNCOUNTED if version is None else version)
        self.sites.append(site)
        if len(self.storages) > MOST:
            self._forgotten += MOST // 2
            for column in (self.storages, self.versions, self.sites):
                del column[: MOST // 2]

    def since(self, clock: int, storage: int | None = None) -> Iterator[tuple[int, NotedWrite]]:
        """Yield the storage and the modification of each row since `clock`, oldest first, for one storage or for all."""
        for row in range(max(clock - self._forgotten, 0), len(self.storages)):
            if storage is None or self.storages[row] == storage:
                version = self.versions[row]
                yield (
                    self.storages[row],
                    NotedWrite(self.sites[row], None if version < 0 else version, version == _EXPOSED),
                )
